"""Radix selection: the elements at some ranks of a row, as if it were sorted, found without sorting it.

The highest bits of all elements are counted (a histogram): sums of the counts say which digit the element of a rank
has. The candidates, elements with one of these digits, are copied. Those of each rank are then counted by their next
bits, until few are left, or equal ones (T. Alabi et al., "Fast k-selection algorithms for graphics processing units",
ACM Journal of Experimental Algorithmics 17, 2012). So elements are read twice, whatever their values. A row is a task;
few long ones are split. Copies keep the order, so that of equal elements, zeros of both signs for instance, the one is
found that a stable sort has at the rank.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from zenith.backends.expressions import Apply, Load
from zenith.backends.kernel import Buffer, Check, Kernel, Let, Scratch, Statement, Store, UserCode
from zenith.backends.lower.elements import ElementBuilder, decode
from zenith.backends.lower.loops import Span, loop, share_of, task_loop
from zenith.backends.lower.nest import KernelInterface, bind, with_used_buffers
from zenith.backends.lower.order.sorting import one_if_above
from zenith.backends.lower.order.written import indented, let, written
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.work import operations_of
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph
from zenith.ir.types import DType, bool_, int32, int64, uint8

LONG = 1 << 17  # elements of rows that are worth more counters than the first level of the cache has
ROWS = 64  # rows that are split at most: more of them keep all threads busy
SPLIT, LARGER = 1 << 15, 8  # elements of a split, and how many times as many of long rows, which have more counters
BITS, MORE = 13, 3  # of the first digit: of all rows, and how many more of long ones
STEP = 11  # bits of the digits that follow
FEW = 32  # candidates that are ranked by comparing all with all
MOST = 16  # splits of a row: each has counters
COST = 8  # operations of an element in a pass, about

CLEAR = """\
for d in range(0, digits):
    counts[first + d] = 0"""
COUNT = """\
d = DIGIT(key)
counts[first + d] = counts[first + d] + 1"""
SUM = """\
for split in range(1, splits):
    for d in range(0, digits):
        counts[first + d] = counts[first + d] + counts[first + split * digits + d]"""
UNMARK = """\
for d in range(0, digits):
    marked[mark + d] = 0"""
# Sums of blocks of counters, then counters, until they exceed the rank.
FIND = """\
before = 0
own = 0
d = 0
while before + own <= rank:
    before = before + own
    own = 0
    for i in range(d, d + 64):
        own = own + i64(COUNTS[i])
    d = d + 64
d = d - 64
own = i64(COUNTS[d])
while before + own <= rank:
    before = before + own
    d = d + 1
    own = i64(COUNTS[d])
