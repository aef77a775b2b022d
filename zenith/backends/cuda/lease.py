"""Leases: the memory and words that one call uses alone; successive calls on a stream share one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from zenith.backends.cuda.driver import PER_THREAD
from zenith.backends.cuda.memory import Pool
from zenith.backends.cuda.replay import Starter
from zenith.backends.cuda.setup import LoadedProgram, Setup
from zenith.backends.cuda.status import StatusWords, words_of
from zenith.backends.failures import failures
from zenith.backends.steps import Allocation

CACHED_SETUPS = 32  # sets of sizes that a lease caches; the least recently used is evicted
WORD, COUNTER = 8, 4  # bytes


class Lease:
    """Memory and words of one call alone: arena, counters, status words, setups by sizes.

    ``waits`` says whether the device may be waited for. The methods are a call's operations on the lease's stream;
    :class:`~zenith.backends.cuda.capture.CapturedLease` overrides some of them.
    """

    def __init__(self, program: LoadedProgram, pool: Pool, stream: int, waits: bool = True) -> None:
        self.stream, self.key, self._program, self._pool = stream, stream_key(stream), program, pool
        self.pinned = program.driver.pinned(WORD)
        launches = [program.layout.launches[number] for number in program.layout.failing]
        failing = [failures(launch.kernel, launch.lines) for launch in launches]
        self.status: StatusWords | None = words_of(self, program.driver, failing, waits) if failing else None
        self.setups: OrderedDict[Any, Setup] = OrderedDict()
        self._starter = Starter(program, pool, stream)
        self.arena: Any = None
        self.counters: Any = None
        self.numbers: Any = None
        self.events: list[tuple[int, Any]] = []  # arrays to release, and the events until which kernels read them

    def setup(self, sizes: Mapping[str, int], key: Any, low: Mapping[Allocation, int]) -> Setup:
        """The setup of these sizes, made when they are new, with the addresses of this lease's memory."""
        found = self.setups.get(key)
        if found is None:
            status = 0 if self.status is None else self.status.address
            found = self.setups[key] = Setup(self._program, sizes, low, status, self.pinned)
            if len(self.setups) > CACHED_SETUPS:
                self.setups.popitem(last=False)
        else:
            self.setups.move_to_end(key)
        if found.arena and (self.arena is None or found.arena > self.arena.length):
            self.drop("arena")  # kernels that still use it come earlier on this stream
            self.arena = self._pool.allocate(found.arena, self.stream, "arenas")
        if found.counters and (self.counters is None or COUNTER * found.counters > self.counters.length):
            self.drop("counters")
            self.counters = self._zeros(COUNTER * found.counters)
        if found.counters:
            found.place_counters(self.counters.address)
        if self.arena is not None:
            found.move_arena(self.arena.address)
        return found

    def start(self, setup: Setup) -> None:
        """Start the launches of a call, with the addresses in the setup's frame."""
        self._starter(setup)

    def drop(self, name: str) -> None:
        """Give memory back to the pool before a larger block is requested."""
        setattr(self, name, None)

    def _zeros(self, length: int) -> Any:
        """Memory that is zeroed in the order of the stream; kernels leave it zero."""
        block = self._pool.allocate(length, self.stream, "arenas")
        self.bring(block.address, np.zeros(block.length, np.uint8))
        return block

    def follow(self, others: Iterable[int]) -> None:
        """Have the stream wait for the streams on which arrays of other libraries are made."""
        for other in others:
            self._wait(self.stream, other)

    def hold(self, *things: Any) -> None:
        """Keep what a call uses alive as long as needed: here the stream's order protects it."""

    def release(self, others: Iterable[int], arrays: Any) -> None:
        """Let other libraries reuse their arrays' memory when the kernels have read it."""
        for other in others:
            self._wait(other, self.stream)
        self.events.append((self._program.driver.record(self.stream), arrays))

    def _wait(self, stream: int, other: int) -> None:
        driver = self._program.driver
        event = driver.record(other)
        driver.wait(stream, event)
        driver.discard(event)

    def upload(self, number: int, array: Any, count: int) -> int:
        """Copy a number of the host to the device, in the order of the stream; there is room for ``count`` of them."""
        if self.numbers is None:
            self.numbers = self._pool.allocate(2 * WORD * count, self.stream, "arenas")
        address: int = self.numbers.address + 2 * WORD * number
        self.bring(address, array)
        return address

    def bring(self, to: int, array: Any) -> None:
        """Copy an array of the host to an address; CUDA has read pageable memory of the host when the call returns."""
        self._program.driver.copy(to, array.ctypes.data, array.nbytes, self.stream)

    def forget_read(self) -> None:
        """Release the arrays whose events have happened."""
        driver = self._program.driver
        while self.events and (driver.is_done(self.events[0][0]) or len(self.events) > CACHED_SETUPS):
            if not driver.is_done(self.events[0][0]):
                driver.synchronize(self.stream)
            driver.discard(self.events.pop(0)[0])


def stream_key(stream: int) -> Any:
    """A key unique to a stream: CUDA has one handle for the default streams of all threads."""
    return (stream, threading.get_ident()) if stream == PER_THREAD else stream
