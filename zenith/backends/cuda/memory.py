"""Device memory: one pool for arenas, results, constants and prepared weights, with counters.

A :class:`MemorySource` supplies memory: a pool of CuPy's, or torch's own allocator once a program has passed CUDA
tensors, so that both draw on one pool. A :class:`MemoryBlock` goes back to it when nothing refers to it any more.
Sources reuse blocks in the order of the stream that they were made for, so work that still runs on that stream is safe.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Protocol

from zenith.backends.cuda.driver import Driver, driver, driver_in_use
from zenith.errors import ZenithError

ALIGN = 256  # bytes: the alignment of CUDA's own allocations
PURPOSES = ("arenas", "results", "constants and weights")


class OutOfMemoryError(ZenithError, MemoryError):
    """The device has no memory for a request of a program; says how much was requested and what is in use."""


class NoMemory(Exception):
    """A source has no memory for a request."""


@dataclass(frozen=True)
class Counts:
    """Counters of a source's own, over all of its users."""

    requests: int
    misses: int
    returns: int
    in_use: int
    peak: int


class MemorySource(Protocol):
    """A supplier of device memory, on the current device; ``misses`` and ``counts`` are over all devices."""

    name: str
    misses: int
    """How many requests went to the device itself."""

    def allocate(self, length: int, stream: int) -> tuple[Any, int]:
        """Memory for use on a stream: its owner, and its address. Raises :class:`NoMemory`."""
        ...

    def reserved(self) -> int:
        """Bytes reserved of the device, in use or cached for the next request."""
        ...

    def unused(self) -> int:
        """The bytes of these that are cached for the next request, and not in use."""
        ...

    def release(self) -> None:
        """Give unused memory back to the device."""
        ...

    def counts(self) -> Counts | None:
        """Its own counters, where it has such."""
        ...


class MemoryBlock:
    """Device memory: ``length`` bytes at ``address``, returned when nothing refers to the block any more."""

    __slots__ = ("__weakref__", "_owner", "_returned", "address", "length", "purpose")

    def __init__(self, owner: Any, address: int, length: int, purpose: str, returned: deque[tuple[str, int]]) -> None:
        self._owner, self.address, self.length, self.purpose, self._returned = owner, address, length, purpose, returned

    def __del__(self) -> None:
        self._returned.append((self.purpose, self.length))  # counted later: a finalizer must not wait for a lock


@dataclass(frozen=True)
class MemoryStats:
    """The counters of the pool so far, in blocks and bytes.

    ``allocations`` are requests; ``hits`` were answered without asking the device, ``misses`` were not. ``returns`` are
    blocks that came back. ``bytes_in_use``, ``peak_bytes`` and ``reserved_bytes`` (in use or cached)
    are as of now; ``by_purpose`` is Zenith's own share of ``bytes_in_use``. ``device`` is None on a machine without a
    usable GPU, and when none has been used yet; ``note`` says which.
    """

    device: str | None = None
    pool: str = ""
    allocations: int = 0
    hits: int = 0
    misses: int = 0
    returns: int = 0
    bytes_in_use: int = 0
    peak_bytes: int = 0
    reserved_bytes: int = 0
    by_purpose: dict[str, int] = field(default_factory=dict)
    note: str = ""

    @property
    def hit_rate(self) -> float:
        """The share of requests that were hits; 0 when there were none."""
        return self.hits / self.allocations if self.allocations else 0.0

    def __str__(self) -> str:
        if self.device is None:
            return f"no device memory: {self.note}"
        purposes = ", ".join(f"{purpose} {megabytes(n)}" for purpose, n in self.by_purpose.items() if n)
        return (
            f"{self.device}, {self.pool}: {self.allocations} allocations, {self.hits} hits, {self.returns} returns, "
            f"hit rate {self.hit_rate:.1%}; {megabytes(self.bytes_in_use)} in use (peak {megabytes(self.peak_bytes)}, "
            f"reserved {megabytes(self.reserved_bytes)}){'; ' + purposes if purposes else ''}"
        )


