"""The driver's frame: the block of 64-bit words from which one native function runs any program.

That function is ``run_steps`` of :mod:`zenith.backends.cpu.running`, the same for all programs: it walks the frame's
*table* (see :mod:`zenith.backends.cpu.step_table`), where a row is a launch or what makes rows repeat or be left out.
The rest of a program is arithmetic on its sizes: one generated Python function, whose results are written into the
frame when a call's sizes differ from those of the frame's last call. Only the addresses of inputs and outputs differ in
every call: they are written once, and *patches* (from word, to word) copy them into the argument blocks. In the same
way each iteration of a loop begins with *moves* of the addresses that differ from those of the iteration before: of
carried values and of slices of arrays; and of sizes that differ, which a launch of its own has just computed.

====================  ==================================================================================
``TEAM``              address of the thread team's block
``TABLE``             address of the table
``LAUNCHES``          its number of rows
``PATCHES, LAST``     bounds of the list of patches, each a pair of byte offsets
``STATUSES, LAST``    bounds of the status words
``FIRST ...``         addresses of inputs, then of outputs; until native code has read these, of NumPy's objects
the table             for each launch: kernel's address, tasks, tasks in a chunk, address of the block;
                      for other rows: opcode, address of the row that may come next, 0, address of the block
blocks                for each launch: address of its status word, addresses of buffers, sizes;
                      for loops and branches: see ``block``
status words          one per launch, not 0 when an index was outside its axis; after each the ``TEAM`` again
====================  ==================================================================================

A host call has a block too: addresses and sizes of its arrays. Host calls cut a program into *segments*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from zenith.backends.cpu.program import Launch, Program, Resize, Step
from zenith.backends.cpu.resizing import SIZES, TURN, offset, stride, symbols
from zenith.backends.cpu.step_table import Control, first_rows, rows_of
from zenith.backends.cpu.word_layout import (
    ADDRESS,
    BEGIN,
    BRANCHES,
    CARRIES,
    CARRY,
    CASES,
    COUNT,
    CURRENT,
    FIRST,
    FLAG,
    FOLLOWING,
    FROM,
    INDEX,
    LENGTH,
    MOVES,
    OFFSET,
    OTHER,
    RESULT,
    ROW,
    SELECT,
    SLICE,
    SLICES,
    SLICES_END,
    STATUS,
    STRIDE,
    WHOLE,
)
from zenith.backends.steps import FIXED, Allocation, BranchStep, CallStep, Carry, LoopStep, Slice
from zenith.ir.types import NDArray


@dataclass(slots=True)
class FrameWords:
    """Words of a frame, each with a number: of an expression, of another word, or its constant content."""

    at: list[int] = field(default_factory=list)
    which: list[int] = field(default_factory=list)

    def add(self, at: int, which: int) -> None:
        """Another word."""
        self.at.append(at)
        self.which.append(which)

    def arrays(self) -> tuple[NDArray, NDArray]:
        """Both as arrays."""
        return np.array(self.at, np.int64), np.array(self.which, np.int64)


@dataclass(frozen=True, slots=True)
class _Resized:
    """The words of a loop whose sizes differ: of its counters, of the sizes' ``values``, and of the bounds of moves.

    ``numbers`` are the words of expressions, ``moves`` the list of moves.
    """

    turn: int
    values: int
    pair: int
    numbers: dict[str, int]
    moves: list[int]


class Frame:
    """The layout of a program's frames: which word has what."""

    def __init__(self, program: Program) -> None:
        names = [*program.inputs, *(name for name, _ in program.outputs)]
        self.addresses = {name: FIRST + i for i, name in enumerate(names)}
        self.table, self.rows = FIRST + len(names), rows_of(program)
        self.length = self.table + ROW * len(self.rows)
        self.kernels: list[tuple[int, str]] = []  # words for addresses of kernels
        self.fixed: dict[str, list[int]] = {}  # words for the address of each fixed allocation
        self.calls: dict[int, int] = {}  # the first word of the block of each host call, by the number of its step
        self.slots_of = {slot.name: slot.offset for slot in program.slots}
        self._expressions: dict[str, int] = {program.arena: 0}
        self._patches: list[int] = []
        self._moves: list[tuple[int, list[int]]] = []  # of each loop: the word for their address, and the moves
        self._moving: dict[str, tuple[int, list[int]]] = {}  # of moving allocations: the word with the address
        self._loops: dict[int, int] = {}
        self._resized: dict[str, _Resized] = {}  # by the index of the loop, outer ones first
        self._sized, self._slots, self._constants, self._links = FrameWords(), FrameWords(), FrameWords(), FrameWords()
        self._statuses: list[int] = []
        self._lay_out(program)
        self.status = self.length
        for number, word in enumerate(self._statuses):
            self._links.add(word, self.status + STATUS * number)
        self.statuses = STATUS * len(self._statuses)
        self.length += max(1, self.statuses)
        self.shapes = [[self._number(str(size)) for size in type.shape] for _, type in program.outputs]
        self.patches = np.array(self._patches, np.int64)
        self.moves = [self._store_moves(word, np.array(moves, np.int64)) for word, moves in self._moves]
        self.sized, self.slots = self._sized.arrays(), self._slots.arrays()
        self.constants, self.links = self._constants.arrays(), self._links.arrays()
        self.sizes = _function(program.symbols, list(self._expressions))

    def _store_moves(self, word: int, moves: NDArray) -> NDArray:
        """Note a loop's moves, to which its block points; the frame retains them."""
        self._constants.add(word, moves.ctypes.data)
        self._constants.add(word + 1, moves.ctypes.data + moves.nbytes)
        return moves

    def _lay_out(self, program: Program) -> None:
        for number, row in enumerate(self.rows):
            word = self.table + ROW * number
            block = self._launch(word, row) if isinstance(row, Launch) else self._control(word, row)
            self._links.add(word + 3, block)
        for number, step in enumerate(program.steps):
            if isinstance(step, CallStep):
                self.calls[number] = self.length
                self._arguments(step)

    def _launch(self, word: int, launch: Launch) -> int:
        """A launch's block, and the other words of its row."""
        self.kernels.append((word, launch.kernel.name))
        self._size(word + 1, launch.tasks)
        self._size(word + 2, launch.grain)
        block = self._new_words(1)
        self._statuses.append(block)
        self._arguments(launch)
        return block

    def _arguments(self, step: Launch | CallStep) -> None:
        for allocation in step.allocations:
            self._address(self._new_words(1), allocation)
        for size in step.sizes:
            self._size(self._new_words(1), size)

    def _control(self, word: int, row: Control) -> int:
        """The block of a loop or branch, laid out at its first row, and the other words of the row."""
        self._constants.add(word, row.opcode)
        if row.opcode == SELECT:
            assert isinstance(row.of, BranchStep)
            return self._branch(row.of, row.targets)
        if row.targets:
            self._links.add(word + 1, self._row(row.targets[0]))
        if row.opcode == BEGIN:
            assert isinstance(row.of, LoopStep)
            self._loops[id(row.of)] = self._loop(row.of)
        if isinstance(row.of, Resize):
            return self._resized[row.of.index].pair
        return self._loops.get(id(row.of), self.table)

    def _row(self, number: int) -> int:
        return self.table + ROW * number

    def _branch(self, branch: BranchStep[Step], targets: Sequence[int]) -> int:
        block = self._new_words(CASES + len(targets))
        self._address(block + INDEX, branch.index)
        self._constants.add(block + BRANCHES, len(targets))
        for number, target in enumerate(targets):
            self._links.add(block + CASES + number, self._row(target))
        return block

    def _loop(self, loop: LoopStep[Step, str]) -> int:
        block = self._new_words(CARRIES + CARRY * len(loop.carries) + SLICE * len(loop.slices))
        slices = block + CARRIES + CARRY * len(loop.carries)
        moves: list[int] = []
        self._moves.append((block + MOVES, moves))
        self._size(block + COUNT, loop.count or "-1")
        if loop.flag is not None:
            self._address(block + FLAG, loop.flag)
        self._links.add(block + SLICES, slices)
        self._links.add(block + SLICES_END, self.length)
        if loop.steps and isinstance(loop.steps[0], Resize):
            self._resize(block, loop.steps[0])
        for number, carry in enumerate(loop.carries):
            self._carry(block + CARRIES + CARRY * number, carry, moves)
        for number, slice in enumerate(loop.slices):
            self._slice(slices + SLICE * number, slice, loop, moves)
        return block

    def _resize(self, block: int, resize: Resize) -> None:
        """The words of what an iteration of a loop computes, and of the list of their moves."""
        values, moves = self._new_words(len(resize.sizes)), list[int]()
        pair = self._new_words(2)
        self._moves.append((pair, moves))
        numbers = {size: values + k for k, size in enumerate(resize.sizes)}
        self._resized[resize.index] = _Resized(block + COUNT, values, pair, numbers, moves)

    def _carry(self, word: int, carry: Carry[str], moves: list[int]) -> None:
        for at, allocation in ((FROM, carry.start), (RESULT, carry.result), (OTHER, carry.other)):
            self._address(word + at, allocation)
        self._size(word + LENGTH, carry.length)
        self._moving[carry.current.name] = word + CURRENT, moves
        self._moving[carry.following.name] = word + FOLLOWING, moves

    def _slice(self, word: int, slice: Slice[str], loop: LoopStep[Step, str], moves: list[int]) -> None:
        self._address(word + WHOLE, slice.whole)
        self._size(word + STRIDE, stride(loop, slice))
        self._size(word + OFFSET, offset(loop, slice))
        self._moving[slice.element.name] = word + ADDRESS, moves

    def _new_words(self, count: int) -> int:
        first = self.length
        self.length += count
        return first

    def _address(self, word: int, allocation: Allocation) -> None:
        if allocation.kind == "slot":
            self._slots.add(word, self._number(self.slots_of[allocation.name]))
        elif allocation.kind in (TURN, SIZES):
            resized = self._resized[allocation.name]
            self._links.add(word, resized.turn if allocation.kind == TURN else resized.values)
        elif allocation.kind in FIXED:
            self.fixed.setdefault(allocation.name, []).append(word)
        elif allocation.kind == "moving":
            source, moves = self._moving[allocation.name]
            moves += [8 * source, 8 * word]
        else:
            self._patches += [8 * self.addresses[allocation.name], 8 * word]

    def _size(self, word: int, expression: str) -> None:
        """A word with a size: of this call, or of this iteration of the innermost loop whose index it contains."""
        indices = symbols(expression) & self._resized.keys()
        if not indices:
            self._sized.add(word, self._number(expression))
            return
        innermost = [index for index in self._resized if index in indices][-1]
        resized = self._resized[innermost]
        resized.moves.extend((8 * resized.numbers[expression], 8 * word))

    def _number(self, expression: str) -> int:
        return self._expressions.setdefault(expression, len(self._expressions))


def _function(symbols: tuple[str, ...], expressions: list[str]) -> Callable[..., tuple[int, ...]]:
    """A Python function from the sizes' values to those of expressions."""
    source = f"lambda {', '.join(symbols)}: ({', '.join(expressions)},)"
    function: Callable[..., tuple[int, ...]] = eval(source, {"__builtins__": {"max": max, "min": min}})
    return function


@dataclass(frozen=True, slots=True)
class Run:
    """A segment of rows, ``first`` to before ``last``; the one with ``first`` 0 also patches addresses."""

    first: int
    last: int


def segments(program: Program) -> list[Run | int]:
    """What runs without Python in between, and the numbers of the steps that are host calls."""
    found: list[Run | int] = []
    rows = first_rows(program)
    for number, step in enumerate(program.steps):
        if isinstance(step, CallStep):
            found += [number] if found else [Run(0, 0), number]
            continue
        match found:
            case [*_, Run(first, _)]:
                found[-1] = Run(first, rows[number + 1])
            case _:
                found.append(Run(rows[number], rows[number + 1]))
    return found
