"""Convolutions of 3x3 windows by Winograd's F(m x m, 3x3): fewer products, of transformed tiles and weights.

Each *tile*, ``m`` by ``m`` pixels of the result, reads ``m + 2`` by ``m + 2`` of the array. These and the weights
are transformed by sums, so that the transformed result is, position by position, a product of matrices: tiles by
channels times channels by output channels. With ``m = 2`` there are 16 products where four windows have 36, and results
are as exact. With ``m = 4`` there are 36 where sixteen windows have 144, and a larger error, which users allow by an
``error_budget`` (:mod:`zenith.backends.lower.convolution.winograd_transforms` has the matrices and their errors).

The weights' transform is a kernel of its own, which runs once where the weights are the same in every call.
A task transforms some tiles with all their channels, multiplies them panel by panel of output channels, and transforms
the sums back; all its intermediate results stay in the second-level cache. The epilogue is applied to each tile of the
result. Tiles are numbered across examples; where the last one reaches beyond the array, it repeats the last row, which
only pixels outside the result read.

Where operands may be rounded to bfloat16 (``precision="bf16"``), and the processor multiplies words of it, transformed
tiles and weights are rounded once more, and multiplied in words.

The order of summation is fixed, as in all products, and sums are a ninth as long; but terms are differences of
neighbours, so an element's error is relative to what its tile reads, and infinity becomes nan.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, replace

from zenith.backends.engines import Refusal
from zenith.backends.expressions import Apply, Expr, Load, Number
from zenith.backends.kernel import Buffer, Kernel, Loop, Store
from zenith.backends.lower.convolution.channels import LINES, BlockedConvolution, digits_of
from zenith.backends.lower.convolution.winograd_cost import best_transforms, most_tiles, tile_of_transformed
from zenith.backends.lower.convolution.winograd_transforms import F2, WEIGHTS, Matrix, Transforms, applied
from zenith.backends.lower.elements import ElementBuilder
from zenith.backends.lower.loops import Span, block_of, loop, scratch, task_loop
from zenith.backends.lower.nest import bind, decode_into
from zenith.backends.lower.operand import dense
from zenith.backends.lower.product.blocked import STREAMED, Packed, Rows, tiles_of
from zenith.backends.lower.task_grid import heights_of, quotient_up
from zenith.backends.target import Target, TileShape
from zenith.backends.tiles import ProductTile
from zenith.ir.dims import Dim, DimLike, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph
from zenith.ir.types import bfloat16, uint32

LINE = 64  # bytes between the rows of transformed tiles, so that these do not meet in the first-level cache
LEAST = 4  # register tiles, at least, for which a task reads a panel of weights
SPLIT = 4  # a task of few tiles has many panels, as each transforms its tiles itself
Row = list[Expr]
Grid = list[Row]


def lower_winograd(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    """The kernels that transform the weights and pack them, and the convolution."""
    tile, found = tile_of_transformed(body, target), best_transforms(body, target)
    assert not isinstance(found, Refusal), "an engine lowers what it accepted"
    convolution = _Winograd(body, tile, found[1])
    return [*convolution.weights(), convolution.kernel()]


@dataclass(frozen=True, slots=True)
class _Tiles:
    """A ``grid`` of tiles in ``pieces`` of at most ``most``, ``splits`` of the panels; rows are ``line`` apart."""

    grid: tuple[Dim, ...]
    pieces: Dim
    splits: Dim
    most: int
    line: int

    @classmethod
    def of(cls, grid: tuple[Dim, ...], inputs: Dim, panels: Dim, most: int, itemsize: int, tile: TileShape) -> _Tiles:
        """Enough tasks, and enough tiles for each read of a panel."""
        count = product(grid)
        wanted = minimum(tile.tasks, count // (LEAST * tile.rows))
        pieces = maximum(1, maximum(quotient_up(count, most), wanted))
        splits = maximum(1, minimum(panels, dim(tile.tasks) // (SPLIT * pieces)))
        most = min(most, quotient_up(count, pieces).static or most)
        return cls(grid, pieces, splits, most, (inputs.static or 0) + LINE // itemsize)

    @property
    def count(self) -> Dim:
        """The number of tiles."""
        return product(self.grid)


@dataclass(frozen=True, slots=True)
class _Task:
    """Some tiles, and the buffers of their transformed elements, of a panel's sums, and of one tile's results."""

    rows: Rows
    transformed: str
    sums: str
    given: str


class _Winograd(BlockedConvolution):
    """A convolution whose rows are tiles: sums of a panel's output channels at all positions."""

    def __init__(self, body: Graph, tile: TileShape, transforms: Transforms) -> None:
        super().__init__(body, tile)
        self.transforms, self.step, self.side = transforms, transforms.step, transforms.side
        self.positions, self.inputs = transforms.positions, self.all_terms // 9
        (high, wide), width, panels = self.sizes, self.channels.width, self.channels.panels
        grid = self.examples, quotient_up(high, self.step), quotient_up(wide, self.step)
        self.stored = bfloat16 if tile.terms > 1 else self.dtype  # the type of what is transformed
        most = most_tiles(self.inputs, width, self.dtype.itemsize, transforms)
        self.cut = _Tiles.of(grid, self.inputs, panels, most, self.stored.itemsize, tile)
        size = panels * self.positions * self.inputs * width
        self.transformed = self.packed_from(self.w.buffer, self.stored, size)
        self.packed = self.transformed
        if tile.terms > 1:
            words = Buffer(self.names.fresh("words"), uint32, size // tile.terms, "in")
            self.packed = Packed(self.transformed.panels, words)

    # --- the weights ---

    def weights(self) -> list[Kernel]:
        """The kernel that transforms the weights, and the one that makes them words."""
        return [self._transform_weights(), *([self._pack_words()] if self.tile.terms > 1 else [])]

    def _pack_words(self) -> Kernel:
        """Task t packs a panel of the weights of a position."""
        assert self.packed is not None
        e, width = self.builder(), self.channels.width
        tasks, size = self.channels.panels * self.positions, self.inputs * width
        with task_loop(e, tasks) as t:
            source = dense(self.packed.source.name, t * size, width)
            target = dense(self.packed.panels.name, t * (size // self.tile.terms), width)
            self.append_copy(e, self.channels.vectors, source, target, self.inputs, dim(width))
        return self.packing_kernel(e, tasks, size * STREAMED)

    def _transform_weights(self) -> Kernel:
        """Task t transforms panel t of the weights."""
        e, width, panels = self.builder(), self.channels.width, self.channels.panels
        size, block, name = self.inputs * width, self.left.shape[-1], e.fresh("j")
        j = symbol(name)
        with task_loop(e, panels) as t:
            columns = self.channels.columns(e, t)
            with loop(e, "c", 0, self.inputs) as c:
                first = bind(e, "first", c // block * 9 * block + c % block)
                at = bind(e, "at", t * self.positions * size + c * width)
                for start, stop in ((dim(0), columns.count), (columns.count, dim(width))):
                    e.open(name)
                    zero = Number(0, self.dtype)
                    grid: Grid = [[zero] * 3] * 3
                    if start == 0:
                        rows = [
                            [(dim(0), first + n * block, columns.first + j) for n in range(k, k + 3)] for k in (0, 3, 6)
                        ]
                        grid = [[e.element(self.right, index) for index in row] for row in rows]
                    self._write(e, _twice(e, grid, self.transforms.weights), self.transformed.panels.name, at + j, size)
                    e.append(Loop(name, start, stop, True, e.close()))
        return self.packing_kernel(e, panels, size * self.positions * STREAMED, self.transformed)

    # --- the convolution ---

    def kernel(self) -> Kernel:
        """Task t computes some panels of channels of a piece of the tiles; neighbours share the panels."""
        e, cut, panels, width = self.builder(), self.cut, self.channels.panels, self.channels.width
        lengths = {"transformed": self.positions * cut.most * cut.line, "sums": self.positions * cut.most * width,
                   "given": self.step * self.step * width}  # fmt: skip
        types = {"transformed": self.stored}
        buffers = [scratch(e, stem, types.get(stem, self.dtype), length) for stem, length in lengths.items()]
        pieces, splits = bind(e, "pieces", cut.pieces), bind(e, "splits", cut.splits)
        with task_loop(e, cut.pieces * cut.splits) as t:
            split, piece = (bind(e, "at", v) for v in digits_of(t, [splits, pieces]))
            task = _Task(self.rows_of(e, piece, pieces, cut.count), *buffers)
            self._transform(e, task)
            first, stop = (bind(e, "panel", n * panels // splits) for n in (split, split + 1))
            with loop(e, "p", first, stop) as p:
                columns = self.channels.columns(e, p)
                self._multiply(e, task, p)
                self._transform_back(e, task, columns)
        made = self.product_kernel(e, cut.pieces * cut.splits, self._cost())
        return replace(
            made, doc=made.doc.replace("conv_blocks", "winograd" if self.transforms is F2 else "winograd_large")
        )

    def _cost(self) -> Dim:
        panels = quotient_up(self.channels.panels, self.cut.splits) * self.channels.width
        return self.cut.most * (
            self.positions * self.inputs * panels
            + self.transforms.input_cost * self.inputs
            + self.transforms.output_cost * panels
        )

    def _tile_at(self, e: ElementBuilder, task: _Task, r: Dim) -> list[Dim]:
        """The example, row and column of tiles where a tile of the task is."""
        return decode_into(e, bind(e, "tile", task.rows.first + r), self.cut.grid)

    def _transform(self, e: ElementBuilder, task: _Task) -> None:
        """Transform all channels of the task's tiles."""
        x, line = self.left, self.cut.line
        with loop(e, "r", 0, task.rows.count) as r:
            example, *tile = self._tile_at(e, task, r)
            high, wide = (self._read_at(e, n, size - 1) for n, size in zip(tile, x.shape[3:-1], strict=True))
            with loop(e, "k", 0, x.shape[2]) as k:
                at = bind(e, "to", r * line + k * x.shape[-1])
                with loop(e, "j", 0, x.shape[-1], lanes=True) as j:
                    read = [[e.element(x, (example, dim(0), k, h, w, j)) for w in wide] for h in high]
                    grid = _twice(e, read, self.transforms.array)
                    self._write(e, grid, task.transformed, at + j, self.cut.most * line)

    def _read_at(self, e: ElementBuilder, tile: Dim, last: Dim) -> list[Dim]:
        """The rows, or columns, that a tile reads; beyond the last one that one again."""
        ends = (bind(e, "edge", minimum(tile * self.step + a, last)) for a in range(WEIGHTS, self.side))
        return [*(tile * self.step + a for a in range(WEIGHTS)), *ends]

    def _multiply(self, e: ElementBuilder, task: _Task, panel: Dim) -> None:
        """Multiply the tiles with a panel of weights, at each position by itself."""
        assert self.packed is not None
        packed = self.packed.panels.name
        width, line, size = self.channels.width, self.cut.line, self.tile.block
        least, most = heights_of(self.cut.count, self.cut.pieces, self.tile.rows)
        blocks = maximum(1, quotient_up(self.inputs, size))
        with loop(e, "m", 0, self.positions) as m, loop(e, "term_block", 0, blocks) as block:
            terms = block_of(e, ("first", "terms"), block, size, self.inputs)
            before = (panel * self.positions + m) * self.inputs + terms.first
            at, rows_of_panel = bind(e, "packed_at", before // self.tile.terms * width), terms.count // self.tile.terms
            with self.each_tile(e, task.rows) as (q, rows):
                position = bind(e, "row_at", m * self.cut.most + rows.first)
                a = dense(task.transformed, position * line + terms.first, line)
                b, c = dense(packed, at, width), dense(task.sums, position * width, width)
                ahead, shape = self.ahead(e, at, rows_of_panel, q), (least, self.channels.vectors, self.tile.lanes)
                tile = ProductTile(*shape, c, a, b, terms.count, ahead, terms.first, lines=LINES)
                e.append(tiles_of(tile, rows.count, most))

    def _write(self, e: ElementBuilder, grid: Grid, buffer: str, at: Dim, apart: DimLike) -> None:
        """Write what was transformed, as it is stored."""
        if self.stored != self.dtype:
            grid = [[e.let(Apply("x", (value,), self.stored)) for value in row] for row in grid]
        _store(e, grid, buffer, at, apart)

    def _transform_back(self, e: ElementBuilder, task: _Task, columns: Span) -> None:
        """Transform a panel's sums back, and apply the epilogue to the pixels that are inside the result."""
        width, side = self.channels.width, self.side
        with loop(e, "r", 0, task.rows.count) as r:
            example, *tile = self._tile_at(e, task, r)
            ends = [bind(e, "some", minimum(n - at * self.step, self.step))
                    for n, at in zip(self.sizes, tile, strict=True)]  # fmt: skip
            at, apart = bind(e, "sums_at", r * width), self.cut.most * width
            with loop(e, "j", 0, width, lanes=True) as j:
                sums = [[at + j + (side * k + n) * apart for n in range(side)] for k in range(side)]
                read: Grid = [[e.let(Load(task.sums, position, self.dtype)) for position in row] for row in sums]
                _store(e, _twice(e, read, self.transforms.results), task.given, j, width)
            with loop(e, "above", 0, ends[0]) as dy, loop(e, "across", 0, ends[1]) as dx:
                row = bind(e, "given_at", (dy * self.step + dx) * width)
                pixel = [bind(e, "position", n * self.step + d) for n, d in zip(tile, (dy, dx), strict=True)]
                self.finish(e, (example, dim(0)), columns, task.given, row, tuple(pixel))


def _store(e: ElementBuilder, grid: Grid, buffer: str, at: Dim, apart: DimLike) -> None:
    """Write the value of each position of a grid, one ``apart`` from the next."""
    for number, value in enumerate(itertools.chain(*grid)):
        e.append(Store(buffer, at + number * dim(apart), value))


def _twice(e: ElementBuilder, grid: Grid, matrix: Matrix) -> Grid:
    """A transform along both axes."""

    def op(text: str, *args: Expr | float) -> Expr:
        dtype = next(a.dtype for a in args if not isinstance(a, float))
        return e.let(Apply(text, tuple(Number(a, dtype) if isinstance(a, float) else a for a in args), dtype))

    rows = [applied(matrix, row, op) for row in grid]
    columns = [applied(matrix, column, op) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]
