"""Prefixes along an axis that is not the last: a column a task, with its running state in memory.

The axis is walked outside, the columns of a chunk inside, in lanes, so that memory is read and written along rows;
the chunk's states stay in the first-level cache. Each column is joined in order, one element after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zenith.backends.expressions import Apply, Expr, Load, Name, Number
from zenith.backends.kernel import Buffer, Kernel, Let, Store
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.loops import loop
from zenith.backends.lower.nest import KernelInterface, element_loops, find_loops, scalar_cost
from zenith.backends.lower.reduce.columns import CHEAP, TERMS, TOGETHER
from zenith.backends.lower.reduce.row_group import prefixes_of
from zenith.ir.dims import Dim, dim, product, row_major
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Prefix


class ColumnPrefixes:
    """A body whose ``prefixes`` go along one ``axis`` of ``space``; ``column_shape`` are the sizes of the others.

    ``groups`` are the other axes as far as they can be one loop.
    """

    def __init__(self, body: Graph) -> None:
        self.body, self.face = body, KernelInterface.of(body)
        self.prefixes = prefixes_of(body)
        node = body.node(self.prefixes[0])
        self.axis, self.reverse = node.params["axis"], node.params["reverse"]
        self.space = body.args(self.prefixes[0])[0].shape
        others = [a for a in range(len(self.space)) if a != self.axis]
        self.column_shape = [self.space[a] for a in others]
        found = find_loops(self.face, self.space, self._visit, self._addresses)
        self.groups = [g for g in ([others.index(a) for a in g if a != self.axis] for g in found) if g]

    def _addresses(self, index: Index) -> list[Dim]:
        """The positions of an element in a result and of its column in the state."""
        column = index[: self.axis] + index[self.axis + 1 :]
        return [row_major(self.space, index), row_major(self.column_shape, column)]

    def _visit(self, trial: ElementBuilder, index: Index) -> None:
        for value in self.body.outputs:
            trial.element(value, index)

    @property
    def length(self) -> Dim:
        """The elements of a column."""
        return self.space[self.axis]

    def index(self, column: Index, iteration: Dim) -> Index:
        """The index of the element that an iteration along a column visits."""
        along = self.length - 1 - iteration if self.reverse else iteration
        return (*column[: self.axis], along, *column[self.axis :])

    def is_chained(self) -> bool:
        """Whether some prefix needs the results of another one."""
        reaching = set[int]()
        for number, _ in self.body.nodes():
            if any(a.node in reaching for a in self.body.args(number)):
                if number in self.prefixes:
                    return True
                reaching.add(number)
            elif number in self.prefixes:
                reaching.add(number)
        return False

    def result(self, number: int) -> Value:
        """The value of a prefix."""
        return Value(number, 0, self.body.node(number).types[0])

    def prefix(self, number: int) -> Prefix:
        """How a prefix joins."""
        lowering = self.body.node(number).primitive.lowering
        assert isinstance(lowering, Prefix)
        return lowering

    def identity(self, number: int) -> Number:
        """The identity of a prefix's operation."""
        dtype = self.body.args(number)[-1].dtype
        return Number(self.prefix(number).identity(dtype), dtype)

    def join(self, e: ElementBuilder, number: int, before: Expr, index: Index) -> Expr:
        """Combine the prefix of all elements ``before`` with the element at an index."""
        *factors, values = self.body.args(number)
        operands = (before, *(e.element(v, index) for v in (values, *factors)))
        return e.let(Apply(self.prefix(number).combine, operands, values.dtype), self.body.node(number).line)


def lower_column_prefix(body: Graph) -> list[Kernel]:
    """One kernel; its tasks are the columns."""
    return [_InChunks(ColumnPrefixes(body)).lower()]


class _InChunks:
    def __init__(self, group: ColumnPrefixes) -> None:
        self.g, self.face, self.e = group, group.face, group.face.builder()
        columns = product(group.column_shape)
        self.states = {n: Buffer(self.e.fresh("state"), group.identity(n).dtype, columns, "temporary")
                       for n in group.prefixes}  # fmt: skip

    def lower(self) -> Kernel:
        g, cost = self.g, scalar_cost(self.g.body)
        element_loops(self.e, g.column_shape, g.groups, self._begin)
        terms, count = TERMS if cost <= CHEAP else 1, g.length
        self._walk(dim(0), count // terms, terms)
        self._walk(count // terms * terms, count, 1)
        kernel = self.face.kernel(product(g.column_shape), count * cost, self.e)
        return replace(kernel, together=TOGETHER, buffers=(*kernel.buffers, *self.states.values()))

    def _begin(self, column: Index) -> None:
        for number, state in self.states.items():
            self.e.append(Store(state.name, row_major(self.g.column_shape, column), self.g.identity(number)))

    def _walk(self, start: Dim, stop: Dim, terms: int) -> None:
        """A loop along the axis that takes ``terms`` elements of every column an iteration."""
        if start == stop:
            return
        with loop(self.e, "iteration", start, stop) as iteration:
            iterations = [iteration * terms + k for k in range(terms)]
            element_loops(self.e, self.g.column_shape, self.g.groups, lambda column: self._join(column, iterations))

    def _join(self, column: Index, iterations: Sequence[Dim]) -> None:
        """The next elements of a column: all are read before any is written."""
        at, stores, last = row_major(self.g.column_shape, column), list[Store](), dict[int, Expr]()
        for number, state in self.states.items():  # it changes, so it is loaded here and not further out
            name = self.e.fresh("before")
            self.e.level_of[name] = len(self.e.levels) - 1
            self.e.append(Let(name, Load(state.name, at, state.dtype)))
            last[number] = Name(name, state.dtype)
        for iteration in iterations:
            index = self.g.index(column, iteration)
            for number, before in last.items():
                last[number] = self.e.known[number, 0] = self.g.join(self.e, number, before, index)
            stores += [Store(name, row_major(value.shape, index), self.e.element(value, index))
                       for name, value in zip(self.face.outputs, self.face.body.outputs, strict=True)]  # fmt: skip
        stores += [Store(s.name, at, last[n]) for n, s in self.states.items()]
        for store in stores:
            self.e.append(store)
