"""Row groups: reductions of the trailing axes, with what precedes and follows, one row of the space a task.

A row is walked once for each *phase*: all folds whose operands are known go into one loop, then those that need their
results, and at the end the outputs of the row are written. What a later phase needs again is computed again, except
for an expensive value, which is kept in the row of an output that is written last (same type): so softmax computes
each exponential once and needs no memory of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from zenith.backends.kernel import Accumulator, Fold, Kernel, Loop, Name, Store
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.elements import ElementBuilder, Index, row_major
from zenith.backends.lower.nest import BEGIN, END, Interface, bind, decode_into, find_loops, scalar_cost
from zenith.ir.dims import Dim, dim, product, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Fold as FoldLowering
from zenith.ir.lowering import Scalar

EXPENSIVE = 10  # operations from which a value is kept rather than computed again


def lower_rows(body: Graph) -> list[Kernel]:
    """One kernel; its tasks are the rows."""
    return [_Rows(body).lower()]


class _Rows:
    def __init__(self, body: Graph) -> None:
        self.body = body
        self.face = Interface.of(body)
        self.folds = [(n, body.args(n)[0]) for n, r in body.nodes() if isinstance(r.primitive.lowering, FoldLowering)]
        number, operand = self.folds[0]
        self.space = operand.shape
        self.outer = len(self.space) - len(body.node(number).params["axes"])
        self.phase = self._phases()

    def _phases(self) -> dict[int, int]:
        phase: dict[int, int] = {}
        folds = {n for n, _ in self.folds}
        for number, _ in self.body.nodes():
            before = max((phase[a.node] for a in self.body.args(number)), default=0)
            phase[number] = before + (number in folds)
        return phase

    def lower(self) -> Kernel:
        extra = [row_major(self.space[: self.outer], self._axes()[: self.outer])]
        groups = find_loops(self.face, self.space, self._visit_all, extra)
        self.outer_groups = [g for g in (self._side(g, True) for g in groups) if g]
        self.inner_groups = [g for g in (self._side(g, False) for g in groups) if g]
        self.e = self.face.builder()
        row = self.e.fresh("row")
        self.e.open(row)
        self.outer_index = spread(
            self.outer_groups, self.outer, decode_into(self.e, symbol(row), sizes(self.space, self.outer_groups))
        )
        for phase in range(1, max(self.phase.values()) + 1):
            self._fold_phase(phase)
        self._store_rows()
        self._store_elements()
        self.e.append(Loop(row, BEGIN, END, False, self.e.close()))
        length = product(self.space[self.outer :])
        return self.face.kernel(product(self.space[: self.outer]), length * scalar_cost(self.body) + 20, self.e)

    def _axes(self) -> Index:
        return tuple(symbol(f"axis{k}") for k in range(len(self.space)))

    def _side(self, group: Sequence[int], outer: bool) -> list[int]:
        return [a for a in group if (a < self.outer) == outer]

    def _is_element(self, value: Value) -> bool:
        return value.shape == self.space

    def _visit_all(self, trial: ElementBuilder, index: Index) -> None:
        """Touch every access once; folds count as known so that each is entered from its own operand only."""
        for number, operand in self.folds:
            trial.element(operand, index)
            trial.known[number, 0] = Name(f"fold{number}", operand.dtype)
        for value in self.body.outputs:
            trial.element(value, index if self._is_element(value) else index[: self.outer])

    def _walk(self) -> tuple[str, Dim, Index]:
        """Open the loop along the row: its variable, its length and the full index inside."""
        length = product(self.space[self.outer :])
        j = self.e.fresh("j")
        self.e.open(j)
        inner = decode_into(self.e, symbol(j), sizes(self.space, self.inner_groups), "q")
        shifted = [[a - self.outer for a in g] for g in self.inner_groups]
        return j, length, self.outer_index + spread(shifted, len(self.space) - self.outer, inner)

    def _fold_phase(self, phase: int) -> None:
        folds = [(n, operand) for n, operand in self.folds if self.phase[n] == phase]
        keep = self._kept_values(phase)
        j, length, index = self._walk()
        accumulators = []
        for number, operand in folds:
            value = self.e.element(operand, index)
            self._keep(keep, index)
            lowering = self.body.node(number).primitive.lowering
            assert isinstance(lowering, FoldLowering)
            name = self.e.fresh("acc")
            accumulators.append(
                Accumulator(name, operand.dtype, lowering.identity(operand.dtype), lowering.combine, value)
            )
        statements = self.e.close()
        self.e.append(Fold(j, dim(0), length, statements, tuple(accumulators)))
        for (number, operand), accumulator in zip(folds, accumulators, strict=True):
            self.e.level_of[accumulator.name] = len(self.e.levels) - 1
            self.e.known[number, 0] = Name(accumulator.name, operand.dtype)
        self.e.kept = {n: row for n, row in self.e.kept.items() if row not in keep.values()} | keep

    def _keep(self, keep: dict[int, str], index: Index) -> None:
        for number, buffer in keep.items():
            value = Value(number, 0, self.body.node(number).types[0])
            self.e.append(Store(buffer, row_major(self.space, index), self.e.element(value, index)))

    def _kept_values(self, phase: int) -> dict[int, str]:
        """Expensive values of this phase that a later one needs, each with an output row to stand in until then."""
        now = self._needed([operand for n, operand in self.folds if self.phase[n] == phase])
        later = [operand for n, operand in self.folds if self.phase[n] > phase]
        later += [v for v in self.body.outputs if self._is_element(v)]
        chosen: dict[int, str] = {}
        for number in sorted(now & self._needed(later), reverse=True):
            value = Value(number, 0, self.body.node(number).types[0])
            lowering = self.body.node(number).primitive.lowering
            expensive = isinstance(lowering, Scalar) and lowering.cost >= EXPENSIVE
            if expensive and number not in self.e.kept and number in self._needed(later, {*chosen}):
                row = self._free_row(value, later, chosen)
                if row is not None:
                    chosen[number] = row
        return chosen

    def _free_row(self, value: Value, later: Sequence[Value], chosen: dict[int, str]) -> str | None:
        """An output row of the value's type whose present content is not needed once the value is kept."""
        needed = self._needed(later, {*chosen, value.node})
        busy = {row for number, row in self.e.kept.items() if number in needed} | set(chosen.values())
        for name, out in zip(self.face.outputs, self.body.outputs, strict=True):
            if out.type == value.type and name not in busy and self._is_element(value):
                return name
        return None

    def _needed(self, values: Sequence[Value], kept: AbstractSet[int] = frozenset()) -> set[int]:
        """The element-level nodes that are computed for ``values``: not beyond folds and kept values."""
        stack, seen = [v.node for v in values], set[int]()
        folds = {n for n, _ in self.folds}
        while stack:
            number = stack.pop()
            if number in seen or number in folds:
                continue
            seen.add(number)
            if number not in self.e.kept and number not in kept:
                stack.extend(a.node for a in self.body.args(number))
        return seen

    def _outputs(self, element: bool) -> Iterator[tuple[str, Value]]:
        for name, value in zip(self.face.outputs, self.body.outputs, strict=True):
            if self._is_element(value) == element:
                yield name, value

    def _store_rows(self) -> None:
        for name, value in self._outputs(element=False):
            at = bind(self.e, "at", row_major(value.shape, self.outer_index))
            self.e.append(Store(name, at, self.e.element(value, self.outer_index)))

    def _store_elements(self) -> None:
        outputs = list(self._outputs(element=True))
        if not outputs:
            return
        j, length, index = self._walk()
        values = [(name, self.e.element(value, index)) for name, value in outputs]
        for name, value in values:
            self.e.append(Store(name, row_major(self.space, index), value))
        self.e.append(Loop(j, dim(0), length, True, self.e.close()))
