"""Column groups: a reduction of leading or inner axes. The results of a chunk are accumulators in memory.

A task is one element of the result. The reduced axes are walked outside, the results of the chunk inside, in lanes, so
that memory is read along rows; the chunk's results stay in the first-level cache. Terms are added in index order.
"""

from __future__ import annotations

from zenith.backends.kernel import Apply, Kernel, Load, Loop, Number, Store
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.elements import ElementBuilder, Index, row_major
from zenith.backends.lower.nest import Interface, decode_into, element_loops, find_loops, scalar_cost
from zenith.ir.dims import Dim, dim, product, symbol
from zenith.ir.graph import Graph
from zenith.ir.lowering import Fold


def lower_columns(body: Graph) -> list[Kernel]:
    """One kernel; its tasks are the elements of the result."""
    return [_Columns(body).lower()]


class _Columns:
    def __init__(self, body: Graph) -> None:
        self.body, self.face = body, Interface.of(body)
        (self.result,) = body.outputs
        node = body.node(self.result.node)
        assert isinstance(node.primitive.lowering, Fold)
        self.fold = node.primitive.lowering
        (self.operand,) = body.args(self.result.node)
        self.space = self.operand.shape
        self.reduced = list(node.params["axes"])
        self.kept = [a for a in range(len(self.space)) if a not in self.reduced]

    def lower(self) -> Kernel:
        (out,) = self.face.outputs
        groups = find_loops(self.face, self.space, self._visit, self._result_address)
        self.kept_groups = [g for g in ([a for a in g if a in self.kept] for g in groups) if g]
        self.reduced_groups = [g for g in ([a for a in g if a in self.reduced] for g in groups) if g]
        self.e = e = self.face.builder()
        kept_space = [self.space[a] for a in self.kept]
        own = [[self.kept.index(a) for a in g] for g in self.kept_groups]
        dtype = self.result.dtype
        start = Number(self.fold.identity(dtype), dtype)
        element_loops(e, kept_space, own, lambda i: e.append(Store(out, row_major(kept_space, i), start)))
        term = e.fresh("term")
        e.open(term)
        variables = decode_into(e, symbol(term), sizes(self.space, self.reduced_groups))
        reduced = spread(self.reduced_groups, len(self.space), variables)
        element_loops(e, kept_space, own, lambda i: self._combine(i, reduced))
        count = product(self.space[a] for a in self.reduced)
        e.append(Loop(term, dim(0), count, False, e.close()))
        return self.face.kernel(product(kept_space), count * scalar_cost(self.body), e)

    def _result_address(self, index: Index) -> list[Dim]:
        return [row_major(self.result.shape, tuple(index[a] for a in self.kept))]

    def _visit(self, trial: ElementBuilder, index: Index) -> None:
        trial.element(self.operand, index)

    def _combine(self, kept_index: Index, reduced: Index) -> None:
        index = list(reduced)
        for axis, i in zip(self.kept, kept_index, strict=True):
            index[axis] = i
        dtype, at = self.result.dtype, row_major(self.result.shape, kept_index)
        (out,) = self.face.outputs
        value = self.e.element(self.operand, tuple(index))
        self.e.append(Store(out, at, Apply(self.fold.combine, (Load(out, at, dtype), value), dtype)))
