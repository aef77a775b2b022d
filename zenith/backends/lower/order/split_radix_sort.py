"""Radix sort of long rows, split: many tasks move the elements of one row, step by step.

A step has three kernels. A split counts its digits (a histogram); a scan of the counts, in the order of the digits and
for each in that of the splits, gives where every split's elements of every digit begin; the splits scatter theirs. So
results depend neither on the number of splits nor on the threads. All steps run the same kernels: which digit is next,
and which half of the buffers has the elements, is in memory. A digit that all elements of a row share moves nothing.
"""

from __future__ import annotations

from zenith.backends.expressions import Load
from zenith.backends.kernel import Buffer, Kernel, Let, Statement, TaskLoop
from zenith.backends.lower.elements import ElementBuilder
from zenith.backends.lower.loops import loop
from zenith.backends.lower.nest import bind, with_used_buffers
from zenith.backends.lower.order.radix_sort import DIGITS, SPLIT, RadixSorting
from zenith.backends.lower.order.written import let
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, dim, maximum, minimum, symbol
from zenith.ir.ops.sort import OPERATIONS
from zenith.ir.types import int64

MOST = 64  # splits of a row: enough to balance the load, few enough to scan their counts
STATE = 3  # words of a row: the number of digits that were counted, from which half elements move, and to which

START = """\
if split == 0:
    state[at] = 0
    state[at + 1] = 0
    state[at + 2] = 0
for d in range(0, DIGITS):
    counts[first + d] = 0"""
COUNT_ONE = """\
d = DIGIT(key, 0)
counts[first + d] = counts[first + d] + 1"""
COUNT = """\
step = state[at]
source = base + state[at + 2] * count
for d in range(0, DIGITS):
    counts[first + d] = 0
for i in range(start, stop):
    d = DIGIT(keys[source + i], step)
    counts[first + d] = counts[first + d] + 1"""
SCAN = """\
before = 0
most = 0
for d in range(0, DIGITS):
    own = before
    for split in range(0, splits):
        i = first + split * DIGITS + d
        count = counts[i]
        counts[i] = before
        before = before + count
    most = max(most, before - own)
source = state[at + 2]
state[at] = state[at] + 1
state[at + 1] = source
state[at + 2] = source if most == before else 1 - source"""
MOVE = """\
step = state[at] - 1
source = base + state[at + 1] * count
target = base + state[at + 2] * count
if source != target:
    for i in range(start, stop):
        key = keys[source + i]
        d = DIGIT(key, step)
        j = counts[first + d]
        counts[first + d] = j + 1
        keys[target + j] = key
        indices[target + j] = indices[source + i]"""
MOVE_OUT = """\
step = state[at] - 1
source = base + state[at + 1] * count
target = row * count
for i in range(start, stop):
    key = keys[source + i]
    d = DIGIT(key, step)
    j = counts[first + d]
    counts[first + d] = j + 1
    VALUES[target + j] = KEY
    INDICES[target + j] = indices[source + i]"""  # without the lines of results that are not asked for
_WORDS = ("d", "i", "j", "step", "source", "target", "key", "before", "most", "own", "split", "count", "first", "at",
          "row", "start", "stop", "base", "splits")  # fmt: skip


def sort_splits(s: RadixSorting, wanted: Dim) -> list[Kernel]:
    """The kernels of rows that are split, where ``wanted`` is 1; without tasks where it is 0."""
    return _Splits(s, wanted).lower()


