"""Convolutions of 3x3 windows by Winograd's F(2x2, 3x3): 16 products where four windows have 36.

Each *tile*, two by two places of the result, is made of four by four of the array. These and the weights are
transformed by sums, so that the transformed result is, position by position of 16, a product of matrices: tiles by
channels times channels by output channels. (A. Lavin and S. Gray, *Fast algorithms for convolutional neural networks*,
arXiv:1509.09308; S. Winograd, *Arithmetic complexity of computations*, 1980.)

The weights' transform is a kernel of its own, which runs once where the weights are the same in every call.
A task transforms some tiles with all their channels, multiplies them panel by panel of output channels, and transforms
the sums back; all that it makes meanwhile stays in the second-level cache. What stands behind the convolution is
applied to the result as it is made. Tiles lie across examples; at odd ends the last row of a tile is the array's last
one again, which only places outside the result see.

The order of summation is fixed, as in all products, and sums are a ninth as long; but terms are differences of
neighbours, so an element's error is relative to what its tile reads, and infinity becomes nan.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence

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
from zenith.backends.lower.convolution import LINES, STREAMED, Convolution, digits_of
from zenith.backends.lower.cut import heights_of, quotient_up
from zenith.backends.lower.elements import ElementBuilder
from zenith.backends.lower.nest import Interface, bind, decode_into
from zenith.backends.lower.operand import is_read_elsewhere, source_of, tile_doc, tile_result
from zenith.ir.dims import Dim, DimLike, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph
from zenith.ir.target import GuardedTile, Target, TileShape

SIDE, STEP = 4, 2  # places along an axis that a tile is made of, and that it gives
POSITIONS = SIDE * SIDE
KEPT = 3 << 18  # bytes of what a task transforms and sums: most of a second-level cache
LINE = 64  # bytes between the rows of transformed tiles, so that these do not meet in the first-level cache
THERE, BACK = 64, 48  # operations of a channel's transform: loads, sums and stores
LEAST = 4  # register tiles, at least, for which a task reads a panel of weights
WORTH = 16  # tiles for which weights are transformed: a weight's transform takes as long as the products of 4 save
SPLIT = 4  # a task of few tiles has many panels, as each transforms its tiles itself
Row = list[Expr]
Grid = list[Row]


def lower_winograd(body: Graph, tile: TileShape, fixed: Collection[str]) -> list[Kernel]:
    """The kernel that transforms the weights, and the convolution."""
    convolution = _Winograd(body, tile, fixed)
    return [convolution.pack(), convolution.kernel()]


def few_tiles(body: Graph, fixed: Collection[str]) -> Refusal | None:
    """Why not, where weights that change from call to call would be transformed for too few tiles."""
    face, result = Interface.of(body), tile_result(body)
    _, w = body.args(result.node)
    source, _ = source_of(face, w, tuple(symbol(f"axis{k}_of_operand") for k in range(len(w.shape))))
    tiles = product([result.shape[0], *(quotient_up(n, STEP) for n in result.shape[3:-1])]).static
    if face.inputs[source.node, source.output] in fixed or tiles is None or tiles >= WORTH:
        return None
    return Refusal(f"weights that change would be transformed for {tiles} tiles in every call")


def winograd_cost(body: Graph, target: Target) -> float | Refusal:
    """The time beside that of the direct convolution, by a model of operations."""
    result = tile_result(body)
    params, tile = body.node(result.node).params, target.product_tile(result.dtype, None)
    if isinstance(tile, GuardedTile):
        return Refusal(f"{target.name} has no register tiles")
    window = [n.static for n in params["window"]]
    if window != [3, 3] or {*params["strides"], *params["dilation"]} != {1} or result.shape[1] != 1:
        return Refusal("it computes windows of 3x3 neighbours, without groups of channels")
    if not result.dtype.is_float:
        return Refusal(f"{result.dtype} has no halves")
    x, w = body.args(result.node)
    if x.shape[2].static is None or x.shape[-1].static is None or result.shape[2].static is None:
        return Refusal("how many channels there are is not known")
    if result.shape[-1].static is None:
        return Refusal("how many channels there are is not known")
    most = _most_tiles(w.shape[1] // 9, tile.panel, result.dtype.itemsize)
    ours, theirs = _operations(x.shape, result.shape, tile.lanes, most)
    if ours >= theirs:
        return Refusal(f"it takes {ours / theirs:.2f} of the direct convolution's operations")
    return round(ours / theirs, 2)


def _most_tiles(channels: Dim, width: int, itemsize: int) -> int:
    """How many tiles a task keeps, with so many channels and a panel's sums."""
    return max(1, KEPT // (POSITIONS * itemsize * ((channels.static or 0) + width)))


def _operations(x: Sequence[Dim], result: Sequence[Dim], lanes: int, most: int) -> tuple[float, float]:
    """The operations of a tile in this way, and in the direct one: those of a channel and an output channel.

    Reading weights takes as long as so many rows' products do. Where it is not known how many tiles there are, a task
    has as many as it keeps.
    """
    blocks, block, outputs, width = (n.static or 0 for n in (x[2], x[-1], result[2], result[-1]))
    pairs = max(1, blocks * block * outputs * width)
    tiles = product([result[0], *(quotient_up(n, STEP) for n in result[3:-1])]).static
    places = product([result[0], *result[3:-1]]).static
    some = max(1, most if tiles is None else tiles)
    direct = 9 * (STEP * STEP + STREAMED / some) if places is None else 9 * (places + STREAMED) / some
    there, back = (n * -(-b // lanes) * lanes * cost for n, b, cost in ((blocks, block, THERE), (outputs, width, BACK)))
    return POSITIONS * (1 + STREAMED / max(1, min(some, most))) + (there + back) / pairs, direct


class _Winograd(Convolution):
    """A convolution whose rows are tiles: sums of a panel's output channels at 16 positions."""

    def _cut_places(self) -> None:
        """Pieces of all tiles, and parts of the panels: enough tasks, but tiles for a panel that is read once."""
        _, _, _, high, wide, _ = self.result.shape
        self.grid = [self.examples, quotient_up(high, STEP), quotient_up(wide, STEP)]
        self.all_tiles, self.channels = product(self.grid), self.all_terms // 9
        most, least = _most_tiles(self.channels, self.width, self.dtype.itemsize), LEAST * self.tile.rows
        wanted = minimum(self.tile.tasks, self.all_tiles // least)
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
        at = bind(e, "at", symbol(t) * POSITIONS * size + symbol(c) * self.width)
        for start, stop in ((dim(0), columns), (columns, dim(self.width))):
            e.open(j)
            zero = Number(0, self.dtype)
            grid: Grid = [[zero] * 3] * 3
            if start == 0:
                places = [[(dim(0), first + n * block, column + symbol(j)) for n in range(k, k + 3)] for k in (0, 3, 6)]
                grid = [[e.element(w, place) for place in row] for row in places]
            self._store(e, _twice(e, grid, _weights), self.packed, at + symbol(j), size)
            e.append(Loop(j, start, stop, True, e.close()))
        e.append(Loop(c, dim(0), self.channels, False, e.close()))
        e.append(TaskLoop(t, self.panels, None, (), e.close(), False))
        buffers = (next(b for b in self.face.buffers if b.name == self.w.buffer), self._packed("temporary"))
        cost = size * POSITIONS * STREAMED
        return Kernel("kernel", "pack", buffers, self.face.symbols, self.panels, cost, e.close(), operations=dim(0))

    def _packed(self, role: str) -> Buffer:
        return Buffer(self.packed, self.dtype, self.panels * POSITIONS * self.channels * self.width, role)

    def _store(self, e: ElementBuilder, grid: Grid, buffer: str, at: Dim, apart: DimLike) -> None:
        """Write what stands at each position, one ``apart`` from the next."""
        for number, value in enumerate(itertools.chain(*grid)):
            e.append(Store(buffer, at + number * dim(apart), value))

    # --- the convolution ---

    def kernel(self) -> Kernel:
        """Task t computes some panels of channels of a piece of the tiles; neighbours share the panels."""
        e = self.e = self._builder()
        self.terms_of = self._scratch("transformed", POSITIONS * self.most * self.line)
        self.sums = self._scratch("sums", POSITIONS * self.most * self.width)
        self.given = self._scratch("given", STEP * STEP * self.width)
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
        doc = tile_doc(self.body).replace("conv_blocks", "winograd")
        return Kernel("kernel", doc, self._buffers(), self.face.symbols, tasks, self._cost(), e.close())

    def _buffers(self) -> tuple[Buffer, ...]:
        elsewhere = is_read_elsewhere(self.face, self.body.args(self.result.node)[1], 1)
        return (*(b for b in self.face.buffers if b.name != self.w.buffer or elsewhere), self._packed("in"))

    def _cost(self) -> Dim:
        panels = quotient_up(self.panels, self.splits) * self.width
        return self.most * (POSITIONS * self.channels * panels + THERE * self.channels + BACK * panels)

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
            [*(n * STEP + a for a in range(SIDE - 1)), bind(e, "edge", minimum(n * STEP + SIDE - 1, end))]
            for n, end in zip(tile, last, strict=True)
        )
        e.open(k)
        at = bind(e, "to", symbol(r) * self.line + symbol(k) * x.shape[-1])
        e.open(j)
        read = [[e.element(x, (example, dim(0), symbol(k), h, w, symbol(j))) for w in wide] for h in high]
        self._store(e, _twice(e, read, _places), self.terms_of, at + symbol(j), self.most * self.line)
        e.append(Loop(j, dim(0), x.shape[-1], True, e.close()))
        e.append(Loop(k, dim(0), x.shape[2], False, e.close()))
        e.append(Loop(r, dim(0), self.height, False, e.close()))

    def _multiply(self, panel: Dim) -> None:
        """Multiply the tiles with a panel of weights, at each position by itself."""
        e, width, shape = self.e, dim(self.width), (self.vectors, self.tile.lanes)
        m, turn, q = e.fresh("m"), e.fresh("turn_of_terms"), e.fresh("q")
        e.open(m)
        e.open(turn)
        first = bind(e, "first", symbol(turn) * self.tile.block)
        terms = bind(e, "terms", minimum(self.channels - first, self.tile.block))
        at = bind(e, "packed_at", ((panel * POSITIONS + symbol(m)) * self.channels + first) * width)
        e.open(q)
        row = bind(e, "row", symbol(q) * self.height // self.tiles)
        count = bind(e, "rows", (symbol(q) + 1) * self.height // self.tiles - row)
        place = bind(e, "row_at", symbol(m) * self.most + row)
        a = Operand(self.terms_of, place * self.line + first, (dim(self.line), dim(1)))
        b, c = Operand(self.packed, at, (width, dim(1))), Operand(self.sums, place * width, (width, dim(1)))
        ahead = self._ahead(at, terms, symbol(q))
        least, most = heights_of(self.all_tiles, self.pieces, self.tile.rows)
        tiles = [ProductTile(n, *shape, c, a, b, terms, ahead, first, lines=LINES) for n in range(least, most + 1)]
        e.append(Branch(count, least, tuple((t,) for t in tiles)))
        e.append(Loop(q, dim(0), self.tiles, False, e.close()))
        e.append(Loop(turn, dim(0), maximum(1, quotient_up(self.channels, self.tile.block)), False, e.close()))
        e.append(Loop(m, dim(0), dim(POSITIONS), False, e.close()))

    def _transform_back(self) -> None:
        """Transform a panel's sums, and apply what stands behind to the places that are inside the result."""
        e = self.e
        r, j, above, beside = (e.fresh(n) for n in ("r", "j", "above", "beside"))
        e.open(r)
        (self.example, *tile), self.group = self._tile_at(r), dim(0)
        ends = [bind(e, "some", minimum(n - at * STEP, STEP))
                for n, at in zip(self.result.shape[3:-1], tile, strict=True)]  # fmt: skip
        at, apart = bind(e, "sums_at", symbol(r) * self.width), self.most * self.width
        e.open(j)
        read: Grid = [[e.let(Load(self.sums, at + symbol(j) + (SIDE * k + n) * apart, self.dtype)) for n in range(SIDE)]
                for k in range(SIDE)]  # fmt: skip
        self._store(e, _twice(e, read, _results), self.given, symbol(j), self.width)
        e.append(Loop(j, dim(0), dim(self.width), True, e.close()))
        e.open(above)
        e.open(beside)
        row = bind(e, "given_at", (symbol(above) * STEP + symbol(beside)) * self.width)
        places = [n * STEP + symbol(name) for n, name in zip(tile, (above, beside), strict=True)]
        self._finish(self.given, row, tuple(bind(e, "place", n) for n in places))
        e.append(Loop(beside, dim(0), ends[1], False, e.close()))
        e.append(Loop(above, dim(0), ends[0], False, e.close()))
        e.append(Loop(r, dim(0), self.height, False, e.close()))


# --- the transforms, along one axis ---


def _twice(e: ElementBuilder, grid: Grid, along: Callable[[ElementBuilder, Row], Row]) -> Grid:
    """A transform along both axes."""
    rows = [along(e, row) for row in grid]
    columns = [along(e, list(column)) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _op(e: ElementBuilder, text: str, *args: Expr) -> Expr:
    return e.let(Apply(text, args, args[0].dtype))


def _places(e: ElementBuilder, d: Row) -> Row:
    """Of four places of an array."""
    a, b, c, last = d
    return [_op(e, "x - y", a, c), _op(e, "x + y", b, c), _op(e, "x - y", c, b), _op(e, "x - y", b, last)]


def _weights(e: ElementBuilder, g: Row) -> Row:
    """Of three weights."""
    a, b, c = g
    ends, half = _op(e, "x + y", a, c), Number(0.5, a.dtype)
    return [a, _op(e, "(x + y) * z", ends, b, half), _op(e, "(x - y) * z", ends, b, half), c]


def _results(e: ElementBuilder, m: Row) -> Row:
    """Of four sums, to two places of the result."""
    a, b, c, d = m
    return [_op(e, "x + y + z", a, b, c), _op(e, "x - y - z", b, c, d)]
