"""A stable sort of a tile by one digit, by a block of threads in shared memory.

Two passes, for the lower half of the digit and for the upper one. Each thread counts some neighbouring items in a
histogram of its own, so nobody waits; an exclusive scan of the histograms runs in the order of digits and of threads,
and each thread scatters its items one after the other (after D. Merrill and A. Grimshaw, "High performance and scalable
radix sorting", Parallel Processing Letters 21(2), 2011). All steps are loops of lanes over shared memory, which any
number of threads may share.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from zenith.backends.expressions import Apply, Expr, Load, Name, Number, Position
from zenith.backends.kernel import Buffer, Let, Scratch, Store
from zenith.backends.lower.elements import ElementBuilder
from zenith.backends.lower.loops import fold, loop
from zenith.ir.dims import Dim, DimLike, dim, symbol
from zenith.ir.types import DType, bool_, int32, int64

SIDE = 16  # values of half a digit; also how many numbers a thread adds up
VALUES = SIDE * SIDE  # of a digit
THREADS = SIDE * SIDE  # with a histogram each
LINE = SIDE + 1  # words of shared memory from one thread's counts to the next one's: they meet different banks
HIGH = 16  # the bit from which on an item has its digit; below is its index in the tile


class OrderWriter:
    """Writes statements of a block's task; ``scratch`` is the shared memory, declared in front of the task."""

    def __init__(self, e: ElementBuilder) -> None:
        self.e = e
        self.scratch: list[Scratch] = []

    def shared(self, stem: str, length: int, dtype: DType = int32) -> Buffer:
        """Shared memory of the block: ``length`` elements."""
        name = self.e.fresh(stem)
        self.scratch.append(Scratch(name, dtype, length))
        return Buffer(name, dtype, dim(length), "temporary")

    def put(self, value: Expr) -> Dim:
        """Bind an integer here, as an index: a load from memory that changes must not move."""
        name = self.e.fresh("v")
        self.e.append(Let(name, value))
        self.e.level_of[name] = len(self.e.levels) - 1
        return symbol(name)

    def load(self, buffer: Buffer, at: DimLike) -> Dim:
        """Load an integer of a buffer as an index."""
        return self.put(Load(buffer.name, dim(at), buffer.dtype))

    def element(self, buffer: Buffer, at: DimLike) -> Name:
        """Load an integer of a buffer as a number."""
        return Name(str(self.load(buffer, at)), buffer.dtype)

    def store(self, buffer: Buffer, at: DimLike, value: DimLike) -> None:
        """Write an integer."""
        here = Position(dim(value))
        self.e.append(Store(buffer.name, dim(at), here if buffer.dtype == int64 else Apply("x", (here,), buffer.dtype)))

    def below(self, x: DimLike, y: DimLike) -> Expr:
        """Whether an index is below another."""
        return Apply("x < y", (Position(dim(x)), Position(dim(y))), bool_)

    def where(self, condition: Expr, x: Expr, y: Expr | None = None) -> Name:
        """``x`` where the condition holds, else ``y``, which is 0 by default."""
        value = Apply("where(x, y, z)", (condition, x, y or Number(0, x.dtype)), x.dtype)
        return Name(str(self.put(value)), x.dtype)

    def choice(self, condition: Expr, x: DimLike, y: DimLike) -> Dim:
        """The same for indices."""
        return symbol(self.where(condition, Position(dim(x)), Position(dim(y))).name)

    def loop(self, stop: DimLike, start: DimLike = 0, lanes: bool = True) -> AbstractContextManager[Dim]:
        """A loop around the statements that are written meanwhile."""
        return loop(self.e, "i", start, stop, lanes)

    def total(self, stop: DimLike, term: Callable[[Dim], Expr], combine: str = "x + y") -> Name:
        """A fold from 0 on, by default the sum, of a term for each number below ``stop``."""
        return fold(self.e, ("j", "total"), stop, 0, combine, term)


