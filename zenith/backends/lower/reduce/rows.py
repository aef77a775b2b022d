"""Row groups: reductions of the trailing axes, with their prologues and epilogues, one row of the space a task.

A row is walked once for each *phase*: all folds whose operands are known go into one loop, then those that need their
results, and at the end the outputs of the row are written. What a later phase reads, too, is recomputed, except for an
expensive value, which is saved in scratch memory, or in the row of an output that is written last (same type): so
softmax computes each exponential once.

On a CPU a task has several rows, walked together, where all read the same operand and their elements are cheap: unroll
and jam. What they share is then loaded once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from zenith.backends.expressions import Name
from zenith.backends.kernel import Accumulator, Fold, Kernel, Loop, Store, runs
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.elements import Index, SavedElements
from zenith.backends.lower.loops import scratch, task_loop
from zenith.backends.lower.nest import bind, computed, decode_into, scalar_cost
from zenith.backends.lower.reduce.column_group import CHEAP
from zenith.backends.lower.reduce.row_group import RowGroup
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import Target
from zenith.ir.dims import Dim, dim, minimum, product, row_major, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Prefix, Scalar
from zenith.ir.types import DType

SCRATCH_BYTES = 32768  # of all rows that a kernel has on the stack: they shall stay in the first-level cache
EXPENSIVE = 8  # operations from which a value is saved in an output's row rather than recomputed
WORTH_A_STORE = 3  # operations from which it is saved in scratch memory
JAMMED = 4  # rows of a task that are walked together
EXPENSIVE_FOR_THOUSANDS = 40  # the same for thousands of threads, which wait for memory far longer than they compute


def lower_rows(body: Graph, target: Target, named: Sequence[str] | None = None) -> list[Kernel]:
    """One kernel whose tasks are the rows (for a single row see ``long_row``); outputs may be ``named``."""
    return [_Rows(RowGroup(body, named), target.threads is not None).lower()]


class _Rows:
    def __init__(self, group: RowGroup, thousands: bool) -> None:
        self.thousands = thousands
        self.g, self.body, self.face, self.e = group, group.body, group.face, group.face.builder()
        self.scratch: dict[str, DType] = {}

    @property
    def rows_of_task(self) -> int:
        """How many rows a task walks together. The last task walks the last row again where there are no more."""
        g, count = self.g, product(self.g.space[: self.g.outer])
        is_simple = len(g.folds) == g.last_phase == 1 and not g.prefixes and not any(self._outputs(element=True))
        shares = any(product(v.shape) == g.length for v in self.body.inputs) and scalar_cost(self.body) <= CHEAP
        is_worth_it = all(size.static is None or size.static >= JAMMED for size in (count, g.length))
        return JAMMED if is_simple and shares and is_worth_it and not self.thousands else 1

    def lower(self) -> Kernel:
        if self.rows_of_task > 1:
            return self._lower_jammed(self.rows_of_task)
        space, outer = self.g.space, self.g.outer
        count = product(space[:outer])
        with task_loop(self.e, count, "row") as row:
            rows = decode_into(self.e, row, sizes(space, self.g.outer_groups))
            index = spread(self.g.outer_groups, outer, rows)
            for phase in range(1, self.g.last_phase + 1):
                self._fold_phase(phase, index)
            self._store_rows(index)
            self._store_elements(index)
        return self.face.kernel(count, self.g.length * scalar_cost(self.body) + 20, self.e)

    def _lower_jammed(self, many: int) -> Kernel:
        space, outer = self.g.space, self.g.outer
        count, ((number, operand),) = product(space[:outer]), self.g.folds
        with task_loop(self.e, quotient_up(count, many)) as task:
            rows = [bind(self.e, "row", minimum(task * many + k, count - 1)) for k in range(many)]
            decoded = [decode_into(self.e, row, sizes(space, self.g.outer_groups)) for row in rows]
            index = [spread(self.g.outer_groups, outer, own) for own in decoded]
            folded = self._fold_together(number, operand, index)
            stores = []  # after all reads, which may be of an element that a row without a task of its own has again
            for row, total in zip(index, folded, strict=True):
                self.e.known[number, 0] = total
                stores += [
                    store for name in self._outputs(element=False) for store in computed(self.e, self.face, name, row)
                ]
            for store in stores:
                self.e.append(replace(store, at=bind(self.e, "at", store.at)))
        cost = many * (self.g.length * scalar_cost(self.body) + 20)
        return self.face.kernel(quotient_up(count, many), cost, self.e)

    def _fold_together(self, number: int, operand: Value, rows: Sequence[Index]) -> list[Name]:
        """Fold several rows in one loop."""
        fold, names = self.g.joins(number), [self.e.fresh("acc") for _ in rows]
        j, length, inner = self._walk((dim(0),) * self.g.outer)
        values = [self.e.element(operand, row + inner[self.g.outer :]) for row in rows]
        initial = fold.identity(operand.dtype)
        joined = [Accumulator(n, operand.dtype, initial, fold.combine, v) for n, v in zip(names, values, strict=True)]
        self.e.append(Fold(j, dim(0), length, self.e.close(), tuple(joined)))
        self.e.level_of.update(dict.fromkeys(names, len(self.e.levels) - 1))
        return [Name(name, operand.dtype) for name in names]

    def _walk(self, row: Index) -> tuple[str, Dim, Index]:
        """Open the loop along a row: its variable, its length and the full index inside."""
        length = self.g.length
        j = self.e.fresh("j")
        self.e.open(j)
        inner = decode_into(self.e, self.g.along(symbol(j)), sizes(self.g.space, self.g.inner_groups), "q")
        shifted = [[a - self.g.outer for a in g] for g in self.g.inner_groups]
        return j, length, row + spread(shifted, len(self.g.space) - self.g.outer, inner)

    def _fold_phase(self, phase: int, row: Index) -> None:
        folds = [(n, operand) for n, operand in self.g.folds if self.g.phase[n] == phase]
        rows = self._saved_values(phase)
        j, length, index = self._walk(row)
        values = [self.e.element(operand, index) for _, operand in folds]
        self._save(rows, index)
        accumulators = []
        for (number, operand), value in zip(folds, values, strict=True):
            fold, name = self.g.joins(number), self.e.fresh("acc")
            accumulators.append(Accumulator(name, operand.dtype, fold.identity(operand.dtype), fold.combine, value))
        statements = self.e.close()
        self.e.append(Fold(j, dim(0), length, statements, tuple(accumulators)))
        for (number, operand), accumulator in zip(folds, accumulators, strict=True):
            self.e.level_of[accumulator.name] = len(self.e.levels) - 1
            self.e.known[number, 0] = Name(accumulator.name, operand.dtype)
        self.e.saved = {n: row for n, row in self.e.saved.items() if row not in rows.values()} | rows

    def _save(self, rows: dict[int, SavedElements], index: Index) -> None:
        """Save elements in their rows, after all reads of this phase, which may be of earlier values in these rows."""
        values = [Value(number, 0, self.body.node(number).types[0]) for number in rows]
        elements = [self.e.element(value, index) for value in values]
        for (number, (buffer, outer)), element in zip(rows.items(), elements, strict=True):
            self.e.append(Store(buffer, row_major(self.g.space[outer:], index[outer:]), element, number))

    def _saved_values(self, phase: int) -> dict[int, SavedElements]:
        """Expensive values of this phase that a later one needs, each with a row to be saved in until then.

        They have an element at every index of the space: a value per row is a scalar outside of the loops, and a row of
        it would be read at one position, which the next value in that row overwrites.
        """
        now = self._needed([operand for n, operand in self.g.folds if self.g.phase[n] == phase])
        later = [operand for n, operand in self.g.folds if self.g.phase[n] > phase]
        later += [v for v in self.body.outputs if self.g.is_element(v)]
        chosen: dict[int, SavedElements] = {}
        for number in sorted(now & self._needed(later), reverse=True):
            value = Value(number, 0, self.body.node(number).types[0])
            wanted = value.shape == self.g.space and number not in self.e.saved
            wanted = wanted and number in self._needed(later, {*chosen})
            row = self._free_row(value, later, chosen) if wanted else None
            if row is not None:
                chosen[number] = row
        return chosen

    def _cost(self, value: Value) -> int:
        """About how many operations recomputing an element of a value takes, reads included."""
        lowerings = [self.body.node(n).primitive.lowering for n in self._needed([value])]
        return sum(low.cost if isinstance(low, Scalar | Prefix) else 1 for low in lowerings)

    def _free_row(self, value: Value, later: Sequence[Value], chosen: dict[int, SavedElements]) -> SavedElements | None:
        """A row for a value that is worth one: scratch memory, else an output's row, without a live value."""
        cost = self._cost(value)
        if cost < (EXPENSIVE_FOR_THOUSANDS if self.thousands else WORTH_A_STORE):
            return None
        needed = self._needed(later, {*chosen, value.node})
        busy = {row for number, row in self.e.saved.items() if number in needed} | set(chosen.values())
        scratch = [SavedElements(name, self.g.outer) for name, dtype in self.scratch.items() if dtype == value.dtype]
        outputs = [
            SavedElements(name, 0)
            for name, out in zip(self.face.outputs, self.body.outputs, strict=True)
            if out.type == value.type and self.g.is_element(value)
        ]
        free = next((row for row in scratch if row not in busy), None) or self._new_row(value.dtype)
        return free or next((row for row in outputs if row not in busy and cost >= EXPENSIVE), None)

    def _new_row(self, dtype: DType) -> SavedElements | None:
        """A scratch row, while there is room for it on the stack; a team of threads would need a block's memory."""
        if self.thousands:
            return None
        length = product(self.g.space[self.g.outer :]).static
        if not length or length * (dtype.itemsize + sum(d.itemsize for d in self.scratch.values())) > SCRATCH_BYTES:
            return None
        name = scratch(self.e, "saved", dtype, length)
        self.scratch[name] = dtype
        return SavedElements(name, self.g.outer)

    def _needed(self, values: Sequence[Value], saved: AbstractSet[int] = frozenset()) -> set[int]:
        """The element-level nodes that are computed for ``values``: not beyond folds and saved values."""
        stack, seen = [v.node for v in values], set[int]()
        folds = {n for n, _ in self.g.folds}
        while stack:
            number = stack.pop()
            if number in seen or number in folds:
                continue
            seen.add(number)
            if number not in self.e.saved and number not in saved:
                stack.extend(a.node for a in self.body.args(number))
        return seen

    def _outputs(self, element: bool) -> Iterator[str]:
        for name, value in zip(self.face.outputs, self.body.outputs, strict=True):
            if self.g.is_element(value) == element:
                yield name

    def _store_rows(self, row: Index) -> None:
        for name in self._outputs(element=False):
            for store in computed(self.e, self.face, name, row):
                self.e.append(replace(store, at=bind(self.e, "at", store.at)))

    def _store_elements(self, row: Index) -> None:
        outputs = list(self._outputs(element=True))
        if not outputs:
            return
        j, length, index = self._walk(row)
        stores = [store for name in outputs for store in computed(self.e, self.face, name, index)]
        for store in stores:  # after all reads, which may be of earlier values in these rows
            self.e.append(store)
        statements = self.e.close()
        self.e.append(Loop(j, dim(0), length, not runs(statements), statements))
