"""A sorting network for many short rows: a vector has an element of each.

A task takes as many rows as a cache line has elements, and sorts them at once: a comparator is a minimum and a maximum
of two vectors, without a branch, and comparators do not depend on elements. Runs of eight are sorted in registers, then
merged two by two by a bitonic network whose first level compares a run with the mirror image of its neighbour, so that
a row's end may be missing (Batcher, "Sorting networks and their applications", AFIPS 1968); three levels of a merge are
computed for each load and store.
"""

from __future__ import annotations

from collections.abc import Iterator

from zenith.backends.expressions import Load
from zenith.backends.kernel import Kernel, Store
from zenith.backends.lower.loops import loop, task_loop
from zenith.backends.lower.nest import bind
from zenith.backends.lower.order.network import COLUMNS, NetworkWriter, Words, fits_in_words
from zenith.backends.lower.order.sorting import Sorting, one_if_above
from zenith.backends.lower.order.written import indented, let
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, dim, minimum

MOST = 1 << 11  # elements of a row, a power of two: the vectors of some are in the second level of the cache at most
NEAR = 1 << 8  # elements that are sorted first: their vectors are in the first level
FEW = 3  # rows that are sorted one by one: most of a vector would have none
MANY = 64  # longer rows than NEAR of which more are a few percent faster in batches, if these leave no thread waiting
COST = 16  # operations of an element, about
_NAMES = ("base", "count", "first", "high", "i", "is_part", "levels", "low", "most", "near", "padded", "part",
          "square", "step", "unit", "width", "words")  # fmt: skip

NETWORK = f"""\
padded = 8
while padded < count:
    padded = 2 * padded
for i in range(LANES * count, LANES * padded):
    words[i] = WORD(LAST)
sort_words(LANES, words, 0, (count + 7) // 8)
near = (count + NEAR - 1) // NEAR
for part in range(0, near + 1):
    is_part = part < near
    low = NEAR * part if is_part else i64(0)
    high = min(low + NEAR, count) if is_part else count
    width = i64(16) if is_part else i64(2 * NEAR)
    levels = 4 if is_part else LEVELS + 1
    most = min(i64(NEAR), padded) if is_part else padded
{indented(COLUMNS)}"""


def wants_batches(s: Sorting) -> Dim:
    """1 where rows are short and many enough, else 0; and 0 where words have no room for indices."""
    if not fits_in_words(s):
        return dim(0)
    long = one_if_above(s.size, NEAR)
    enough = one_if_above(s.rows, FEW) * (1 - long) + one_if_above(s.rows, MANY) * long
    return (1 - one_if_above(s.size, MOST)) * enough


def sort_batches(s: Sorting, wanted: Dim) -> Kernel:
    """The kernel whose tasks are batches of rows, where ``wanted`` is 1; none where it is 0."""
    e = s.builder()
    words, names = Words.of(s, MOST), {name: e.fresh(name) for name in _NAMES}
    batch = _Batch(s, e, words, names)
    tasks = quotient_up(s.rows, words.lanes) * wanted
    with task_loop(e, tasks, "batch") as number:
        begin = bind(e, "begin", number * words.lanes)
        live = bind(e, "live", minimum(s.rows - begin, words.lanes))
        let(e, names, count=s.size)
        batch.load(begin, live)
        batch.append(NETWORK, NEAR=NEAR, LEVELS=NEAR.bit_length() - 1)
        batch.store(begin, live)
    longest = max(8, words.lanes, 1 << (min(s.size.static or MOST, MOST) - 1).bit_length())
    own = (batch.scratch("words", words.lanes * longest), batch.scratch("square", words.lanes**2))
    return Kernel("kernel", s.face.doc(), s.face.buffers, s.face.symbols, tasks, s.size * (words.lanes * COST),
                  (*own, *e.close()), operations=s.operations * wanted)  # fmt: skip


class _Batch(NetworkWriter):
    """Moves rows into lanes and back, by squares of as many of their elements as there are lanes."""

    __slots__ = ()

    def load(self, begin: Dim, live: Dim) -> None:
        """Elements of ``live`` rows become words of as many lanes."""
        e, lanes, square, words = self.e, self.words.lanes, self.names["square"], self.names["words"]
        for first, length in self._squares():
            with loop(e, "lane", 0, live) as lane:
                row = bind(e, "row", begin + lane)
                with loop(e, "at", 0, length) as at:
                    e.append(Store(square, lane * lanes + at, self.element(row, first + at)))
            self.append(f"transpose_words(LANES, square, 0, words, {first})")
        # A loop of its own computes vectors, also where elements of a row are far apart.
        with loop(e, "i", 0, self.s.size * lanes, lanes=True) as i:
            bits = e.let(Load(words, i, self.words.word))
            e.append(Store(words, i, self.words.encode(e, bits, i // lanes)))

    def store(self, begin: Dim, live: Dim) -> None:
        """Words become elements again."""
        e, s = self.e, self.s
        for first, length in self._squares():
            self.append(f"transpose_words(LANES, words, {first}, square, 0)")
            with loop(e, "lane", 0, live) as lane:
                row = bind(e, "row", begin + lane)
                with loop(e, "at", 0, length) as at:
                    word = Load(self.names["square"], lane * self.words.lanes + at, self.words.word)
                    self.words.store(s, e, row, first + at, word)

    def _squares(self) -> Iterator[tuple[Dim, Dim]]:
        """Loops over the squares: their first position, and how many of their positions are in rows."""
        size, lanes = self.s.size, self.words.lanes
        whole = size // lanes
        for start, stop in ((dim(0), whole), (whole, quotient_up(size, lanes))):
            if stop - start != 0:
                with loop(self.e, "number", start, stop) as number:
                    first = bind(self.e, "position", number * lanes)
                    yield first, dim(lanes) if start == 0 and whole != 0 else size - first
