"""The executable: a linked program, and what one call of it does.

A call leases a frame and takes an arena (so that calls of many threads do not meet), writes addresses into the frame,
runs the driver without the GIL, looks at the status words and returns the results. It costs microseconds: what follows
from the sizes is computed again only when no idle frame's last call had the same ones.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from zenith.arrays import NUMPY, Adapter
from zenith.backends.backend import CompilationReport
from zenith.backends.clock import HostClock
from zenith.backends.cpu.arenas import ARENAS, ArenaMemory, aligned
from zenith.backends.cpu.frame import Frame, Run, segments
from zenith.backends.cpu.lease import FixedAddresses, Lease
from zenith.backends.cpu.link import finished, linking
from zenith.backends.cpu.native import SYMBOLS, native
from zenith.backends.cpu.program import Launch, Program
from zenith.backends.cpu.step_table import first_rows
from zenith.backends.cpu.threads import team
from zenith.backends.cpu.word_layout import FIRST, INTERRUPTED, ROW, STATUS, STRIDED
from zenith.backends.donation import Donation
from zenith.backends.failures import Failure, reported
from zenith.backends.idle import take_latest
from zenith.backends.invariants import FixedMemory
from zenith.backends.steps import CallStep
from zenith.backends.weights import WeightTable
from zenith.errors import UnsupportedError, user_line
from zenith.ir.types import NDArray, NumPyType

Segment = Callable[[int], int | None]  # runs steps of the frame at an address; how that went
LEASES = 8  # different sizes that a program has idle frames for
EMPTY_BYTES = 1 << 16  # memory for arrays without elements: reads of it are discarded
WRITABLE = 0x200  # PyBUF_WRITE of CPython
_memory_view = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", ctypes.pythonapi)
)


class Executable:
    """A linked program; made by :func:`zenith.compile.compile_graph`."""

    def __init__(self, program: Program, weights: WeightTable) -> None:
        self.program = program
        self.report: CompilationReport | None = None
        self.stages: dict[str, str] = {}
        self.groups: dict[str, int] = {}
        self._donation: Donation | None = None
        self.copying: dict[tuple[int, int], int] = {}  # a result and an argument that is copied to it -> word of tasks
        self.frame = Frame(program)
        self._empty, self._empty_address = aligned(EMPTY_BYTES)
        self._empty[:] = 0
        self._numbers = itertools.count()
        prepared = [p.launch for p in program.prepared]
        with linking() as begun:
            preparing, running = begun.kernels(_texts(prepared)), begun.runtime(SYMBOLS)
            kernels = begun.kernels(_texts(program.launches))
            self.preparing = finished(preparing)
            running.result()
            native()  # which has them from now on
            # Kernels that differ in their number of tasks alone share their code.
            codes = {s.kernel.name: (self.preparing[s.kernel.name].symbols, s.tasks) for s in prepared}
            self._fixed: FixedMemory[FixedAddresses] = FixedMemory(program, weights, codes)
            self._fixed.bind(self)  # while the other kernels are compiled
            self.kernels = finished(kernels)
        self.segments = [self._segment(segment) for segment in segments(program)]
        self._leases: list[Lease] = []
        self._pack = struct.Struct(f"={len(program.inputs) + len(program.outputs)}q").pack_into
        self._checked = [
            (self.frame.status + STATUS * i, s.failures) for i, s in enumerate(program.launches) if s.failures
        ]

    @property
    def linked(self) -> list[tuple[str, float]]:
        """The kernels' names, with the milliseconds that each took to compile or load."""
        return [(kernel.name, kernel.milliseconds) for kernel in self.kernels.values()]

    @property
    def is_one_run(self) -> bool:
        """Whether native code runs the whole program without Python in between."""
        return self.segments == [native().run_program]

    @property
    def donation(self) -> Donation | None:
        """Which arguments are given away; None when none are."""
        return self._donation

    @donation.setter
    def donation(self, donation: Donation | None) -> None:
        self._donation = donation
        if donation is None:
            return
        rows = first_rows(self.program)
        self.copying = {pair: self.frame.table + ROW * rows[step] + 1 for pair, step in donation.copies.items()}

    def run_once(self, launch: Launch, arrays: Sequence[NDArray]) -> None:
        """Run a prepared launch."""
        status = np.array([0, team().address], np.int64)
        addresses = map(self._address_of, arrays)
        block = np.array([status.ctypes.data, *addresses, *(0 for _ in launch.sizes)], np.int64)
        kernel = self.preparing[launch.kernel.name].address
        team().launch(kernel, int(launch.tasks), int(launch.grain), block.ctypes.data)
        if status[0]:
            raise reported(launch.failures, int(status[0])).error()

    def fix(self, arrays: Mapping[str, NDArray]) -> FixedAddresses:
        """The words of frames for the arrays of fixed allocations."""
        words = [(word, self._address_of(array)) for name, array in arrays.items() for word in self.frame.fixed[name]]
        at, addresses = np.array(words, np.int64).reshape(-1, 2).T
        return FixedAddresses(next(self._numbers), at, addresses, tuple(arrays.values()))

    def fixed_arrays(self) -> dict[str, NDArray]:
        """The arrays of the fixed allocations that steps read, by name."""
        return self._fixed.arrays(self)

    def source_arrays(self) -> dict[str, NDArray]:
        """The constants, and the weights as they are now, by the names of their allocations."""
        return self._fixed.sources()

    def _address_of(self, array: NDArray) -> int:
        return NUMPY.address(array) if array.size else self._empty_address

    def _segment(self, segment: Run | int) -> Segment:
        if segment == Run(0, len(self.frame.rows)):
            return native().run_program
        if isinstance(segment, Run):
            return partial(native().run_steps, segment.first, segment.last)
        step = self.program.steps[segment]
        assert isinstance(step, CallStep)
        return _HostCall(step, self.frame.calls[segment])

    def clock(self, results: Adapter) -> HostClock:
        """What measures calls."""
        return HostClock()

    def single_steps(self) -> list[Segment]:
        """What ``segments`` runs, cut into single steps; the first of them only patches addresses."""
        found, rows = [self._segment(Run(0, 0))], first_rows(self.program)
        for number, step in enumerate(self.program.steps):
            if isinstance(step, CallStep):
                found.append(self._segment(number))
            else:
                found.append(partial(native().run_steps, rows[number], rows[number + 1]))
        return found

    def run(
        self,
        arrays: Sequence[object],
        adapters: Sequence[Adapter],
        sizes: Mapping[str, int],
        results: Adapter,
        watch: Callable[[list[Segment]], Iterator[Segment]] | None = None,
    ) -> list[object]:
        """Run on arrays (read through their adapters); results are made by ``results``.

        With ``watch`` steps run one by one: it is given them, and yields each when it shall run.
        Raises OutOfBoundsError when an index was outside its axis, CheckError when another check failed.
        """
        fixed = self._fixed.state or self._fixed.bind(self)  # whose arrays live as long as the call
        lease = self._leased(fixed, sizes)
        if lease.sizes != sizes or lease.results is not results:
            lease.resize(sizes, results, self, arrays, adapters)
        arena = ARENAS.take(lease.length)
        if arena is not lease.arena:
            lease.take_arena(arena)
        if lease.takes_arrays and watch is None:
            outcome, out = lease.run_on_arrays(arrays, self._pack)
            if outcome != STRIDED:
                return self._left(lease, arena, outcome, out)
        keep: list[NDArray] = []
        out = self._fill(lease, arrays, adapters, results, keep)
        outcome = self.run_segments(lease, self.segments if watch is None else watch(self.single_steps()))
        return self._left(lease, arena, outcome, out)

    def run_segments(self, lease: Lease, segments: Iterable[Segment]) -> int:
        """Run steps on what a lease's frame has: the worst of how that went."""
        worst = 0
        for run in segments:
            worst = max(worst, run(lease.address) or 0)
            if worst == INTERRUPTED:
                break
        return worst

    def run_cached(self, lease: Lease) -> int:
        """Run for an inline cache on what its lease's frame has; another call can use the lease where a step raises."""
        try:
            return self.run_segments(lease, self.segments)
        except BaseException:
            self._failures(lease)
            raise

    def _leased(self, fixed: FixedAddresses, sizes: Mapping[str, int]) -> Lease:
        """A lease, for these sizes if there is one, with constants and weights as they are when a call begins."""
        lease = self._idle(sizes) or Lease(self)
        if lease.fixed != fixed.number:
            lease.take(fixed)
        return lease

    def _idle(self, sizes: Mapping[str, int]) -> Lease | None:
        """One that no call has now: for these sizes, else that whose last call is longest ago; None while few are."""
        found = take_latest(self._leases, lambda lease: lease.sizes == sizes)
        if found is not None:
            return found
        try:
            return self._leases.pop(0) if len(self._leases) >= LEASES else None
        except IndexError:
            return None  # other threads took them all

    def lease_for(self, sizes: Mapping[str, int], results: Adapter) -> tuple[Lease, FixedAddresses]:
        """A lease for calls with these sizes as long as weights stay, with what must live as long."""
        lease, fixed = Lease(self), self._fixed.state or self._fixed.bind(self)
        lease.take(fixed)
        lease.resize(sizes, results, self, (), ())
        return lease, fixed

    def when_stale(self, fixed: FixedAddresses, notify: Callable[[], None]) -> None:
        """Call ``notify`` when a change of weights makes such a lease stale."""
        self._fixed.when_stale(fixed, notify)

    def _fill(
        self, lease: Lease, arrays: Sequence[object], adapters: Sequence[Adapter], results: Adapter, keep: list[NDArray]
    ) -> list[object]:  # fmt: skip
        """Write the addresses of arguments and results; the results, and in ``keep`` copies that are read instead."""
        addresses = [adapter.dense_address(a) for a, adapter in zip(arrays, adapters, strict=True)]
        if not all(addresses):
            addresses = [self._address(a, adapter, keep) for a, adapter in zip(arrays, adapters, strict=True)]
        out = [m() for m in lease.makers] if not lease.donations else lease.in_donated(arrays, adapters, addresses)
        addresses += _addresses_of_results(out, results)
        self._pack(lease.buffer, 8 * FIRST, *addresses)
        return out

    def _left(self, lease: Lease, arena: ArenaMemory, outcome: int, out: list[object]) -> list[object]:
        """The results, once a call has gone well; the error where it has not."""
        error = self.error_of(lease, outcome) if outcome else None
        if outcome != INTERRUPTED:  # else the lease is lost: what its status words say is not known
            ARENAS.give_back(arena)
            self._leases.append(lease)
        if error is not None:
            raise error
        return out

    def error_of(self, lease: Lease, outcome: int) -> BaseException | None:
        """What ended a call: a check that failed, or a signal's handler that raised. Status words are cleared."""
        if outcome == INTERRUPTED:
            return team().interruption()
        failures = self._failures(lease)
        return failures[0].error() if failures else None

    def _address(self, array: object, adapter: Adapter, keep: list[NDArray]) -> int:
        address = adapter.dense_address(array)
        if address == 0 and all(adapter.shape(array)):
            raise UnsupportedError(
                f"an argument is an array of {adapter.library} with elements and without memory",
                fix="call outside of transforms that replace arrays, such as torch.func's, or pass a copy",
            )  # fmt: skip
        if address is not None:
            return address or self._empty_address
        dense = np.ascontiguousarray(adapter.numpy(array))
        keep.append(dense)
        return int(dense.ctypes.data)

    def _failures(self, lease: Lease) -> list[Failure]:
        """The failures that launches have reported; their status words are cleared."""
        failed = [(word, failures) for word, failures in self._checked if lease.buffer[word]]
        found = [reported(failures, lease.buffer[word]) for word, failures in failed]
        for word, _ in failed:
            lease.buffer[word] = 0
        return found


