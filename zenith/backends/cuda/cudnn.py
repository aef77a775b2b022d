"""The door to cuDNN: NVIDIA's fused attention, through its Python front end.

The front end imports without the library, which it looks for by itself; :func:`problem` says what is missing. A test
puts another module in its place (:func:`using`). A graph of the library's is built once for a problem and kept; that
takes it long, and happens before anything runs. A call then sets the stream of its thread's handle and executes: it
allocates nothing and waits for nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from zenith.errors import DeviceError
from zenith.ir.types import DType

NAME = "cudnn"
KEPT_GRAPHS = 256  # of the process; what was asked for longest ago goes first
TYPES = {"f16": "HALF", "bf16": "BFLOAT16", "f32": "FLOAT"}
ALIGNED = 16  # bytes: what its kernels ask of all addresses


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array of four axes (batch, heads, rows, columns) at steps of elements."""

    dtype: DType
    sizes: tuple[int, int, int, int]
    steps: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Problem:
    """``softmax(scale * q k') v``; a causal query sees keys up to its own. ``stats`` are logarithms of sums."""

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    stats: Tensor | None
    scale: float
    causal: bool


_module: Any = None
_why: str | None = None


def module() -> Any:
    """The front end; ImportError where it is not installed."""
    global _module
    if _module is None:
        import cudnn

        _module = cudnn
    return _module


def problem() -> str:
    """Why cuDNN cannot be called here; empty when it can. It is looked for once."""
    global _why
    if _why is None:
        try:
            module().backend_version()
            _why = ""
        except ModuleNotFoundError as error:
            _why = f"{error.name} is not installed (pip install nvidia-cudnn-frontend)"
        except (ImportError, OSError, RuntimeError) as error:
            _why = f"the library cannot be loaded: {str(error).partition(chr(10))[0]}"
    return _why


@contextmanager
def using(other: Any, why: str | None = None) -> Iterator[None]:
    """Within this block another module stands for the front end, or none, for a reason; graphs are built anew."""
    global _module, _why
    before = _module, _why
    _module, _why = other, why
    _graphs.clear()
    try:
        yield
    finally:
        _module, _why = before
        _graphs.clear()


class _Handles(threading.local):
    def __init__(self) -> None:
        self.of: dict[tuple[Any, int], int] = {}


_handles = _Handles()


def handle(device: int) -> int:
    """This thread's handle for its current device."""
    key = module(), device
    found = _handles.of.get(key)
    if found is None:
        found = _handles.of[key] = module().create_handle()
    return found


class Sdpa:
    """A graph that is ready to be executed, which several threads may do at once; ``workspace`` is in bytes."""

    names = ("q", "k", "v", "o", "stats")

    def __init__(self, found: Problem, device: int) -> None:
        cudnn = module()
        self.device = device
        kind = cudnn.data_type
        self._graph = graph = cudnn.pygraph(
            handle=handle(device), name="attention", io_data_type=kind[TYPES[found.q.dtype.name]],
            intermediate_data_type=kind.FLOAT, compute_data_type=kind.FLOAT,
        )  # fmt: skip
        tensors = {"q": found.q, "k": found.k, "v": found.v}
        given = {name: self._tensor(name, tensor) for name, tensor in tensors.items()}
        bound = {"diagonal_alignment": cudnn.diagonal_alignment.TOP_LEFT, "diagonal_band_right_bound": 0}
        stated = {"attn_scale": found.scale, "generate_stats": found.stats is not None, "name": "attention"}
        o, stats = graph.sdpa(**given, **stated, **(bound if found.causal else {}))
        self._output("o", o, found.o)
        if found.stats is not None:
            self._output("stats", stats, found.stats)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.check_support()
        graph.build_plans()
        self.workspace = int(graph.get_workspace_size())

    def _number(self, name: str) -> int:
        return self.names.index(name) + 1

    def _tensor(self, name: str, tensor: Tensor) -> Any:
        return self._graph.tensor(
            dim=list(tensor.sizes), stride=list(tensor.steps), name=name, uid=self._number(name),
            data_type=module().data_type[TYPES[tensor.dtype.name]],
        )  # fmt: skip

    def _output(self, name: str, made: Any, tensor: Tensor) -> None:
        made.set_output(True).set_dim(list(tensor.sizes)).set_stride(list(tensor.steps))
        made.set_data_type(module().data_type[TYPES[tensor.dtype.name]])
        made.set_uid(self._number(name))

    def __call__(self, addresses: Mapping[str, int], workspace: int, stream: int) -> None:
        """Launch on a stream; ``addresses`` go by names."""
        own = handle(self.device)
        module().set_stream(handle=own, stream=stream)
        try:
            self._graph.execute({self._number(n): a for n, a in addresses.items()}, workspace, handle=own)
        except RuntimeError as error:
            raise DeviceError(f"cuDNN refused an attention that it had a plan for: {error}") from None


_graphs: OrderedDict[Any, Sdpa | str] = OrderedDict()


def attention(found: Problem, device: int) -> Sdpa | str:
    """What executes a problem, or why cuDNN does not take it."""
    key = found, device
    known = _graphs.get(key)
    if known is None:
        known = _graphs[key] = _built(found, device)
        while len(_graphs) > KEPT_GRAPHS:
            _graphs.popitem(last=False)
    return known


def _built(found: Problem, device: int) -> Sdpa | str:
    try:
        return Sdpa(found, device)
    except (module().cudnnGraphNotSupportedError, RuntimeError, ValueError) as error:
        return f"cuDNN has no plan for it: {str(error).partition(chr(10))[0]}"
