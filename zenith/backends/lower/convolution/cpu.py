"""Convolutions: a product that gathers the terms of its left operand, with an elementwise epilogue.

On blocks of channels (:mod:`zenith.ir.ops.blocked_convolution`) the *pixels* of the result, the points of its spatial
axes, are the rows of a product. Its terms are in contiguous *segments*, each a row of the window with its channels, at
the same offset from the start of each window. One kernel writes the tables of segments and windows, once where sizes
are known; the register tile then sums over all segments of neighbouring pixels' windows, across the ends of lines.

A task has a panel of output channels and a piece of an example's pixels. Weights that are the same in every call are
packed into panels once, others copied by the tasks. The order of summation is a product's: blocks of at most so many
terms. Where there is one block, the epilogue is applied tile by tile. A border around the result is filled by another
kernel (:mod:`zenith.backends.lower.pointwise.borders`).
(E. Georganas et al., *High-performance deep learning via a single building block*, arXiv:1906.06440.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from zenith.backends.kernel import (
    Branch,
    Buffer,
    Gathered,
    Kernel,
    Load,
    Loop,
    Number,
    Operand,
    PackPanel,
    Position,
    ProductTile,
    Scratch,
    Store,
    TaskLoop,
)
from zenith.backends.lower.collapse import spread, step
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import (
    Interface,
    bind,
    decode_into,
    find_loops,
    scalar_cost,
    store_results,
    stored,
    tile_result,
)
from zenith.backends.lower.operand import is_read_elsewhere, source_of, tile_doc
from zenith.backends.lower.task_grid import heights_of, quotient_up
from zenith.backends.target import TileShape
from zenith.ir.dims import Dim, dim, maximum, minimum, product, row_major, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.types import DType, int64

LINES = 8  # lines of the next weights that a tile fetches every few terms: two tiles fetch all; 1 took an eighth longer
STREAMED = 8  # rows whose arithmetic takes about as long as it takes to fetch a panel


@dataclass(frozen=True, slots=True)
class Strided:
    """An operand in a buffer: where it begins, and its steps along its own axes."""

    buffer: str
    at: Dim
    steps: tuple[Dim, ...]

    @classmethod
    def of(cls, face: Interface, value: Value) -> Strided:
        """Follow index maps from an operand back to its buffer."""
        names = [f"axis{k}_of_operand" for k in range(len(value.shape))]
        source, index = source_of(face, value, tuple(map(symbol, names)))
        at = row_major(source.shape, index)
        steps = [step(at, name) for name in names]
        assert all(s is not None for s in steps), "fusion keeps operands at constant strides"
        origin = at.substitute(dict.fromkeys(names, 0))
        return cls(face.inputs[source.node, source.output], origin, tuple(s for s in steps if s is not None))


def lower_convolution(body: Graph, tile: TileShape, fixed: Collection[str] = ()) -> list[Kernel]:
    """The offset tables, the packing kernel where the weights are among the ``fixed`` inputs, and the convolution."""
    convolution = Convolution(body, tile, fixed)
    packing = [convolution.pack()] if convolution.is_packed else []
    return [convolution.table(), *packing, convolution.kernel()]


class Convolution:
    """The cut of one convolution, found once, and the kernels that it gives."""

    def __init__(self, body: Graph, tile: TileShape, fixed: Collection[str]) -> None:
        self.body, self.face, self.tile = body, Interface.of(body), tile
        self.result = tile_result(body)
        node = body.node(self.result.node)
        self.window, self.strides, self.dilation = (node.params[n] for n in ("window", "strides", "dilation"))
        x, w = body.args(self.result.node)
        self.x, self.w = Strided.of(self.face, x), Strided.of(self.face, w)
        self.dtype: DType = self.result.dtype
        self.examples, self.groups, self.blocks, *sizes, self.block = self.result.shape
        self.outputs, self.all_terms = w.shape[2], w.shape[1]
        self._find_segments(x)
        self.pixels = product(sizes)
        self.axes = self._joined_axes()
        self.sizes = [product(sizes[a] for a in group) for group in self.axes]
        e = self.face.builder()
        self.segment_table, self.pixel_table, self.packed = (
            e.fresh("segments_at"),
            e.fresh("pixels_at"),
            e.fresh("packed"),
        )
        self.is_packed = self.w.buffer in fixed
        self._cut_channels()
        self._cut_pixels()

    def _find_segments(self, x: Value) -> None:
        """Segments of terms: blocks of channels times all axes of the window, contiguous ones merged."""
        (channels, *along), inner = self.x.steps[2:-1], self.x.steps[-1]
        self.radix = [x.shape[2], *self.window]
        self.segment_steps = [channels, *(s * d for s, d in zip(along, self.dilation, strict=True))]
        self.terms = x.shape[-1]
        joined = (self.terms * self.radix[-1]).static
        if self.segment_steps[-1] == inner * self.terms and joined is not None and joined <= self.tile.block:
            self.terms = self.terms * self.radix.pop()
            self.segment_steps.pop()
        self.segments = product(self.radix)
        self.inner = inner
        self.pixel_steps = [s * stride for s, stride in zip(along, self.strides, strict=True)]

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
        return found or [[len(self.window) - 1]]

    def _cut_channels(self) -> None:
        """Panels of output channels: as many whole blocks as fit a tile, or a slice of one."""
        lanes, block = self.tile.lanes, self.block.static
        self.vectors = self.tile.vectors
        if block is not None:
            self.vectors = max(range(1, self.vectors + 1), key=lambda v: (_used(v * lanes, block), v))
        self.width = self.vectors * lanes
        self.together = 0 if block is None else self.width // max(block, 1)  # blocks of a panel; 0: a slice of one
        if self.together:
            self.panels = quotient_up(self.blocks, self.together)
        else:
            self.cuts = quotient_up(self.block, self.width)
            self.panels = self.blocks * self.cuts

    def _columns_of(self, e: ElementBuilder, panel: Dim) -> tuple[Dim, Dim]:
        """The first output channel of a panel, and how many it has."""
        if self.together:
            width = self.together * self.block
            column = bind(e, "column", panel * width)
            return column, bind(e, "columns", minimum(self.outputs - column, width))
        inside = bind(e, "inside", panel % self.cuts * self.width)
        column = bind(e, "column", panel // self.cuts * self.block + inside)
        return column, bind(e, "columns", minimum(self.block - inside, self.width))

    def _cut_pixels(self) -> None:
        """Pieces of all pixels of an example: few, so that a panel is read seldom, but enough for all tasks."""
        others = maximum(1, self.examples * self.groups * self.panels)
        tasks = self.tile.tasks if self.is_packed else self.tile.tasks // 2
        wanted = minimum(quotient_up(dim(tasks), others), quotient_up(self.pixels, self.tile.rows))
        self.pieces = maximum(1, maximum(quotient_up(self.pixels, self.tile.row_block), wanted))

    # --- tables and packing ---

    def _builder(self) -> ElementBuilder:
        e = self.face.builder()
        e.taken |= {self.segment_table, self.pixel_table, self.packed}
        return e

    def table(self) -> Kernel:
        """The offset of each segment from the start of a window, and of each window from the first one.

        After the last window there are as many more entries as a tile looks ahead.
        """
        e, sizes = self._builder(), self.result.shape[3:-1]
        self._write_table(e, self.segment_table, self.radix, self.segment_steps)
        self._write_table(e, self.pixel_table, sizes, self.pixel_steps)
        r = e.fresh("r")
        e.open(r)
        e.append(Store(self.pixel_table, self.pixels + symbol(r), e.let(Position(dim(0)))))
        e.append(Loop(r, dim(0), dim(self._beyond), True, e.close()))
        tables = self._tables("temporary")
        return Kernel("kernel", "offsets", tables, self.face.symbols, dim(1), self.segments + self.pixels, e.close(),
                      operations=dim(0))  # fmt: skip

    def _write_table(self, e: ElementBuilder, table: str, sizes: Sequence[Dim], steps: Sequence[Dim]) -> None:
        """Write how far each index is from the first one."""
        names = [e.fresh("i") for _ in sizes]
        for name in names:
            e.open(name)
        index = tuple(map(symbol, names))
        at = sum((i * s for i, s in zip(index, steps, strict=True)), dim(0))
        e.append(Store(table, row_major(tuple(sizes), index), e.let(Position(at))))
        for name, size in zip(reversed(names), reversed(sizes), strict=True):
            e.append(Loop(name, dim(0), size, name == names[-1], e.close()))

    @property
    def _beyond(self) -> int:
        """How many pixels a tile looks ahead."""
        return 2 * self.tile.rows

    def _tables(self, role: str) -> tuple[Buffer, Buffer]:
        pixels = self.pixels + self._beyond
        return Buffer(self.segment_table, int64, self.segments, role), Buffer(self.pixel_table, int64, pixels, role)

    def pack(self) -> Kernel:
        """Task t copies panel t of the weights."""
        e = self._builder()
        t = e.fresh("t")
        e.open(t)
        panel, group = bind(e, "panel", symbol(t) % self.panels), bind(e, "group", symbol(t) // self.panels)
        size = self.all_terms * self.width
        self._copy(e, group, self._columns_of(e, panel), (dim(0), self.all_terms), self.packed, symbol(t) * size)
        tasks = self.groups * self.panels
        e.append(TaskLoop(t, tasks, None, (), e.close(), False))
        buffers = (next(b for b in self.face.buffers if b.name == self.w.buffer), self._packed("temporary"))
        return Kernel(
            "kernel", "pack", buffers, self.face.symbols, tasks, size * STREAMED, e.close(), operations=dim(0)
        )

    def _packed(self, role: str) -> Buffer:
        return Buffer(self.packed, self.dtype, self.groups * self.panels * self.all_terms * self.width, role)

    def _copy(
        self, e: ElementBuilder, group: Dim, columns: tuple[Dim, Dim], terms: tuple[Dim, Dim], target: str, to: Dim
    ) -> None:
        """Copy so many terms, from one on, of a panel of weights."""
        of_group, of_term, of_column = self.w.steps
        at = bind(e, "from_at", self.w.at + group * of_group + terms[0] * of_term + columns[0] * of_column)
        source, to = Operand(self.w.buffer, at, (of_term, of_column)), bind(e, "to_at", to)
        e.append(PackPanel(self.vectors, self.tile.lanes, target, to, source, terms[1], columns[1]))

    # --- the convolution ---

    def kernel(self) -> Kernel:
        """Task t computes a panel of channels of a piece of the pixels; neighbours share the panel."""
        e = self.e = self._builder()
        self.sums = self._scratch("sums", (self.tile.rows if self._is_one_block else self.tile.row_block) * self.width)
        panels, pieces = bind(e, "panels", self.panels), bind(e, "pieces", self.pieces)
        t = e.fresh("t")
        e.open(t)
        self.example, self.group, panel, piece = (
            bind(e, "at", v) for v in digits_of(symbol(t), [self.examples, self.groups, panels, pieces])
        )
        self.column, self.columns = self._columns_of(e, panel)
        self.number = bind(e, "number", self.group * panels + panel)
        self.top = bind(e, "top", piece * self.pixels // pieces)
        self.height = bind(e, "height", (piece + 1) * self.pixels // pieces - self.top)
        self.tiles = bind(e, "tiles", quotient_up(self.height, self.tile.rows))
        of_example, of_group, *_ = self.x.steps
        self.left_at = bind(e, "left_at", self.x.at + self.example * of_example + self.group * of_group)
        self._terms()
        tasks = self.examples * self.groups * self.panels * self.pieces
        e.append(TaskLoop(t, tasks, None, (), e.close(), False))
        return Kernel("kernel", tile_doc(self.body), self._buffers(), self.face.symbols, tasks, self._cost(), e.close())

    def _scratch(self, stem: str, length: int) -> str:
        name = self.e.fresh(stem)
        self.e.levels[0].statements.append(Scratch(name, self.dtype, length))
        return name

    def _buffers(self) -> tuple[Buffer, ...]:
        tables = self._tables("in")
        if not self.is_packed:
            return (*self.face.buffers, *tables)
        elsewhere = is_read_elsewhere(self.face, self.body.args(self.result.node)[1], 1)
        others = [b for b in self.face.buffers if b.name != self.w.buffer or elsewhere]
        return (*others, self._packed("in"), *tables)

    def _cost(self) -> Dim:
        rows = minimum(self.tile.row_block, maximum(1, self.pixels))
        return self.width * (self.all_terms * (rows + STREAMED) + rows * scalar_cost(self.body))

    @property
    def _together(self) -> Dim:
        """How many segments make a block of at most ``tile.block`` terms; a longer segment is a block by itself."""
        return dim(max(1, self.tile.block // max(1, self.terms.static))) if self.terms.static else dim(1)

    @property
    def _is_one_block(self) -> bool:
        """Whether all segments are one block: then the epilogue reads a tile's sums right after they are computed."""
        return self.segments.static is not None and self.segments.static <= (self._together.static or 0)

    def _terms(self) -> None:
        """All blocks of segments; without segments there is one, which makes the sums zero."""
        e, together = self.e, self._together
        if self._is_one_block:
            self._block(dim(0), self.segments)
            return
        iteration = e.fresh("segment_block")
        e.open(iteration)
        first = bind(e, "first", symbol(iteration) * together)
        self._block(first, bind(e, "some", minimum(self.segments - first, together)))
        e.append(Loop(iteration, dim(0), maximum(1, quotient_up(self.segments, together)), False, e.close()))
        self._epilogue(dim(0), self.height, dim(0))

    def _block(self, first: Dim, segments: Dim) -> None:
        """Some segments of the windows of all pixels of the task, in tiles of nearly equal heights."""
        e, width = self.e, dim(self.width)
        terms = bind(e, "terms", segments * self.terms)
        if self.is_packed:
            at = bind(e, "packed_at", (self.number * self.all_terms + first * self.terms) * width)
            b = Operand(self.packed, at, (width, dim(1)))
        else:
            longest = max(self.tile.block, self.terms.static or 0)
            b = Operand(self._scratch("copy", longest * self.width), dim(0), (width, dim(1)))
            span = bind(e, "first_term", first * self.terms), terms
            self._copy(e, self.group, (self.column, self.columns), span, b.buffer, dim(0))
        q = e.fresh("q")
        e.open(q)
        row = bind(e, "row", symbol(q) * self.height // self.tiles)
        count = bind(e, "rows", (symbol(q) + 1) * self.height // self.tiles - row)
        ahead = self._ahead(b.at, terms, symbol(q)) if self.is_packed else b.at
        self._tile(b, Gathered(self.segment_table, first, segments, self.pixel_table), (row, count), ahead)
        if self._is_one_block:
            self._epilogue(row, count, row)
        e.append(Loop(q, dim(0), self.tiles, False, e.close()))

    def _ahead(self, at: Dim, terms: Dim, tile: Dim) -> Dim:
        """The position of the weights that a tile prefetches: its share of the block after the one at ``at``."""
        own = self.tile.ahead * LINES
        return bind(self.e, "ahead", at + terms * (self.width + minimum(tile * own, max(0, self.width - own))))

    def _tile(self, b: Operand, gathered: Gathered, rows: tuple[Dim, Dim], ahead: Dim) -> None:
        """One register tile: the row of the task where it begins and its height are ``rows``."""
        (row, count), width, shape = rows, dim(self.width), (self.vectors, self.tile.lanes)
        a = Operand(self.x.buffer, self.left_at, (bind(self.e, "position", self.top + row), self.inner))
        at = dim(0) if self._is_one_block else bind(self.e, "sums_at", row * width)
        c = Operand(self.sums, at, (width, dim(1)))
        least, most = heights_of(self.pixels, self.pieces, self.tile.rows)
        lines = LINES if self.is_packed else 1
        tiles = [
            ProductTile(r, *shape, c, a, b, self.terms, ahead, gathered.first, gathered, lines)
            for r in range(least, most + 1)
        ]
        self.e.append(Branch(count, least, tuple((t,) for t in tiles)))

    def _epilogue(self, first: Dim, count: Dim, base: Dim) -> None:
        """Apply the epilogue to the sums of some rows; the buffer of sums begins with row ``base``."""
        e = self.e
        r = e.fresh("r")
        e.open(r)
        row = bind(e, "sums_row", (first - base + symbol(r)) * self.width)
        digits = decode_into(e, bind(e, "pixel_at", self.top + first + symbol(r)), self.sizes)
        self._finish(self.sums, row, spread(self.axes, len(self.window), digits))
        e.append(Loop(r, dim(0), count, False, e.close()))

    def _finish(self, sums: str, row: Dim, pixel: Index) -> None:
        """Apply the epilogue to the sums of a pixel, a panel of channels from position ``row`` on."""
        e = self.e
        k, j = e.fresh("k"), e.fresh("j")
        e.open(k)
        e.open(j)
        channel = symbol(k) * self.block + symbol(j)
        e.known[self.result.node, 0] = e.let(Load(sums, row + channel, self.dtype))
        block, inside = self.column // self.block + symbol(k), symbol(j)
        if not self.together:
            inside = inside + self.column % self.block
        store_results(e, self.face, (self.example, self.group, block, *pixel, inside))
        extent, blocks = (self.block, self.columns // self.block) if self.together else (self.columns, dim(1))
        e.append(Loop(j, dim(0), extent, True, e.close()))
        e.append(Loop(k, dim(0), blocks, False, e.close()))


def _used(width: int, block: int) -> float:
    """The share of a tile's columns that panels of whole blocks, or of equal slices of one, use."""
    if width >= block:
        return width // block * block / width
    return block / (-(-block // width) * width)


def digits_of(number: Dim, radix: list[Dim]) -> list[Dim]:
    """A number in mixed radix, the first digit first."""
    found = []
    for size in reversed(radix[1:]):
        found.append(number % size)
        number = number // size
    return [number, *reversed(found)]
