"""CUDA graphs by the driver API, which the door to the device gives out (:mod:`zenith.backends.cuda.driver`).

CuPy has no functions for single nodes, so these are libcuda's own, called by ctypes; names that end in ``_v2`` and
``_v3`` are those that ``cuda.h`` of CUDA 13 calls without the suffix. The structures are those of ``cuda.h``. Graphs,
nodes and streams are integers, as CUDA's own handles are. Captures by other code are seen here, too
(:meth:`Graphs.sequence`), and can be made to keep an object alive.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from zenith.errors import DeviceError

UNIFIED = 4  # CU_MEMORYTYPE_UNIFIED: the address says which memory it is of
THREAD_LOCAL, RELAXED = 1, 2  # CU_STREAM_CAPTURE_MODE_...
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
ACTIVE = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE
NO_DESTRUCTOR_SYNC = MOVE = 1  # the only flag of user objects, and of moving one to a graph


class KernelParameters(ctypes.Structure):
    """``CUDA_KERNEL_NODE_PARAMS``; ``table`` is the address of a table of addresses, one for each parameter."""

    _fields_ = (
        ("function", ctypes.c_void_p), ("blocks", ctypes.c_uint * 3), ("threads", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint), ("table", ctypes.c_void_p), ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p),
    )  # fmt: skip


class _End(ctypes.Structure):
    """One end of a copy in ``CUDA_MEMCPY3D``."""

    _fields_ = (
        ("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("z", ctypes.c_size_t), ("level", ctypes.c_size_t),
        ("kind", ctypes.c_uint), ("host", ctypes.c_void_p), ("device", ctypes.c_uint64), ("array", ctypes.c_void_p),
        ("reserved", ctypes.c_void_p), ("pitch", ctypes.c_size_t), ("height", ctypes.c_size_t),
    )  # fmt: skip


class CopyParameters(ctypes.Structure):
    """``CUDA_MEMCPY3D``, used for rows of bytes alone."""

    _fields_ = (
        ("source", _End), ("to", _End),
        ("width", ctypes.c_size_t), ("rows", ctypes.c_size_t), ("planes", ctypes.c_size_t),
    )  # fmt: skip


def kernel_parameters(function: int, blocks: int, threads: int, shared: int, table: int) -> KernelParameters:
    """A launch as a node describes it. CUDA reads the parameters in ``table`` when the node is made or set."""
    return KernelParameters(function, (blocks, 1, 1), (threads, 1, 1), shared, table, None, None, None)


def copy_parameters(to: int, source: int, length: int) -> CopyParameters:
    """A copy of bytes, not none, between any memories."""
    ends = (_End(kind=UNIFIED, device=address, pitch=length, height=1) for address in (source, to))
    return CopyParameters(*ends, length, 1, 1)


@dataclass(frozen=True, slots=True)
class Captured:
    """A capture by other code: its number, unique in this process, and the graph that it makes."""

    number: int
    graph: int


class Graphs(Protocol):
    """The interface to CUDA's graphs that Zenith uses. No two threads may work on one graph at once."""

    launch: Callable[[int, int], Any]
    """Launch an executable graph on a stream."""
    ended: deque[int]
    """Numbers of objects that :meth:`keep` kept alive for graphs that are gone; :meth:`forget` releases them."""

    def create(self) -> int:
        """An empty graph."""
        ...

    def add_kernel(self, graph: int, dependencies: Sequence[int], parameters: KernelParameters) -> int:
        """A node that launches a kernel after its dependencies."""
        ...

    def add_copy(self, graph: int, dependencies: Sequence[int], parameters: CopyParameters) -> int:
        """A node that copies bytes after its dependencies."""
        ...

    def add_captured(self, graph: int, dependencies: Sequence[int], work: Callable[[int], None]) -> list[int]:
        """Capture some work on a stream as nodes after dependencies; returns the dependencies of the next node."""
        ...

    def instantiate(self, graph: int) -> int:
        """The executable graph of a graph."""
        ...

    def set_kernel(self, executable: int, node: int, parameters: Any) -> None:
        """Give the node of an executable graph other parameters (``byref`` of them) from its next launch on."""
        ...

    def set_copy(self, executable: int, node: int, parameters: Any) -> None:
        """The same for the node of a copy."""
        ...

    def destroy(self, graph: int, executable: int | None) -> None:
        """Destroy both, as far as there are both; launches that run are not disturbed."""
        ...

    def is_capturing(self, stream: int) -> bool:
        """Whether a stream is captured."""
        ...

    def sequence(self, stream: int) -> Captured:
        """The capture that a stream belongs to."""
        ...

    def keep(self, sequence: Captured, thing: Any) -> None:
        """Keep an object alive until the captured graph, its executable graphs and its launches are gone."""
        ...

    def forget(self) -> None:
        """Release the objects that were kept alive for graphs that are gone."""
        ...

    def relaxed(self) -> Any:
        """A context in which this thread may allocate memory during a capture."""
        ...


