"""A sorting network for a long row: its elements fill the lanes of vectors, in whatever order they come.

A block is ``rows`` vectors, a power of two. First each lane of a block is sorted, and all lanes at once, as those of
many short rows are. Then neighbouring lanes are merged, then pairs of lanes, up to the whole block, which then ascends
down its first lane, then down the next one; then blocks, up to the row. A bitonic merge compares elements
whose distance halves from level to level (Batcher, "Sorting networks and their applications", AFIPS 1968). So it
compares vectors of several blocks, then lanes of a vector, then vectors of a block. Which are compared does not depend
on elements. There are about log2(n)^2 / 2 levels, each of a fraction of a cycle for an element.
"""

from __future__ import annotations

from zenith.backends.expressions import Load
from zenith.backends.kernel import Kernel, Store
from zenith.backends.lower.elements import ElementBuilder
from zenith.backends.lower.loops import Span, loop, task_loop
from zenith.backends.lower.nest import bind
from zenith.backends.lower.order.network import (
    BITONIC,
    COLUMNS,
    DESCENT,
    NetworkWriter,
    Words,
    ascending,
    fits_in_words,
)
from zenith.backends.lower.order.sorting import Sorting
from zenith.backends.lower.order.written import indented, let
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, DimLike, dim, maximum, minimum, symbol

MOST = 1 << 14  # elements of a row that is a task, a power of two
FEW = 64  # vectors of a block of short rows, of which little is left empty
ROWS = 256  # vectors of a block of longer ones: a block is in the first level of the cache
BLOCKS = 4  # so many blocks are worth being large
COST = 64  # operations of an element, about
_NAMES = ("across", "base", "begin", "blocks", "count", "depth", "end", "first", "full", "group", "high", "i",
          "is_part", "levels", "low", "many", "most", "origin", "part", "rows", "span", "square", "step", "unit",
          "width", "words")  # fmt: skip

# Blocks as short as the row, or as many as leave little of the last one empty.
BLOCKS_OF_ROW = """\
rows = i64(LEAST)
depth = DEPTH
while (rows < FEW) & (LANES * rows < count):
    rows = 2 * rows
    depth = depth + 1
while (rows < ROWS) & (BLOCKS * LANES * ROWS <= count):
    rows = 2 * rows
    depth = depth + 1
blocks = (count + LANES * rows - 1) // (LANES * rows)
full = 1
while full < blocks:
    full = 2 * full
for i in range(count, LANES * rows * full):
    words[i] = WORD(LAST)"""
# The first levels of a merge of two groups of lanes: two vectors of a block are equally far from its ends.
LANES_OF_GROUP = """\
elif group == COUNT:
    merge_lanes(LANES, COUNT, 1, words, low, high - 1, rows // 2)"""
# All of the first levels: of lanes where ``group`` is in a block, else of vectors of blocks.
MERGE = f"""\
if group > LANES:
    unit = rows
    levels = across
    width = group // LANES * rows
{indented(ascending(2))}
{indented(DESCENT)}
    across = across + 1
GROUPS"""
# The other levels, in each block, of which all vectors are in the first level of the cache.
FINISH = f"""\
if group > LANES:
    merge_lanes(LANES, LANES, 0, words, begin, begin + rows // 2, rows // 2)
unit = i64(1)
levels = depth
span = rows
{BITONIC.replace("low, high", "begin, begin + rows")}"""
NETWORK = f"""\
across = 1
for part in range(0, blocks + 1):
    is_part = part < blocks
    low = origin + part * rows if is_part else origin
    high = low + rows if is_part else origin + blocks * rows
    group = i64(2) if is_part else i64(2 * LANES)
    end = i64(LANES) if is_part else LANES * full
    if is_part:
        sort_words(LANES, words, low, rows // 8)
        width = i64(16)
        levels = 4
        most = rows
{indented(COLUMNS, 2)}
    while group <= end:
{indented(MERGE, 2)}
        for begin in range(low, high, rows):
{indented(FINISH, 3)}
        group = 2 * group"""


