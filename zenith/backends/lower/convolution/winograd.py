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

The order of summation is fixed, as in all products, and sums are a ninth as long; but terms are differences of
neighbours, so an element's error is relative to what its tile reads, and infinity becomes nan.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

from zenith.backends.engines import Refusal
from zenith.backends.kernel import (
    Apply,
    Branch,
    Buffer,
    Expr,
    Kernel,
    Load,
    Loop,
    Number,
    Operand,
    ProductTile,
    Store,
    TaskLoop,
)
from zenith.backends.lower.convolution.cpu import LINES, STREAMED, Convolution, digits_of
from zenith.backends.lower.convolution.winograd_cost import best_transforms, most_tiles
from zenith.backends.lower.convolution.winograd_transforms import F2, WEIGHTS, Matrix, Transforms, applied
from zenith.backends.lower.elements import ElementBuilder
from zenith.backends.lower.nest import bind, decode_into, tile_result
from zenith.backends.lower.operand import is_read_elsewhere, tile_doc
from zenith.backends.lower.task_grid import heights_of, quotient_up
from zenith.backends.target import GuardedTile, Target, TileShape
from zenith.ir.dims import Dim, DimLike, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph

LINE = 64  # bytes between the rows of transformed tiles, so that these do not meet in the first-level cache
LEAST = 4  # register tiles, at least, for which a task reads a panel of weights
SPLIT = 4  # a task of few tiles has many panels, as each transforms its tiles itself
Row = list[Expr]
Grid = list[Row]


