"""One long row, reduced by many threads: parts are folded one by one, then their results.

When all axes are reduced there is one row and no parallel rows. Each phase becomes two kernels: *parts* folds chunks of
``PART`` elements, whose number depends on the size only, and *total* folds their results in order. What stands at the
elements is written by a last kernel. Results are bitwise repeatable, and short sums of sums bound the rounding error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zenith.backends.footprint import buffers_of
from zenith.backends.kernel import (
    Accumulator,
    Buffer,
    Fold,
    Kernel,
    Load,
    Name,
    Statement,
    Store,
    TaskLoop,
)
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.cut import quotient_up
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import bind, decode_into, element_loops, scalar_cost
from zenith.backends.lower.row_group import RowGroup
from zenith.backends.work import operations_of
from zenith.ir.dims import Dim, dim, minimum, product, row_major, symbol
from zenith.ir.graph import Value
from zenith.ir.target import Target

PART = 16384  # elements of a part: some microseconds of work
FINE = 2048  # the same for thousands of threads, a team of which shares a part


def lower_long_row(group: RowGroup, target: Target) -> list[Kernel]:
    """Two kernels a phase, and one for the outputs at the elements."""
    return _LongRow(group, PART if target.threads is None else FINE).lower()


class _LongRow:
    def __init__(self, group: RowGroup, of_part: int) -> None:
        self.g, self.body, self.face = group, group.body, group.face
        self.length, self.of_part = product(group.space), of_part
        self.parts = quotient_up(self.length, of_part)
        names = self.face.builder()
        self.part = {n: Buffer(names.fresh(f"parts{n}"), v.dtype, self.parts, "temporary") for n, v in group.folds}
        self.total = {n: Buffer(names.fresh(f"total{n}"), v.dtype, dim(1), "temporary") for n, v in group.folds}
        self.temporary = [*self.part.values(), *self.total.values()]

    def lower(self) -> list[Kernel]:
        kernels: list[Kernel] = []
        for phase in range(1, self.g.last_phase + 1):
            numbers = [n for n, _ in self.g.folds if self.g.phase[n] == phase]
            kernels += [self._fold_parts(numbers, phase), self._fold_totals(numbers, phase)]
        if any(self.g.is_element(v) and self.g.space for v in self.body.outputs):
            kernels.append(self._write_elements())
        return kernels

    def _builder(self, phase: int) -> ElementBuilder:
        """A builder that knows the totals of all earlier phases."""
        e = self.face.builder()
        e.taken |= {b.name for b in self.temporary}
        for number, operand in self.g.folds:
            if self.g.phase[number] < phase:
                e.known[number, 0] = e.let(Load(self.total[number].name, dim(0), operand.dtype))
        return e

    def _accumulator(self, e: ElementBuilder, number: int, value: object) -> Accumulator:
        fold, dtype = self.g.fold_of(number), self.part[number].dtype
        return Accumulator(e.fresh("acc"), dtype, fold.identity(dtype), fold.combine, value)  # type: ignore[arg-type]

    def _fold_parts(self, numbers: Sequence[int], phase: int) -> Kernel:
        e = self._builder(phase)
        operands = dict(self.g.folds)
        t, j = e.fresh("part"), e.fresh("j")
        e.open(t)
        first = bind(e, "first", symbol(t) * self.of_part)
        last = bind(e, "last", minimum(first + self.of_part, self.length))
        e.open(j)
        index = self._index(e, symbol(j))
        accumulators = tuple(self._accumulator(e, n, e.element(operands[n], index)) for n in numbers)
        e.append(Fold(j, first, last, e.close(), accumulators))
        for number, a in zip(numbers, accumulators, strict=True):
            e.append(Store(self.part[number].name, symbol(t), Name(a.name, a.dtype)))
        e.append(TaskLoop(t, self.parts, None, (), e.close(), False))
        cost = dim(self.of_part * scalar_cost(self.body))
        return self._kernel(e, self.parts, cost, [self.part[n].name for n in numbers],
                            [*numbers, *self._nodes(phase - 1, element=True)])  # fmt: skip

    def _index(self, e: ElementBuilder, position: Dim) -> Index:
        variables = decode_into(e, position, sizes(self.g.space, self.g.inner_groups), "q")
        return spread(self.g.inner_groups, len(self.g.space), variables)

    def _fold_totals(self, numbers: Sequence[int], phase: int) -> Kernel:
        e = self._builder(phase)
        p = e.fresh("p")
        e.open(p)
        values = [e.let(Load(self.part[n].name, symbol(p), self.part[n].dtype)) for n in numbers]
        accumulators = tuple(self._accumulator(e, n, v) for n, v in zip(numbers, values, strict=True))
        e.append(Fold(p, dim(0), self.parts, e.close(), accumulators))
        for number, a in zip(numbers, accumulators, strict=True):
            e.known[number, 0] = Name(a.name, a.dtype)
            e.append(Store(self.total[number].name, dim(0), Name(a.name, a.dtype)))
        if phase == self.g.last_phase:
            for name, value in zip(self.face.outputs, self.body.outputs, strict=True):
                if not self.g.is_element(value) or not self.g.space:
                    e.append(Store(name, dim(0), e.element(value, ())))
        return self._kernel(e, dim(1), self.parts + scalar_cost(self.body), [self.total[n].name for n in numbers],
                            self._nodes(phase, element=False))  # fmt: skip

    def _write_elements(self) -> Kernel:
        e = self._builder(self.g.last_phase + 1)
        outputs = [(n, v) for n, v in zip(self.face.outputs, self.body.outputs, strict=True) if self.g.is_element(v)]

        def visit(index: Index) -> None:
            values = [(name, e.element(value, index)) for name, value in outputs]
            for name, value in values:
                e.append(Store(name, row_major(self.g.space, index), value))

        element_loops(e, self.g.space, self.g.inner_groups, visit)
        return self._kernel(e, self.length, dim(scalar_cost(self.body)), [],
                            self._nodes(self.g.last_phase, element=True))  # fmt: skip

    def _nodes(self, phase: int, element: bool) -> list[int]:
        """The elementwise nodes of a phase that stand at elements or beside them; the latter from the first on."""
        folds = {n for n, _ in self.g.folds}
        values = (Value(n, 0, r.types[0]) for n, r in self.body.nodes() if n not in folds)
        early = 0 if not element and phase == 1 else phase
        return [v.node for v in values if early <= self.g.phase[v.node] <= phase and self.g.is_element(v) == element]

    def _kernel(self, e: ElementBuilder, tasks: Dim, cost: Dim, written: Sequence[str], nodes: Sequence[int]) -> Kernel:
        """A kernel on the buffers that it uses; temporaries that an earlier one wrote are its inputs."""
        statements: tuple[Statement, ...] = e.close()
        used = buffers_of(statements)
        temporary = [b if b.name in written else replace(b, role="in") for b in self.temporary]
        buffers = tuple(b for b in (*self.face.buffers, *temporary) if b.name in used)
        work = operations_of(self.body, nodes)
        return Kernel("kernel", self.face.doc(), buffers, self.face.symbols, tasks, cost, statements, work)
