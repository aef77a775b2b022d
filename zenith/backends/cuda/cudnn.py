"""The door to cuDNN: NVIDIA's fused attention, forward and back, through its Python front end.

The front end imports without the library, which it looks for by itself. A graph of the library's is built once for a
problem and kept; that takes it long, and happens before anything runs. A call then sets the stream of its thread's
handle and executes: it allocates nothing and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zenith.backends.cuda.library import Door
from zenith.errors import DeviceError
from zenith.ir.types import DType

TYPES = {"f16": "HALF", "bf16": "BFLOAT16", "f32": "FLOAT"}
ALIGNED = 16  # bytes: what its kernels ask of all addresses
RESULTS = {False: ("o", "stats"), True: ("dq", "dk", "dv")}  # forward, and back
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
class Tensor:
    """An array of four axes (batch, heads, rows, columns) at steps of elements."""

    dtype: DType
    sizes: tuple[int, int, int, int]
    steps: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Problem:
    """``softmax(scale * q k') v``, or the way back through it; a causal query sees keys up to its own.

    ``tensors`` go by the names q, k, v, o and, if wanted, stats, the logarithms of the queries' sums; on the way back,
    which reads all of these, also do, dq, dk, dv. ``repeatable`` asks for equal bits in every run.
    """

    tensors: tuple[tuple[str, Tensor], ...]
    scale: float
    causal: bool
    repeatable: bool

    @property
    def is_back(self) -> bool:
        """Whether it is the way back."""
        return "do" in dict(self.tensors)


class Sdpa:
    """A graph that is ready to be executed, which several threads may do at once; ``workspace`` is in bytes."""

    def __init__(self, found: Problem, device: int) -> None:
        cudnn, kind = DOOR.binding, DOOR.binding.data_type
        self.device, tensors = device, dict(found.tensors)
        self._graph = graph = cudnn.pygraph(
            handle=DOOR.handle(device), name="attention", io_data_type=kind[TYPES[tensors["q"].dtype.name]],
            intermediate_data_type=kind.FLOAT, compute_data_type=kind.FLOAT,
        )  # fmt: skip
        results = RESULTS[found.is_back]
        given = {name: self._tensor(name, tensor) for name, tensor in tensors.items() if name not in results}
        for name, made in zip(results, self._add(graph, found, given), strict=True):
            if name in tensors:
                self._output(name, made, tensors[name])
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
        self.workspace = int(graph.get_workspace_size())

    def _add(self, graph: Any, found: Problem, given: Mapping[str, Any]) -> Any:
        """The operation's results."""
        bound = {"diagonal_alignment": DOOR.binding.diagonal_alignment.TOP_LEFT, "diagonal_band_right_bound": 0}
        options = {"attn_scale": found.scale, "name": "attention", **(bound if found.causal else {})}
        if not found.is_back:
            return graph.sdpa(**given, **options, generate_stats="stats" in dict(found.tensors))
        names = {"dO" if name == "do" else name: tensor for name, tensor in given.items()}
        return graph.sdpa_backward(**names, **options, use_deterministic_algorithm=found.repeatable)

    def _number(self, name: str) -> int:
        return NAMES.index(name) + 1

    def _tensor(self, name: str, tensor: Tensor) -> Any:
        return self._graph.tensor(
            dim=list(tensor.sizes), stride=list(tensor.steps), name=name, uid=self._number(name),
            data_type=DOOR.binding.data_type[TYPES[tensor.dtype.name]],
        )  # fmt: skip

    def _output(self, name: str, made: Any, tensor: Tensor) -> None:
        made.set_output(True).set_dim(list(tensor.sizes)).set_stride(list(tensor.steps))
        made.set_data_type(DOOR.binding.data_type[TYPES[tensor.dtype.name]])
        made.set_uid(self._number(name))

    def __call__(self, addresses: Mapping[str, int], workspace: int, stream: int) -> None:
        """Launch on a stream; ``addresses`` go by names."""
        own = DOOR.handle(self.device)
        DOOR.binding.set_stream(handle=own, stream=stream)
        try:
            self._graph.execute({self._number(n): a for n, a in addresses.items()}, workspace, handle=own)
        except RuntimeError as error:
            raise DeviceError(f"cuDNN refused an attention that it had a plan for: {error}") from None


def attention(found: Problem, device: int) -> Sdpa | str:
    """What executes a problem, or why cuDNN does not take it."""
    made: Sdpa | str = DOOR.known((found, device), lambda: _built(found, device))
    return made


def _built(found: Problem, device: int) -> Sdpa | str:
    try:
        return Sdpa(found, device)
    except (DOOR.binding.cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        return f"cuDNN has no plan for it: {str(error).partition(chr(10))[0]}"
