"""What is measured: a workload is one record, its inputs, its weights, and the same program for several libraries.

A program in NumPy serves many times: as the NumPy contender, under ``zenith.jit``, under JAX (with ``jax.numpy``
instead of ``numpy``), and, fed with float64, as the reference that every result is checked against. A workload that
exists as a PyTorch module only is checked against that module in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.workloads.descent import Descent

Array = np.ndarray[Any, Any]
Arrays = tuple[Array, ...]
Shapes = tuple[tuple[int, ...], ...]
Program = Callable[..., Any]

CHECKED = 10


@dataclass(frozen=True)
class Workload:
    """A program to time.

    Parameters
    ----------
    name, description: how tables call it, and what it computes.
    batches: the arguments of the calls that make one pass, in order; time is measured by passes.
    first: the arguments of the first call. Where sizes change in the program's use, these have other sizes than all
        batches, so that nobody is timed on a program that was specialised to the timed sizes.
    weights: the captured arrays.
    torch: weights -> ``torch.nn.Module``; imports torch by itself. Its parameters that want a gradient are the weights.
    numpy: (weights, ``numpy`` or a module like it) -> program; None when there is only the PyTorch module.
    expression: the program as one elementwise expression of the NumPy program's arguments, if it is one.
    part: the submodule that is compiled, where the rest of the PyTorch module is Python that calls it many times.
    libraries: modules without which the workload cannot be made.
    bound: largest accepted max|result - reference| / max|reference|.
    long: a pass takes seconds, so that one process and three rounds must do.
    varied: sizes change from call to call.
    sentences: how many a pass embeds, for the workloads that embed sentences.
    descent: the program returns a loss, and a call also computes its gradient, and may make a step of training; what is
        checked is the loss with the new weights, or with the gradient.
    loops: the program has a loop, for which it takes the ``scan`` that goes with its array module.
    calibration: batches of arguments for contenders that compute in 8-bit integers; None where nobody does.
    checks: how many batches of a pass are checked at most.
    bytes, flops: what a pass has to move through memory at least, and the operations of its products; 0 where neither
        the one nor the other bounds its time.
    """

    name: str
    description: str
    batches: Callable[[], Sequence[Arrays]]
    first: Callable[[], Arrays]
    torch: Callable[[Arrays], Any]
    numpy: Callable[[Arrays, Any], Program] | None = None
    weights: Callable[[], Arrays] = tuple
    expression: str = ""
    part: str = ""
    libraries: tuple[str, ...] = ()
    bound: float = 1e-5
    long: bool = False
    varied: bool = False
    sentences: int = 0
    descent: Descent | None = None
    loops: bool = False
    calibration: Callable[[], Sequence[Arrays]] | None = None
    checks: int = CHECKED
    bytes: int = 0
    flops: int = 0

    @property
    def has_matrices(self) -> bool:
        """Whether the program captures matrices."""
        return self.numpy is None or any(w.ndim > 1 for w in self.weights())

    def changing_axes(self) -> list[list[int]]:
        """For each argument the axes whose size is not the same in all calls."""
        calls = [self.first(), *self.batches()]
        shapes = [[x.shape for x in versions] for versions in zip(*calls, strict=True)]
        return [[a for a in range(len(s[0])) if len({shape[a] for shape in s}) > 1] for s in shapes]

    def sizes(self) -> list[int]:
        """Of each batch, the product of the changing sizes of its first argument: latency should be linear in it."""
        changing = self.changing_axes()[0]
        return [math.prod(batch[0].shape[a] for a in changing) for batch in self.batches()]

    def checked(self) -> list[int]:
        """The numbers of the batches whose results are checked: all, or so many that are spread evenly."""
        count = len(self.batches())
        return sorted({round(number) for number in np.linspace(0, count - 1, min(count, self.checks))})

    def reference(self) -> list[Array]:
        """The results of the checked batches in float64, from the float32 inputs and weights."""
        batches = self.batches()
        if self.descent is not None:
            steps = self._descend([self.first(), *batches])
            return [steps[1 + number] for number in self.checked()]
        arguments = [_doubles(batches[number]) for number in self.checked()]
        if self.numpy is not None:
            program = self.numpy(_doubles(self.weights()), np)
            return [np.asarray(program(*batch)) for batch in arguments]
        import torch

        module = self.torch(self.weights()).double().eval()
        with torch.inference_mode():
            return [module(*map(tensor, batch)).numpy() for batch in arguments]

    def _descend(self, calls: Sequence[Arrays]) -> list[Array]:
        """The result of :func:`flat` for each call: the gradients are PyTorch's in float64, the steps are made here."""
        import torch

        descent, found = self.descent, []
        assert descent is not None
        weights = _doubles(self.weights())
        state = descent.start(weights, np)
        for batch in calls:
            module = self.torch(tuple(w.copy() for w in weights))
            loss = module(*map(torch.from_numpy, _doubles(batch)))
            learnt = [p for p in module.parameters() if p.requires_grad]
            gradient = tuple(g.numpy() for g in torch.autograd.grad(loss, learnt))
            if descent.rule is not None:
                weights, state = descent.advance(weights, gradient, state, np)
            found.append(flat(loss.detach(), gradient if descent.rule is None else weights))
        return found


def _doubles(arrays: Arrays) -> Arrays:
    return tuple(x.astype(np.float64) if is_float(x) else x for x in arrays)


def is_float(array: Array) -> bool:
    """Whether an array has floating-point elements; NumPy does not count bfloat16 among them."""
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def tensor(array: Array) -> Any:
    """A tensor that shares an array's memory; torch takes bfloat16 from NumPy by its bits alone."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def flat(loss: Any, others: Sequence[Any]) -> Array:
    """A loss and arrays of any library as one array (n,)."""
    return np.concatenate([np.ravel(np.asarray(x)) for x in (loss, *others)])


def normal(shapes: Shapes, seed: int) -> Arrays:
    """Float32 arrays from a standard normal distribution, the same in every process."""
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes)


def inputs(shapes: Shapes) -> Callable[[], Sequence[Arrays]]:
    """A pass of one call with arguments of these shapes."""
    return lambda: [normal(shapes, seed=1)]


def first_inputs(shapes: Shapes) -> Callable[[], Arrays]:
    """Arguments of the first call, of these shapes."""
    return lambda: normal(shapes, seed=2)


def weights(shapes: Shapes) -> Callable[[], Arrays]:
    """Captured arrays from a normal distribution over the root of the last axis."""
    return lambda: tuple(w / np.float32(w.shape[-1] ** 0.5) for w in normal(shapes, seed=3))
