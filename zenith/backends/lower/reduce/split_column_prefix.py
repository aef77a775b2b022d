"""Prefixes along an axis that is not the last, for thousands of threads: a split of a column a thread.

A column a task would leave threads idle where columns are few. So a task of the first kernel is a split of a column,
whose elements one thread joins in order; a task of the second is a column, whose splits it scans; those of the third
walk their splits a second time, from the prefix before them. Nothing needs the total of the last split, so where
columns are as many as threads, and each is one split, the first two kernels do nothing. Sizes alone decide the splits.
"""

from __future__ import annotations

from zenith.backends.expressions import Expr, Load, Name
from zenith.backends.kernel import Accumulator, Buffer, Fold, Kernel, Loop, Running, Store, TaskLoop
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import bind, decode_into, scalar_cost, with_used_buffers
from zenith.backends.lower.reduce.column_prefix import ColumnPrefixes
from zenith.backends.lower.reduce.split_columns import MOST, SHORTEST
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, dim, maximum, minimum, product, row_major, symbol
from zenith.ir.graph import Graph


def lower_column_prefix_splits(body: Graph, threads: int) -> list[Kernel]:
    """The kernel that folds splits, the one that scans them, and the one that writes."""
    return _Splits(ColumnPrefixes(body), threads).lower()


def is_chained(body: Graph) -> bool:
    """Whether some prefix needs the results of another one."""
    return ColumnPrefixes(body).is_chained()


