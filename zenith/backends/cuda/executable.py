"""The executable for a GPU: a plan with its kernels loaded on one device, and how a call runs it.

A call leases memory of its stream (an arena, status words, setups for the sizes of earlier calls), writes addresses
into the setup's frame and launches; it waits for nothing. Later work on the same stream runs after it on the device,
too, so the next call there may use the same arena at once; calls on other streams, and concurrent calls of other
threads, lease their own.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from typing import Any, Protocol

import numpy as np

from zenith.backends.cuda.actions import Action
from zenith.backends.cuda.capture import Captures, is_captured
from zenith.backends.cuda.clock import EventClock
from zenith.backends.cuda.device_memory import DeviceArray, DeviceMemory
from zenith.backends.cuda.driver import on_device
from zenith.backends.cuda.forms import ACCESS
from zenith.backends.cuda.frame import FrameLayout
from zenith.backends.cuda.functions import Compile, Functions
from zenith.backends.cuda.lease import Lease, stream_key
from zenith.backends.cuda.memory import Pool
from zenith.backends.cuda.once import run_once
from zenith.backends.cuda.replay import rows
from zenith.backends.cuda.setup import LoadedProgram, Maker, Setup
from zenith.backends.donation import Donation, results_in
from zenith.backends.idle import take_latest
from zenith.backends.invariants import FixedMemory
from zenith.backends.plan import Plan
from zenith.backends.steps import FIXED, Allocation, LaunchStep
from zenith.backends.weights import WeightTable
from zenith.progress import current

Watch = Callable[[list[Action]], Iterator[Action]]
POOLED_LEASES = 16  # leases that are cached for the next call on their streams
EMPTY_BYTES = 1 << 16  # of the memory of arrays without elements: reads of it are discarded


class Adapter(Maker, Protocol):
    """How arrays of one kind are read and made (see :mod:`zenith.arrays`)."""

    @property
    def on_host(self) -> bool: ...

    @property
    def imports(self) -> bool: ...

    def stream(self) -> int: ...

    def arrive(self, array: object, stream: int) -> object: ...

    def depart(self, array: object) -> object: ...

    def address(self, array: object) -> int: ...

    def dense_address(self, array: object) -> int | None: ...

    def dense(self, array: object) -> object: ...

    def is_sole_owner(self, array: object) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Fixed:
    """The addresses of fixed memory, for the words of frames; ``low`` are bits of unaligned addresses."""

    number: int
    words: Any
    addresses: Any
    low: Mapping[Allocation, int]
    arrays: Mapping[str, DeviceArray]


class Executable:
    """A program on one device; made by :func:`zenith.compile.compile_graph`. Safe to call from several threads."""

    def __init__(self, plan: Plan, weights: WeightTable, pool: Pool, device: int, compile: Compile) -> None:
        self.plan, self.pool, self.driver, self.device = plan, pool, pool.driver, device
        self.report: Any = None
        self.stages: dict[str, str] = {}
        self.groups: dict[str, int] = {}
        self.donation: Donation | None = None
        with on_device(self.driver, device):
            arch = self.driver.describe(device).arch
            layout = FrameLayout(plan)
            launches = [*(p.launch for p in plan.prepared), *layout.launches]
            kernels = {launch.kernel.name: launch.kernel for launch in launches}
            functions = {}
            current().expect(len(kernels))
            for name, kernel in kernels.items():
                functions[name] = Functions(self.driver, kernel, compile, arch)
                current().advance()
            self.program = LoadedProgram(self.driver, layout, functions)
            self._memory = DeviceMemory(pool, device)
            self._empty = self._memory.constant(np.zeros(EMPTY_BYTES, np.uint8))
            self._numbers = itertools.count()
            self._fixed: FixedMemory[_Fixed] = FixedMemory(plan, weights, {name: name for name in kernels})
            if plan.weights:
                self._memory.settle()  # copies of weights may be in flight, on any stream
            self._fixed.bind(self)
        self._leases: list[Lease] = []
        self._captured = Captures(self.program, pool, self._empty)
        weakref.finalize(self, self._memory.settle).atexit = False  # kernels that still run read its constants

    @property
    def sources(self) -> str:
        """The generated source of every kernel, in the form that always fits."""
        return "\n".join(functions.functions[-1].code.source for functions in self.program.functions.values())

    @property
    def linked(self) -> list[tuple[str, float]]:
        """The kernels' names, and the milliseconds that compiling or loading each took."""
        return [(name, functions.milliseconds) for name, functions in self.program.functions.items()]

    @property
    def refused(self) -> list[tuple[str, str]]:
        """The routines that did not take the sizes of a call, and why; kernels or the host ran instead."""
        return list(self.program.refused)

    def clock(self, results: Adapter) -> EventClock:
        """A clock for calls whose results ``results`` makes."""
        return EventClock(self.driver, results.stream())

    # --- fixed memory ---

    def run_once(self, launch: LaunchStep, arrays: Sequence[Any]) -> None:
        """Run a prepared launch."""
        functions, addresses = self.program.functions[launch.kernel.name], self._addresses(arrays)
        run_once(self.driver, functions, launch, addresses)

    def _addresses(self, arrays: Sequence[Any]) -> list[int]:
        return [array.address if array.size else self._empty.address for array in arrays]

    def fix(self, arrays: Mapping[str, Any]) -> _Fixed:
        """The words and addresses of the arrays in fixed memory."""
        layout = self.program.layout
        words = layout.fixed
        found = dict(zip(arrays, self._addresses([*arrays.values()]), strict=True))
        pairs = [(words[name], address) for name, address in found.items()]
        low = {a: found[a.name] % ACCESS for a in layout.words if a.kind in FIXED and found[a.name] % ACCESS}
        at, addresses = np.array(pairs, np.int64).reshape(-1, 2).T
        return _Fixed(next(self._numbers), at, addresses, low, dict(arrays))

    def graphs(self) -> list[tuple[str, ...]]:
        """The rows of :func:`zenith.backends.cuda.replay.rows` for the sets of sizes in leases that no call uses."""
        return rows(setup for lease in list(self._leases) for setup in list(lease.setups.values()))

    def relaunch(self) -> Callable[[int], None]:
        """A function that starts the launches of the latest call a second time, in its memory; for measuring alone."""
        lease = self._leases[-1]
        setup = next(reversed(lease.setups.values()))

        def start(stream: int) -> None:
            for action in setup.actions:
                action(stream)

        return start

    # --- calls ---

    def run(
        self, arrays: Sequence[Any], adapters: Sequence[Adapter], sizes: Mapping[str, int], results: Adapter,
        watch: Watch | None = None,
    ) -> list[Any]:  # fmt: skip
        """Run on arrays (read through their adapters); ``results`` makes the results, and all runs on its stream.

        The results are valid in the order of the stream. With ``watch`` steps are launched one by one: it gets all of
        them, and yields each when it is to be launched. Raises OutOfBoundsError when an earlier call's kernel has
        reported an index outside its axis.
        """
        if self.driver.device() != self.device:
            with on_device(self.driver, self.device):
                return self.run(arrays, adapters, sizes, results, watch)
        stream = results.stream()
        captured = is_captured(self.driver, stream)
        if self._captured:
            if not captured:
                self.driver.graphs.forget()  # which may wait for the device, to unload kernels
            self._captured.check()
        if captured:
            call = partial(self._call, arrays=arrays, adapters=adapters, sizes=sizes, results=results)
            return self._captured.run(self._fixed.state, stream, call)
        fixed = self._fixed.state or self._fixed.bind(self)
        lease = self._lease(stream)
        try:
            if lease.events:
                lease.forget_read()
            if lease.status is not None:
                lease.status.check()
            return self._call(lease, fixed, arrays, adapters, sizes, results, watch)
        finally:
            if fixed is not self._fixed.state:  # weights changed meanwhile, and the device was waited for too early
                lease.events.append((self.driver.record(stream), fixed))
            self._leases.append(lease)
            if len(self._leases) > POOLED_LEASES:
                self._drop_lease()

    def _call(
        self, lease: Lease, fixed: _Fixed, arrays: Sequence[Any], adapters: Sequence[Adapter],
        sizes: Mapping[str, int], results: Adapter, watch: Watch | None = None,
    ) -> list[Any]:  # fmt: skip
        stream = lease.stream
        guests = [a for a in adapters if a is not results or a.imports]
        others = {g.stream() for g in guests if not g.on_host} - {stream} if guests else ()
        if guests:
            lease.follow(others)
            arrays = [adapter.arrive(array, stream) for array, adapter in zip(arrays, adapters, strict=True)]
        addresses = [adapter.dense_address(a) for a, adapter in zip(arrays, adapters, strict=True)]
        alive: list[Any] = []
        if guests or not all(addresses):
            addresses = self._settled(lease, arrays, adapters, addresses, alive)
        setup = self._setup(lease, fixed, sizes, addresses)
        out = setup.make_results(results) if self.donation is None else self._in_donated(
            setup, arrays, adapters, addresses, results)  # fmt: skip
        setup.pack(setup.buffer, 0, *addresses, *map(results.address, out))
        lease.hold(alive, out)
        try:
            if watch is None:
                lease.start(setup)
            else:
                for action in watch(setup.single_steps):
                    action(stream)
        finally:  # a step may raise when kernels were launched already
            if others or any(guest.imports for guest in guests):
                lease.release(others, (arrays, alive))
        return [results.depart(array) for array in out] if results.imports else out

    def _setup(self, lease: Lease, fixed: _Fixed, sizes: Mapping[str, int], addresses: Sequence[Any]) -> Setup:
        unaligned = reduce(or_, addresses, 0) % ACCESS or fixed.low
        if unaligned:
            low = {
                Allocation("input", n): a % ACCESS
                for n, a in zip(self.plan.inputs, addresses, strict=True)
                if a % ACCESS
            }
            low.update(fixed.low)
            setup = lease.setup(sizes, (*sizes.values(), tuple(low.items())), low)
        else:
            setup = lease.setup(sizes, (*sizes.values(),), {})
        setup.take_fixed(fixed.number, fixed.words, fixed.addresses)
        return setup

    def _in_donated(
        self, setup: Setup, arrays: Sequence[Any], adapters: Sequence[Adapter], addresses: Sequence[int | None],
        results: Adapter,
    ) -> list[Any]:  # fmt: skip
        """Memory for results, that of donated arguments where possible; wide accesses need it aligned."""
        assert self.donation is not None
        if setup.donations is None:
            setup.donations = self.donation.pairs(setup.sizes)
        makers = setup.makers_of(results)
        return results_in(setup.donations, makers, arrays, adapters, addresses, results, ACCESS, self.donation.written)

    def _settled(
        self, lease: Lease, arrays: Sequence[Any], adapters: Sequence[Adapter], addresses: Sequence[int | None],
        alive: list[Any],
    ) -> list[int | None]:  # fmt: skip
        """Addresses on the device of dense arrays: of copies where arrays are not dense or are on the host."""
        found: list[int | None] = []
        for number, (array, adapter, address) in enumerate(zip(arrays, adapters, addresses, strict=True)):
            if adapter.on_host:
                address = lease.upload(number, array, len(adapters))
            elif address is None:
                alive.append(adapter.dense(array))
                address = adapter.dense_address(alive[-1])
            found.append(address or self._empty.address)
        return found

    # --- several streams ---

    def _lease(self, stream: int) -> Lease:
        """A lease of this stream that is not in use, the latest first."""
        key = stream_key(stream)
        found = take_latest(self._leases, lambda lease: lease.key == key)
        return Lease(self.program, self.pool, stream) if found is None else found

    def _drop_lease(self) -> None:
        """Drop the lease that was unused for longest."""
        try:
            lease = self._leases.pop(0)
        except IndexError:
            return
        for event, _ in lease.events:
            self.driver.discard(event)
        if lease.events:
            self.driver.synchronize_device()  # the last kernels have read the borrowed arrays that it keeps alive
