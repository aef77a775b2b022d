"""Calls of PyTorch's operators in the middle of a program: on the host's arrays, or on a GPU's memory.

On a GPU an operator runs on tensors over the plan's own memory, on the stream of the program's kernels: nothing waits,
and nothing is copied to the host but numbers that an operator takes. What draws random numbers draws from the generator
of that GPU, as it does without a compiler. What PyTorch computes on the CPU inside of such a program, such as a
generator's state, is computed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from zenith.arrays import torch_adapter
from zenith.errors import ShapeError
from zenith.ir.types import NDArray
from zenith.torch.layouts import MemoryFormat

Arrays = Sequence[object]


class Gpu:
    """Tensors over a GPU's memory, on a stream."""

    def over(self, array: Any, device: int) -> torch.Tensor:
        """A tensor over memory that its owner keeps alive."""
        kind = torch_adapter().like(array.dtype)
        if 0 in array.shape:
            return torch.empty(array.shape, dtype=kind, device=self.device(device))
        return torch.as_tensor(_Memory(array), device=self.device(device)).view(kind)

    def device(self, number: int) -> torch.device:
        """PyTorch's name of a GPU."""
        return torch.device("cuda", number)

    @contextmanager
    def on(self, device: int, stream: int) -> Iterator[None]:
        """Within this block the thread computes there, and PyTorch allocates memory of that stream."""
        with ExitStack() as stack:
            stack.enter_context(torch.cuda.device(device))
            if torch._C._cuda_getCurrentRawStream(device) != stream:
                stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(stream, device)))
            yield


class _Memory:
    """Memory of a GPU by Numba's protocol; PyTorch knows no bfloat16 there."""

    def __init__(self, array: Any) -> None:
        kind = array.dtype.str if array.dtype.kind != "V" else f"<i{array.dtype.itemsize}"
        self.__cuda_array_interface__ = {
            "version": 3, "shape": array.shape, "typestr": kind, "strides": None, "data": (array.address, False),
        }  # fmt: skip


GPU = Gpu()


def on_gpu(compute: Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], Sequence[torch.Tensor]]) -> Any:
    """What fills results on a GPU with what ``compute`` gives for operands, and for tensors like the results.

    See :attr:`zenith.ir.external.External.on_gpu`.
    """

    def run(operands: Arrays, results: Arrays, device: int, stream: int) -> None:
        with torch.no_grad(), GPU.on(device, stream):
            filled = [GPU.over(array, device) for array in results]
            found = compute([GPU.over(array, device) for array in operands], filled)
            for result, tensor in zip(filled, found, strict=True):
                if result.shape != tensor.shape:
                    raise ShapeError(
                        f"an operator of PyTorch gave sizes {tuple(tensor.shape)}, not {tuple(result.shape)}",
                        fix="compile again with these sizes: torch.compiler.reset()",
                    )
                result.copy_(tensor)

    return run


@dataclass(frozen=True)
class OperatorCall:
    """An operator of PyTorch on arrays: tensors are permuted to the memory order that PyTorch gave them.

    ``kinds`` says of each leaf of its arguments whether it is a ``"tensor"`` or a ``"number"`` that the program
    computes; any other is ``leaves``' own. ``on_cpu`` says of each tensor whether PyTorch has it there.
    """

    target: Callable[..., object]
    spec: pytree.TreeSpec
    kinds: Sequence[str]
    leaves: Sequence[object]
    layouts: Sequence[MemoryFormat]
    on_cpu: Sequence[bool]

    @classmethod
    def of(
        cls,
        target: Callable[..., object],
        spec: pytree.TreeSpec,
        kinds: Sequence[str],
        leaves: Sequence[object],
        examples: Sequence[torch.Tensor],
    ) -> OperatorCall:
        """The call with tensors that have the layouts and devices of ``examples``."""
        layouts, on_cpu = [MemoryFormat.of(t) for t in examples], [t.device.type == "cpu" for t in examples]
        return cls(target, spec, kinds, leaves, layouts, on_cpu)

    def __call__(self, arrays: list[NDArray], results: list[NDArray]) -> list[object]:
        """On NumPy arrays."""
        with torch.no_grad():
            found = self.compute([torch_adapter().from_numpy(array) for array in arrays])
        return [torch_adapter().numpy(t.cpu().resolve_conj().resolve_neg()) for t in found]

    def on_device(self, tensors: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """On a GPU's tensors, some of which PyTorch has on the CPU; operators that are not its own get copies."""
        own = getattr(self.target, "namespace", "aten") in ("aten", "prims", "higher_order")
        return self.compute(tensors if own else [tensor.clone() for tensor in tensors])

    def compute(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results of the operator; an empty tensor for a check, which has none."""
        operands, placements = iter(given), iter(zip(self.layouts, self.on_cpu, strict=True))
        known = zip(self.kinds, self.leaves, strict=True)
        leaves = [self._leaf(kind, next(operands), placements) if kind else leaf for kind, leaf in known]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        found = pytree.tree_leaves(self.target(*args, **kwargs))
        return [t for t in found if t is not None] or [torch.empty(0)]

    def _leaf(self, kind: str, tensor: torch.Tensor, placements: Iterator[tuple[MemoryFormat, bool]]) -> object:
        if kind == "number":
            return tensor.item()
        layout, on_cpu = next(placements)
        return layout.in_torch_order(layout.in_memory_order(tensor.cpu() if on_cpu else tensor).contiguous())


@dataclass(frozen=True)
class MaskCall:
    """The mask of a dropout, in the memory layout of its argument: true with a probability.

    A GPU's own kernel draws it, in an order that depends on the argument's element type.
    """

    probability: float
    layout: MemoryFormat
    dtype: torch.dtype

    def __call__(self, arrays: list[NDArray], results: list[NDArray]) -> list[object]:
        """On the host, from its generator."""
        mask = torch.empty(self._shape(results[0]), dtype=torch.bool).bernoulli_(self.probability)
        return [self.layout.in_torch_order(mask).numpy()]

    def on_device(self, tensors: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """On a GPU, from its generator."""
        like = torch.empty(self._shape(results[0]), dtype=self.dtype, device=results[0].device)
        return [self.layout.in_torch_order(torch.native_dropout(like, 1 - self.probability, True)[1])]

    def _shape(self, result: torch.Tensor | NDArray) -> list[int]:
        return [result.shape[axis] for axis in self.layout.order]
