"""The door to cuDNN through its Python front end: its graphs of operations, and here that of fused attention.

The front end imports without the library, which it finds itself. A graph of the library's is built once for a problem
and cached; that is slow, and happens before anything runs. A call then sets the stream of its thread's handle and
executes: it allocates nothing and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zenith.backends.cuda.library import Door
from zenith.errors import DeviceError
from zenith.ir.types import DType

TYPES = {"f16": "HALF", "bf16": "BFLOAT16", "f32": "FLOAT"}
ALIGNED = 16  # bytes: the alignment of addresses that its kernels require
RESULTS = {False: ("o", "stats"), True: ("dq", "dk", "dv")}  # by whether it is the backward pass
NAMES = ("q", "k", "v", "o", "stats", "do", "dq", "dk", "dv")


def _load() -> Any:
    import cudnn

    return cudnn


DOOR = Door(
    "cudnn", "nvidia-cudnn-frontend", _load, lambda found: found.backend_version(),
    lambda found: found.create_handle(), 256,
)  # fmt: skip
NAME = DOOR.name


@dataclass(frozen=True, slots=True)
class TensorDescriptor:
    """An array of four axes (batch, heads, rows, columns) with strides (``steps``) in elements."""

    dtype: DType
    sizes: tuple[int, int, int, int]
    steps: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class AttentionProblem:
    """``softmax(scale * q k') v``, or its backward pass; a causal query sees keys up to its own.

    ``tensors`` go by the names q, k, v, o and, if wanted, stats, the logarithms of the queries' sums; the backward
    pass reads all of these, and has also do, dq, dk, dv. ``repeatable`` asks for equal bits in every run.
    """

    tensors: tuple[tuple[str, TensorDescriptor], ...]
    scale: float
    causal: bool
    repeatable: bool

    @property
    def is_backward(self) -> bool:
        """Whether it is the backward pass."""
        return "do" in dict(self.tensors)


class Built:
    """A graph that is ready to be executed, which several threads may do at once; ``workspace`` is in bytes.

    Its tensors go by ``names``; ``element`` is the element type of its first operand.
    """

    def __init__(self, what: str, names: Sequence[str], element: DType, device: int) -> None:
        kind = DOOR.binding.data_type
        self.what, self.names, self.device, self.workspace = what, names, device, 0
        self.graph = DOOR.binding.pygraph(
            handle=DOOR.handle(device), name=what, io_data_type=kind[TYPES[element.name]],
            intermediate_data_type=kind.FLOAT, compute_data_type=kind.FLOAT,
        )  # fmt: skip

    def build(self, deselect: Callable[[Any], None] = lambda graph: None) -> None:
        """Find a plan for the graph; ``deselect`` may exclude some of the library's."""
        modes, graph = DOOR.binding.heur_mode, self.graph
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([modes.A, modes.FALLBACK])
        deselect(graph)
        graph.check_support()
        graph.build_plans()
        self.workspace = int(graph.get_workspace_size())

    def _number(self, name: str) -> int:
        return self.names.index(name) + 1

    def tensor(self, name: str, tensor: TensorDescriptor) -> Any:
        """Declare an operand."""
        return self.graph.tensor(
            dim=list(tensor.sizes), stride=list(tensor.steps), name=name, uid=self._number(name),
            data_type=DOOR.binding.data_type[TYPES[tensor.dtype.name]],
        )  # fmt: skip

    def output(self, name: str, made: Any, tensor: TensorDescriptor) -> None:
        """Declare a result, in the layout of ``tensor``."""
        made.set_output(True).set_dim(list(tensor.sizes)).set_stride(list(tensor.steps))
        made.set_data_type(DOOR.binding.data_type[TYPES[tensor.dtype.name]])
        made.set_uid(self._number(name))

    def __call__(self, addresses: Mapping[str, int], workspace: int, stream: int) -> None:
        """Launch on a stream; ``addresses`` go by the names of tensors."""
        own = DOOR.handle(self.device)
        DOOR.binding.set_stream(handle=own, stream=stream)
        try:
            self.graph.execute({self._number(n): a for n, a in addresses.items()}, workspace, handle=own)
        except RuntimeError as error:
            raise DeviceError(f"cuDNN refused {self.what} that it had a plan for: {error}") from None


class Sdpa(Built):
    """The graph of attention, or of its backward pass."""

    def __init__(self, found: AttentionProblem, device: int) -> None:
        tensors, results = dict(found.tensors), RESULTS[found.is_backward]
        super().__init__("attention", NAMES, tensors["q"].dtype, device)
        given = {name: self.tensor(name, tensor) for name, tensor in tensors.items() if name not in results}
        for name, made in zip(results, self._add(self.graph, found, given), strict=True):
            if name in tensors:
                self.output(name, made, tensors[name])
        self.build()

    def _add(self, graph: Any, found: AttentionProblem, given: Mapping[str, Any]) -> Any:
        """Add the operation to the graph; returns its results."""
        bound = {"diagonal_alignment": DOOR.binding.diagonal_alignment.TOP_LEFT, "diagonal_band_right_bound": 0}
        options = {"attn_scale": found.scale, "name": "attention", **(bound if found.causal else {})}
        if not found.is_backward:
            return graph.sdpa(**given, **options, generate_stats="stats" in dict(found.tensors))
        names = {"dO" if name == "do" else name: tensor for name, tensor in given.items()}
        return graph.sdpa_backward(**names, **options, use_deterministic_algorithm=found.repeatable)


def attention(found: AttentionProblem, device: int) -> Built | str:
    """The graph that executes a problem, or why cuDNN does not take it."""
    return planned(found, device, Sdpa)


def planned(found: Hashable, device: int, build: Callable[[Any, int], Built]) -> Built | str:
    """The graph for a problem, which is built once; why cuDNN does not take it."""
    made: Built | str = DOOR.known((found, device), lambda: _built(found, device, build))
    return made


def _built(found: Hashable, device: int, build: Callable[[Any, int], Built]) -> Built | str:
    try:
        return build(found, device)
    except (DOOR.binding.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        return f"cuDNN has no plan for it: {str(error).partition(chr(10))[0]}"