class _Splits:
    def __init__(self, group: ColumnPrefixes, threads: int) -> None:
        self.g, self.face = group, group.face
        self.columns, terms = product(group.column_shape), group.length
        wanted = minimum(dim(threads) // maximum(1, self.columns), MOST)
        self.splits = maximum(1, minimum(wanted, quotient_up(terms, SHORTEST)))
        names, many = self.face.builder(), self.splits * self.columns
        self.totals, self.factors, self.starts = dict[int, Buffer](), dict[int, Buffer](), dict[int, Buffer]()
        for n in group.prefixes:
            dtype = group.identity(n).dtype
            self.totals[n] = Buffer(names.fresh(f"splits{n}"), dtype, many, "temporary")
            self.starts[n] = Buffer(names.fresh(f"starts{n}"), dtype, many, "temporary")
            if len(group.body.args(n)) > 1:
                self.factors[n] = Buffer(names.fresh(f"factors{n}"), dtype, many, "temporary")
        self.taken = names.taken

    def lower(self) -> list[Kernel]:
        return [self._fold_splits(), self._scan_splits(), self._write()]

    def _builder(self) -> ElementBuilder:
        e = self.face.builder()
        e.taken |= self.taken
        return e

    def _open(self, e: ElementBuilder) -> tuple[str, str, str, tuple[Dim, Dim], Index]:
        """Enter a task, a split of a column: variables of its loops, its start and stop, the index of its column."""
        split, i, iteration = e.fresh("row"), e.fresh("i"), e.fresh("iteration")
        e.open(split)
        length = bind(e, "length", self.g.length // bind(e, "many", self.splits) + 1)
        start = bind(e, "start", minimum(symbol(split) * length, self.g.length))
        stop = bind(e, "stop", minimum(start + length, self.g.length))
        e.open(i)
        variables = decode_into(e, symbol(i), sizes(self.g.column_shape, self.g.groups))
        column = spread(self.g.groups, len(self.g.column_shape), variables)
        return split, i, iteration, (start, stop), column

    def _column(self, i: str) -> Dim:
        """The number of the column whose task is ``i``."""
        return symbol(i) if self.g.groups else dim(0)

    def _fold_splits(self) -> Kernel:
        """Task (split, column): the total of the split, but for the last split."""
        e = self._builder()
        split, i, iteration, limits, column = self._open(e)
        e.open(iteration)
        index, at = self.g.index(column, symbol(iteration)), symbol(split) * self.columns + self._column(i)
        joined, stores = list[Accumulator](), list[Store]()
        for number in self.g.prefixes:
            for accumulator, buffer in self._accumulators(e, number, index):
                joined.append(accumulator)
                stores.append(Store(buffer.name, at, Name(accumulator.name, accumulator.dtype)))
        e.append(Fold(iteration, *limits, e.close(), tuple(joined)))
        for store in stores:
            e.append(store)
        return self._kernel(e, split, i, self.splits - 1, [*self.totals.values(), *self.factors.values()])

    def _accumulators(self, e: ElementBuilder, number: int, index: Index) -> list[tuple[Accumulator, Buffer]]:
        """The total of a prefix; with factors its last running value, and the product of the factors."""
        *factors, values = self.g.body.args(number)
        how, nothing = self.g.prefix(number), self.g.identity(number)
        if not factors:
            value: Expr = e.element(values, index)
            combine = how.combine
        else:
            value, combine = e.element(self.g.result(number), index), "y"
        found = [(Accumulator(e.fresh("acc"), values.dtype, nothing.value, combine, value), self.totals[number])]
        for factor in factors:
            product = Accumulator(e.fresh("acc"), values.dtype, 1.0, "x * y", e.element(factor, index))
            found.append((product, self.factors[number]))
        return found

    def _scan_splits(self) -> Kernel:
        """Task (column): the prefix before each split."""
        e = self._builder()
        i = e.fresh("i")
        e.open(i)
        many = bind(e, "many", self.splits)
        for number, total in self.totals.items():
            start, dtype, nothing = self.starts[number], total.dtype, self.g.identity(number)
            e.append(Store(start.name, self._column(i), nothing))
            split, name = e.fresh("split_index"), e.fresh("running")
            e.open(split)
            at = symbol(split) * self.columns + self._column(i)
            factors = [Load(b.name, at, dtype) for n, b in self.factors.items() if n == number]
            e.append(
                Running(name, dtype, nothing, self.g.prefix(number).combine, Load(total.name, at, dtype), *factors)
            )
            e.append(Store(start.name, at + self.columns, Name(name, dtype)))
            e.append(Loop(split, dim(0), many - 1, False, e.close()))
        e.append(TaskLoop(i, self.columns, None, (), e.close(), True))
        statements = e.close()
        read = [*self.totals.values(), *self.factors.values()]
        buffers = [Buffer(b.name, b.dtype, b.size, "in") for b in read] + [*self.starts.values()]
        return Kernel("kernel", f"{self.face.doc()}; join", tuple(buffers), self.face.symbols, self.columns,
                      self.splits, statements, operations=dim(0))  # fmt: skip

    def _write(self) -> Kernel:
        """Task (split, column): the walk that writes."""
        e = self._builder()
        split, i, iteration, limits, column = self._open(e)
        for number, start in self.starts.items():
            e.starts[number] = e.let(Load(start.name, symbol(split) * self.columns + self._column(i), start.dtype))
        e.open(iteration)
        index = self.g.index(column, symbol(iteration))
        outputs = [(n, e.element(v, index)) for n, v in zip(self.face.outputs, self.face.body.outputs, strict=True)]
        for name, value in outputs:
            e.append(Store(name, row_major(self.g.space, index), value))
        e.append(Loop(iteration, *limits, False, e.close()))
        return self._kernel(e, split, i, self.splits, [])

    def _kernel(self, e: ElementBuilder, split: str, i: str, splits: Dim, written: list[Buffer]) -> Kernel:
        """A kernel whose tasks are splits of columns; it ends the builder's loops over both."""
        inside, before = e.close(), e.close()
        e.append(TaskLoop(i, self.columns, split, before, inside, True))
        own = [b if b in written else Buffer(b.name, b.dtype, b.size, "in")
               for b in (*self.totals.values(), *self.factors.values(), *self.starts.values())]  # fmt: skip
        face, tasks = self.face, splits * self.columns
        cost = (self.g.length // self.splits + 1) * scalar_cost(self.g.body)
        made = Kernel("kernel", face.doc(), (*face.buffers, *own), face.symbols, tasks, cost, e.close())
        return with_used_buffers(made)
