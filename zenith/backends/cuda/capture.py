"""Captured calls: inside ``torch.cuda.graph``, CuPy's ``Stream.begin_capture`` or any other capture.

Launches on a capturing stream do not run; they become nodes of another library's graph, with the current addresses, and
that graph may be launched at any time later. During a capture CUDA forbids ("Prohibited and Unhandled Operations" in
the CUDA programming guide, and ``cuThreadExchangeStreamCaptureMode`` in the driver's manual)

- to wait for, or query, a capturing stream, an event recorded in a capture, and the device or context around them,
- the legacy stream, unless the capturing one was made not to block it, and its users, such as synchronous copies,
- to wait on the capturing stream for an event that was recorded outside of the capture,
- operations off any stream that a capture could miss, such as allocating memory, unless the thread has declared that it
  knows (a *relaxed* thread).

So a captured call launches its kernels one by one, and otherwise

- has a lease of its own, which the capture shares with no other: calls captured together on a stream follow each other
  in the graph, too. The lease, the memory of its arena, status words, the fixed memory (constants, weights and arrays
  prepared from them), dense copies, numbers of the host and results made in Zenith's pool live as long as the graph,
  its executable graphs, and its launches: CUDA counts these references (a *user object*). The caller has to keep its
  own arrays alive, as with every captured kernel; torch keeps the memory of a capture for its graph itself.
- allocates as a relaxed thread;
- records no events: the lease retains what they would protect;
- checks status words by reading the host's memory. An index outside its axis that a launch of the graph finds is raised
  by the next call of the program on any stream, or by ``zenith.synchronize()``.

Weights are those of the capture: written in place they change the results of the graph, unless something was prepared
from them. A call that cannot be captured is refused before anything is on the stream: the program has to be compiled,
with its weights prepared, by a call before, arrays of other libraries have to be on the same stream, and a program that
waits for the device or calls Python cannot be captured at all.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from zenith.backends.cuda.driver import LEGACY, Driver, driver_in_use
from zenith.backends.cuda.lease import Lease
from zenith.backends.cuda.memory import Pool
from zenith.backends.cuda.setup import LoadedProgram, Setup
from zenith.errors import ZenithError

BEFORE = "call the function once with arrays of these types before the capture begins, on a stream of its own"


class CaptureError(ZenithError, RuntimeError):
    """A call cannot be captured into a CUDA graph; nothing of it is in the graph, and the capture can go on."""


def is_captured(driver: Driver, stream: int) -> bool:
    """Whether a stream is captured; the legacy stream cannot be."""
    return stream > LEGACY and driver.graphs.is_capturing(stream)


def refuse_capture(what: str, streams: Iterable[int]) -> None:
    """Raise CaptureError, which names ``what`` needs the device now, when one of the streams is captured."""
    driver = driver_in_use()
    if driver is not None and any(is_captured(driver, stream) for stream in streams):
        raise CaptureError(f"{what} cannot be captured into a CUDA graph", fix=BEFORE)


class CapturedLease(Lease):
    """A lease for the calls of one capture on one stream; ``retained`` lives as long as the lease."""

    def __init__(self, program: LoadedProgram, pool: Pool, stream: int, *retained: Any) -> None:
        super().__init__(program, pool, stream, waits=False)
        self.retained: list[Any] = [*retained]

    def start(self, setup: Setup) -> None:
        """Launch one by one: patches of a graph of Zenith's own would not be captured."""
        self.retained.append(setup)  # and with it the objects that call libraries
        for action in setup.actions:
            action(self.stream)

    def drop(self, name: str) -> None:
        """Retain it, since kernels captured before go on using it."""
        self.retained.append(getattr(self, name))
        super().drop(name)

    def follow(self, others: Iterable[int]) -> None:
        """Events of other streams are no part of the capture."""
        if tuple(others):
            raise CaptureError(
                "an array of another library is made on another stream, which is no part of the captured CUDA graph",
                fix="copy it before the capture, or make the captured stream that library's current one",
            )

    def hold(self, *things: Any) -> None:
        """Retain them, since each launch of the graph uses them."""
        self.retained.append(things)

    def release(self, others: Iterable[int], arrays: Any) -> None:
        """Retain them: no event says when the last launch of the graph has read them."""
        self.retained.append(arrays)

    def bring(self, to: int, array: Any) -> None:
        """Each launch of the graph reads the host's memory, so copy from a private copy there."""
        number = self._program.driver.pinned(array.nbytes)
        ctypes.memmove(number.address, array.ctypes.data, array.nbytes)
        self.retained.append(number)
        self._program.driver.copy(to, number.address, array.nbytes, self.stream)


class Captures:
    """The captured calls of one program; true while a graph of them is alive. All of them use ``retained``."""

    def __init__(self, program: LoadedProgram, pool: Pool, retained: Any) -> None:
        self._program, self._pool, self._retained = program, pool, retained
        self._leases: weakref.WeakValueDictionary[tuple[int, int], CapturedLease] = weakref.WeakValueDictionary()

    def __bool__(self) -> bool:
        return bool(self._leases)

    def check(self) -> None:
        """Raise OutOfBoundsError when a launch of a graph has found an index outside its axis."""
        for lease in list(self._leases.values()):
            if lease.status is not None:
                lease.status.check()

    def run(self, fixed: Any, stream: int, call: Callable[[CapturedLease, Any], list[Any]]) -> list[Any]:
        """Capture a call. ``fixed`` is None when weights have to be prepared first. Raises CaptureError."""
        if self._program.obstacle is not None:
            why, line = self._program.obstacle
            raise CaptureError(f"this program cannot be captured into a CUDA graph: {why}", where=line,
                               fix="end the capture before the call, and begin another one after it")  # fmt: skip
        if fixed is None:
            raise CaptureError("weights have changed, and preparing them cannot be captured into a CUDA graph",
                               fix=BEFORE)  # fmt: skip
        graphs = self._program.driver.graphs
        with graphs.relaxed():
            lease = self._lease(stream)
            lease.hold(fixed)
            return call(lease, fixed)

    def _lease(self, stream: int) -> CapturedLease:
        """The lease of the capture that a stream belongs to."""
        graphs = self._program.driver.graphs
        captured = graphs.sequence(stream)
        lease = self._leases.get((stream, captured.number))
        if lease is None:
            lease = CapturedLease(self._program, self._pool, stream, self._retained)
            graphs.keep(captured, lease)
            self._leases[stream, captured.number] = lease
        return lease