def accepts(s: Sorting) -> bool:
    """Whether a row is sorted so: smaller elements have few digits."""
    return fits_in_words(s) and s.key.itemsize >= 4


def sort_in_lanes(s: Sorting, wanted: Dim, longest: int) -> Kernel:
    """The kernel whose tasks are rows of so many elements at most, where ``wanted`` is 1; none where it is 0."""
    e = s.builder()
    network = RowNetwork.of(s, e, MOST)
    least = max(8, network.words.lanes)
    numbers = {"LEAST": least, "DEPTH": least.bit_length() - 1, "FEW": FEW, "ROWS": ROWS, "BLOCKS": BLOCKS}
    with task_loop(e, s.rows * wanted, "row") as row:
        let(e, network.names, count=s.size, origin=0)
        network.load(row, Span(dim(0), s.size))
        network.append(BLOCKS_OF_ROW, **numbers)
        network.sort()
        network.store(row, Span(dim(0), s.size), symbol(network.names["rows"]))
    length = max(least * network.words.lanes, 1 << (min(s.size.static or longest, longest) - 1).bit_length())
    own = (network.scratch("words", length), network.scratch("square", network.words.lanes**2))
    return Kernel("kernel", s.face.doc(), s.face.buffers, s.face.symbols, s.rows * wanted, s.size * COST,
                  (*own, *e.close()), operations=s.operations * wanted)  # fmt: skip


class RowNetwork(NetworkWriter):
    """Writes what sorts elements of a row, ``origin`` being the number of their first vector in ``words``."""

    __slots__ = ()

    @staticmethod
    def of(s: Sorting, e: ElementBuilder, most: int, **names: str) -> RowNetwork:
        """With names in written statements, of which some may be given."""
        return RowNetwork(s, e, Words.of(s, most), {name: names.get(name) or e.fresh(name) for name in _NAMES})

    def load(self, row: Dim, own: Span) -> None:
        """Elements of a row become words, one after the other."""
        e, first = self.e, symbol(self.names["origin"]) * self.words.lanes
        with loop(e, "at", 0, own.count, lanes=True) as i:
            at = bind(e, "position", own.first + i)
            bits = e.let(self.element(row, at))
            e.append(Store(self.names["words"], first + i, self.words.encode(e, bits, at)))

    def sort(self) -> None:
        """Sort ``blocks`` blocks of ``rows`` vectors, 2**``depth``; ``full`` is a power of two."""
        groups = [LANES_OF_GROUP.replace("COUNT", str(1 << k)) for k in range(1, self.words.lanes.bit_length())]
        self.append(NETWORK.replace(indented("GROUPS", 2), indented("\n".join(groups), 2)))

    def store(self, row: Dim, own: Span, rows: Dim) -> None:
        """Words become elements of the result again: whole blocks, then the rest of the row."""
        block = rows * self.words.lanes
        whole = bind(self.e, "whole", own.count // block)
        self._store_blocks(row, own, rows, (dim(0), whole), None)
        self._store_blocks(row, own, rows, (whole, quotient_up(own.count, block)), own.count)

    def _store_blocks(self, row: Dim, own: Span, rows: Dim, numbers: tuple[Dim, Dim], count: Dim | None) -> None:
        """Blocks with these numbers, by squares whose lanes are pieces of the row; it may end at ``count``."""
        e, lanes = self.e, self.words.lanes
        with loop(e, "block", *numbers) as block, loop(e, "number", 0, rows // lanes) as number:
            vector = bind(e, "vector", symbol(self.names["origin"]) + block * rows + number * lanes)
            self.append(f"transpose_words(LANES, words, {vector}, square, 0)")
            with loop(e, "lane", 0, lanes) as lane:
                first = bind(e, "place", (block * lanes + lane) * rows + number * lanes)
                length: DimLike = lanes if count is None else maximum(0, minimum(lanes, count - first))
                with loop(e, "at", 0, length, lanes=True) as at:
                    word = Load(self.names["square"], lane * lanes + at, self.words.word)
                    self.words.store(self.s, e, row, bind(e, "found", own.first + first + at), word)
