"""Convolutions: a product that gathers the terms of its left operand, with an elementwise epilogue.

On blocks of channels (:mod:`zenith.ir.ops.blocked_convolution`) the *pixels* of the result, the points of its spatial
axes, are the rows of a product. Its terms are in contiguous *segments*, each a row of the window with its channels, at
the same offset from the start of each window. One kernel writes the tables of segments and windows, once where sizes
are known; the register tile then sums over all segments of neighbouring pixels' windows, across the ends of lines.

Where the processor multiplies words of several terms, pairs of bfloat16 or four bytes, segments have whole words, which
a tile reads as they are in memory, and panels have words of neighbours in a column.

A task has a panel of output channels and a piece of an example's pixels. Weights that are the same in every call are
packed into panels once, others copied by the tasks. The order of summation is a product's: blocks of at most so many
terms. Where there is one block, the epilogue is applied tile by tile. A border around the result is filled by another
kernel (:mod:`zenith.backends.lower.pointwise.borders`).
(E. Georganas et al., *High-performance deep learning via a single building block*, arXiv:1906.06440.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from zenith.backends.expressions import Number, Position
from zenith.backends.kernel import Buffer, Kernel, Store
from zenith.backends.lower.collapse import spread
from zenith.backends.lower.convolution.channels import LINES, BlockedConvolution, digits_of
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.loops import Span, block_of, loop, scratch, task_loop
from zenith.backends.lower.nest import bind, decode_into, find_loops, scalar_cost, store_results, stored
from zenith.backends.lower.operand import dense
from zenith.backends.lower.product.blocked import STREAMED, Rows, tiles_of
from zenith.backends.lower.task_grid import heights_of, quotient_up
from zenith.backends.target import TileShape
from zenith.backends.tiles import Gathered, Operand, ProductTile
from zenith.ir.dims import Dim, dim, maximum, minimum, product, row_major
from zenith.ir.graph import Graph
from zenith.ir.types import int64, uint32


def lower_convolution(body: Graph, tile: TileShape, fixed: Collection[str] = ()) -> list[Kernel]:
    """The offset tables, the packing kernel where the weights are among the ``fixed`` inputs, and the convolution."""
    convolution = _Convolution(body, tile, fixed)
    packing = [convolution.pack()] if convolution.packed else []
    return [convolution.table(), *packing, convolution.kernel()]


@dataclass(frozen=True, slots=True)
class _Segments:
    """The terms of windows: segments of ``terms``, at ``steps`` along ``radix``, of which ``together`` are a block."""

    radix: tuple[Dim, ...]
    steps: tuple[Dim, ...]
    terms: Dim
    together: Dim

    @classmethod
    def of(
        cls, x: Sequence[Dim], steps: Sequence[Dim], window: Sequence[Dim], dilation: Sequence[Dim], block: int
    ) -> _Segments:
        """Blocks of channels times all axes of the window; contiguous ones are merged up to ``block`` terms."""
        channels, *along, inner = steps[2:]
        radix = [x[2], *window]
        own, terms = [channels, *(s * d for s, d in zip(along, dilation, strict=True))], x[-1]
        joined = (terms * radix[-1]).static
        if own[-1] == inner * terms and joined is not None and joined <= block:
            terms = terms * radix.pop()
            own.pop()
        together = max(1, block // max(1, terms.static)) if terms.static else 1
        return cls(tuple(radix), tuple(own), terms, dim(together))

    @property
    def count(self) -> Dim:
        """The number of segments."""
        return product(self.radix)

    @property
    def is_one_block(self) -> bool:
        """Whether all segments are one block: then the epilogue reads a tile's sums right after they are computed."""
        return self.count.static is not None and self.count.static <= (self.together.static or 0)


@dataclass(frozen=True, slots=True)
class _Task:
    """A panel of the channels of some pixels of an example and group, whose windows begin from ``left_at`` on.

    ``number`` is that of the panel among those of all groups.
    """

    image: Index
    number: Dim
    columns: Span
    rows: Rows
    left_at: Dim
    sums: Operand


