"""Long columns on a CPU: a task joins some of the terms of neighbouring results, which stay in the first-level cache.

A task has a panel of results that are neighbours in memory, and a piece of the reduced axes: an interval of the last
group of them that is one loop, or one of all groups before it. There are so many pieces that there are tasks for all
threads, whatever the number of results; they follow from the sizes alone, so results are bitwise repeatable. The
partial results of the pieces are joined as a column themselves.

Sums are more exact than those in index order: ``TREE`` terms are added as a tree, ``BLOCK`` terms from zero before
they join the total. The error then grows with the number of blocks, not of terms.
(N. J. Higham, *The accuracy of floating point summation*, SIAM J. Sci. Comput. 14, 1993.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from zenith.backends.expressions import Apply, Expr, Load, Number
from zenith.backends.kernel import Buffer, Kernel, Loop, Store
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.loops import Span, block_of, loop, scratch, task_loop
from zenith.backends.lower.nest import KernelInterface, bind, decode_into, scalar_cost, write_case
from zenith.backends.lower.reduce.column_group import CHEAP, ColumnGroup
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, dim, maximum, minimum, product, row_major, symbol
from zenith.ir.graph import Graph
from zenith.ir.types import ArrayType

PANEL = 1024  # results of a task
TREE = 8  # terms that are added at a time, so that a result is read and written once for so many
BLOCK = 128  # terms that are joined before they meet the total
TASKS = 32  # at least, where there are terms to split


def lower_long_columns(body: Graph) -> list[Kernel]:
    """The kernel of the pieces and, unless there is one, the kernel that joins them."""
    columns = _LongColumns(ColumnGroup(body), TASKS)
    return [columns.kernel()] if columns.pieces == 1 else [columns.kernel(), columns.join()]


@dataclass(frozen=True, slots=True)
class _Task:
    """A panel of results: the indices of axes in front of the panel's, its columns, and the buffers of their sums."""

    index: tuple[Dim, ...]
    columns: Span
    sums: str
    total: str


