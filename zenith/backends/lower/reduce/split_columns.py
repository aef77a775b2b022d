"""Column groups for thousands of threads: parts of a column are folded one by one, then their results.

A result is one task too few, where results are fewer than threads. So a task of the first kernel is a part of a column:
its terms are added in order by one thread, neighbours have neighbouring columns. A task of the second is a result,
which a team folds. The parts follow from the sizes alone, so results are bitwise repeatable.
"""

from __future__ import annotations

from zenith.backends.kernel import Accumulator, Buffer, Expr, Fold, Kernel, Load, Name, Store, TaskLoop
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import bind, decode_into, scalar_cost
from zenith.backends.lower.reduce.column_group import ColumnGroup
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph

SHORTEST = 16  # terms of a part
MOST = 512  # parts of a column


def lower_column_parts(body: Graph, threads: int) -> list[Kernel]:
    """The kernel of the parts, and the one that joins them."""
    return _ColumnParts(body, threads).lower()


class _ColumnParts:
    def __init__(self, body: Graph, threads: int) -> None:
        self.g = ColumnGroup(body)
        self.face, self.result = self.g.face, self.g.result
        self.results = product(self.result.shape)
        wanted = minimum(dim(threads) // maximum(1, self.results), MOST)
        self.parts = maximum(1, minimum(wanted, quotient_up(self.g.terms, SHORTEST)))
        self.name = self.face.builder().fresh("parts")

    def lower(self) -> list[Kernel]:
        """Both kernels."""
        return [self._parts(), self._join()]

    def _buffer(self, role: str) -> Buffer:
        return Buffer(self.name, self.result.dtype, self.parts * self.results, role)

    def _builder(self) -> ElementBuilder:
        e = self.face.builder()
        e.taken.add(self.name)
        return e

    def _parts(self) -> Kernel:
        """Task (part, result): the terms of one part of one column."""
        e = self._builder()
        space, kept, reduced = self.g.space, self.g.kept_groups, self.g.reduced_groups
        part, i, turn = e.fresh("row"), e.fresh("i"), e.fresh("turn")
        e.open(part)
        length = bind(e, "length", self.g.terms // bind(e, "many", self.parts) + 1)
        start = bind(e, "start", minimum(symbol(part) * length, self.g.terms))
        stop = bind(e, "stop", minimum(start + length, self.g.terms))
        e.open(i)
        columns = decode_into(e, symbol(i), sizes(space, kept))
        e.open(turn)
        terms = decode_into(e, symbol(turn), sizes(space, reduced), "q")
        index = _sum(spread(kept, len(space), columns), spread(reduced, len(space), terms))
        joined = self._fold(e, turn, start, stop, e.element(self.g.operand, index))
        e.append(Store(self.name, symbol(part) * self.results + symbol(i), joined))
        inside, before = e.close(), e.close()
        e.append(TaskLoop(i, self.results, part, before, inside, True))
        buffers = (*(b for b in self.face.buffers if b.role == "in"), self._buffer("temporary"))
        cost, tasks = (self.g.terms // self.parts + 1) * scalar_cost(self.g.body), self.parts * self.results
        return Kernel("kernel", self.face.doc(), buffers, self.face.symbols, tasks, cost, e.close())

    def _join(self) -> Kernel:
        """Task (result): what was made of its parts."""
        e = self._builder()
        (out,) = self.face.outputs
        i, part = e.fresh("i"), e.fresh("part_of")
        e.open(i)
        many = bind(e, "many", self.parts)
        e.open(part)
        value = Load(self.name, symbol(part) * self.results + symbol(i), self.result.dtype)
        joined = self._fold(e, part, dim(0), many, value)
        e.append(Store(out, symbol(i), joined))
        e.append(TaskLoop(i, self.results, None, (), e.close(), False))
        buffers = (*(b for b in self.face.buffers if b.name == out), self._buffer("in"))
        return Kernel("kernel", f"{self.face.doc()}; join", buffers, self.face.symbols, self.results, self.parts,
                      e.close(), operations=dim(0))  # fmt: skip

    def _fold(self, e: ElementBuilder, index: str, start: Dim, stop: Dim, value: Expr) -> Name:
        """Close the loop ``index`` as a fold of ``value``; returns what it joins to."""
        dtype, name = self.result.dtype, e.fresh("acc")
        accumulator = Accumulator(name, dtype, self.g.fold.identity(dtype), self.g.fold.combine, value)
        e.append(Fold(index, start, stop, e.close(), (accumulator,)))
        e.level_of[name] = len(e.levels) - 1
        return Name(name, dtype)


def _sum(a: Index, b: Index) -> Index:
    return tuple(x + y for x, y in zip(a, b, strict=True))