def lower_winograd(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    """The kernel that transforms the weights, and the convolution."""
    tile, found = target.product_tile(tile_result(body).dtype, None), best_transforms(body, target)
    assert not isinstance(tile, GuardedTile) and not isinstance(found, Refusal), "an engine lowers what it accepted"
    convolution = _Winograd(body, tile, fixed, found[1])
    return [convolution.pack(), convolution.kernel()]


class _Winograd(Convolution):
    """A convolution whose rows are tiles: sums of a panel's output channels at all positions."""

    def __init__(self, body: Graph, tile: TileShape, fixed: Collection[str], transforms: Transforms) -> None:
        self.transforms, self.step, self.side = transforms, transforms.step, transforms.side
        self.positions = transforms.positions
        super().__init__(body, tile, fixed)

    def _cut_pixels(self) -> None:
        """Pieces of all tiles, and splits of the panels: enough tasks, and enough tiles for each read of a panel."""
        _, _, _, high, wide, _ = self.result.shape
        self.grid = [self.examples, quotient_up(high, self.step), quotient_up(wide, self.step)]
        self.all_tiles, self.channels = product(self.grid), self.all_terms // 9
        most = most_tiles(self.channels, self.width, self.dtype.itemsize, self.transforms)
        wanted = minimum(self.tile.tasks, self.all_tiles // (LEAST * self.tile.rows))
        self.pieces = maximum(1, maximum(quotient_up(self.all_tiles, most), wanted))
        self.splits = maximum(1, minimum(self.panels, dim(self.tile.tasks) // (SPLIT * self.pieces)))
        self.most = min(most, quotient_up(self.all_tiles, self.pieces).static or most)
        self.line = (self.channels.static or 0) + LINE // self.dtype.itemsize

    # --- the weights ---

    def pack(self) -> Kernel:
        """Task t transforms panel t of the weights."""
        e, size = self._builder(), self.channels * self.width
        x, w = self.body.args(self.result.node)
        t, c, j = e.fresh("t"), e.fresh("c"), e.fresh("j")
        e.open(t)
        column, columns = self._columns_of(e, symbol(t))
        e.open(c)
        block = x.shape[-1]
        first = bind(e, "first", symbol(c) // block * 9 * block + symbol(c) % block)
        at = bind(e, "at", symbol(t) * self.positions * size + symbol(c) * self.width)
        for start, stop in ((dim(0), columns), (columns, dim(self.width))):
            e.open(j)
            zero = Number(0, self.dtype)
            grid: Grid = [[zero] * 3] * 3
            if start == 0:
                window = [[(dim(0), first + n * block, column + symbol(j)) for n in range(k, k + 3)] for k in (0, 3, 6)]
                grid = [[e.element(w, index) for index in row] for row in window]
            self._store(e, _twice(e, grid, self.transforms.weights), self.packed, at + symbol(j), size)
            e.append(Loop(j, start, stop, True, e.close()))
        e.append(Loop(c, dim(0), self.channels, False, e.close()))
        e.append(TaskLoop(t, self.panels, None, (), e.close(), False))
        buffers = (next(b for b in self.face.buffers if b.name == self.w.buffer), self._packed("temporary"))
        cost = size * self.positions * STREAMED
        return Kernel("kernel", "pack", buffers, self.face.symbols, self.panels, cost, e.close(), operations=dim(0))

    def _packed(self, role: str) -> Buffer:
        return Buffer(self.packed, self.dtype, self.panels * self.positions * self.channels * self.width, role)

    def _store(self, e: ElementBuilder, grid: Grid, buffer: str, at: Dim, apart: DimLike) -> None:
        """Write the value of each position of a grid, one ``apart`` from the next."""
        for number, value in enumerate(itertools.chain(*grid)):
            e.append(Store(buffer, at + number * dim(apart), value))

    # --- the convolution ---

    def kernel(self) -> Kernel:
        """Task t computes some panels of channels of a piece of the tiles; neighbours share the panels."""
        e = self.e = self._builder()
        self.terms_of = self._scratch("transformed", self.positions * self.most * self.line)
        self.sums = self._scratch("sums", self.positions * self.most * self.width)
        self.given = self._scratch("given", self.step * self.step * self.width)
        pieces, splits = bind(e, "pieces", self.pieces), bind(e, "splits", self.splits)
        t, p = e.fresh("t"), e.fresh("p")
        e.open(t)
        split, piece = (bind(e, "at", v) for v in digits_of(symbol(t), [splits, pieces]))
        self.top = bind(e, "top", piece * self.all_tiles // pieces)
        self.height = bind(e, "height", (piece + 1) * self.all_tiles // pieces - self.top)
        self.tiles = bind(e, "tiles", quotient_up(self.height, self.tile.rows))
        self._transform()
        first, stop = (bind(e, "panel", n * self.panels // splits) for n in (split, split + 1))
        e.open(p)
        self.column, self.columns = self._columns_of(e, symbol(p))
        self._multiply(symbol(p))
        self._transform_back()
        e.append(Loop(p, first, stop, False, e.close()))
        tasks = self.pieces * self.splits
        e.append(TaskLoop(t, tasks, None, (), e.close(), False))
        doc = tile_doc(self.body).replace("conv_blocks", "winograd" if self.transforms is F2 else "winograd_large")
        return Kernel("kernel", doc, self._buffers(), self.face.symbols, tasks, self._cost(), e.close())

    def _buffers(self) -> tuple[Buffer, ...]:
        elsewhere = is_read_elsewhere(self.face, self.body.args(self.result.node)[1], 1)
        return (*(b for b in self.face.buffers if b.name != self.w.buffer or elsewhere), self._packed("in"))

    def _cost(self) -> Dim:
        panels = quotient_up(self.panels, self.splits) * self.width
        return self.most * (
            self.positions * self.channels * panels
            + self.transforms.input_cost * self.channels
            + self.transforms.output_cost * panels
        )

    def _tile_at(self, r: str) -> list[Dim]:
        """The example, row and column of tiles where a tile of the task is."""
        return decode_into(self.e, bind(self.e, "tile", self.top + symbol(r)), self.grid)

    def _transform(self) -> None:
        """Transform all channels of the task's tiles."""
        e, (x, _) = self.e, self.body.args(self.result.node)
        r, k, j = e.fresh("r"), e.fresh("k"), e.fresh("j")
        e.open(r)
        example, *tile = self._tile_at(r)
        last = [n - 1 for n in x.shape[3:-1]]
        high, wide = (
            [
                *(n * self.step + a for a in range(WEIGHTS)),
                *(bind(e, "edge", minimum(n * self.step + a, end)) for a in range(WEIGHTS, self.side)),
            ]
            for n, end in zip(tile, last, strict=True)
        )
        e.open(k)
        at = bind(e, "to", symbol(r) * self.line + symbol(k) * x.shape[-1])
        e.open(j)
        read = [[e.element(x, (example, dim(0), symbol(k), h, w, symbol(j))) for w in wide] for h in high]
        self._store(e, _twice(e, read, self.transforms.array), self.terms_of, at + symbol(j), self.most * self.line)
        e.append(Loop(j, dim(0), x.shape[-1], True, e.close()))
        e.append(Loop(k, dim(0), x.shape[2], False, e.close()))
        e.append(Loop(r, dim(0), self.height, False, e.close()))

    def _multiply(self, panel: Dim) -> None:
        """Multiply the tiles with a panel of weights, at each position by itself."""
        e, width, shape = self.e, dim(self.width), (self.vectors, self.tile.lanes)
        m, iteration, q = e.fresh("m"), e.fresh("term_block"), e.fresh("q")
        e.open(m)
        e.open(iteration)
        first = bind(e, "first", symbol(iteration) * self.tile.block)
        terms = bind(e, "terms", minimum(self.channels - first, self.tile.block))
        at = bind(e, "packed_at", ((panel * self.positions + symbol(m)) * self.channels + first) * width)
        e.open(q)
        row = bind(e, "row", symbol(q) * self.height // self.tiles)
        count = bind(e, "rows", (symbol(q) + 1) * self.height // self.tiles - row)
        position = bind(e, "row_at", symbol(m) * self.most + row)
        a = Operand(self.terms_of, position * self.line + first, (dim(self.line), dim(1)))
        b, c = Operand(self.packed, at, (width, dim(1))), Operand(self.sums, position * width, (width, dim(1)))
        ahead = self._ahead(at, terms, symbol(q))
        least, most = heights_of(self.all_tiles, self.pieces, self.tile.rows)
        tiles = [ProductTile(n, *shape, c, a, b, terms, ahead, first, lines=LINES) for n in range(least, most + 1)]
        e.append(Branch(count, least, tuple((t,) for t in tiles)))
        e.append(Loop(q, dim(0), self.tiles, False, e.close()))
        e.append(Loop(iteration, dim(0), maximum(1, quotient_up(self.channels, self.tile.block)), False, e.close()))
        e.append(Loop(m, dim(0), dim(self.positions), False, e.close()))

    def _transform_back(self) -> None:
        """Transform a panel's sums back, and apply the epilogue to the pixels that are inside the result."""
        e = self.e
        r, j, dy, dx = (e.fresh(n) for n in ("r", "j", "above", "across"))
        e.open(r)
        (self.example, *tile), self.group = self._tile_at(r), dim(0)
        ends = [bind(e, "some", minimum(n - at * self.step, self.step))
                for n, at in zip(self.result.shape[3:-1], tile, strict=True)]  # fmt: skip
        at, apart = bind(e, "sums_at", symbol(r) * self.width), self.most * self.width
        e.open(j)
        sums = [[at + symbol(j) + (self.side * k + n) * apart for n in range(self.side)] for k in range(self.side)]
        read: Grid = [[e.let(Load(self.sums, position, self.dtype)) for position in row] for row in sums]
        self._store(e, _twice(e, read, self.transforms.results), self.given, symbol(j), self.width)
        e.append(Loop(j, dim(0), dim(self.width), True, e.close()))
        e.open(dy)
        e.open(dx)
        row = bind(e, "given_at", (symbol(dy) * self.step + symbol(dx)) * self.width)
        pixel = [n * self.step + symbol(name) for n, name in zip(tile, (dy, dx), strict=True)]
        self._finish(self.given, row, tuple(bind(e, "position", n) for n in pixel))
        e.append(Loop(dx, dim(0), ends[1], False, e.close()))
        e.append(Loop(dy, dim(0), ends[0], False, e.close()))
        e.append(Loop(r, dim(0), self.height, False, e.close()))


def _twice(e: ElementBuilder, grid: Grid, matrix: Matrix) -> Grid:
    """A transform along both axes."""

    def op(text: str, *args: Expr | float) -> Expr:
        dtype = next(a.dtype for a in args if not isinstance(a, float))
        return e.let(Apply(text, tuple(Number(a, dtype) if isinstance(a, float) else a for a in args), dtype))

    rows = [applied(matrix, row, op) for row in grid]
    columns = [applied(matrix, column, op) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]