class _Splits:
    def __init__(self, sorting: RadixSorting, wanted: Dim) -> None:
        self.s, self.wanted = sorting, wanted
        self.splits = maximum(1, minimum(quotient_up(sorting.size, SPLIT), MOST))
        fresh = sorting.builder().fresh
        self.counts = Buffer(fresh("counts"), int64, sorting.rows * self.splits * DIGITS * wanted, "temporary")
        self.state = Buffer(fresh("state"), int64, sorting.rows * STATE * wanted, "temporary")

    def lower(self) -> list[Kernel]:
        """The first step, which counts digits while it reads elements; the others; the last one, which writes results.

        Kernels of equal text are compiled once.
        """
        scan, count, move = self._scan(), self._of_splits(COUNT), self._of_splits(MOVE)
        first, last = [self._load(), scan], self._of_splits(self._out())
        return [*first, *[move, count, scan] * (self.s.steps - 1), last]

    def _builder(self) -> tuple[ElementBuilder, dict[str, str]]:
        e = self.s.builder((self.counts.name, self.state.name))
        names = {word: e.fresh(word) for word in _WORDS}
        return e, names | {"counts": self.counts.name, "state": self.state.name}

    def _open_split(self, e: ElementBuilder, names: dict[str, str]) -> str:
        """Begin the task of a split: its row, its elements, and where their counts are."""
        task, count = e.fresh("item"), self.s.size
        e.open(task)
        many = bind(e, "many", self.splits)
        length = bind(e, "length", quotient_up(count, many))
        let(e, names, row=symbol(task) // many, split=symbol(task) % many)
        row, split = symbol(names["row"]), symbol(names["split"])
        let(e, names, start=minimum(split * length, count), stop=minimum(split * length + length, count), count=count,
            at=row * STATE, first=symbol(task) * DIGITS, base=row * count * 2)  # fmt: skip
        return task

    def _load(self) -> Kernel:
        """Copy the elements, with their indices, and count their first digits."""
        e, names = self._builder()
        task = self._open_split(e, names)
        e.append(self.s.source(START, names))
        with loop(e, "iteration", symbol(names["start"]), symbol(names["stop"])) as i:
            at = symbol(names["base"]) + i
            self.s.load(e, symbol(names["row"]), i, at)
            e.append(Let(names["key"], Load(self.s.keys.name, at, self.s.keys.dtype)))
            e.append(self.s.source(COUNT_ONE, names))
        return self._close_split(e, task, self.s.operations * self.wanted)

    def _of_splits(self, text: str) -> Kernel:
        """A kernel whose tasks run a text of statements, each on its split."""
        e, names = self._builder()
        task = self._open_split(e, names)
        e.append(self.s.source(text, names))
        return self._close_split(e, task, dim(0))

    def _scan(self) -> Kernel:
        """Scan the counts of a row: where the elements of each digit and split go."""
        e, names = self._builder()
        e.open(names["row"])
        row = symbol(names["row"])
        let(e, names, splits=self.splits, at=row * STATE, first=row * self.splits * DIGITS)
        e.append(self.s.source(SCAN, names))
        tasks = self.s.rows * self.wanted
        e.append(TaskLoop(names["row"], tasks, None, (), e.close(), False))
        return self._kernel(e.close(), tasks, self.splits * DIGITS * 2, dim(0))

    def _out(self) -> str:
        """The statements of the last step: elements and indices go to the results that are asked for."""
        values, indices = self.s.output(0), self.s.output(1)
        absent = {word for word, name in (("VALUES[", values), ("INDICES[", indices)) if name is None}
        lines = [line for line in MOVE_OUT.splitlines() if not any(word in line for word in absent)]
        key = f"{self.s.x.dtype}(key)" if self.s.keys.dtype != self.s.x.dtype else "key"
        text = "\n".join(lines).replace("KEY", key).replace("VALUES", values or "")
        return text.replace("INDICES", indices or "")

    def _close_split(self, e: ElementBuilder, task: str, operations: Dim) -> Kernel:
        tasks = self.s.rows * self.splits * self.wanted
        e.append(TaskLoop(task, tasks, None, (), e.close(), False))
        return self._kernel(e.close(), tasks, quotient_up(self.s.size, self.splits) * OPERATIONS, operations)

    def _kernel(self, body: tuple[Statement, ...], tasks: Dim, cost: Dim, operations: Dim) -> Kernel:
        """A kernel on the buffers that it uses."""
        face, buffers = self.s.face, (*self.s.face.buffers, *self.s.moved, self.counts, self.state)
        made = Kernel("kernel", face.doc(), buffers, face.symbols, tasks, cost, body, operations=operations)
        return with_used_buffers(made)