class _Convolution(BlockedConvolution):
    def __init__(self, body: Graph, tile: TileShape, fixed: Collection[str]) -> None:
        super().__init__(body, tile)
        node = body.node(self.result.node)
        window, strides, dilation = (node.params[n] for n in ("window", "strides", "dilation"))
        self.segments = _Segments.of(self.left.shape, self.x.steps, window, dilation, tile.block)
        self.pixel_steps = [s * stride for s, stride in zip(self.x.steps[3:-1], strides, strict=True)]
        self.pixels, self.beyond = product(self.sizes), 2 * tile.rows  # pixels that a tile looks ahead
        self.axes = self._joined_axes()
        panels, width = self.groups * self.channels.panels, self.channels.width
        is_packed = self.w.buffer in fixed
        self.panel_type = uint32 if tile.terms > 1 else self.dtype
        if is_packed:
            self.packed = self.packed_from(self.w.buffer, self.panel_type, panels * self._rows(self.all_terms) * width)
        self.pieces = self._pieces(tile.tasks if is_packed else tile.tasks // 2)
        self.tables = (
            Buffer(self.names.fresh("segments_at"), int64, self.segments.count, "in"),
            Buffer(self.names.fresh("pixels_at"), int64, self.pixels + self.beyond, "in"),
        )

    def _joined_axes(self) -> list[list[int]]:
        """Groups of spatial axes, each one loop in the accesses of the input and of the epilogue."""

        def visit(e: ElementBuilder, index: Index) -> None:
            e.known[self.result.node, 0] = Number(0, self.dtype)
            store_results(e, self.face, index)

        def addresses(index: Index) -> list[Dim]:
            return [row_major(value.shape, at) for _, value, at in stored(self.face, index)]

        spatial, found = range(3, len(self.result.shape) - 1), list[list[int]]()
        for group in find_loops(self.face, self.result.shape, visit, addresses):
            joined = [a - 3 for a in group if a in spatial]
            if joined and (not found or joined[0] > found[-1][-1]):
                found.append(joined)
        return found or [[len(self.sizes) - 1]]

    def _pieces(self, tasks: int) -> Dim:
        """Pieces of all pixels of an example: few, so that a panel is read seldom, but enough for all tasks."""
        others = maximum(1, self.examples * self.groups * self.channels.panels)
        wanted = minimum(quotient_up(dim(tasks), others), quotient_up(self.pixels, self.tile.rows))
        return maximum(1, maximum(quotient_up(self.pixels, self.tile.row_block), wanted))

    def _rows(self, terms: Dim) -> Dim:
        """Rows of a panel with so many terms."""
        return terms // self.tile.terms

    # --- tables and packing ---

    def table(self) -> Kernel:
        """The offset of each segment from the start of a window, and of each window from the first one.

        After the last window there are as many more entries as a tile looks ahead.
        """
        e, (segments, pixels) = self.builder(), self.tables
        _write_table(e, segments.name, self.segments.radix, self.segments.steps)
        _write_table(e, pixels.name, self.sizes, self.pixel_steps)
        with loop(e, "r", 0, self.beyond, lanes=True) as r:
            e.append(Store(pixels.name, self.pixels + r, e.let(Position(dim(0)))))
        return self.table_kernel(e, self.tables, self.segments.count + self.pixels)

    def pack(self) -> Kernel:
        """Task t copies panel t of the weights."""
        assert self.packed is not None
        e, panels = self.builder(), self.channels.panels
        width, tasks = self.channels.width, self.groups * panels
        size = self._rows(self.all_terms) * width
        with task_loop(e, tasks) as t:
            panel, group = bind(e, "panel", t % panels), bind(e, "group", t // panels)
            columns, target = self.channels.columns(e, panel), dense(self.packed.panels.name, t * size, width)
            self._copy(e, group, columns, Span(dim(0), self.all_terms), target)
        return self.packing_kernel(e, tasks, size * STREAMED)

    def _copy(self, e: ElementBuilder, group: Dim, columns: Span, terms: Span, target: Operand) -> None:
        """Copy some terms of a panel of weights."""
        of_group, of_term, of_column = self.w.steps
        at = self.w.at + group * of_group + terms.first * of_term + columns.first * of_column
        source = Operand(self.w.buffer, at, (of_term, of_column))
        self.append_copy(e, self.channels.vectors, source, target, terms.count, columns.count)

    # --- the convolution ---

    def kernel(self) -> Kernel:
        """Task t computes a panel of channels of a piece of the pixels; neighbours share the panel."""
        e, width = self.builder(), self.channels.width
        summed = self.tile.rows if self.segments.is_one_block else self.tile.row_block
        sums = dense(scratch(e, "sums", self.dtype, summed * width), dim(0), width)
        panels, pieces = bind(e, "panels", self.channels.panels), bind(e, "pieces", self.pieces)
        of_example, of_group, *_ = self.x.steps
        tasks = self.examples * self.groups * self.channels.panels * self.pieces
        with task_loop(e, tasks) as t:
            digits = digits_of(t, [self.examples, self.groups, panels, pieces])
            example, group, panel, piece = (bind(e, "at", digit) for digit in digits)
            columns = self.channels.columns(e, panel)
            number = bind(e, "number", group * panels + panel)
            rows = self.rows_of(e, piece, pieces, self.pixels)
            left_at = bind(e, "left_at", self.x.at + example * of_example + group * of_group)
            self._terms(e, _Task((example, group), number, columns, rows, left_at, sums))
        return self.product_kernel(e, tasks, self._cost(), self.tables)

    def _cost(self) -> Dim:
        rows = minimum(self.tile.row_block, maximum(1, self.pixels))
        return self.channels.width * (self.all_terms * (rows + STREAMED) + rows * scalar_cost(self.body))

    def _terms(self, e: ElementBuilder, task: _Task) -> None:
        """All blocks of segments; without segments there is one, which makes the sums zero."""
        count, together = self.segments.count, self.segments.together
        if self.segments.is_one_block:
            self._block(e, task, Span(dim(0), count))
            return
        with loop(e, "segment_block", 0, maximum(1, quotient_up(count, together))) as block:
            self._block(e, task, block_of(e, ("first", "some"), block, together, count))
        self._epilogue(e, task, Span(dim(0), task.rows.count), dim(0))

    def _block(self, e: ElementBuilder, task: _Task, segments: Span) -> None:
        """Some segments of the windows of all pixels of the task, in tiles of nearly equal heights."""
        width, each = self.channels.width, self.segments.terms
        terms = bind(e, "terms", segments.count * each)
        if self.packed is not None:
            before = task.number * self.all_terms + segments.first * each
            at = bind(e, "packed_at", self._rows(before) * width)
            b = dense(self.packed.panels.name, at, width)
        else:
            longest = max(self.tile.block, each.static or 0)
            b = dense(scratch(e, "copy", self.panel_type, longest // self.tile.terms * width), dim(0), width)
            span = Span(bind(e, "first_term", segments.first * each), terms)
            self._copy(e, task.image[1], task.columns, span, b)
        with self.each_tile(e, task.rows) as (q, rows):
            ahead = b.at if self.packed is None else self.ahead(e, b.at, self._rows(terms), q)
            self._tile(e, task, b, segments, rows, ahead)
            if self.segments.is_one_block:
                self._epilogue(e, task, rows, rows.first)

    def _tile(self, e: ElementBuilder, task: _Task, b: Operand, segments: Span, rows: Span, ahead: Dim) -> None:
        """One register tile, some of the rows of the task."""
        position = bind(e, "position", task.rows.first + rows.first)
        a = Operand(self.x.buffer, task.left_at, (position, self.x.steps[-1]))
        is_one = self.segments.is_one_block
        c = replace(task.sums, at=dim(0) if is_one else bind(e, "sums_at", rows.first * self.channels.width))
        windows, starts = self.tables
        gathered = Gathered(windows.name, segments.first, segments.count, starts.name)
        least, most = heights_of(self.pixels, self.pieces, self.tile.rows)
        shape, lines = (least, self.channels.vectors, self.tile.lanes), LINES if self.packed else 1
        tile = ProductTile(*shape, c, a, b, self.segments.terms, ahead, segments.first, gathered, lines)
        e.append(tiles_of(tile, rows.count, most))

    def _epilogue(self, e: ElementBuilder, task: _Task, rows: Span, base: Dim) -> None:
        """Apply the epilogue to the sums of some rows; the buffer of sums begins with row ``base``."""
        sizes = [product(self.sizes[a] for a in group) for group in self.axes]
        with loop(e, "r", 0, rows.count) as r:
            row = bind(e, "sums_row", (rows.first - base + r) * self.channels.width)
            digits = decode_into(e, bind(e, "pixel_at", task.rows.first + rows.first + r), sizes)
            pixel = spread(self.axes, len(self.sizes), digits)
            self.finish(e, task.image, task.columns, task.sums.buffer, row, pixel)


def _write_table(e: ElementBuilder, table: str, sizes: Sequence[Dim], steps: Sequence[Dim]) -> None:
    """Write how far each index is from the first one."""
    last = len(sizes) - 1
    with ExitStack() as loops:
        index = [loops.enter_context(loop(e, "i", 0, size, lanes=axis == last)) for axis, size in enumerate(sizes)]
        at = sum((i * s for i, s in zip(index, steps, strict=True)), dim(0))
        e.append(Store(table, row_major(tuple(sizes), tuple(index)), e.let(Position(at))))
