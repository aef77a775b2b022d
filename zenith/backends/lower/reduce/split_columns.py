"""Column groups for thousands of threads: a split reduction, whose partial results a second kernel folds.

A result a task would leave threads idle where results are few. So a task of the first kernel is a split of a column:
one thread adds its terms in order, neighbouring threads have neighbouring columns. A task of the second is a result,
which a team folds. The splits follow from the sizes alone, so results are bitwise repeatable.
"""

from __future__ import annotations

from zenith.backends.expressions import Expr, Load, Name
from zenith.backends.kernel import Accumulator, Buffer, Fold, Kernel, Store, TaskLoop
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import bind, decode_into, scalar_cost
from zenith.backends.lower.reduce.column_group import ColumnGroup
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph

SHORTEST = 16  # terms of a split, at least
MOST = 512  # splits of a column


def lower_column_splits(body: Graph, threads: int) -> list[Kernel]:
    """The kernel that folds splits, and the one that joins their partial results."""
    return _ColumnSplits(body, threads).lower()


class _ColumnSplits:
    def __init__(self, body: Graph, threads: int) -> None:
        self.g = ColumnGroup(body)
        self.face, self.result = self.g.face, self.g.result
        self.results = product(self.result.shape)
        wanted = minimum(dim(threads) // maximum(1, self.results), MOST)
        self.splits = maximum(1, minimum(wanted, quotient_up(self.g.terms, SHORTEST)))
        self.name = self.face.builder().fresh("splits")

    def lower(self) -> list[Kernel]:
        """The kernel that folds splits, and the one that joins them."""
        return [self._fold_splits(), self._join()]

    def _buffer(self, role: str) -> Buffer:
        return Buffer(self.name, self.result.dtype, self.splits * self.results, role)

    def _builder(self) -> ElementBuilder:
        e = self.face.builder()
        e.taken.add(self.name)
        return e

    def _fold_splits(self) -> Kernel:
        """Task (split, result): the terms of one split of one column."""
        e = self._builder()
        space, retained, reduced = self.g.space, self.g.retained_groups, self.g.reduced_groups
        split, i, iteration = e.fresh("row"), e.fresh("i"), e.fresh("iteration")
        e.open(split)
        length = bind(e, "length", self.g.terms // bind(e, "many", self.splits) + 1)
        start = bind(e, "start", minimum(symbol(split) * length, self.g.terms))
        stop = bind(e, "stop", minimum(start + length, self.g.terms))
        e.open(i)
        columns = decode_into(e, symbol(i), sizes(space, retained))
        e.open(iteration)
        terms = decode_into(e, symbol(iteration), sizes(space, reduced), "q")
        index = _sum(spread(retained, len(space), columns), spread(reduced, len(space), terms))
        joined = self._fold(e, iteration, start, stop, e.element(self.g.operand, index))
        e.append(Store(self.name, symbol(split) * self.results + symbol(i), joined))
        inside, before = e.close(), e.close()
        e.append(TaskLoop(i, self.results, split, before, inside, True))
        buffers = (*(b for b in self.face.buffers if b.role == "in"), self._buffer("temporary"))
        cost, tasks = (self.g.terms // self.splits + 1) * scalar_cost(self.g.body), self.splits * self.results
        return Kernel("kernel", self.face.doc(), buffers, self.face.symbols, tasks, cost, e.close())

    def _join(self) -> Kernel:
        """Task (result): the partial results of its splits."""
        e = self._builder()
        (out,) = self.face.outputs
        i, split = e.fresh("i"), e.fresh("split_index")
        e.open(i)
        many = bind(e, "many", self.splits)
        e.open(split)
        value = Load(self.name, symbol(split) * self.results + symbol(i), self.result.dtype)
        joined = self._fold(e, split, dim(0), many, value)
        e.append(Store(out, symbol(i), joined))
        e.append(TaskLoop(i, self.results, None, (), e.close(), False))
        buffers = (*(b for b in self.face.buffers if b.name == out), self._buffer("in"))
        return Kernel("kernel", f"{self.face.doc()}; join", buffers, self.face.symbols, self.results, self.splits,
                      e.close(), operations=dim(0))  # fmt: skip

    def _fold(self, e: ElementBuilder, index: str, start: Dim, stop: Dim, value: Expr) -> Name:
        """Close the loop ``index`` as a fold of ``value``; returns its total."""
        dtype, name = self.result.dtype, e.fresh("acc")
        accumulator = Accumulator(name, dtype, self.g.fold.identity(dtype), self.g.fold.combine, value)
        e.append(Fold(index, start, stop, e.close(), (accumulator,)))
        e.level_of[name] = len(e.levels) - 1
        return Name(name, dtype)


def _sum(a: Index, b: Index) -> Index:
    return tuple(x + y for x, y in zip(a, b, strict=True))