class CudaGraphs:
    """CUDA's own. ``runtime`` is CuPy's, whose functions cost less than calls by ctypes."""

    def __init__(self, runtime: Any) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self.launch = runtime.graphLaunch
        self.is_capturing: Callable[[int], bool] = runtime.streamIsCapturing
        self._set_kernel = self._cuda.cuGraphExecKernelNodeSetParams_v2
        self._set_kernel.argtypes = [ctypes.c_void_p] * 3
        self._set_copy = self._cuda.cuGraphExecMemcpyNodeSetParams
        self._set_copy.argtypes = [ctypes.c_void_p] * 4
        self.ended: deque[int] = deque()
        self._retained: dict[int, Any] = {}
        self._capturing = threading.Lock()  # the garbage collector is the process's
        self._numbers = itertools.count(1)
        self._on_end = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.ended.append)

    def _call(self, name: str, *given: Any) -> None:
        _check(self._cuda, name, getattr(self._cuda, name)(*given))

    # --- graphs of Zenith's own ---

    def create(self) -> int:
        """``cuGraphCreate``."""
        graph = ctypes.c_void_p()
        self._call("cuGraphCreate", ctypes.byref(graph), 0)
        return _handle(graph)

    def add_kernel(self, graph: int, dependencies: Sequence[int], parameters: KernelParameters) -> int:
        """``cuGraphAddKernelNode``."""
        node, array = ctypes.c_void_p(), (ctypes.c_void_p * len(dependencies))(*dependencies)
        self._call("cuGraphAddKernelNode_v2", ctypes.byref(node), ctypes.c_void_p(graph), array,
                   ctypes.c_size_t(len(dependencies)), ctypes.byref(parameters))  # fmt: skip
        return _handle(node)

    def add_copy(self, graph: int, dependencies: Sequence[int], parameters: CopyParameters) -> int:
        """``cuGraphAddMemcpyNode``, in the current context."""
        node, array = ctypes.c_void_p(), (ctypes.c_void_p * len(dependencies))(*dependencies)
        self._call("cuGraphAddMemcpyNode", ctypes.byref(node), ctypes.c_void_p(graph), array,
                   ctypes.c_size_t(len(dependencies)), ctypes.byref(parameters), self._context())  # fmt: skip
        return _handle(node)

    def add_captured(self, graph: int, dependencies: Sequence[int], work: Callable[[int], None]) -> list[int]:
        """``cuStreamBeginCaptureToGraph``, on a stream of its own that does not block the legacy one.

        The garbage collector is off meanwhile: finalizers may wait for the device, which ends a capture.
        """
        with self._capturing:
            return self._add_captured(graph, dependencies, work)

    def _add_captured(self, graph: int, dependencies: Sequence[int], work: Callable[[int], None]) -> list[int]:
        stream, array = ctypes.c_void_p(), (ctypes.c_void_p * len(dependencies))(*dependencies)
        self._call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(NON_BLOCKING))
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            self._call("cuStreamBeginCaptureToGraph", stream, ctypes.c_void_p(graph), array, None,
                       ctypes.c_size_t(len(dependencies)), ctypes.c_int(THREAD_LOCAL))  # fmt: skip
            try:
                work(_handle(stream))
                return self._ends(stream)
            finally:
                self._call("cuStreamEndCapture", stream, ctypes.byref(ctypes.c_void_p()))
        finally:
            if was_enabled:
                gc.enable()
            self._call("cuStreamDestroy_v2", stream)

    def _ends(self, stream: ctypes.c_void_p) -> list[int]:
        """The dependencies of the next node on a capturing stream."""
        status, count, nodes = ctypes.c_int(), ctypes.c_size_t(), ctypes.POINTER(ctypes.c_void_p)()
        self._call("cuStreamGetCaptureInfo_v3", stream, ctypes.byref(status), None, None, ctypes.byref(nodes), None,
                   ctypes.byref(count))  # fmt: skip
        return [int(nodes[number] or 0) for number in range(count.value)]

    def instantiate(self, graph: int) -> int:
        """``cuGraphInstantiate``."""
        executable = ctypes.c_void_p()
        self._call("cuGraphInstantiateWithFlags", ctypes.byref(executable), ctypes.c_void_p(graph),
                   ctypes.c_ulonglong(0))  # fmt: skip
        return _handle(executable)

    def set_kernel(self, executable: int, node: int, parameters: Any) -> None:
        """``cuGraphExecKernelNodeSetParams``: it reads the parameters now; earlier launches are unchanged."""
        status = self._set_kernel(executable, node, parameters)
        if status:
            _check(self._cuda, "cuGraphExecKernelNodeSetParams", status)

    def set_copy(self, executable: int, node: int, parameters: Any) -> None:
        """``cuGraphExecMemcpyNodeSetParams``."""
        _check(self._cuda, "cuGraphExecMemcpyNodeSetParams",
               self._set_copy(executable, node, parameters, self._context()))  # fmt: skip

    def destroy(self, graph: int, executable: int | None) -> None:
        """CUDA frees an executable graph that is running at the end of its launch."""
        if executable is not None:
            self._call("cuGraphExecDestroy", ctypes.c_void_p(executable))
        self._call("cuGraphDestroy", ctypes.c_void_p(graph))

    def _context(self) -> ctypes.c_void_p:
        context = ctypes.c_void_p()
        self._call("cuCtxGetCurrent", ctypes.byref(context))
        return context

    # --- captures of others ---

    def sequence(self, stream: int) -> Captured:
        """``cuStreamGetCaptureInfo``, of a stream that is capturing."""
        status, number, graph = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_void_p()
        self._call("cuStreamGetCaptureInfo_v3", ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number),
                   ctypes.byref(graph), None, None, None)  # fmt: skip
        if status.value != ACTIVE:
            raise DeviceError("the capture of a CUDA graph that this call is made in has failed before",
                              fix="look for the first error since the capture began")  # fmt: skip
        return Captured(number.value, _handle(graph))

    def keep(self, sequence: Captured, thing: Any) -> None:
        """By a *user object*: the graph and its executable graphs count references to it.

        CUDA reports the end of the last one on a thread of its own, where none of its functions may be called. So that
        thread only notes the number.
        """
        user_object, number = ctypes.c_void_p(), next(self._numbers)
        self._retained[number] = thing
        self._call("cuUserObjectCreate", ctypes.byref(user_object), ctypes.c_void_p(number), self._on_end,
                   ctypes.c_uint(1), ctypes.c_uint(NO_DESTRUCTOR_SYNC))  # fmt: skip
        self._call("cuGraphRetainUserObject", ctypes.c_void_p(sequence.graph), user_object, ctypes.c_uint(1),
                   ctypes.c_uint(MOVE))  # fmt: skip

    def forget(self) -> None:
        """Several threads may do this at once."""
        while self.ended:
            try:
                self._retained.pop(self.ended.popleft(), None)
            except IndexError:
                return

    @contextmanager
    def relaxed(self) -> Iterator[None]:
        """``cuThreadExchangeStreamCaptureMode``: allocations are left out of the capture on purpose."""
        mode = ctypes.c_int(RELAXED)
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))


def _handle(found: ctypes.c_void_p) -> int:
    assert found.value is not None, "CUDA gives no empty handles"
    return found.value


def _check(cuda: Any, name: str, status: int) -> None:
    if not status:
        return
    text = ctypes.c_char_p()
    cuda.cuGetErrorName(status, ctypes.byref(text))
    raise DeviceError(
        f"CUDA's {name} failed: {(text.value or str(status).encode()).decode()}",
        fix="an earlier kernel may have failed; ZENITH_GRAPHS=0 launches kernels one by one",
    )
