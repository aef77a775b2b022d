"""One long row, shared by many threads: a split reduction, whose partial results a second kernel folds.

When all axes are reduced there is one row and no parallel rows. Each phase becomes two kernels: one folds splits of
``SPLIT`` elements, whose number depends on the size only, the other folds their partial results in order. Outputs at
the elements are written on the way, as soon as they are known, and the others by a last kernel. Results are bitwise
repeatable, and short sums of sums bound the rounding error.

A prefix is folded in the same way, but for the totals: each split gets the prefix of all elements before it, from which
the kernels that follow start a second walk (Blelloch, "Prefix Sums and Their Applications", 1990).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from zenith.backends.expressions import Apply, Expr, Load, Name, Number, Position
from zenith.backends.kernel import Accumulator, Buffer, Fold, Kernel, Loop, Running, Store, TaskLoop, runs
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.loops import loop
from zenith.backends.lower.nest import bind, computed, decode_into, element_loops, scalar_cost, with_used_buffers
from zenith.backends.lower.reduce.argmax import maximum_of
from zenith.backends.lower.reduce.row_group import RowGroup
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import Target
from zenith.backends.work import operations_of
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Value
from zenith.ir.types import bool_, int64

SPLIT = 16384  # elements of a split: some microseconds of work
FINE_SPLIT = 2048  # the same for thousands of threads, a team of which shares a split


def lower_long_row(group: RowGroup, target: Target) -> list[Kernel]:
    """Two kernels a phase, and one for the outputs at the elements."""
    return _LongRow(group, SPLIT if target.threads is None else FINE_SPLIT).lower()


class _LongRow:
    def __init__(self, group: RowGroup, split_length: int) -> None:
        self.g, self.body, self.face = group, group.body, group.face
        self.length, self.split_length = product(group.space), split_length
        self.splits = quotient_up(self.length, split_length)
        self._before_last = maximum(self.splits - 1, 0)
        self.operands = dict(group.folds) | {n: group.body.args(n)[0] for n in group.prefixes}
        names = self.face.builder()
        self.partial = {n: Buffer(names.fresh(f"splits{n}"), v.dtype, self.splits, "temporary")
                     for n, v in self.operands.items()}  # fmt: skip
        self.total = {n: Buffer(names.fresh(f"total{n}"), v.dtype, self._totals(n), "temporary")
                      for n, v in self.operands.items()}  # fmt: skip
        self.temporary = [*self.partial.values(), *self.total.values()]
        self.outputs = dict(zip(self.face.outputs, self.body.outputs, strict=True))
        self.left = [n for n, v in self.outputs.items() if self.g.is_element(v) and self.g.space]  # not yet written

    def _totals(self, number: int) -> Dim:
        """The number of totals: one for a fold, for a prefix one before each split."""
        return self._before_last + 1 if number in self.g.prefixes else dim(1)

    def lower(self) -> list[Kernel]:
        kernels: list[Kernel] = []
        for phase in range(1, self.g.last_phase + 1):
            numbers = [n for n in self.operands if self.g.phase[n] == phase]
            kernels += [self._fold_splits(numbers, phase), self._fold_totals(numbers, phase)]
        if self.left:
            kernels.append(self._write_walked() if self.g.prefixes else self._write_elements())
        return kernels

    def _written(self, phase: int, numbers: Sequence[int]) -> list[str]:
        """The outputs at elements that are written while a phase is folded, which walks all of them."""
        if self.g.prefixes or self._maxima(numbers):
            return []
        found = [n for n in self.left if self.g.phase[self.outputs[n].node] < phase]
        self.left = [n for n in self.left if n not in found]
        return found

    def _builder(self, phase: int) -> ElementBuilder:
        """A builder in which the totals of all earlier phases are known."""
        e = self.face.builder()
        e.taken |= {b.name for b in self.temporary}
        for number, operand in self.g.folds:
            if self.g.phase[number] < phase:
                e.known[number, 0] = e.let(Load(self.total[number].name, dim(0), operand.dtype))
        return e

    def _accumulator(self, e: ElementBuilder, number: int, value: Expr) -> Accumulator:
        how, dtype = self.g.joins(number), self.partial[number].dtype
        return Accumulator(e.fresh("acc"), dtype, how.identity(dtype), how.combine, value)

    def _open_split(self, e: ElementBuilder, phase: int) -> tuple[str, str, Dim, Dim]:
        """Enter a task and the walk along its split: their variables, the first element and the one past the last."""
        t, j = e.fresh("split"), e.fresh("j")
        e.open(t)
        for number in self.g.prefixes:
            if self.g.phase[number] < phase:
                total = self.total[number]
                e.starts[number] = e.let(Load(total.name, symbol(t), total.dtype))
        first = bind(e, "first", symbol(t) * self.split_length)
        last = bind(e, "last", minimum(first + self.split_length, self.length))
        e.open(j)
        return t, j, first, last

    def _fold_splits(self, numbers: Sequence[int], phase: int) -> Kernel:
        """Fold each split. Nothing follows the last one, so for prefixes alone it is left out."""
        e = self._builder(phase)
        splits = self._before_last if all(n in self.g.prefixes for n in numbers) else self.splits
        t, j, first, last = self._open_split(e, phase)
        index = self._index(e, symbol(j))
        for store in [s for name in self._written(phase, numbers) for s in computed(e, self.face, name, index)]:
            e.append(store)
        accumulators = tuple(self._accumulator(e, n, e.element(self.operands[n], index)) for n in numbers)
        statements = e.close()
        e.append(Fold(j, first, self._stop(e, numbers, t, first, last), statements, accumulators))
        for number, a in zip(numbers, accumulators, strict=True):
            e.append(Store(self.partial[number].name, symbol(t), Name(a.name, a.dtype)))
        e.append(TaskLoop(t, splits, None, (), e.close(), False))
        cost = dim(self.split_length * scalar_cost(self.body))
        return self._kernel(e, splits, cost, [self.partial[n].name for n in numbers],
                            [*numbers, *self._nodes(phase - 1, element=True)])  # fmt: skip

    def _stop(self, e: ElementBuilder, numbers: Sequence[int], t: str, first: Dim, last: Dim) -> Dim:
        """Where the walk of a split ends: at once if all folds look for maxima of the row that it has not."""
        maxima = self._maxima(numbers)
        if not maxima:
            return last
        hits = [self._has_maximum(e, t, m) for m in maxima]
        hit = reduce(lambda x, y: Apply("x | y", (x, y), bool_), hits)
        stop = e.let(Apply("where(x, y, z)", (hit, Position(last), Position(first)), int64), stem="stop")
        return symbol(stop.name)

    def _maxima(self, numbers: Sequence[int]) -> list[int]:
        """The maxima of the row that folds look for, if they all do."""
        maxima = [maximum_of(self.body, n) for n in numbers]
        return [m for m in maxima if m is not None] if all(m in self.operands for m in maxima) else []

    def _has_maximum(self, e: ElementBuilder, t: str, number: int) -> Expr:
        """Whether a split's own maximum is the row's, or both are nan."""
        partial = self.partial[number]
        part = e.let(Load(partial.name, symbol(t), partial.dtype))
        return Apply("(x == y) | (x != x)", (part, e.known[number, 0]), bool_)

    def _index(self, e: ElementBuilder, position: Dim) -> Index:
        variables = decode_into(e, self.g.along(position), sizes(self.g.space, self.g.inner_groups), "q")
        return spread(self.g.inner_groups, len(self.g.space), variables)

    def _fold_totals(self, numbers: Sequence[int], phase: int) -> Kernel:
        e = self._builder(phase)
        p = e.fresh("p")
        folds = [n for n in numbers if n not in self.g.prefixes]
        if folds:
            e.open(p)
            values = [e.let(Load(self.partial[n].name, symbol(p), self.partial[n].dtype)) for n in folds]
            accumulators = tuple(self._accumulator(e, n, v) for n, v in zip(folds, values, strict=True))
            e.append(Fold(p, dim(0), self.splits, e.close(), accumulators))
            for number, a in zip(folds, accumulators, strict=True):
                e.known[number, 0] = Name(a.name, a.dtype)
                e.append(Store(self.total[number].name, dim(0), Name(a.name, a.dtype)))
        for number in numbers:
            if number in self.g.prefixes:
                self._walk_totals(e, number)
        if phase == self.g.last_phase:
            for name, value in zip(self.face.outputs, self.body.outputs, strict=True):
                if not self.g.is_element(value) or not self.g.space:
                    for store in computed(e, self.face, name, ()):
                        e.append(store)
        return self._kernel(e, dim(1), self.splits + scalar_cost(self.body), [self.total[n].name for n in numbers],
                            self._nodes(phase, element=False))  # fmt: skip

    def _walk_totals(self, e: ElementBuilder, number: int) -> None:
        """The exclusive scan of a prefix's splits: the total before each of them."""
        how, partial, total = self.g.joins(number), self.partial[number], self.total[number]
        nothing = Number(how.identity(partial.dtype), partial.dtype)
        e.append(Store(total.name, dim(0), nothing))
        with loop(e, "p", 0, self._before_last) as p:
            run = e.fresh("running")
            e.append(Running(run, partial.dtype, nothing, how.combine, Load(partial.name, p, partial.dtype)))
            e.append(Store(total.name, p + 1, Name(run, partial.dtype)))

    def _write_walked(self) -> Kernel:
        """The outputs at the elements, split by split: prefixes go on from the total before the split."""
        phase = self.g.last_phase + 1
        e = self._builder(phase)
        t, j, first, last = self._open_split(e, phase)
        index = self._index(e, symbol(j))
        for store in [store for name in self.left for store in computed(e, self.face, name, index)]:
            e.append(store)
        statements = e.close()
        e.append(Loop(j, first, last, not runs(statements), statements))
        e.append(TaskLoop(t, self.splits, None, (), e.close(), False))
        cost = dim(self.split_length * scalar_cost(self.body))
        return self._kernel(e, self.splits, cost, [], self._nodes(self.g.last_phase, element=True))

    def _write_elements(self) -> Kernel:
        e = self._builder(self.g.last_phase + 1)

        def visit(index: Index) -> None:
            for store in [store for name in self.left for store in computed(e, self.face, name, index)]:
                e.append(store)

        element_loops(e, self.g.space, self.g.inner_groups, visit)
        return self._kernel(e, self.length, dim(scalar_cost(self.body)), [],
                            self._nodes(self.g.last_phase, element=True))  # fmt: skip

    def _nodes(self, phase: int, element: bool) -> list[int]:
        """The elementwise nodes of a phase with values per element, or per row; the latter include those of phase 0."""
        joined = {n for n, _ in self.g.folds} | {*self.g.prefixes}
        values = (Value(n, 0, r.types[0]) for n, r in self.body.nodes() if n not in joined)
        early = 0 if not element and phase == 1 else phase
        return [v.node for v in values if early <= self.g.phase[v.node] <= phase and self.g.is_element(v) == element]

    def _kernel(self, e: ElementBuilder, tasks: Dim, cost: Dim, written: Sequence[str], nodes: Sequence[int]) -> Kernel:
        """A kernel on the buffers that it uses; temporaries that an earlier one wrote are its inputs."""
        temporary = [b if b.name in written else replace(b, role="in") for b in self.temporary]
        face, buffers = self.face, (*self.face.buffers, *temporary)
        work = operations_of(self.body, nodes)
        return with_used_buffers(Kernel("kernel", face.doc(), buffers, face.symbols, tasks, cost, e.close(), work))