rank = rank - before"""
MARK = """\
marked[mark + d] = 1
state[at] = d
state[at + 1] = rank"""
COPY = """\
candidates[at] = key
at = at + i64(marked[mark + DIGIT(key)])"""
NOTE = "found[task] = at - begin"
GATHER = """\
digit = state[at]
rank = state[at + 1]
count = 0
for split in range(0, splits):
    begin = base + split * size // splits
    for i in range(begin, begin + found[task + split]):
        key = candidates[i]
        rest[base + count] = key
        count = count + (1 if DIGIT(key) == digit else 0)"""
REFINE = """\
mask = 0
while (count > FEW) & (shift > 0):
    mask = (1 << min(shift, STEP)) - 1
    shift = max(shift - STEP, 0)
    for d in range(0, 1 << STEP):
        tallies[d] = 0
    for i in range(base, base + count):
        d = DIGIT(rest[i]) & mask
        tallies[d] = tallies[d] + 1
    FIND
    digit = d
    last = base + count
    if own < count:
        count = 0
        for i in range(base, last):
            key = rest[i]
            rest[base + count] = key
            count = count + (1 if DIGIT(key) & mask == digit else 0)"""
# Those that are left are equal, or so few that their ranks are counted.
CHOOSE = """\
at = base + rank
if count <= FEW:
    for i in range(base, base + count):
        word = ordered(rest[i])
        before = 0
        for j in range(base, base + count):
            other = ordered(rest[j])
            before = before + (1 if (other < word) | ((other == word) & (j < i)) else 0)
        at = i if before == rank else at"""
_WORDS = ("at", "base", "before", "begin", "count", "counts", "d", "digit", "digits", "first", "found", "i", "j",
          "key", "last", "mark", "marked", "mask", "other", "own", "rank", "shift", "size", "split", "splits",
          "tallies", "task", "word")  # fmt: skip


def lower_select(body: Graph, face: KernelInterface, wanted: Dim) -> list[Kernel]:
    """The kernels of selection where ``wanted`` is 1, as it is for rows that are split; no tasks where it is 0."""
    x = body.args(body.outputs[0].node)[0]
    few = one_if_above(x.shape[-1], SPLIT) * (1 - one_if_above(product(x.shape[:-1]), ROWS))
    kernels = [_Rows(body, face, wanted, wanted - few).select()] if few != wanted else []
    return kernels + (_Splits(body, face, wanted, few).lower() if few != 0 else [])


class _Selection:
    """Rows whose elements are selected, where ``active`` is 1; where ``wanted`` is, their temporaries have memory."""

    def __init__(self, body: Graph, face: KernelInterface, wanted: Dim, active: Dim) -> None:
        self.body, self.face, self.node = body, face, body.outputs[0].node
        self.x, self.ranks = body.args(self.node)
        self.size, self.many = self.x.shape[-1], self.ranks.shape[0]
        rows = product(self.x.shape[:-1])
        self.rows, self.active = rows * active, active
        self.key = int32 if self.x.dtype == bool_ else self.x.dtype
        self.width = 8 * self.key.itemsize
        self.bits = min(BITS, self.width)
        self.buffers = dict[str, Buffer]()
        self.add("candidates", self.key, rows * self.size * wanted)
        self.add("rest", self.key, rows * self.size * wanted)
        self.add("state", int64, rows * self.many * 2 * wanted)

    def add(self, name: str, dtype: DType, length: Dim) -> None:
        """One more temporary."""
        taken = {b.name for b in self.buffers.values()}
        e = self.face.builder()
        e.taken |= taken
        self.buffers[name] = Buffer(e.fresh(name), dtype, length, "temporary")

    def builder(self) -> tuple[ElementBuilder, dict[str, str]]:
        """A builder in which the names of temporaries are taken, and the names in written statements."""
        e = self.face.builder()
        e.taken |= {b.name for b in self.buffers.values()}
        return e, {word: e.fresh(word) for word in _WORDS} | {word: b.name for word, b in self.buffers.items()}

    def each(self, e: ElementBuilder, names: Mapping[str, str], row: Dim, some: Span, text: str) -> None:
        """A loop of written statements over some elements of a row."""
        with loop(e, "iteration", 0, some.count) as i:
            element = e.element(self.x, (*decode(row, self.x.shape[:-1]), some.first + i))
            e.append(Let(names["key"], Apply("x", (element,), self.key)))
            e.append(self.source(text, names))

    def find(self, e: ElementBuilder, names: Mapping[str, str], row: Dim) -> None:
        """Find the digit of each rank's element in a row, and its rank among the elements with this digit."""
        with loop(e, "number", 0, self.many) as number:
            rank = checked_rank(self.body, e, number)
            let(e, names, rank=rank, at=(row * self.many + number) * 2)
            e.append(self.source(f"{_find('counts', 'first + ')}\n{MARK}", names))

    def choose(self, e: ElementBuilder, names: Mapping[str, str], row: Dim, shift: Dim) -> None:
        """Choose each rank's element in a row among the candidates with its digit."""
        (out,) = self.face.outputs
        with loop(e, "number", 0, self.many) as number:
            result = row * self.many + number
            let(e, names, shift=shift, at=result * 2)
            for text in (GATHER, REFINE, CHOOSE):
                e.append(self.source(text, names))
            found = Load(self.buffers["rest"].name, symbol(names["at"]), self.key)
            e.append(Store(out, result, Apply("x", (found,), self.x.dtype)))

    def source(self, text: str, names: Mapping[str, str]) -> UserCode:
        """Written statements with this kernel's names."""
        text = re.sub(r"( *)FIND", lambda found: indented(_find("tallies", ""), len(found[1]) // 4), text)
        text = re.sub(r"DIGIT\(([^()]*)\)", rf"i64(ordered(\1) >> u{self.width}(shift))", text)
        text = re.sub(r"\b(STEP|FEW)\b", lambda found: str({"STEP": STEP, "FEW": FEW}[found[1]]), text)
        return written(text, names)

    @property
    def operations(self) -> Dim:
        """Those of all elements, which the first kernel counts as its own."""
        return operations_of(self.body, [number for number, _ in self.body.nodes()])

    def kernel(self, body: tuple[Statement, ...], tasks: Dim, cost: Dim, operations: Dim) -> Kernel:
        """A kernel on the buffers that it uses."""
        face, buffers = self.face, (*self.face.buffers, *self.buffers.values())
        made = Kernel("kernel", face.doc(), buffers, face.symbols, tasks, cost, body, operations=operations)
        return with_used_buffers(made)


class _Rows(_Selection):
    """Rows that are a task each: a task has counters of its own."""

    def select(self) -> Kernel:
        """Count digits, find those of the ranks, copy the elements that have them, and choose among these."""
        e, names = self.builder()
        digits, shift = 1 << self.bits, dim(self.width - self.bits)
        with task_loop(e, self.rows, "row") as row:
            first = bind(e, "start", row * self.size)
            let(e, names, digits=digits, shift=shift, first=0, mark=0, splits=1, size=self.size,
                     base=first, begin=first, task=0)  # fmt: skip
            e.append(self.source(CLEAR, names))
            self.each(e, names, row, Span(dim(0), self.size), COUNT)
            e.append(self.source(UNMARK, names))
            self.find(e, names, row)
            let(e, names, at=first)
            self.each(e, names, row, Span(dim(0), self.size), COPY)
            e.append(self.source(NOTE, names))
            self.choose(e, names, row, shift)
        scratch = (
            ("counts", int32, digits),
            ("marked", uint8, digits),
            ("tallies", int32, 1 << STEP),
            ("found", int64, 1),
        )
        own = (Scratch(names[word], dtype, length) for word, dtype, length in scratch)
        return self.kernel((*own, *e.close()), self.rows, self.size * (2 * COST), self.operations * self.active)


class _Splits(_Selection):
    """Long rows, which many tasks share: counters are in memory."""

    def __init__(self, body: Graph, face: KernelInterface, wanted: Dim, active: Dim) -> None:
        super().__init__(body, face, wanted, active)
        is_long, more = one_if_above(self.size, LONG), min(MORE, self.width - self.bits)
        self.shift = self.width - self.bits - is_long * more
        self.digits = (1 << self.bits) * (1 + is_long * ((1 << more) - 1))
        split = SPLIT * (1 + is_long * (LARGER - 1))
        self.splits = maximum(1, minimum(quotient_up(self.size, split), MOST))
        self.tasks = self.rows * self.splits
        self.add("counts", int32, self.tasks * self.digits)
        self.add("marked", uint8, self.rows * self.digits)
        self.add("found", int64, self.tasks)

    def lower(self) -> list[Kernel]:
        """The steps of a row's task, a kernel each."""
        count, copy = self._of_splits(CLEAR, COUNT, ""), self._of_splits("", COPY, NOTE)
        return [replace(count, operations=self.operations * self.active), self._find(), copy, self._choose()]

    def _of_splits(self, before: str, each: str, after: str) -> Kernel:
        """A split a task: statements for each element, and those before and after all of them."""
        e, names = self.builder()
        with task_loop(e, self.tasks, "item") as task:
            many = bind(e, "many", self.splits)
            row = bind(e, "row", task // many)
            own = share_of(e, ("start", "length"), task % many, many, self.size)
            begin = row * self.size + own.first
            let(e, names, task=task, digits=self.digits, shift=self.shift, first=task * self.digits,
                     mark=row * self.digits, begin=begin, at=begin)  # fmt: skip
            e.append(self.source(before, names))
            self.each(e, names, row, own, each)
            e.append(self.source(after, names))
        return self.kernel(e.close(), self.tasks, quotient_up(self.size, self.splits) * COST, dim(0))

    def _find(self) -> Kernel:
        """A row a task: add the counts of its splits, and find the digits."""
        e, names = self.builder()
        with task_loop(e, self.rows, "row") as row:
            let(e, names, digits=self.digits, splits=self.splits, first=row * self.splits * self.digits,
                     mark=row * self.digits)  # fmt: skip
            for text in (SUM, UNMARK):
                e.append(self.source(text, names))
            self.find(e, names, row)
        return self.kernel(e.close(), self.rows, self.splits * self.digits, dim(0))

    def _choose(self) -> Kernel:
        """A row a task: choose among the candidates of its splits."""
        e, names = self.builder()
        with task_loop(e, self.rows, "row") as row:
            many = bind(e, "many", self.splits)
            let(e, names, splits=many, size=self.size,
                     base=row * self.size, task=row * many)  # fmt: skip
            self.choose(e, names, row, self.shift)
        tallies = Scratch(names["tallies"], int32, 1 << STEP)
        return self.kernel((tallies, *e.close()), self.rows, self.size, dim(0))


def checked_rank(body: Graph, e: ElementBuilder, number: Dim) -> Dim:
    """The rank of a number, which must be an index of the row."""
    node = body.outputs[0].node
    x, ranks = body.args(node)
    name = e.fresh("position")
    e.level_of[name] = len(e.levels) - 1
    rank = e.let(Apply("x", (e.element(ranks, (number,)),), int64))
    e.append(Check(name, rank, x.shape[-1], body.node(node).line))
    return symbol(name)


def _find(counts: str, first: str) -> str:
    """The statements that find the digit of the element with a rank by these counters."""
    return FIND.replace("COUNTS[", f"{counts}[{first}")
