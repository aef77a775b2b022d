"""Block-scaled products on register tiles: levels of few bits, packed into panels of words, with panels of scales.

Both panels are written by kernels of their own, which run ahead of all calls where the matrix is the same in every one.
A task is some rows of a panel of columns, as of other products (:mod:`zenith.backends.lower.product.cpu`), and reads
each byte of its panel once: with one row that is all that takes time, so that half a byte a term is what counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.expressions import Load
from zenith.backends.kernel import Kernel, Scratch, Store
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.loops import Span, block_of, loop, scratch, task_loop
from zenith.backends.lower.nest import bind, scalar_cost
from zenith.backends.lower.operand import access, dense, is_read_elsewhere, tile_doc
from zenith.backends.lower.product.blocked import STREAMED, BlockedProduct, Packed, Rows, panel_columns, tiles_of
from zenith.backends.lower.task_grid import TaskGrid, quotient_up
from zenith.backends.target import TileShape
from zenith.backends.tiles import Operand, ScaledTile
from zenith.ir.dims import Dim, dim, maximum, product
from zenith.ir.graph import Graph, Value
from zenith.ir.types import float32, int8, uint32

WORD = 32  # bits
BLOCK = 2048  # terms at most that a tile sums at once, unless a group has more: its rows of int8 stay in the cache


def lower_scaled_product(body: Graph, tile: TileShape) -> list[Kernel]:
    """The kernels that pack levels and scales, and the one of the product."""
    return _ScaledProduct(body, tile).kernels()


@dataclass(frozen=True, slots=True)
class _Task:
    """Some rows of a panel of columns, at an index of the batch, whose sums are a scratch buffer."""

    panel: Dim
    index: Index
    rows: Rows
    sums: Operand


class _ScaledProduct(BlockedProduct):
    def __init__(self, body: Graph, tile: TileShape) -> None:
        super().__init__(body, tile)
        *self.batch, self.m, self.n = self.result.shape
        params = body.node(self.result.node).params
        self.bits, self.group = params["bits"], params["group"]
        self.left_scales, self.right_scales = self.others
        self.groups, rows = self.right_scales.shape[-2], self.right.shape[-2]  # of the matrix, which is often fixed
        self.k, self.words = self.groups * self.group, quotient_up(rows, WORD // 8)
        self.block = self.group * max(1, BLOCK // self.group)
        self.cut = TaskGrid.of(self.m, self.n, product(self.batch), tile, tile.tasks)
        panels = product(self.batch) * self.cut.panels * tile.panel
        self.levels = self.packed_from(self._buffer(self.right), uint32, panels * self.words)
        self.scales = self.packed_from(self._buffer(self.right_scales), float32, panels * self.groups)
        self.copied = Scratch(self.names.fresh("rows"), int8, tile.rows * self.block)

    def _buffer(self, operand: Value) -> str:
        return access(self.face, operand, tuple(dim(0) for _ in self.batch)).buffer

    def kernels(self) -> list[Kernel]:
        """All kernels, in their order."""
        levels = self._pack(self.levels, self.right, self.words, self.right.shape[-2])
        return [levels, self._pack(self.scales, self.right_scales, self.groups, self.groups), self._product()]

    def _pack(self, packed: Packed, operand: Value, length: Dim, rows: Dim) -> Kernel:
        """Task t copies panel t of an operand with so many ``rows``, which has ``length`` rows then."""
        e, tasks = self.builder(), product(self.batch) * self.cut.panels
        with task_loop(e, tasks) as t:
            columns, index = panel_columns(e, self.cut, t, self.n, self.tile.panel, self.batch)
            source = access(self.face, operand, index)
            begin = Operand(source.buffer, source.at + columns.first * source.strides[1], source.strides)
            target = dense(packed.panels.name, t * length * self.tile.panel, self.tile.panel)
            self.append_copy(e, self.tile.vectors, begin, target, rows, columns.count)
        return self.packing_kernel(e, tasks, length * self.tile.panel * STREAMED, packed)

    # --- the product ---

    def _product(self) -> Kernel:
        """Task t computes one block of rows of one panel of columns; neighbours share the panel."""
        e, width = self.builder(), self.tile.panel
        sums = dense(scratch(e, "sums", self.dtype, self.tile.row_block * width), dim(0), width)
        blocks, tasks = bind(e, "blocks", self.cut.blocks), product(self.batch) * self.cut.panels * self.cut.blocks
        with task_loop(e, tasks) as t:
            block, panel = bind(e, "block", t % blocks), bind(e, "panel", t // blocks)
            columns, index = panel_columns(e, self.cut, panel, self.n, width, self.batch)
            rows = self.rows_of(e, block, blocks, self.m)
            self._terms(e, _Task(panel, index, rows, sums))
            self.store_sums(
                e, sums, rows.count, columns.count, lambda r, j: (*index, rows.first + r, columns.first + j)
            )
        return self._kernel(e, tasks)

    def _kernel(self, e: ElementBuilder, tasks: Dim) -> Kernel:
        """The kernel of the product, once its statements are written."""
        packed = [(self.levels, self.right, 1), (self.scales, self.right_scales, 3)]
        gone = {p.source.name for p, operand, number in packed if not is_read_elsewhere(self.face, operand, number)}
        buffers = [b for b in self.face.buffers if b.name not in gone] + [p.panels for p, _, _ in packed]
        rows = quotient_up(self.m, maximum(1, self.cut.blocks))
        cost = self.tile.panel * (self.words * (2 * rows + STREAMED) + rows * scalar_cost(self.body))
        return Kernel("kernel", tile_doc(self.body), tuple(buffers), self.face.symbols, tasks, cost, e.close())

    def _terms(self, e: ElementBuilder, task: _Task) -> None:
        """All blocks of terms; without terms there is one, which makes the sums zero."""
        if self.k.static is not None and self.k.static <= self.block:
            self._tiles(e, task, Span(dim(0), self.k))
            return
        with loop(e, "block", 0, maximum(1, quotient_up(self.k, self.block))) as block:
            self._tiles(e, task, block_of(e, ("start", "terms"), block, self.block, self.k))

    def _tiles(self, e: ElementBuilder, task: _Task, terms: Span) -> None:
        with self.each_tile(e, task.rows) as (_, rows):
            self._tile(e, task, terms, rows)

    def _tile(self, e: ElementBuilder, task: _Task, terms: Span, rows: Span) -> None:
        """One register tile, some of the rows of the task and a block of their terms."""
        first, width, group = task.rows.first + rows.first, self.tile.panel, terms.first // self.group
        levels = task.panel * self.words + terms.first * self.bits // WORD
        scales = access(self.face, self.left_scales, task.index)
        of_rows = Operand(
            scales.buffer,
            bind(e, "scales_at", scales.at + first * scales.strides[0] + group * scales.strides[1]),
            scales.strides,
        )
        tile = ScaledTile(
            self.cut.heights[0], self.tile.vectors, self.tile.lanes, self.bits,
            dense(task.sums.buffer, bind(e, "sums_at", rows.first * width), width),
            self._left(e, task.index, first, terms, rows.count), of_rows,
            dense(self.levels.panels.name, bind(e, "levels_at", levels * width), width),
            dense(self.scales.panels.name, bind(e, "panel_at", (task.panel * self.groups + group) * width), width),
            self.group, terms.count // self.group, terms.first,
        )  # fmt: skip
        least, most = self.cut.heights
        e.append(tile if least == most else tiles_of(tile, rows.count, most))

    def _left(self, e: ElementBuilder, index: Index, first: Dim, terms: Span, count: Dim) -> Operand:
        """A tile's rows of the left operand: where they are, or a copy where neighbours are not next to each other."""
        left = access(self.face, self.left, index)
        at = bind(e, "left_at", left.at + first * left.strides[0] + terms.first * left.strides[1])
        if left.strides[1] == 1:
            return Operand(left.buffer, at, left.strides)
        outermost = e.levels[0].statements
        outermost += [] if self.copied in outermost else [self.copied]
        with loop(e, "r", 0, count) as r, loop(e, "k", 0, terms.count, lanes=True) as k:
            element = e.let(Load(left.buffer, at + r * left.strides[0] + k * left.strides[1], int8))
            e.append(Store(self.copied.name, r * self.block + k, element))
        return dense(self.copied.name, dim(0), self.block)
