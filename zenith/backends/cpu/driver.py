"""The driver's frame: the block of 64-bit words from which one native function runs any program.

That function is ``run_steps`` of :mod:`zenith.backends.cpu.launching`, the same for all programs: it walks the frame's
*table*, one row a launch (kernel, tasks, chunk, argument block). What a program needs besides is arithmetic on its
sizes, which changes only with them. It is one generated Python function, whose results are written into the frame when
a call's sizes differ from those of the frame's last call. What differs in every call are the addresses of inputs and
outputs: they are written once, and *patches* (from word, to word) copy them into the argument blocks.

====================  ==================================================================================
``TEAM``              address of the thread team's block
``TABLE``             address of the table
``LAUNCHES``          its number of rows
``PATCHES, LAST``     addresses of the first patch and behind the last one, each a pair of byte offsets
``FIRST ...``         addresses of inputs, then of outputs
the table             for each launch: kernel's address, tasks, tasks in a chunk, address of the block
blocks                for each launch: address of its status word, addresses of buffers, sizes
status words          one a launch; not 0 when an index was outside its axis
====================  ==================================================================================

A host call has a block too: addresses and sizes of its arrays. Host calls cut a program into *segments*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zenith.backends.cpu.block import FIRST, ROW
from zenith.backends.cpu.program import Call, Launch, Program
from zenith.backends.plan import FIXED, Place


@dataclass(slots=True)
class Words:
    """Places in a frame that get values of expressions: ``frame[at] = values[which]``."""

    at: list[int] = field(default_factory=list)
    which: list[int] = field(default_factory=list)

    def arrays(self) -> tuple[Any, Any]:
        """Both as index arrays."""
        return np.array(self.at, np.int64), np.array(self.which, np.int64)


class Frame:
    """Which word of a program's frames holds what."""

    def __init__(self, program: Program) -> None:
        names = [*program.inputs, *(name for name, _ in program.outputs)]
        self.addresses = {name: FIRST + i for i, name in enumerate(names)}
        self.table = FIRST + len(names)
        self.length = self.table + ROW * len(program.launches)
        self.blocks: list[int] = []  # the first word of each step's block
        self.fixed: dict[str, list[int]] = {}  # the words that want the address of a fixed place
        self._expressions: dict[str, int] = {program.arena: 0}
        self._patches: list[int] = []
        self._sized, self._slots = Words(), Words()
        for step in program.steps:
            self._add_block(step, program)
        for number, launch in enumerate(program.launches):
            self._size(self.table + ROW * number + 1, launch.tasks)
            self._size(self.table + ROW * number + 2, launch.grain)
        self.status = self.length
        self.length += max(1, len(program.launches))
        self.shapes = [[self._number(str(size)) for size in type.shape] for _, type in program.outputs]
        self.patches = np.array(self._patches, np.int64)
        self.sized, self.slots = self._sized.arrays(), self._slots.arrays()
        self.sizes = _function(program.symbols, list(self._expressions))

    def _add_block(self, step: Launch | Call, program: Program) -> None:
        self.blocks.append(self.length)
        self.length += isinstance(step, Launch)  # the status word's address
        for place in step.places:
            self._place(self.length, place, program)
            self.length += 1
        for size in step.sizes:
            self._size(self.length, size)
            self.length += 1

    def _place(self, word: int, place: Place, program: Program) -> None:
        if place.kind == "slot":
            self._slots.at.append(word)
            self._slots.which.append(self._number(program.slots[place.name]))
        elif place.kind in FIXED:
            self.fixed.setdefault(place.name, []).append(word)
        else:
            self._patches += [8 * self.addresses[place.name], 8 * word]

    def _size(self, word: int, expression: str) -> None:
        self._sized.at.append(word)
        self._sized.which.append(self._number(expression))

    def _number(self, expression: str) -> int:
        return self._expressions.setdefault(expression, len(self._expressions))


def _function(symbols: tuple[str, ...], expressions: list[str]) -> Callable[..., tuple[int, ...]]:
    """A Python function from the sizes' values to those of expressions."""
    source = f"lambda {', '.join(symbols)}: ({', '.join(expressions)},)"
    function: Callable[..., tuple[int, ...]] = eval(source, {"__builtins__": {"max": max, "min": min}})
    return function


@dataclass(frozen=True, slots=True)
class Run:
    """A segment of launches, ``first`` to before ``last``; the one with ``first`` 0 also patches addresses."""

    first: int
    last: int


def segments(program: Program) -> list[Run | int]:
    """What runs without Python in between, and the numbers of the steps that are host calls."""
    found: list[Run | int] = []
    launches = 0
    for number, step in enumerate(program.steps):
        if isinstance(step, Call):
            found += [number] if found else [Run(0, 0), number]
            continue
        match found:
            case [*_, Run(first, _)]:
                found[-1] = Run(first, launches + 1)
            case _:
                found.append(Run(launches, launches + 1))
        launches += 1
    return found
