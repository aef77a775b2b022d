"""Setups: everything in a program that follows from the sizes of a call, made once for each set of sizes.

A setup is a frame with its sizes filled in, a table of parameters and a grid for each launch, and the actions that a
call goes through. A call then writes the addresses of its arguments and results, and starts the actions.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from zenith.backends.cuda.actions import (
    Action,
    Carried,
    HostBranch,
    HostCallAction,
    HostFrame,
    HostLoop,
    Launches,
    LibraryCall,
    OutsideCall,
    Row,
    Sliced,
)
from zenith.backends.cuda.cupy_calls import DOORS, CupyCall
from zenith.backends.cuda.driver import Driver, Pinned
from zenith.backends.cuda.forms import ACCESS
from zenith.backends.cuda.frame import FrameLayout
from zenith.backends.cuda.functions import Functions
from zenith.backends.cuda.launch import geometry, own_words, parameters
from zenith.backends.donation import Pairs
from zenith.backends.routines import Ready
from zenith.backends.steps import COUNTERS, Allocation, BranchStep, CallStep, Either, LaunchStep, LoopStep, waits
from zenith.cached import cached_property
from zenith.errors import SourceLine, UnsupportedError

if TYPE_CHECKING:
    from zenith.backends.cuda.replay import Replay

COUNTER_ALLOCATION = Allocation(COUNTERS, COUNTERS)


class Maker(Protocol):
    """An adapter, as far as it makes results."""

    def maker(self, shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]: ...


@dataclass(frozen=True)
class LoadedProgram:
    """What all setups of a program share: the layout of its plan, and its kernels by name, loaded on a device.

    ``refused`` notes which routines did not take the sizes of calls, and why.
    """

    driver: Driver
    layout: FrameLayout
    functions: Mapping[str, Functions]
    refused: dict[tuple[str, str], None] = field(default_factory=dict)

    @cached_property
    def obstacle(self) -> tuple[str, SourceLine | None] | None:
        """Why the device cannot run the program without the host, and the line of the program; None when it can."""
        return waits(self.layout.plan.steps)


class Setup:
    """A program for one set of sizes; one call uses it at a time.

    ``low`` has the low bits of the addresses of arguments and fixed memory, by allocation, where they are not 0.
    ``status`` is the address of the first status word.
    """

    def __init__(
        self,
        program: LoadedProgram,
        sizes: Mapping[str, int],
        low: Mapping[Allocation, int],
        status: int,
        pinned: Pinned,
    ) -> None:
        self.layout, self.sizes, self._program, self._low = program.layout, dict(sizes), program, dict(low)
        plan, layout = self.layout.plan, self.layout
        self.buffer = (ctypes.c_int64 * layout.length)()
        self.address = ctypes.addressof(self.buffer)
        self.words = np.ctypeslib.as_array(self.buffer)
        self._words = HostFrame(program.driver, self.buffer, pinned)
        for name, word in layout.sizes.items():
            self.words[word] = sizes[name]
        for number, launch in enumerate(layout.failing):
            self.words[layout.parameters(launch)["status"]] = status + 8 * number
        self.arena = plan.arena.evaluate(sizes)
        self.counters = plan.counters.evaluate(sizes)
        offsets = [(layout.slots[s.name], s.offset.evaluate(sizes)) for s in plan.slots if s.name in layout.slots]
        self._slots, self._offsets = np.array(offsets, np.int64).reshape(-1, 2).T
        self._arena_address: int | None = None
        self._counters_address: int | None = None
        self.fixed = -1  # the number of the fixed memory whose addresses are in the frame
        self.shapes = [tuple(n.evaluate(sizes) for n in type.shape) for _, type in plan.outputs]
        self.pack = struct.Struct(f"={layout.arguments}q").pack_into
        self._numbers = {id(launch): number for number, launch in enumerate(layout.launches)}
        self._alive: list[Any] = []  # tables that rows point to, and functions
        self.launches: dict[int, int] = {}  # the numbers of launches, by the addresses of their tables
        self._accepted: dict[int, Ready] = {}  # by the ids of calls
        self.why_not = None if program.obstacle is None else program.obstacle[0]  # no graph is made of it
        self.actions = self._actions(plan.steps)
        self.makers: list[Callable[[], Any]] = []
        self._results: Maker | None = None
        self.donations: Pairs | None = None  # results, and the arguments whose memory they may take
        self.graph: Replay | None = None  # all actions as one (see :mod:`zenith.backends.cuda.replay`)
        self.seen: Any = None  # the state of the call before
        self.put_off = False  # no graph was made yet, since many others were just before

    @property
    def state(self) -> tuple[int, int | None, int | None]:
        """The addresses that are the same in most calls: of fixed memory (by number), arena, and counters."""
        return self.fixed, self._arena_address, self._counters_address

    def make_results(self, results: Maker) -> list[Any]:
        """New arrays for the results of a call."""
        return [make() for make in self.makers_of(results)]

    def makers_of(self, results: Maker) -> list[Callable[[], Any]]:
        """Functions that make new arrays for the results of a call."""
        if self._results is not results:
            types = [type for _, type in self.layout.plan.outputs]
            self.makers = [results.maker(shape, t.dtype) for shape, t in zip(self.shapes, types, strict=True)]
            self._results = results
        return self.makers

    def move_arena(self, address: int) -> None:
        """Write the addresses of slots in the arena at an address."""
        if address != self._arena_address:
            self.words[self._slots] = self._offsets + address
            self._arena_address = address

    def place_counters(self, address: int) -> None:
        """Write the address of the counters."""
        self.words[self.layout.words[COUNTER_ALLOCATION]] = self._counters_address = address

    def take_fixed(self, number: int, words: Any, addresses: Any) -> None:
        """Write the addresses of fixed memory."""
        if number != self.fixed:
            self.words[words] = addresses
            self.fixed = number

    # --- actions ---

    @cached_property
    def single_steps(self) -> list[Action]:
        """An action for each step of the plan, after one that does nothing."""
        return [_nothing, *(partial(_all, self._actions([step])) for step in self.layout.plan.steps)]

    def _actions(self, steps: Sequence[Any]) -> list[Action]:
        """Actions for a list of steps; successive launches are one."""
        found: list[Action] = []
        rows: list[Row] = []
        for step in self._chosen(steps):
            if isinstance(step, LaunchStep):
                rows += self._row(step)
                continue
            if rows:
                found.append(Launches(self._program.driver, rows))
                rows = []
            found.append(self._action(step))
        return [*found, Launches(self._program.driver, rows)] if rows else found

    def _action(self, step: Any) -> Action:
        words = self.layout.words
        match step:
            case CallStep():
                operands = [words[a] for a in step.allocations]
                if not step.routine.from_python:
                    return LibraryCall(self._words, step, operands, self._ready(step))
                shapes = [tuple(n.evaluate(self.sizes) for n in type.shape) for type in step.types]
                if step.routine.on_gpu is not None:
                    return OutsideCall(self._words, step, operands, shapes)
                cupy = self._cupy(step)
                if cupy is not None:
                    return CupyCall(self._words, step, operands, shapes, cupy)
                return HostCallAction(self._words, step, operands, shapes)
            case BranchStep():
                branches = [self._actions(steps) for steps in step.branches]
                return HostBranch(self._words, step, words[step.index], branches)
            case LoopStep():
                return self._loop(step)
        raise AssertionError(step)

    def _chosen(self, steps: Sequence[Any]) -> Iterator[Any]:
        """The steps, each choice replaced by its steps: the library's where sizes are worth it and it takes them."""
        for step in steps:
            if not isinstance(step, Either):
                yield step
                continue
            calls = [s for s in step.steps if isinstance(s, CallStep)]
            worth = step.size.evaluate(self.sizes) >= step.least
            yield from self._chosen(step.steps if worth and all(map(self._accepts, calls)) else step.otherwise)

    def _accepts(self, call: CallStep) -> bool:
        """Whether a routine takes these sizes; the object that calls it is saved for its action."""
        assert call.routine.ready is not None
        lows = [self._low.get(a, 0) for a in call.allocations]
        found = call.routine.ready(self.sizes, [low & -low or ACCESS for low in lows])
        if isinstance(found, str):
            self._program.refused[str(call.routine), found] = None
            return False
        self._accepted[id(call)] = found
        return True

    def _ready(self, call: CallStep) -> Ready:
        if id(call) not in self._accepted and not self._accepts(call):
            why = next(why for name, why in reversed(self._program.refused) if name == str(call.routine))
            raise UnsupportedError(f"{call.routine}: {why}", where=next(iter(call.lines), None))
        return self._accepted[id(call)]

    def _cupy(self, call: CallStep) -> Any:
        """CuPy, where it can compute a routine of the host; else None, with the reason among ``refused``."""
        door = DOORS.get(call.routine.library)
        if door is None:
            return None
        if door.problem():
            self._program.refused[str(call.routine), f"NumPy computes it on the host, since {door.problem()}"] = None
            return None
        return door.binding

    def _loop(self, loop: LoopStep[Any, Any]) -> Action:
        words, low = self.layout.words, self._low
        carried = [
            Carried(
                words[c.current],
                words[c.following],
                words[c.start],
                words[c.result],
                words[c.other],
                c.length.evaluate(self.sizes),
            )
            for c in loop.carries
        ]
        sliced = [Sliced(words[s.element], words[s.whole], s.length.evaluate(self.sizes)) for s in loop.slices]
        for carry in loop.carries:
            low[carry.current] = low[carry.following] = _joined(low.get(a, 0) for a in carry.allocations)
        for slices, found in zip(loop.slices, sliced, strict=True):
            low[slices.element] = _joined((low.get(slices.whole, 0), found.length % ACCESS))
        count = None if loop.count is None else loop.count.evaluate(self.sizes)
        flag = None if loop.flag is None else words[loop.flag]
        condition, steps = self._actions(loop.condition), self._actions(loop.steps)
        return HostLoop(self._words, loop, count, carried, sliced, flag, condition, steps)

    def _row(self, launch: LaunchStep) -> list[Row]:
        """The row that launches a kernel; none when it has no tasks."""
        kernel, number = launch.kernel, self._numbers[id(launch)]
        tasks = kernel.tasks.evaluate(self.sizes)
        if not tasks:
            return []
        functions = self._program.functions[kernel.name]
        sizes = {name: self.sizes[name] for name in kernel.sizes}
        function = functions.choose(sizes, [self._low.get(a, 0) for a in launch.allocations])
        grid = geometry(kernel, function.form, tasks, sizes)
        words, names = self.layout.parameters(number), parameters(kernel)
        for name, value in own_words(kernel, function.form, tasks, grid).items():
            self.words[words[name]] = value
        table = (ctypes.c_int64 * len(names))(*(self.address + 8 * words[name] for name in names))
        self._alive += [table, function]  # the function keeps its module loaded
        self.launches[ctypes.addressof(table)] = number
        return [(function.handle, grid.blocks, grid.threads, grid.shared, ctypes.addressof(table))]


def _nothing(stream: int) -> None:
    """The first step of a CPU's program writes addresses; a GPU's has none."""


def _all(actions: Sequence[Action], stream: int) -> None:
    for action in actions:
        action(stream)


def _joined(lows: Any) -> int:
    found = 0
    for low in lows:
        found |= low
    return found