class _LongColumns:
    """The cut of columns, found once, into pieces for so many tasks, and the kernels that it gives."""

    def __init__(self, group: ColumnGroup, tasks: int) -> None:
        self.g, self.face = group, group.face
        self.dtype, (self.out,) = group.result.dtype, group.face.outputs
        self.above, self.width = _outer_and_inner(sizes(group.space, group.retained_groups))
        self.outer, self.inner = _outer_and_inner(sizes(group.space, group.reduced_groups))
        self.results, self.panels = product([*self.above, self.width]), quotient_up(self.width, PANEL)
        most = product(self.outer) if self.outer else quotient_up(self.inner, BLOCK)
        wanted = quotient_up(dim(tasks), maximum(1, product(self.above) * self.panels))
        self.pieces = dim(1) if tasks == 1 else maximum(1, minimum(wanted, most))
        self.identity = Number(group.fold.identity(self.dtype), self.dtype)
        self.e = self.face.builder()
        self.partial = Buffer(self.e.fresh("splits"), self.dtype, self.pieces * self.results, "temporary")

    def kernel(self) -> Kernel:
        """Task (piece, results in front, panel): the terms of a piece of a panel's results."""
        e, length = self.e, min(PANEL, self.width.static or PANEL)
        sums, total = (scratch(e, stem, self.dtype, length) for stem in ("sums", "total"))
        many, tasks = bind(e, "pieces", self.pieces), product([self.pieces, *self.above, self.panels])
        with task_loop(e, tasks) as t:
            panels = bind(e, "panels", self.panels)
            piece, *index, panel = decode_into(e, t, [many, *self.above, panels])
            columns = block_of(e, ("column", "columns"), panel, PANEL, self.width)
            task = _Task(tuple(index), columns, sums, total)
            self._each(task, total, lambda j: self.identity)
            self._terms(task, piece, many)
            self._write(task, piece, many)
        cost = self.g.terms // self.pieces * minimum(self.width, PANEL) * scalar_cost(self.g.body)
        kernel = self.face.kernel(tasks, cost, e)
        return kernel if self.pieces == 1 else replace(kernel, buffers=(*kernel.buffers, self.partial))

    def join(self) -> Kernel:
        """Join the partial results of the pieces, in order; without tasks where there is one piece."""
        graph = Graph("join")
        partials = graph.add_input(ArrayType(self.dtype, (self.pieces, self.results)), self.partial.name)
        node = self.g.body.node(self.g.result.node)
        graph.set_outputs(graph.add(node.primitive, [partials], {"axes": (0,)}, node.line))
        kernel = _LongColumns(ColumnGroup(graph, KernelInterface.of(graph, [self.out])), 1).kernel()
        is_one = minimum(self.pieces - 1, 1)
        return replace(kernel, tasks=kernel.tasks * is_one, operations=dim(0))

    def _terms(self, task: _Task, piece: Dim, many: Dim) -> None:
        """All terms of a piece: an interval of the outer indices, or of the inner ones if there are no outer."""
        start, stop = self._cut(piece, many, product(self.outer) if self.outer else self.inner)
        if not self.outer:
            self._blocks(task, [], start, stop)
            return
        with loop(self.e, "n", start, stop) as n:
            self._blocks(task, decode_into(self.e, n, self.outer, "q"), dim(0), self.inner)

    def _cut(self, piece: Dim, many: Dim, count: Dim) -> tuple[Dim, Dim]:
        """The start and stop of one of ``many`` pieces of ``count`` indices."""
        if many == 1:
            return dim(0), count
        start = bind(self.e, "start", piece * count // many)
        return start, bind(self.e, "stop", (piece + 1) * count // many)

    def _blocks(self, task: _Task, outer: Sequence[Dim], start: Dim, stop: Dim) -> None:
        """Blocks of terms, each joined from the identity on and then with the total."""
        e, stop = self.e, bind(self.e, "stop", stop)
        with loop(e, "block", 0, quotient_up(stop - start, BLOCK)) as block:
            first = bind(e, "first", start + block * BLOCK)
            count = bind(e, "count", minimum(stop - first, BLOCK))
            self._each(task, task.sums, lambda j: self.identity)
            together = TREE if scalar_cost(self.g.body) <= CHEAP else 1
            iterations = bind(e, "iterations", count // together)
            self._iterations(task, outer, first, together, dim(0), iterations)
            if together > 1:
                self._iterations(task, outer, first, 1, iterations * together, count)
            self._each(task, task.total, lambda j: self._joined(self._at(task.total, j), self._at(task.sums, j)))

    def _iterations(self, task: _Task, outer: Sequence[Dim], first: Dim, together: int, start: Dim, stop: Dim) -> None:
        """``together`` terms an iteration, joined as a tree and then with the block's."""
        with loop(self.e, "step", start, stop) as iteration:
            inner_indices = [first + iteration * together + k for k in range(together)]

            def joined(j: Dim) -> Expr:
                terms = [self._term(task, outer, inner, j) for inner in inner_indices]
                while len(terms) > 1:
                    terms = [self._joined(*terms[i : i + 2]) for i in range(0, len(terms), 2)]
                return self._joined(self._at(task.sums, j), terms[0])

            self._each(task, task.sums, joined)

    def _term(self, task: _Task, outer: Sequence[Dim], inner: Dim, j: Dim) -> Expr:
        rank, result = len(self.g.space), [*task.index, task.columns.first + j]
        retained = spread(self.g.retained_groups, rank, result[: len(self.g.retained_groups)])
        reduced = spread(self.g.reduced_groups, rank, [*outer, inner][: len(self.g.reduced_groups)])
        return self.e.element(self.g.operand, tuple(a + b for a, b in zip(retained, reduced, strict=True)))

    def _joined(self, x: Expr, y: Expr) -> Expr:
        return self.e.let(Apply(self.g.fold.combine, (x, y), self.dtype))

    def _at(self, buffer: str, j: Dim) -> Expr:
        return Load(buffer, j, self.dtype)

    def _each(self, task: _Task, target: str, value: Callable[[Dim], Expr]) -> None:
        """Write a number for every result of the panel."""
        with loop(self.e, "j", 0, task.columns.count, lanes=True) as j:
            self.e.append(Store(target, j, value(j)))

    def _write(self, task: _Task, piece: Dim, many: Dim) -> None:
        """The panel's totals: the results where there is one piece, else its partial results."""
        e, j = self.e, self.e.fresh("j")
        at = bind(e, "at", row_major((*self.above, self.width), (*task.index, task.columns.first)))

        def write(buffer: str, first: Dim) -> None:
            e.open(j)
            e.append(Store(buffer, first + symbol(j), self._at(task.total, symbol(j))))
            e.append(Loop(j, dim(0), task.columns.count, True, e.close()))

        cases = [partial(write, self.out, at)]
        if self.pieces != 1:
            cases.append(partial(write, self.partial.name, bind(e, "split_at", piece * self.results + at)))
        write_case(e, minimum(many - 1, 1), cases)


def _outer_and_inner(groups: Sequence[Dim]) -> tuple[list[Dim], Dim]:
    """The sizes of all loops but the innermost, and that one's."""
    return list(groups[:-1]), groups[-1] if groups else dim(1)
