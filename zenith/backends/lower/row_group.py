"""What every way to compute a row group knows: its folds and their phases, its space, which loops are one."""

from __future__ import annotations

from zenith.backends.kernel import Name
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import Interface, find_loops
from zenith.ir.dims import Dim, row_major
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Fold


def reduces_all(body: Graph) -> bool:
    """Whether a body's folds leave no axis: there is one row."""
    folds = [n for n, r in body.nodes() if isinstance(r.primitive.lowering, Fold)]
    return len(body.args(folds[0])[0].shape) == len(body.node(folds[0]).params["axes"])


class RowGroup:
    """A body whose folds reduce the axes of ``space`` from ``outer`` on.

    The phase of a value is the number of folds one after another in front of it: a row is walked once for each.
    """

    def __init__(self, body: Graph) -> None:
        self.body = body
        self.face = Interface.of(body)
        self.folds = [(n, body.args(n)[0]) for n, r in body.nodes() if isinstance(r.primitive.lowering, Fold)]
        number, operand = self.folds[0]
        self.space = operand.shape
        self.outer = len(self.space) - len(body.node(number).params["axes"])
        self.phase = self._phases()
        groups = find_loops(self.face, self.space, self._visit_all, self._row_addresses)
        self.outer_groups = [g for g in ([a for a in g if a < self.outer] for g in groups) if g]
        self.inner_groups = [g for g in ([a for a in g if a >= self.outer] for g in groups) if g]

    def _phases(self) -> dict[int, int]:
        phase: dict[int, int] = {}
        folds = {n for n, _ in self.folds}
        for number, _ in self.body.nodes():
            before = max((phase[a.node] for a in self.body.args(number)), default=0)
            phase[number] = before + (number in folds)
        return phase

    @property
    def last_phase(self) -> int:
        """How often a row is walked by folds."""
        return max(self.phase.values())

    def fold_of(self, number: int) -> Fold:
        """How a fold node combines."""
        lowering = self.body.node(number).primitive.lowering
        assert isinstance(lowering, Fold)
        return lowering

    def is_element(self, value: Value) -> bool:
        """Whether a value has an element at every place of the space, not once a row."""
        return value.shape == self.space

    def _row_addresses(self, index: Index) -> list[Dim]:
        return [row_major(self.space[: self.outer], index[: self.outer])]

    def _visit_all(self, trial: ElementBuilder, index: Index) -> None:
        """Touch every access once; folds count as known so that each is entered from its own operand only."""
        for number, operand in self.folds:
            trial.element(operand, index)
            trial.known[number, 0] = Name(f"fold{number}", operand.dtype)
        for value in self.body.outputs:
            trial.element(value, index if self.is_element(value) else index[: self.outer])
