"""A column group as all of its engines see it: its fold, its axes, and which of these are one loop."""

from __future__ import annotations

from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import KernelInterface, find_loops
from zenith.ir.dims import Dim, product, row_major
from zenith.ir.graph import Graph
from zenith.ir.lowering import Fold

TERMS = 4  # terms added at a time, so that a result is read and written a quarter as often
CHEAP = 14  # operations of a term up to which it is bound by memory


class ColumnGroup:
    """A body whose only fold reduces the axes ``reduced`` of ``space`` and retains ``retained``.

    ``retained_groups`` and ``reduced_groups`` are the axes that can be one loop.
    """

    def __init__(self, body: Graph, face: KernelInterface | None = None) -> None:
        self.body, self.face = body, face or KernelInterface.of(body)
        (self.result,) = body.outputs
        node = body.node(self.result.node)
        assert isinstance(node.primitive.lowering, Fold)
        self.fold = node.primitive.lowering
        (self.operand,) = body.args(self.result.node)
        self.space = self.operand.shape
        self.reduced = list(node.params["axes"])
        self.retained = [a for a in range(len(self.space)) if a not in self.reduced]
        groups = find_loops(self.face, self.space, self._visit, self._result_address)
        self.retained_groups = [g for g in ([a for a in g if a in self.retained] for g in groups) if g]
        self.reduced_groups = [g for g in ([a for a in g if a in self.reduced] for g in groups) if g]

    @property
    def terms(self) -> Dim:
        """How many terms a result has."""
        return product(self.space[a] for a in self.reduced)

    def _result_address(self, index: Index) -> list[Dim]:
        return [row_major(self.result.shape, tuple(index[a] for a in self.retained))]

    def _visit(self, trial: ElementBuilder, index: Index) -> None:
        trial.element(self.operand, index)
