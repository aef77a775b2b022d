"""Actions: the host's work for the steps of a plan, each a function of the stream.

Launches in a row are one action. Loops and branches are run by the host: a counted loop never waits for the device; a
loop with a condition and a branch read a few bytes back, which waits for the stream. Calls of routines on the host copy
their arguments to the host and their results to the device; those of a library on the device get addresses and the
stream, or arrays of CuPy (:mod:`zenith.backends.cuda.cupy_calls`).
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith.backends.cuda.device_memory import DeviceArray
from zenith.backends.cuda.driver import Driver, Pinned
from zenith.backends.routines import Ready
from zenith.backends.steps import BranchStep, CallStep, LoopStep
from zenith.errors import ZenithError

Action = Callable[[int], None]
Row = tuple[int, int, int, int, int]  # function, blocks, threads, bytes of shared memory, address of the parameters
Move = tuple[int, int, int]  # a word, the word whose address it takes, and an offset in bytes


class Launches:
    """Kernels one after the other; ``rows`` point to parameters, in which each call writes its addresses."""

    def __init__(self, driver: Driver, rows: Sequence[Row]) -> None:
        self.rows, self._launch = tuple(rows), driver.launch

    def __call__(self, stream: int) -> None:
        launch = self._launch
        for function, blocks, threads, shared, parameters in self.rows:
            launch(function, blocks, 1, 1, threads, 1, 1, shared, stream, parameters, 0)


@dataclass(frozen=True)
class HostFrame:
    """The words of one frame, which are addresses, and the host's access to the memory at these."""

    driver: Driver
    values: Any  # a ctypes array
    pinned: Pinned  # some bytes for numbers that are read back

    def move(self, moves: Iterator[Move]) -> None:
        """Give words the addresses of others, at an offset."""
        values = self.values
        for word, source, offset in moves:
            values[word] = values[source] + offset

    def read(self, word: int, kind: Any, stream: int) -> Any:
        """The one number at the address in a word; waits for the stream."""
        self.driver.copy(self.pinned.address, self.values[word], ctypes.sizeof(kind), stream)
        self.driver.synchronize(stream)
        return kind.from_address(self.pinned.address).value

    def to_host(self, word: int, array: Any, stream: int) -> None:
        """Copy from the address in a word."""
        if array.nbytes:
            self.driver.copy(array.ctypes.data, self.values[word], array.nbytes, stream)

    def to_device(self, word: int, array: Any, stream: int) -> None:
        """Copy to the address in a word."""
        if array.nbytes:
            self.driver.copy(self.values[word], array.ctypes.data, array.nbytes, stream)


class LibraryCall:
    """A call of a routine on the device, which takes the addresses in the words of its operands when it is called."""

    def __init__(self, words: HostFrame, step: CallStep, operands: Sequence[int], run: Ready) -> None:
        self.words, self.step, self.operands, self.run = words, step, tuple(operands), run

    def __call__(self, stream: int) -> None:
        values = self.words.values
        self.run([values[word] for word in self.operands], stream)


class HostCallAction:
    """A call of a routine on the host, with copies of arrays."""

    def __init__(
        self, words: HostFrame, step: CallStep, operands: Sequence[int], shapes: Sequence[tuple[int, ...]]
    ) -> None:
        self.words, self.step, self.operands, self.shapes = words, step, operands, shapes

    def __call__(self, stream: int) -> None:
        types = self.step.types
        arrays = [np.empty(shape, type.dtype.numpy) for shape, type in zip(self.shapes, types, strict=True)]
        first = len(arrays) - self.step.results
        for word, array in zip(self.operands[:first], arrays[:first], strict=True):
            self.words.to_host(word, array, stream)
        self.words.driver.synchronize(stream)
        self.step(arrays)
        for word, array in zip(self.operands[first:], arrays[first:], strict=True):
            self.words.to_device(word, array, stream)
        self.words.driver.synchronize(stream)  # before the arrays on the host are gone


class OutsideCall:
    """A call of a function from outside on arrays of the device, in the order of the stream."""

    def __init__(
        self, words: HostFrame, step: CallStep, operands: Sequence[int], shapes: Sequence[tuple[int, ...]]
    ) -> None:
        self.words, self.step, self.operands, self.shapes = words, step, operands, shapes

    def __call__(self, stream: int) -> None:
        step, values = self.step, self.words.values
        assert step.routine.on_gpu is not None
        arrays = [
            DeviceArray(values[word], shape, type.dtype.numpy, None)
            for word, shape, type in zip(self.operands, self.shapes, step.types, strict=True)
        ]
        first = len(arrays) - step.results
        try:
            step.routine.on_gpu(arrays[:first], arrays[first:], self.words.driver.device(), stream)
        except ZenithError as error:
            raise error.at(next(iter(step.lines), None)) from None


@dataclass(frozen=True)
class Carried:
    """The words of a loop's carried value, and its bytes."""

    current: int
    following: int
    start: int
    result: int
    other: int
    length: int


@dataclass(frozen=True)
class Sliced:
    """The words of a slice and of the whole array, and the bytes of a slice."""

    slice: int
    whole: int
    length: int


class HostLoop:
    """A loop that the host counts, or repeats as long as a condition on the device is true."""

    def __init__(
        self,
        words: HostFrame,
        loop: LoopStep[Any, Any],
        count: int | None,
        carried: Sequence[Carried],
        sliced: Sequence[Sliced],
        flag: int | None,
        condition: Sequence[Action],
        steps: Sequence[Action],
    ) -> None:
        self.words, self.loop, self.count = words, loop, count
        self.carried, self.sliced, self.flag, self.condition, self.steps = carried, sliced, flag, condition, steps

    def __call__(self, stream: int) -> None:
        for number in itertools.count():
            self.words.move(self.carries_at(number))
            if number == self.count or not self._continues(stream):
                break
            self.words.move(self.slices_at(number))
            for step in self.steps:
                step(stream)
        for to, source, length in self.last_copies():
            self.words.driver.copy(self.words.values[to], self.words.values[source], length, stream)

    def carries_at(self, number: int) -> Iterator[Move]:
        """The addresses at which an iteration reads and writes carried values; after the last, those of results."""
        for carry in self.carried:
            last, following = (carry.other, carry.result) if number % 2 == 0 else (carry.result, carry.other)
            yield carry.current, last if number else carry.start, 0
            yield carry.following, following, 0

    def slices_at(self, number: int) -> Iterator[Move]:
        """The slices of arrays that an iteration reads and writes."""
        at = self.count - 1 - number if self.loop.reverse and self.count is not None else number
        for sliced in self.sliced:
            yield sliced.slice, sliced.whole, at * sliced.length

    def last_copies(self) -> list[tuple[int, int, int]]:
        """The words (to, source) and bytes of the copies that write the last carried values to their results."""
        values = self.words.values
        return [
            (c.result, c.current, c.length) for c in self.carried if c.length and values[c.current] != values[c.result]
        ]

    def _continues(self, stream: int) -> bool:
        for step in self.condition:
            step(stream)
        return self.flag is None or bool(self.words.read(self.flag, ctypes.c_uint8, stream))


class HostBranch:
    """One of several lists of actions, by an index on the device."""

    def __init__(
        self, words: HostFrame, step: BranchStep[Any], index: int, branches: Sequence[Sequence[Action]]
    ) -> None:
        self.words, self.step, self.index, self.branches = words, step, index, branches

    def __call__(self, stream: int) -> None:
        index = self.words.read(self.index, ctypes.c_int32, stream)
        for action in self.branches[min(max(index, 0), len(self.branches) - 1)]:
            action(stream)
