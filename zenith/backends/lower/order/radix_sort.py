"""Radix sort: the elements of a row move to where their lowest bytes belong, then the next ones, up to the top.

Each step is stable, so that the last one leaves the row sorted, and equal elements in their first order
(H. H. Seward, "Information sorting in the application of electronic digital computers to business operations", MIT,
1954). Its time depends on the size alone, there is no branch on elements, and a step reads and writes memory in order,
but for 256 streams. Elements of 8 and 16 bits are sorted so, and very long rows; networks sort others
(:mod:`zenith.backends.lower.order.row_network`). A row that fits a core's cache is a task; the elements of short ones
are ranked instead, since clearing 256 counters takes longer; a thread of a GPU merges runs. Longer rows are split
(:mod:`zenith.backends.lower.order.split_radix_sort`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from zenith.backends.expressions import Apply, Expr, Load, Position
from zenith.backends.kernel import Buffer, Kernel, Let, Scratch, Store, UserCode
from zenith.backends.lower.elements import ElementBuilder, decode
from zenith.backends.lower.loops import loop, task_loop
from zenith.backends.lower.nest import KernelInterface, bind
from zenith.backends.lower.order.sorting import Sorting
from zenith.backends.lower.order.written import indented, written
from zenith.ir.dims import Dim, symbol
from zenith.ir.graph import Graph
from zenith.ir.ops.sort import OPERATIONS
from zenith.ir.types import BY_NAME, DType, int64

DIGITS = 256  # values of a digit
SHORT = 128  # elements of rows that are ranked: a whole number of LANES
LANES = 16  # elements that are compared at once
SPLIT = 1 << 15  # elements of rows that are one task, or of a split: with their copy they fit a core's cache

# A run [start, middle) and its neighbour [middle, stop) become one. An element of the neighbour goes first only if
# it must: so the merge is stable.
MERGES = """\
width = 1
while width < count:
    start = 0
    while start < count:
        middle = start + width if start + width < count else count
        stop = middle + width if middle + width < count else count
        i = start
        j = middle
        for k in range(start, stop):
            left = keys[source + where(i < middle, i, start)]
            right = keys[source + where(j < stop, j, start)]
            later = (j < stop) & ((i >= middle) | BEFORE)
            chosen = where(later, j, i)
            keys[target + k] = keys[source + chosen]
            indices[target + k] = indices[source + chosen]
            i = where(later, i, i + 1)
            j = where(later, j + 1, j)
        start = stop
    swapped = source
    source = target
    target = swapped
    width = 2 * width"""
# An element's rank is how many precede it: all are compared with it, a vector at a time.
RANKS = """\
padded = LANES * ((count + LANES - 1) // LANES)
for i in range(0, count):
    words[i] = WORD(keys[source + i])
for i in range(count, padded):
    words[i] = LAST
for i in range(0, count):
    word = words[i]
    rank = i32(0)
    for j in range(0, padded):
        other = words[j]
        earlier = (other < word) | ((other == word) & (i32(j) < i32(i)))
        rank = i32(rank + where(earlier, i32(1), i32(0)))
    keys[target + rank] = keys[source + i]
    indices[target + rank] = indices[source + i]
swapped = source
source = target
target = swapped"""
# A digit that is the same everywhere moves nothing.
MOVES = """\
for step in range(0, STEPS):
    for d in range(0, DIGITS):
        counts[d] = 0
    for i in range(0, count):
        d = DIGIT(keys[source + i], step)
        counts[d] = counts[d] + 1
    before = 0
    most = 0
    for d in range(0, DIGITS):
        own = counts[d]
        counts[d] = before
        before = before + own
        most = max(most, own)
    if most < count:
        for i in range(0, count):
            key = keys[source + i]
            d = DIGIT(key, step)
            at = counts[d]
            counts[d] = at + 1
            keys[target + at] = key
            indices[target + at] = indices[source + i]
        swapped = source
        source = target
        target = swapped"""


class RadixSorting(Sorting):
    """A sort by digits; ``keys`` and ``indices`` have two halves: a step reads one, writes the other."""

    def __init__(self, body: Graph, face: KernelInterface | None = None) -> None:
        super().__init__(body, face)
        self.steps = self.x.dtype.itemsize
        fresh, length = self.face.builder().fresh, 2 * self.size * self.rows
        self.keys = Buffer(fresh("keys"), self.key, length, "temporary")
        self.indices = Buffer(fresh("indices"), int64, length, "temporary") if self.output(1) else None

    @property
    def word(self) -> DType:
        """The type of the integers that order as elements do."""
        return BY_NAME[f"u{8 * self.key.itemsize}"]

    @property
    def moved(self) -> tuple[Buffer, ...]:
        """The buffers whose elements move."""
        return (self.keys,) if self.indices is None else (self.keys, self.indices)

    def builder(self, others: Collection[str] = ()) -> ElementBuilder:
        """A builder in which the names of these buffers, too, are taken."""
        return super().builder((*others, *(b.name for b in self.moved)))

    def load(self, e: ElementBuilder, row: Dim, i: Dim, at: Dim) -> None:
        """Copy element ``i`` of a row, and its index, to position ``at``."""
        element = e.element(self.x, (*decode(row, self.x.shape[:-1]), i))
        e.append(Store(self.keys.name, at, Apply("x", (element,), self.keys.dtype)))
        if self.indices is not None:
            e.append(Store(self.indices.name, at, Position(i)))

    def result(self, at: Dim) -> Expr:
        """A sorted element at a position, in the type of the result."""
        key = Load(self.keys.name, at, self.keys.dtype)
        return key if key.dtype == self.x.dtype else Apply("x", (key,), self.x.dtype)

    def source(self, text: str, names: Mapping[str, str]) -> UserCode:
        """Written statements with this kernel's names; those that move indices only where the sort has these."""
        names = {**names, "keys": self.keys.name, "indices": self.indices.name if self.indices else ""}
        if self.indices is None:
            text = "\n".join(line for line in text.splitlines() if "indices[" not in line)
        word, digit = self.word.name, rf"(digit(\1) ^ {DIGITS - 1})" if self.descending else r"digit(\1)"
        text = re.sub(r"DIGIT\(([^()]*)\)", digit, text.replace("BEFORE", before(self.x.dtype, self.descending)))
        text = re.sub(r"WORD\(([^()]*)\)", rf"{word}(~ordered(\1))" if self.descending else r"ordered(\1)", text)
        numbers = {
            "DIGITS": DIGITS,
            "STEPS": self.steps,
            "LANES": LANES,
            "LAST": f"{word}({2 ** (8 * self.word.itemsize) - 1})",
        }
        text = re.sub(r"\b(DIGITS|STEPS|LANES|LAST)\b", lambda found: str(numbers[found.group()]), text)
        return written(text, names)


def before(dtype: DType, descending: bool) -> str:
    """The condition that ``right`` must precede ``left``; nan is the largest."""
    left, right = ("right", "left") if descending else ("left", "right")
    return f"(({right} < {left}) | (({left} != {left}) & ({right} == {right})))" if dtype.is_float else (
        f"({right} < {left})")  # fmt: skip


_WORDS = ("width", "start", "middle", "stop", "i", "j", "k", "left", "right", "later", "chosen", "swapped", "count",
          "source", "target", "step", "d", "at", "key", "own", "before", "most", "word", "other", "rank", "earlier",
          "padded")  # fmt: skip


def sort_rows(s: RadixSorting, wanted: Dim, text: str) -> Kernel:
    """The kernel whose tasks are rows, where ``wanted`` is 1; none where it is 0."""
    e = s.builder()
    names = {word: e.fresh(word) for word in (*_WORDS, "counts", "words")}
    with task_loop(e, s.rows * wanted, "row") as row:
        base = bind(e, "base", row * s.size * 2)
        with loop(e, "at", 0, s.size, lanes=True) as i:
            s.load(e, row, i, base + i)
        for word, at in {"count": s.size, "source": base, "target": base + s.size}.items():
            e.append(Let(names[word], Position(at)))
        e.append(s.source(text, names))
        _copy_results(s, e, row * s.size, symbol(names["source"]))
    scratch = (("counts", int64, DIGITS), ("words", s.word, -(-SHORT // LANES) * LANES))
    own = tuple(Scratch(names[name], dtype, length) for name, dtype, length in scratch if f"{name}[" in text)
    body = (*own, *e.close())
    cost = s.size * (s.steps * OPERATIONS)
    return Kernel("kernel", s.face.doc(), (*s.face.buffers, *s.moved), s.face.symbols, s.rows * wanted, cost, body,
                  operations=s.operations * wanted)  # fmt: skip


def by_length(size: int | None) -> str:
    """How a row is sorted; where its length is not known, the kernel asks."""
    if size is not None:
        return RANKS if size <= SHORT else MOVES
    return f"if count <= {SHORT}:\n{indented(RANKS)}\nelse:\n{indented(MOVES)}"


def _copy_results(s: RadixSorting, e: ElementBuilder, first: Dim, source: Dim) -> None:
    """Copy a sorted row, which begins at ``source``, to the results from ``first`` on."""
    values, indices = s.output(0), s.output(1)
    with loop(e, "iteration", 0, s.size, lanes=True) as k:
        if values is not None:
            e.append(Store(values, first + k, s.result(source + k)))
        if indices is not None and s.indices is not None:
            e.append(Store(indices, first + k, Load(s.indices.name, source + k, int64)))
