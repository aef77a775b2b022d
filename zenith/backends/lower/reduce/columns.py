"""Column groups: a reduction of leading or inner axes. The results of a chunk are accumulators in memory.

This is for columns of few terms; others are split (:mod:`zenith.backends.lower.reduce.long_columns`).

A task is one element of the result. The reduced axes are walked outside, the results of the chunk inside, in lanes, so
that memory is read along rows; the chunk's results stay in the first-level cache. Terms are added in index order.
Chunks are ``TOGETHER`` results wide at least, however long a column is: one result alone would read a number of every
cache line, and its neighbours' tasks the same lines again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zenith.backends.expressions import Apply, Expr, Load, Number
from zenith.backends.kernel import Kernel, Store
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.elements import Index
from zenith.backends.lower.loops import loop
from zenith.backends.lower.nest import decode_into, element_loops, scalar_cost
from zenith.backends.lower.reduce.column_group import CHEAP, TERMS, ColumnGroup
from zenith.backends.lower.reduce.long_columns import lower_long_columns
from zenith.ir.dims import Dim, dim, product, row_major
from zenith.ir.graph import Graph

TOGETHER = 256
SHORT = 64  # terms of a column, at most, that are added one after another


def lower_columns(body: Graph) -> list[Kernel]:
    """One kernel whose tasks are the elements of the result; two for columns that may be long."""
    terms = ColumnGroup(body).terms.static
    return [_Columns(body).lower()] if terms is not None and terms <= SHORT else lower_long_columns(body)


class _Columns:
    def __init__(self, body: Graph) -> None:
        self.g = ColumnGroup(body)
        self.face, self.e = self.g.face, self.g.face.builder()
        self.result, self.fold, self.operand, self.space = self.g.result, self.g.fold, self.g.operand, self.g.space

    def lower(self) -> Kernel:
        (out,) = self.face.outputs
        e = self.e
        shape = [self.space[a] for a in self.g.retained]
        own = [[self.g.retained.index(a) for a in g] for g in self.g.retained_groups]
        dtype = self.result.dtype
        start = Number(self.fold.identity(dtype), dtype)
        element_loops(e, shape, own, lambda i: e.append(Store(out, row_major(shape, i), start)))
        count = self.g.terms
        terms = TERMS if scalar_cost(self.g.body) <= CHEAP else 1
        self._walk(dim(0), count // terms, terms, shape, own)
        self._walk(count // terms * terms, count, 1, shape, own)
        return replace(self.face.kernel(product(shape), count * scalar_cost(self.g.body), e), together=TOGETHER)

    def _walk(self, start: Dim, stop: Dim, terms: int, shape: Sequence[Dim], own: Sequence[Sequence[int]]) -> None:
        """A loop along the reduced axes that adds ``terms`` terms an iteration to every result of the chunk."""
        if start == stop:
            return
        with loop(self.e, "iteration", start, stop) as iteration:
            positions = [iteration * terms + k for k in range(terms)]
            variables = [decode_into(self.e, p, sizes(self.space, self.g.reduced_groups)) for p in positions]
            reduced = [spread(self.g.reduced_groups, len(self.space), v) for v in variables]
            element_loops(self.e, shape, own, lambda i: self._combine(i, reduced))

    def _combine(self, result_index: Index, reduced: Sequence[Index]) -> None:
        dtype, at = self.result.dtype, row_major(self.result.shape, result_index)
        (out,) = self.face.outputs
        total: Expr = Load(out, at, dtype)
        for term in reduced:
            index = list(term)
            for axis, i in zip(self.g.retained, result_index, strict=True):
                index[axis] = i
            total = Apply(self.fold.combine, (total, self.e.element(self.operand, tuple(index))), dtype)
        self.e.append(Store(out, at, total))