class Pool:
    """The process's device memory; thread-safe."""

    def __init__(self, driver: Driver, source: MemorySource) -> None:
        self.driver, self.source = driver, source
        self._lock = threading.Lock()
        self._returned: deque[tuple[str, int]] = deque()
        self._in_use = Counter(dict.fromkeys(PURPOSES, 0))
        self._requests = self._returns = self._bytes = self._peak = 0
        self._earlier_misses = 0
        self.devices: set[int] = set()  # those whose memory was requested

    def allocate(self, length: int, stream: int, purpose: str) -> MemoryBlock:
        """Memory of at least one byte for use on a stream of the current device.

        Raises OutOfMemoryError when neither the pool nor the device has it.
        """
        length = -(-max(length, 1) // ALIGN) * ALIGN
        try:
            owner, address = self.source.allocate(length, stream)
        except NoMemory as error:
            raise self._out_of_memory(length, purpose) from error
        with self._lock:
            self._settle()
            self.devices.add(self.driver.device())
            self._requests += 1
            self._in_use[purpose] += length
            self._bytes += length
            self._peak = max(self._peak, self._bytes)
        return MemoryBlock(owner, address, length, purpose, self._returned)

    def draw_on(self, source: MemorySource) -> None:
        """Take memory from another source from now on; blocks of the earlier one are returned to it."""
        with self._lock:
            self._earlier_misses += self.source.misses
            self.source = source

    def stats(self) -> MemoryStats:
        """The counters now."""
        with self._lock:
            self._settle()
            by_purpose, own = dict(self._in_use), self.source.counts()
            requests, misses = self._requests, self._earlier_misses + self.source.misses
            counts = own or Counts(requests, misses, self._returns, self._bytes, self._peak)
        return MemoryStats(
            self.driver.describe(self.driver.device()).name, self.source.name, counts.requests,
            counts.requests - counts.misses, counts.misses, counts.returns, counts.in_use, counts.peak,
            self.source.reserved(), by_purpose,
        )  # fmt: skip

    def _settle(self) -> None:
        """Count the blocks that came back meanwhile; the caller has the lock."""
        while self._returned:
            purpose, length = self._returned.popleft()
            self._returns += 1
            self._in_use[purpose] -= length
            self._bytes -= length

    def _out_of_memory(self, length: int, purpose: str) -> OutOfMemoryError:
        with self._lock:
            self._settle()
            purposes = ", ".join(f"{megabytes(n)} in {name}" for name, n in self._in_use.items())
        free, total = self.driver.memory_info()
        return OutOfMemoryError(
            f"no device memory for {megabytes(length)} of {purpose}: Zenith uses {purposes}; {self.source.name} keeps "
            f"{megabytes(self.source.unused())} more; {megabytes(free)} of {megabytes(total)} are free on the device",
            fix="call it on smaller batches, drop results that are not needed, and give memory that is cached but not "
            "used back to the device with zenith.memory.release()",
        )


class CupySource:
    """A pool of CuPy's on the device's own memory."""

    name = "a CuPy pool"

    def __init__(self) -> None:
        import cupy

        self.misses = 0
        self._cupy = cupy
        self._pool = cupy.cuda.MemoryPool(self._from_device)

    def allocate(self, length: int, stream: int) -> tuple[Any, int]:
        """A block of CuPy's, which belongs to the stream; CuPy has a free list for each stream."""
        cuda = self._cupy.cuda
        try:
            if cuda.get_current_stream().ptr == stream:
                pointer = self._pool.malloc(length)
            else:
                with _stream_object(cuda, stream):
                    pointer = self._pool.malloc(length)
        except cuda.memory.OutOfMemoryError as error:
            raise NoMemory from error
        return pointer, int(pointer.ptr)

    def reserved(self) -> int:
        """Bytes of this pool, in use or free."""
        return int(self._pool.total_bytes())

    def unused(self) -> int:
        """Bytes of free blocks."""
        return int(self._pool.free_bytes())

    def release(self) -> None:
        """Free the blocks that are not in use."""
        self._pool.free_all_blocks()

    def counts(self) -> None:
        """CuPy's pools count nothing."""
        return None

    def _from_device(self, length: int) -> Any:
        memory = self._cupy.cuda.memory
        self.misses += 1
        try:
            return memory.MemoryPointer(memory.Memory(length), 0)
        except memory.CUDARuntimeError:
            self._cupy.get_default_memory_pool().free_all_blocks()  # memory that CuPy itself has cached
            return memory.MemoryPointer(memory.Memory(length), 0)


class _Handle:
    """A stream by CUDA's stream protocol, by which libraries exchange streams."""

    def __init__(self, stream: int) -> None:
        self._stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._stream


def _stream_object(cuda: Any, stream: int) -> Any:
    """CuPy's object for a stream, under which the stream is CuPy's current one."""
    if not stream:
        return cuda.Stream.null
    if hasattr(cuda.Stream, "from_external"):
        return cuda.Stream.from_external(_Handle(stream))
    return cuda.ExternalStream(stream)  # before CuPy 14


def megabytes(length: int) -> str:
    """A number of bytes as messages show it.

    >>> megabytes(3_200_000_000), megabytes(1536)
    ('3.20 GB', '1.5 KB')
    """
    for unit, size in (("GB", 1_000_000_000), ("MB", 1_000_000)):
        if length >= size:
            return f"{length / size:.2f} {unit}"
    return f"{length / 1000:.1f} KB" if length else "0 bytes"


_pool: Pool | None = None
_guard = threading.Lock()


def pool() -> Pool:
    """The pool of the process's driver; raises DeviceError where there is no device."""
    global _pool
    wanted, found = driver(), _pool
    if found is None or found.driver is not wanted:
        with _guard:
            if _pool is None or _pool.driver is not wanted:
                _pool = Pool(wanted, wanted.source())
            found = _pool
    return found


def pool_in_use() -> Pool | None:
    """The pool if memory was requested of it already."""
    return _pool if _pool is not None and _pool.driver is driver_in_use() else None
