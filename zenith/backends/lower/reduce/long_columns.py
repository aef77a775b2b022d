"""Long columns on a CPU: a task joins some of the terms of neighbouring results, which stay in the first-level cache.

A task has a panel of results that are neighbours in memory, and a piece of the reduced axes: an interval of the last
group of them that is one loop, or one of all groups before it. There are so many pieces that there are tasks for all
threads, whatever the number of results; they follow from the sizes alone, so results are bitwise repeatable. The
partial results of the pieces are joined as a column themselves.

Sums are more exact than those in index order: ``TERMS`` terms are added as a tree, ``BLOCK`` terms from zero before
they join the total. The error then grows with the number of blocks, not of terms.
(N. J. Higham, *The accuracy of floating point summation*, SIAM J. Sci. Comput. 14, 1993.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from zenith.backends.kernel import Apply, Buffer, Expr, Kernel, Load, Loop, Number, Scratch, Store, TaskLoop
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.nest import Interface, bind, decode_into, scalar_cost, write_case
from zenith.backends.lower.reduce.column_group import CHEAP, TERMS, ColumnGroup
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, dim, maximum, minimum, product, row_major, symbol
from zenith.ir.graph import Graph
from zenith.ir.types import ArrayType

PANEL = 256  # results of a task
BLOCK = 128  # terms that are joined before they meet the total
TASKS = 32  # at least, where there are terms to split


def lower_long_columns(body: Graph) -> list[Kernel]:
    """The kernel of the pieces and, unless there is one, the kernel that joins them."""
    columns = _LongColumns(ColumnGroup(body), TASKS)
    return [columns.kernel()] if columns.pieces == 1 else [columns.kernel(), columns.join()]


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
        self.e = self.face.builder()
        self.partial = self.e.fresh("splits")

    def kernel(self) -> Kernel:
        """Task (piece, results in front, panel): the terms of a piece of a panel's results."""
        e = self.e
        self.sums, self.total = (self._scratch(stem) for stem in ("sums", "total"))
        self.many = bind(e, "pieces", self.pieces)
        t = e.fresh("t")
        e.open(t)
        panels = bind(e, "panels", self.panels)
        piece, *self.index, panel = decode_into(e, symbol(t), [self.many, *self.above, panels])
        self.column = bind(e, "column", panel * PANEL)
        self.columns = bind(e, "columns", minimum(self.width - self.column, PANEL))
        self._each(self.total, lambda j: Number(self.g.fold.identity(self.dtype), self.dtype))
        self._terms(piece)
        self._write(piece)
        tasks = product([self.pieces, *self.above, self.panels])
        e.append(TaskLoop(t, tasks, None, (), e.close(), False))
        cost = self.g.terms // self.pieces * minimum(self.width, PANEL) * scalar_cost(self.g.body)
        kernel = self.face.kernel(tasks, cost, e)
        return kernel if self.pieces == 1 else replace(kernel, buffers=(*kernel.buffers, self._buffer("temporary")))

    def join(self) -> Kernel:
        """Join the partial results of the pieces, in order; without tasks where there is one piece."""
        graph = Graph("join")
        partials = graph.add_input(ArrayType(self.dtype, (self.pieces, self.results)), self.partial)
        node = self.g.body.node(self.g.result.node)
        graph.set_outputs(graph.add(node.primitive, [partials], {"axes": (0,)}, node.line))
        kernel = _LongColumns(ColumnGroup(graph, Interface.of(graph, [self.out])), 1).kernel()
        is_one = minimum(self.pieces - 1, 1)
        return replace(kernel, tasks=kernel.tasks * is_one, operations=dim(0))

    def _scratch(self, stem: str) -> str:
        name = self.e.fresh(stem)
        self.e.levels[0].statements.append(Scratch(name, self.dtype, min(PANEL, self.width.static or PANEL)))
        return name

    def _buffer(self, role: str) -> Buffer:
        return Buffer(self.partial, self.dtype, self.pieces * self.results, role)

    def _terms(self, piece: Dim) -> None:
        """All terms of a piece: an interval of the outer indices, or of the inner ones if there are no outer."""
        e = self.e
        if not self.outer:
            start, stop = self._cut(piece, self.inner)
            self._blocks([], start, stop)
            return
        start, stop = self._cut(piece, product(self.outer))
        n = e.fresh("n")
        e.open(n)
        self._blocks(decode_into(e, symbol(n), self.outer, "q"), dim(0), self.inner)
        e.append(Loop(n, start, stop, False, e.close()))

    def _cut(self, piece: Dim, count: Dim) -> tuple[Dim, Dim]:
        """The start and stop of a piece of ``count`` indices."""
        if self.many == 1:
            return dim(0), count
        start = bind(self.e, "start", piece * count // self.many)
        return start, bind(self.e, "stop", (piece + 1) * count // self.many)

    def _blocks(self, outer: Sequence[Dim], start: Dim, stop: Dim) -> None:
        """Blocks of terms, each joined from the identity on and then with the total."""
        e, stop = self.e, bind(self.e, "stop", stop)
        block = e.fresh("block")
        e.open(block)
        first = bind(e, "first", start + symbol(block) * BLOCK)
        count = bind(e, "count", minimum(stop - first, BLOCK))
        self._each(self.sums, lambda j: Number(self.g.fold.identity(self.dtype), self.dtype))
        together = TERMS if scalar_cost(self.g.body) <= CHEAP else 1
        iterations = bind(e, "iterations", count // together)
        self._iterations(outer, first, together, dim(0), iterations)
        if together > 1:
            self._iterations(outer, first, 1, iterations * together, count)
        self._each(self.total, lambda j: self._joined(self._at(self.total, j), self._at(self.sums, j)))
        e.append(Loop(block, dim(0), quotient_up(stop - start, BLOCK), False, e.close()))

    def _iterations(self, outer: Sequence[Dim], first: Dim, together: int, start: Dim, stop: Dim) -> None:
        """``together`` terms an iteration, joined as a tree and then with the block's."""
        e, iteration = self.e, self.e.fresh("step")
        e.open(iteration)
        inner_indices = [first + symbol(iteration) * together + k for k in range(together)]

        def joined(j: Dim) -> Expr:
            terms = [self._term(outer, inner, j) for inner in inner_indices]
            while len(terms) > 1:
                terms = [self._joined(*terms[i : i + 2]) for i in range(0, len(terms), 2)]
            return self._joined(self._at(self.sums, j), terms[0])

        self._each(self.sums, joined)
        e.append(Loop(iteration, start, stop, False, e.close()))

    def _term(self, outer: Sequence[Dim], inner: Dim, j: Dim) -> Expr:
        rank = len(self.g.space)
        retained = spread(self.g.retained_groups, rank, [*self.index, self.column + j][: len(self.g.retained_groups)])
        reduced = spread(self.g.reduced_groups, rank, [*outer, inner][: len(self.g.reduced_groups)])
        return self.e.element(self.g.operand, tuple(a + b for a, b in zip(retained, reduced, strict=True)))

    def _joined(self, x: Expr, y: Expr) -> Expr:
        return self.e.let(Apply(self.g.fold.combine, (x, y), self.dtype))

    def _at(self, buffer: str, j: Dim) -> Expr:
        return Load(buffer, j, self.dtype)

    def _each(self, target: str, value: Callable[[Dim], Expr]) -> None:
        """Write a number for every result of the panel."""
        e, j = self.e, self.e.fresh("j")
        e.open(j)
        e.append(Store(target, symbol(j), value(symbol(j))))
        e.append(Loop(j, dim(0), self.columns, True, e.close()))

    def _write(self, piece: Dim) -> None:
        """The panel's totals: the results where there is one piece, else its partial results."""
        e, j = self.e, self.e.fresh("j")
        at = bind(e, "at", row_major((*self.above, self.width), (*self.index, self.column)))

        def write(buffer: str, first: Dim) -> None:
            e.open(j)
            e.append(Store(buffer, first + symbol(j), self._at(self.total, symbol(j))))
            e.append(Loop(j, dim(0), self.columns, True, e.close()))

        cases = [partial(write, self.out, at)]
        if self.pieces != 1:
            cases.append(partial(write, self.partial, bind(e, "split_at", piece * self.results + at)))
        write_case(e, minimum(self.many - 1, 1), cases)


def _outer_and_inner(groups: Sequence[Dim]) -> tuple[list[Dim], Dim]:
    """The sizes of all loops but the innermost, and that one's."""
    return list(groups[:-1]), groups[-1] if groups else dim(1)
