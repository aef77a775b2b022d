"""Sorting long rows by digits, in parts: many tasks move the elements of one row, step by step.

A step has three kernels. A part counts how often it has each digit; then it is known where every part's elements of
every digit begin, in the order of the digits and for each in that of the parts; then the parts move theirs there. So
results depend neither on the parts nor on who computes one. All steps run the same kernels: which digit is next, and
which half of the buffers holds the elements, stands in memory. A digit that all elements of a row share moves nothing.
"""

from __future__ import annotations

from zenith.backends.kernel import Buffer, Kernel, Let, Load, Loop, Position, Statement, TaskLoop
from zenith.backends.lower.elements import ElementBuilder
from zenith.backends.lower.nest import Interface, bind
from zenith.backends.lower.order.radix_sort import DIGITS, PART, Sorting, by_length, one_if_above, sort_rows
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.memory_effects import buffers_of
from zenith.ir.dims import Dim, dim, maximum, minimum, symbol
from zenith.ir.graph import Graph
from zenith.ir.ops.sort import OPERATIONS
from zenith.ir.types import int64

MOST = 64  # parts of a row: enough to share them out evenly, few enough to add their counts up
STATE = 3  # words of a row: the number of digits that were counted, from which half elements move, and to which

START = """\
if part == 0:
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
ADD_UP = """\
before = 0
most = 0
for d in range(0, DIGITS):
    held = before
    for part in range(0, parts):
        i = first + part * DIGITS + d
        count = counts[i]
        counts[i] = before
        before = before + count
    most = max(most, before - held)
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
        places[target + j] = places[source + i]"""
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
    PLACES[target + j] = places[source + i]"""  # of which the results are that there are
_WORDS = ("d", "i", "j", "step", "source", "target", "key", "before", "most", "held", "part", "count", "first", "at",
          "row", "start", "stop", "base", "parts")  # fmt: skip


def lower_sort(body: Graph, face: Interface | None = None) -> list[Kernel]:
    """The kernel of rows that are short enough to be tasks, and those of longer ones; sizes decide which have tasks.

    Results are those of ``face``.
    """
    sorting = Sorting(body, face)
    long = one_if_above(sorting.size, PART)
    kernels = [sort_rows(sorting, 1 - long, by_length(sorting.size.static))] if long != 1 else []
    return kernels + (_Parts(sorting, long).lower() if long != 0 else [])


class _Parts:
    def __init__(self, sorting: Sorting, wanted: Dim) -> None:
        self.s, self.wanted = sorting, wanted
        self.parts = maximum(1, minimum(quotient_up(sorting.size, PART), MOST))
        fresh = sorting.builder().fresh
        self.counts = Buffer(fresh("counts"), int64, sorting.rows * self.parts * DIGITS * wanted, "temporary")
        self.state = Buffer(fresh("state"), int64, sorting.rows * STATE * wanted, "temporary")

    def lower(self) -> list[Kernel]:
        """The first step, whose counts are made while elements are read; the others; the last one, which gives results.

        Kernels of equal text are compiled once.
        """
        add_up, count, move = self._add_up(), self._of_parts(COUNT), self._of_parts(MOVE)
        first, last = [self._load(), add_up], self._of_parts(self._out())
        return [*first, *[move, count, add_up] * (self.s.steps - 1), last]

    def _builder(self) -> tuple[ElementBuilder, dict[str, str]]:
        e = self.s.builder((self.counts.name, self.state.name))
        names = {word: e.fresh(word) for word in _WORDS}
        return e, names | {"counts": self.counts.name, "state": self.state.name}

    def _open_part(self, e: ElementBuilder, names: dict[str, str]) -> str:
        """Begin the task of a part: its row, its elements, and where their counts are."""
        task, count = e.fresh("item"), self.s.size
        e.open(task)
        many = bind(e, "many", self.parts)
        length = bind(e, "length", quotient_up(count, many))
        row, part = (self._let(e, names[word], at) for word, at in
                     (("row", symbol(task) // many), ("part", symbol(task) % many)))  # fmt: skip
        for word, at in {
            "start": minimum(part * length, count), "stop": minimum(part * length + length, count),
            "count": count, "at": row * STATE, "first": symbol(task) * DIGITS, "base": row * count * 2,
        }.items():  # fmt: skip
            self._let(e, names[word], at)
        return task

    def _let(self, e: ElementBuilder, name: str, at: Dim) -> Dim:
        """Bind a name of written statements to an index."""
        e.append(Let(name, Position(at)))
        e.level_of[name] = len(e.levels) - 1
        return symbol(name)

    def _load(self) -> Kernel:
        """Copy the elements, with their places, and count their first digits."""
        e, names = self._builder()
        task = self._open_part(e, names)
        e.append(self.s.source(START, names))
        i = e.fresh("turn")
        e.open(i)
        at = symbol(names["base"]) + symbol(i)
        self.s.load(e, symbol(names["row"]), i, at)
        e.append(Let(names["key"], Load(self.s.keys.name, at, self.s.keys.dtype)))
        e.append(self.s.source(COUNT_ONE, names))
        start, stop = (symbol(names[w]) for w in ("start", "stop"))
        e.append(Loop(i, start, stop, False, e.close()))
        return self._close_part(e, task, self.s.operations * self.wanted)

    def _of_parts(self, text: str) -> Kernel:
        """A kernel whose tasks do what is written, on their part."""
        e, names = self._builder()
        task = self._open_part(e, names)
        e.append(self.s.source(text, names))
        return self._close_part(e, task, dim(0))

    def _add_up(self) -> Kernel:
        """Make of all counts of a row the places where their elements go."""
        e, names = self._builder()
        e.open(names["row"])
        row = symbol(names["row"])
        for word, at in {"parts": self.parts, "at": row * STATE, "first": row * self.parts * DIGITS}.items():
            self._let(e, names[word], at)
        e.append(self.s.source(ADD_UP, names))
        tasks = self.s.rows * self.wanted
        e.append(TaskLoop(names["row"], tasks, None, (), e.close(), False))
        return self._kernel(e.close(), tasks, self.parts * DIGITS * 2, dim(0))

    def _out(self) -> str:
        """The last step: elements and places go to the results that there are."""
        values, places = self.s.output(0), self.s.output(1)
        absent = {word for word, name in (("VALUES[", values), ("PLACES[", places)) if name is None}
        lines = [line for line in MOVE_OUT.splitlines() if not any(word in line for word in absent)]
        key = f"{self.s.x.dtype}(key)" if self.s.keys.dtype != self.s.x.dtype else "key"
        text = "\n".join(lines).replace("KEY", key).replace("VALUES", values or "")
        return text.replace("PLACES", places or "")

    def _close_part(self, e: ElementBuilder, task: str, operations: Dim) -> Kernel:
        tasks = self.s.rows * self.parts * self.wanted
        e.append(TaskLoop(task, tasks, None, (), e.close(), False))
        return self._kernel(e.close(), tasks, quotient_up(self.s.size, self.parts) * OPERATIONS, operations)

    def _kernel(self, body: tuple[Statement, ...], tasks: Dim, cost: Dim, operations: Dim) -> Kernel:
        """A kernel on the buffers that it uses."""
        used = buffers_of(body)
        buffers = tuple(b for b in (*self.s.face.buffers, *self.s.moved, self.counts, self.state) if b.name in used)
        doc = self.s.face.doc()
        return Kernel("kernel", doc, buffers, self.s.face.symbols, tasks, cost, body, operations=operations)
