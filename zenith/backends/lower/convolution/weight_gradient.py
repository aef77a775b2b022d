"""The gradient of a convolution by its weights: a product whose terms are pixels and whose rows are window elements.

On blocks of channels (:mod:`zenith.ir.ops.convolution_weights`) a row of the left operand has the inputs of one element
of a window, from pixel to pixel; a table has the offset of each row. Columns are channels of the result at the same
pixels. The register tile sums over the pixels of a line, and over some lines at once: a second table has their offsets.

A task has a panel of columns and some tiles of rows. For a block of lines it copies the panel, which all its tiles then
multiply. Their sums stay in the second-level cache; examples and blocks of lines, of at most as many terms as a
product's, are added one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zenith.backends.expressions import Number, Position
from zenith.backends.kernel import Buffer, Kernel, Store
from zenith.backends.lower.elements import ElementBuilder
from zenith.backends.lower.loops import Span, block_of, loop, scratch, share_of, task_loop
from zenith.backends.lower.nest import bind, decode_into
from zenith.backends.lower.operand import Strided, dense
from zenith.backends.lower.product.blocked import STREAMED, BlockedProduct, tiles_of
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import TileShape
from zenith.backends.tiles import Gathered, Operand, ProductTile
from zenith.ir.dims import Dim, dim, maximum, minimum, product
from zenith.ir.graph import Graph
from zenith.ir.types import int64

FEWER = 2  # times fewer tasks than products have: each copies the columns of all pixels


def lower_convolution_weights(body: Graph, tile: TileShape) -> list[Kernel]:
    """The table of lines, and the kernel that reads it."""
    weights = _Weights(body, tile)
    return [weights.table(), weights.kernel()]


@dataclass(frozen=True, slots=True)
class _Cut:
    """``panels`` of the ``outputs``; ``row_blocks`` of at most ``most`` of the rows' ``tiles``; blocks of lines.

    A block of terms has ``together`` lines, or one of the ``pieces`` of a line.
    """

    outputs: int
    vectors: int
    width: int
    panels: int
    rows: int
    tiles: int
    most: int
    row_blocks: int
    pieces: Dim
    together: Dim

    @classmethod
    def of(cls, outputs: int, rows: int, length: Dim, tile: TileShape) -> _Cut:
        """Columns fill tiles, a task has so few tiles of rows that there are tasks, lines are whole where they fit."""
        vectors = max(1, min(tile.vectors, -(-outputs // tile.lanes)))
        width = vectors * tile.lanes
        panels, tiles = -(-outputs // width), -(-rows // tile.rows)
        wanted = -(-FEWER * tiles * panels // tile.tasks)
        most = max(1, min(tiles, max(1, tile.block // tile.rows), wanted))
        pieces = maximum(1, quotient_up(length, tile.block))
        together = maximum(1, dim(tile.block) // maximum(1, length))
        return cls(outputs, vectors, width, panels, rows, tiles, most, -(-tiles // most), pieces, together)


@dataclass(frozen=True, slots=True)
class _Task:
    """A panel of the columns of a group and some tiles of rows; buffers of its sums and of the copied panel."""

    group: Dim
    columns: Span
    tiles: Span
    rows: Span
    sums: Operand
    panel: Operand


class _Weights(BlockedProduct):
    def __init__(self, body: Graph, tile: TileShape) -> None:
        super().__init__(body, tile)
        params = body.node(self.result.node).params
        self.x = Strided.of(self.face, self.left)
        self.examples, self.groups, blocks, *sizes, block = self.right.shape
        along = [n * s for n, s in zip(params["strides"], self.x.steps[3:-1], strict=True)]
        self.is_line = len(sizes) == 1
        if self.is_line:
            sizes, along = [dim(1), *sizes], [dim(0), *along]
        *self.outer, self.lines, self.length = sizes
        *self.outer_steps, self.line_step, self.pixel_step = along
        holes = [s * d for s, d in zip(self.x.steps[3:-1], params["dilation"], strict=True)]
        self.radix = [self.left.shape[2], *params["window"], self.left.shape[-1]]
        self.row_steps = [self.x.steps[2], *holes, self.x.steps[-1]]
        self.block, self.beyond = _number(block), 2 * tile.rows  # rows that a tile looks ahead
        self.cut = _Cut.of(_number(blocks) * self.block, _number(product(self.radix)), self.length, tile)
        self.tables = (
            Buffer(self.names.fresh("lines_at"), int64, self.cut.together, "in"),
            Buffer(self.names.fresh("rows_at"), int64, dim(self.cut.rows + self.beyond), "in"),
        )

    def table(self) -> Kernel:
        """The offsets of the lines of a block, and of rows; after the last row as many more as a tile looks ahead."""
        e, (line_table, row_table) = self.builder(), self.tables
        with loop(e, "line", 0, self.cut.together, lanes=True) as line:
            e.append(Store(line_table.name, line, e.let(Position(line * self.line_step))))
        with loop(e, "row", 0, self.cut.rows) as row:
            digits = decode_into(e, row, self.radix)
            at = sum((d * s for d, s in zip(digits, self.row_steps, strict=True)), dim(0))
            e.append(Store(row_table.name, row, e.let(Position(at))))
        with loop(e, "beyond", 0, self.beyond, lanes=True) as beyond:
            e.append(Store(row_table.name, self.cut.rows + beyond, e.let(Position(dim(0)))))
        return self.table_kernel(e, self.tables, self.cut.together + self.cut.rows)

    def kernel(self) -> Kernel:
        """Task t sums a panel of columns of some tiles of rows; neighbours share the panel."""
        e, cut = self.builder(), self.cut
        width, most = cut.width, cut.most * self.tile.rows
        sums = dense(scratch(e, "sums", self.dtype, most * width), dim(0), width)
        copy = dense(scratch(e, "panel", self.dtype, self.tile.block * width), dim(0), width)
        tasks = self.groups * cut.panels * cut.row_blocks
        with task_loop(e, tasks) as t:
            rest = bind(e, "rest", t // cut.row_blocks)
            panel, group = bind(e, "panel_at", rest % cut.panels), bind(e, "group", rest // cut.panels)
            row_block = bind(e, "block", t % cut.row_blocks)
            tiles = share_of(e, ("first_tile", "some_tiles"), row_block, cut.row_blocks, dim(cut.tiles))
            top = bind(e, "top", tiles.first * cut.rows // cut.tiles)
            rows = Span(top, bind(e, "height", (tiles.first + tiles.count) * cut.rows // cut.tiles - top))
            columns = block_of(e, ("column", "columns"), panel, width, dim(cut.outputs))
            with loop(e, "i", 0, rows.count * width, lanes=True) as i:
                e.append(Store(sums.buffer, i, Number(0, self.dtype)))
            self._examples(e, _Task(group, columns, tiles, rows, sums, copy))
            self.store_sums(e, sums, rows.count, columns.count, lambda r, j: (group, top + r, columns.first + j))
        terms = self.examples * product(self.outer) * self.lines * self.length
        return self.product_kernel(e, tasks, terms * width * (most + STREAMED), self.tables)

    def _examples(self, e: ElementBuilder, task: _Task) -> None:
        """Blocks of lines of all examples, one after another."""
        pieces, together = self.cut.pieces, self.cut.together
        of_example, of_group, *_ = self.x.steps
        with loop(e, "n", 0, self.examples * product(self.outer)) as n:
            example, *outer = decode_into(e, n, [self.examples, *self.outer])
            at = [i * s for i, s in zip(outer, self.outer_steps, strict=True)]
            left = bind(e, "left", sum(at, self.x.at + example * of_example + task.group * of_group))
            with loop(e, "line_block", 0, quotient_up(self.lines, together) * pieces) as block:
                line = bind(e, "line", block // pieces * together)
                piece = bind(e, "piece", block % pieces)
                pixels = share_of(e, ("start", "some"), piece, pieces, self.length)
                lines = Span(line, bind(e, "some_lines", minimum(self.lines - line, together)))
                self._copy(e, task, (example, *outer), lines, pixels)
                at_block = left + line * self.line_step + pixels.first * self.pixel_step
                self._tiles(e, task, bind(e, "block_at", at_block), lines.count, pixels.count)

    def _copy(self, e: ElementBuilder, task: _Task, at: Sequence[Dim], lines: Span, pixels: Span) -> None:
        """Copy the columns of a block of lines: channels of a block are neighbours in memory, blocks are far apart.

        Block by block, so that reads are contiguous and hardware prefetches them. ``at`` is the example and the outer
        axes.
        """
        width, (example, *outer), columns = self.cut.width, at, task.columns
        run = self.block if width % self.block == 0 else 1  # columns that are copied together
        with loop(e, "k", 0, columns.count // run) as k:
            channel = bind(e, "channel", columns.first + k * run)
            of_block, lane = bind(e, "block", channel // self.block), bind(e, "lane", channel % self.block)
            with loop(e, "copied_line", 0, lines.count) as line, loop(e, "position", 0, pixels.count) as pixel:
                to = bind(e, "to", (line * pixels.count + pixel) * width + k * run)
                above = () if self.is_line else (*outer, lines.first + line)
                with loop(e, "j", 0, run, lanes=True) as j:
                    index = (example, task.group, of_block, *above, pixels.first + pixel, lane + j)
                    e.append(Store(task.panel.buffer, to + j, e.element(self.right, index)))

    def _tiles(self, e: ElementBuilder, task: _Task, left: Dim, lines: Dim, pixels: Dim) -> None:
        """All tiles of the task, onto the copied panel."""
        cut, (line_table, row_table) = self.cut, self.tables
        with loop(e, "q", 0, task.tiles.count) as q:
            number = bind(e, "tile", task.tiles.first + q)
            rows = share_of(e, ("row", "rows"), number, cut.tiles, dim(cut.rows))
            a = Operand(self.x.buffer, left, (rows.first, self.pixel_step))
            c = dense(task.sums.buffer, bind(e, "sums_at", (rows.first - task.rows.first) * cut.width), cut.width)
            gathered = Gathered(line_table.name, dim(0), lines, row_table.name)
            shape = cut.rows // cut.tiles, cut.vectors, self.tile.lanes
            tile = ProductTile(*shape, c, a, task.panel, pixels, dim(0), dim(1), gathered)
            e.append(tiles_of(tile, rows.count, -(-cut.rows // cut.tiles)))


def _number(size: Dim) -> int:
    """A size as a number: engines refuse arrays where a cut depends on an unknown one."""
    assert size.static is not None
    return size.static


def known_cut(x: Sequence[Dim], y: Sequence[Dim], window: Sequence[Dim]) -> bool:
    """Whether the sizes on which a cut depends are known: blocks of channels and their numbers, and the window."""
    return all(n.static is not None and n != 0 for n in (x[2], x[-1], y[2], y[-1], *window))