class ExclusiveScan(OrderWriter):
    """An exclusive scan of VALUES numbers: ``begins`` has for each of ``sums`` the sum of all before it."""

    def __init__(self, e: ElementBuilder, dtype: DType) -> None:
        super().__init__(e)
        self.sums, self.begins = self.shared("sums", VALUES, dtype), self.shared("begins", VALUES, dtype)
        self.groups = self.shared("groups", SIDE, dtype)

    def scan(self) -> None:
        """Compute ``begins`` from ``sums``."""
        with self.loop(SIDE) as group:
            total = self.total(SIDE, lambda j: self.element(self.sums, group * SIDE + j))
            self.e.append(Store(self.groups.name, group, total))
        with self.loop(VALUES) as i:
            group, own = self.put(Position(i // SIDE)), self.put(Position(i % SIDE))
            before = self.total(SIDE, lambda j: self.where(self.below(j, group), self.element(self.groups, j)))
            inside = self.total(
                SIDE, lambda j: self.where(self.below(j, own), self.element(self.sums, group * SIDE + j))
            )
            self.e.append(Store(self.begins.name, i, Apply("x + y", (before, inside), before.dtype)))


class TileOrder(ExclusiveScan):
    """Sorts the items of a tile, each a digit and an index in the tile, by their digits.

    A tile has ``each`` items for each of its threads, in any order.
    """

    def __init__(self, e: ElementBuilder, each: int) -> None:
        super().__init__(e, int32)
        self.each, self.tile = each, each * THREADS
        self.items = self.shared("items", 2 * self.tile)  # and room for as many
        self.counted = self.shared("counted", LINE * THREADS)

    def index(self, at: DimLike) -> Dim:
        """The index in the tile of an item."""
        item = self.element(self.items, at)
        return self.put(Apply("x & y", (item, Number((1 << HIGH) - 1, int32)), int32))

    def digit(self, at: DimLike) -> Dim:
        """The digit of an item."""
        return self.put(Apply("shift_right(x, y)", (self.element(self.items, at), Number(HIGH, int32)), int32))

    def set_item(self, at: DimLike, index: Dim, digit: DimLike) -> None:
        """Store an item: an index in the tile and a digit."""
        self.store(self.items, at, index + dim(digit) * (1 << HIGH))

    def sort(self) -> None:
        """Sort the items by the lower halves of their digits, then by the upper ones."""
        with self.loop(2, lanes=False) as half:
            source = self.put(Position(half * self.tile))
            self._count(source, half)
            self._begin()
            self._move(source, half)

    def _count(self, source: Dim, half: Dim) -> None:
        """The histogram of half digits of each thread."""
        with self.loop(LINE * THREADS) as i:
            self.store(self.counted, i, 0)
        with self.loop(THREADS) as t, self.loop(self.each, lanes=False) as j:
            slot = self._slot(self.element(self.items, source + t * self.each + j), t, half)
            self.store(self.counted, slot, self.load(self.counted, slot) + 1)

    def _begin(self) -> None:
        """Scan the histograms: where the items of each half digit and thread begin."""
        with self.loop(THREADS) as t:
            total = self.total(SIDE, lambda j: self.element(self.counted, t * LINE + j))
            self.e.append(Store(self.sums.name, t, total))
        self.scan()
        with self.loop(THREADS) as t, self.loop(SIDE, lanes=False) as j:
            count, begin = self.load(self.counted, t * LINE + j), self.load(self.begins, t)
            self.store(self.counted, t * LINE + j, begin)
            self.store(self.begins, t, begin + count)

    def _move(self, source: Dim, half: Dim) -> None:
        """Each thread scatters its items one after the other."""
        with self.loop(THREADS) as t, self.loop(self.each, lanes=False) as j:
            item = self.element(self.items, source + t * self.each + j)
            slot = self._slot(item, t, half)
            at = self.load(self.counted, slot)
            self.store(self.counted, slot, at + 1)
            self.e.append(Store(self.items.name, self.tile - source + at, item))

    def _slot(self, item: Expr, t: Dim, half: Dim) -> Dim:
        """Where a thread counts the half digit of an item."""
        by = Apply("x", (Position(half * (SIDE.bit_length() - 1) + HIGH),), int32)
        digit = self.put(Apply(f"shift_right(x, y) & {SIDE - 1}", (item, by), int32))
        number = digit * THREADS + t
        return self.put(Position(number + number // SIDE))
