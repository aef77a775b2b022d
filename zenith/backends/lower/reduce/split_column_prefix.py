"""Prefixes along an axis that is not the last, for thousands of threads: parts of a column a thread.

A column is one task too few where columns are fewer than threads. So a task of the first kernel is a part of a column,
whose elements one thread joins in order; a task of the second is a column, in which it finds what comes before each
part; those of the third walk their parts again from there. Nothing needs what the last part joins to, so where columns
are as many as threads, and each is one part, the first two kernels do nothing. Parts follow from the sizes alone.
"""

from __future__ import annotations

from zenith.backends.kernel import Accumulator, Buffer, Expr, Fold, Kernel, Load, Loop, Name, Running, Store, TaskLoop
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import bind, decode_into, scalar_cost
from zenith.backends.lower.reduce.column_prefix import ColumnPrefixes
from zenith.backends.lower.reduce.split_columns import MOST, SHORTEST
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.memory_effects import buffers_of
from zenith.ir.dims import Dim, dim, maximum, minimum, product, row_major, symbol
from zenith.ir.graph import Graph


def lower_column_prefix_parts(body: Graph, threads: int) -> list[Kernel]:
    """The kernel of the parts, the one that joins them, and the one that writes."""
    return _Parts(ColumnPrefixes(body), threads).lower()


def is_chained(body: Graph) -> bool:
    """Whether some prefix needs the results of another one."""
    return ColumnPrefixes(body).is_chained()


class _Parts:
    def __init__(self, group: ColumnPrefixes, threads: int) -> None:
        self.g, self.face = group, group.face
        self.columns, terms = product(group.kept), group.length
        wanted = minimum(dim(threads) // maximum(1, self.columns), MOST)
        self.parts = maximum(1, minimum(wanted, quotient_up(terms, SHORTEST)))
        names, many = self.face.builder(), self.parts * self.columns
        self.totals, self.factors, self.starts = dict[int, Buffer](), dict[int, Buffer](), dict[int, Buffer]()
        for n in group.prefixes:
            dtype = group.identity(n).dtype
            self.totals[n] = Buffer(names.fresh(f"parts{n}"), dtype, many, "temporary")
            self.starts[n] = Buffer(names.fresh(f"starts{n}"), dtype, many, "temporary")
            if len(group.body.args(n)) > 1:
                self.factors[n] = Buffer(names.fresh(f"factors{n}"), dtype, many, "temporary")
        self.taken = names.taken

    def lower(self) -> list[Kernel]:
        return [self._fold_parts(), self._join_parts(), self._write()]

    def _builder(self) -> ElementBuilder:
        e = self.face.builder()
        e.taken |= self.taken
        return e

    def _open(self, e: ElementBuilder) -> tuple[str, str, str, tuple[Dim, Dim], Index]:
        """Enter a task, a part of a column, and its walk: their variables, the walk's limits, an element's index."""
        part, i, turn = e.fresh("row"), e.fresh("i"), e.fresh("turn")
        e.open(part)
        length = bind(e, "length", self.g.length // bind(e, "many", self.parts) + 1)
        start = bind(e, "start", minimum(symbol(part) * length, self.g.length))
        stop = bind(e, "stop", minimum(start + length, self.g.length))
        e.open(i)
        variables = decode_into(e, symbol(i), sizes(self.g.kept, self.g.groups))
        column = spread(self.g.groups, len(self.g.kept), variables)
        return part, i, turn, (start, stop), column

    def _place(self, i: str) -> Dim:
        """The number of the column whose task is ``i``."""
        return symbol(i) if self.g.groups else dim(0)

    def _fold_parts(self) -> Kernel:
        """Task (part, column): what the part joins to, but for the last part."""
        e = self._builder()
        part, i, turn, limits, column = self._open(e)
        e.open(turn)
        index, at = self.g.index(column, symbol(turn)), symbol(part) * self.columns + self._place(i)
        joined, stores = list[Accumulator](), list[Store]()
        for number in self.g.prefixes:
            for accumulator, buffer in self._accumulators(e, number, index):
                joined.append(accumulator)
                stores.append(Store(buffer.name, at, Name(accumulator.name, accumulator.dtype)))
        e.append(Fold(turn, *limits, e.close(), tuple(joined)))
        for store in stores:
            e.append(store)
        return self._kernel(e, part, i, self.parts - 1, [*self.totals.values(), *self.factors.values()])

    def _accumulators(self, e: ElementBuilder, number: int, index: Index) -> list[tuple[Accumulator, Buffer]]:
        """What a prefix joins to, by itself or, with factors, by the last of what runs along, and their product."""
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

    def _join_parts(self) -> Kernel:
        """Task (column): what comes before each part."""
        e = self._builder()
        i = e.fresh("i")
        e.open(i)
        many = bind(e, "many", self.parts)
        for number, total in self.totals.items():
            start, dtype, nothing = self.starts[number], total.dtype, self.g.identity(number)
            e.append(Store(start.name, self._place(i), nothing))
            part, name = e.fresh("part_of"), e.fresh("running")
            e.open(part)
            at = symbol(part) * self.columns + self._place(i)
            factors = [Load(b.name, at, dtype) for n, b in self.factors.items() if n == number]
            e.append(
                Running(name, dtype, nothing, self.g.prefix(number).combine, Load(total.name, at, dtype), *factors)
            )
            e.append(Store(start.name, at + self.columns, Name(name, dtype)))
            e.append(Loop(part, dim(0), many - 1, False, e.close()))
        e.append(TaskLoop(i, self.columns, None, (), e.close(), True))
        statements = e.close()
        read = [*self.totals.values(), *self.factors.values()]
        buffers = [Buffer(b.name, b.dtype, b.size, "in") for b in read] + [*self.starts.values()]
        return Kernel("kernel", f"{self.face.doc()}; join", tuple(buffers), self.face.symbols, self.columns, self.parts,
                      statements, operations=dim(0))  # fmt: skip

    def _write(self) -> Kernel:
        """Task (part, column): the walk that writes."""
        e = self._builder()
        part, i, turn, limits, column = self._open(e)
        for number, start in self.starts.items():
            e.starts[number] = e.let(Load(start.name, symbol(part) * self.columns + self._place(i), start.dtype))
        e.open(turn)
        index = self.g.index(column, symbol(turn))
        outputs = [(n, e.element(v, index)) for n, v in zip(self.face.outputs, self.face.body.outputs, strict=True)]
        for name, value in outputs:
            e.append(Store(name, row_major(self.g.space, index), value))
        e.append(Loop(turn, *limits, False, e.close()))
        return self._kernel(e, part, i, self.parts, [])

    def _kernel(self, e: ElementBuilder, part: str, i: str, parts: Dim, written: list[Buffer]) -> Kernel:
        """A kernel whose tasks are parts of columns; it ends the builder's loops over both."""
        inside, before = e.close(), e.close()
        e.append(TaskLoop(i, self.columns, part, before, inside, True))
        statements = e.close()
        used = buffers_of(statements)
        own = [b if b in written else Buffer(b.name, b.dtype, b.size, "in")
               for b in (*self.totals.values(), *self.factors.values(), *self.starts.values())]  # fmt: skip
        buffers = tuple(b for b in (*self.face.buffers, *own) if b.name in used)
        cost = (self.g.length // self.parts + 1) * scalar_cost(self.g.body)
        return Kernel("kernel", self.face.doc(), buffers, self.face.symbols, parts * self.columns, cost, statements)