def _addresses_of_results(made: Sequence[object], results: Adapter) -> list[int]:
    """The addresses of new arrays; UnsupportedError for one with elements and without memory."""
    addresses = list(map(results.address, made))
    if not all(addresses) and any(not at and all(results.shape(a)) for at, a in zip(addresses, made, strict=True)):
        raise UnsupportedError(
            f"{results.library} made a result with elements and without memory", where=user_line(),
            fix="call outside of modes that replace arrays, such as torch's FakeTensorMode",
        )  # fmt: skip
    return addresses


def _texts(launches: Iterable[Launch]) -> dict[str, str]:
    """The texts of kernels, by their names."""
    return {launch.kernel.name: launch.kernel.text for launch in launches}


class _HostCall:
    """A step that calls Python with arrays: its block has their addresses, then their sizes."""

    def __init__(self, step: CallStep, block: int) -> None:
        self.step, self.offset, self.count = step, 8 * block, len(step.allocations)
        self.words = ctypes.c_int64 * (self.count + len(step.sizes))
        self.arrays = [(type.rank, type.dtype.numpy, type.dtype.itemsize) for type in step.types]
        self.latest: tuple[list[int], list[NDArray]] = [], []  # words of a call, and the arrays that they describe

    def __call__(self, frame_address: int) -> None:
        words = list(self.words.from_address(frame_address + self.offset))
        before, arrays = self.latest
        if words != before:
            arrays = self._arrays(words)
            self.latest = words, arrays
        self.step(arrays)

    def _arrays(self, words: Sequence[int]) -> list[NDArray]:
        """Arrays on the memory of allocations, at these addresses and of these sizes."""
        arrays, at = [], self.count
        for address, (rank, dtype, itemsize) in zip(words, self.arrays, strict=False):
            shape = tuple(words[at : at + rank])
            arrays.append(_memory_at(address, shape, dtype, itemsize))
            at += rank
        return arrays


def _memory_at(address: int, shape: tuple[int, ...], dtype: NumPyType, itemsize: int) -> NDArray:
    """An array on the memory at an address."""
    size = math.prod(shape)
    return np.ndarray(shape, dtype, _memory_view(address, size * itemsize, WRITABLE) if size else None)
