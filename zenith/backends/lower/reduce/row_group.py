"""A row group as all of its engines see it: folds, prefixes, their phases, the space, which axes are one loop."""

from __future__ import annotations

from collections.abc import Sequence

from zenith.backends.expressions import Name
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import KernelInterface, find_loops, side_by_side, space_of
from zenith.ir.dims import Dim, product, row_major
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Fold, Prefix

SHORT = 4096  # elements of a row that one task walks sooner than several kernels have begun


def one_row(body: Graph) -> bool:
    """Whether there is one row: folds leave no axis, and prefixes go along the only one."""
    return not _space(body)[1]


def is_walked_whole(body: Graph) -> bool:
    """Whether one task walks a row even where it is the only one: it is short, or a prefix has factors."""
    prefixes = prefixes_of(body)
    length = body.args(prefixes[0])[0].shape[-1].static if prefixes else None
    return (length is not None and length <= SHORT) or any(len(body.args(n)) > 1 for n in prefixes)


def prefixes_of(body: Graph) -> list[int]:
    """The nodes of a body that are prefixes."""
    return [n for n, r in body.nodes() if isinstance(r.primitive.lowering, Prefix)]


def _space(body: Graph) -> tuple[tuple[Dim, ...], int]:
    """The shape over which a row group runs, and how many of its axes are not those of a row."""
    number = next(n for n, r in body.nodes() if isinstance(r.primitive.lowering, Fold | Prefix))
    node, space = body.node(number), body.args(number)[0].shape
    return space, len(space) - (1 if isinstance(node.primitive.lowering, Prefix) else len(node.params["axes"]))


class RowGroup:
    """A body whose folds reduce the axes of ``space`` from ``outer`` on; ``prefixes`` go along the last of them.

    The phase of a value is the number of folds one after another in front of it: a row is walked once for each, from
    its end if prefixes are ``reverse``. Where many threads share the row, prefixes count like folds (``split``).
    """

    def __init__(self, body: Graph, named: Sequence[str] | None = None, split: bool = False) -> None:
        self.body = body
        self.face = KernelInterface.of(body, named)
        self.prefixes = prefixes_of(body)
        self.reverse = any(body.node(n).params["reverse"] for n in self.prefixes)
        self.folds = [(n, body.args(n)[0]) for n, r in body.nodes() if isinstance(r.primitive.lowering, Fold)]
        self.space, self.outer = _space(body)
        self.phase = self._phases({*dict(self.folds), *(self.prefixes if split else ())})
        groups = find_loops(self.face, self.space, self._visit_all, self._row_addresses)
        self.outer_groups = [g for g in ([a for a in g if a < self.outer] for g in groups) if g]
        self.inner_groups = [g for g in ([a for a in g if a >= self.outer] for g in groups) if g]

    def _phases(self, folds: set[int]) -> dict[int, int]:
        phase: dict[int, int] = {}
        for number, _ in self.body.nodes():
            before = max((phase[a.node] for a in self.body.args(number)), default=0)
            phase[number] = before + (number in folds)
        return phase

    @property
    def last_phase(self) -> int:
        """How often a row is walked by folds."""
        return max(self.phase.values())

    def along(self, j: Dim) -> Dim:
        """The index in a row of the element that iteration ``j`` of its walk visits."""
        return self.length - 1 - j if self.reverse else j

    @property
    def length(self) -> Dim:
        """The elements of a row."""
        return product(self.space[self.outer :])

    def joins(self, number: int) -> Fold | Prefix:
        """How a fold or prefix combines."""
        lowering = self.body.node(number).primitive.lowering
        assert isinstance(lowering, Fold | Prefix)
        return lowering

    def is_element(self, value: Value) -> bool:
        """Whether a value has an element at every index of the space, not one a row."""
        return space_of(self.body, value) == self.space

    def _row_addresses(self, index: Index) -> list[Dim]:
        return [row_major(self.space[: self.outer], index[: self.outer])]

    def _visit_all(self, trial: ElementBuilder, index: Index) -> None:
        """Touch every access once; folds count as known so that each is entered from its own operand only."""
        for number, operand in self.folds:
            trial.element(operand, index)
            trial.known[number, 0] = Name(f"fold{number}", operand.dtype)
        for value in self.body.outputs:
            for operand in side_by_side(self.body, value):
                trial.element(operand, index if self.is_element(value) else index[: self.outer])
