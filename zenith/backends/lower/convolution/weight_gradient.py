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

from zenith.backends.kernel import (
    Branch,
    Buffer,
    Gathered,
    Kernel,
    Load,
    Loop,
    Number,
    Operand,
    Position,
    ProductTile,
    Scratch,
    Store,
    TaskLoop,
)
from zenith.backends.lower.convolution.cpu import STREAMED, Strided
from zenith.backends.lower.elements import ElementBuilder
from zenith.backends.lower.nest import Interface, bind, decode_into, store_results, tile_result
from zenith.backends.lower.operand import tile_doc
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import TileShape
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph
from zenith.ir.types import DType, int64

FEWER = 2  # times fewer tasks than products have: each copies the columns of all pixels


def lower_convolution_weights(body: Graph, tile: TileShape) -> list[Kernel]:
    """The table of lines, and the kernel that reads it."""
    weights = _Weights(body, tile)
    return [weights.table(), weights.kernel()]


class _Weights:
    """The cut of one gradient, found once, and the kernels that it gives."""

    def __init__(self, body: Graph, tile: TileShape) -> None:
        self.body, self.face, self.tile = body, Interface.of(body), tile
        self.result = tile_result(body)
        self.dtype: DType = self.result.dtype
        params = body.node(self.result.node).params
        x, y = body.args(self.result.node)
        self.x, self.columns_of = Strided.of(self.face, x), y
        self.examples, self.groups, self.blocks, *sizes, self.block = y.shape
        self.channel_blocks = x.shape[2]
        along = [n * s for n, s in zip(params["strides"], self.x.steps[3:-1], strict=True)]
        self.is_line = len(sizes) == 1
        if self.is_line:
            sizes, along = [dim(1), *sizes], [dim(0), *along]
        *self.outer, self.lines, self.length = sizes
        *self.outer_steps, self.line_step, self.pixel_step = along
        holes = [s * d for s, d in zip(self.x.steps[3:-1], params["dilation"], strict=True)]
        self.radix = [self.channel_blocks, *params["window"], x.shape[-1]]
        self.row_steps = [self.x.steps[2], *holes, self.x.steps[-1]]
        self._cut_columns()
        self._cut_rows()
        self._cut_lines()
        e = self.face.builder()
        self.line_table, self.row_table = e.fresh("lines_at"), e.fresh("rows_at")

    def _cut_columns(self) -> None:
        """Panels of columns, whole blocks of channels of the result as far as they fit a tile."""
        lanes, block = self.tile.lanes, _number(self.block)
        outputs = _number(self.blocks) * block
        self.vectors = max(1, min(self.tile.vectors, -(-outputs // lanes)))
        self.width = self.vectors * lanes
        self.panels = -(-outputs // self.width)
        self.outputs = outputs

    def _cut_rows(self) -> None:
        """Tiles of nearly equal heights, and how many of them a task takes: so many that there are tasks."""
        self.rows = _number(product(self.radix))
        self.tiles = -(-self.rows // self.tile.rows)
        most = max(1, self.tile.block // self.tile.rows)
        wanted = -(-FEWER * self.tiles * self.panels // self.tile.tasks)
        self.some = max(1, min(self.tiles, most, wanted))
        self.row_blocks = -(-self.tiles // self.some)

    def _cut_lines(self) -> None:
        """How many lines a block of terms has, or how many pieces a line."""
        self.pieces = maximum(1, quotient_up(self.length, self.tile.block))
        self.together = maximum(1, dim(self.tile.block) // maximum(1, self.length))

    def table(self) -> Kernel:
        """The offsets of the lines of a block, and of rows; after the last row as many more as a tile looks ahead."""
        e = self._builder()
        line, row, beyond = (e.fresh(s) for s in ("line", "row", "beyond"))
        e.open(line)
        e.append(Store(self.line_table, symbol(line), e.let(Position(symbol(line) * self.line_step))))
        e.append(Loop(line, dim(0), self.together, True, e.close()))
        e.open(row)
        digits = decode_into(e, symbol(row), self.radix)
        at = sum((d * s for d, s in zip(digits, self.row_steps, strict=True)), dim(0))
        e.append(Store(self.row_table, symbol(row), e.let(Position(at))))
        e.append(Loop(row, dim(0), dim(self.rows), False, e.close()))
        e.open(beyond)
        e.append(Store(self.row_table, self.rows + symbol(beyond), e.let(Position(dim(0)))))
        e.append(Loop(beyond, dim(0), dim(self._beyond), True, e.close()))
        tables = self._tables("temporary")
        return Kernel("kernel", "offsets", tables, self.face.symbols, dim(1), self.together + self.rows, e.close(),
                      operations=dim(0))  # fmt: skip

    def _builder(self) -> ElementBuilder:
        e = self.face.builder()
        e.taken |= {self.line_table, self.row_table}
        return e

    @property
    def _beyond(self) -> int:
        """How many rows a tile looks ahead."""
        return 2 * self.tile.rows

    def _tables(self, role: str) -> tuple[Buffer, Buffer]:
        lines = Buffer(self.line_table, int64, self.together, role)
        return lines, Buffer(self.row_table, int64, dim(self.rows + self._beyond), role)

    def kernel(self) -> Kernel:
        """Task t sums a panel of columns of some tiles of rows; neighbours share the panel."""
        e = self.e = self._builder()
        most = self.some * self.tile.rows
        self.sums = self._scratch("sums", most * self.width)
        self.panel = self._scratch("panel", self.tile.block * self.width)
        t = e.fresh("t")
        e.open(t)
        rest = bind(e, "rest", symbol(t) // self.row_blocks)
        panel, self.group = bind(e, "panel_at", rest % self.panels), bind(e, "group", rest // self.panels)
        row_block = bind(e, "block", symbol(t) % self.row_blocks)
        self.first = bind(e, "first_tile", row_block * self.tiles // self.row_blocks)
        self.count = bind(e, "some_tiles", (row_block + 1) * self.tiles // self.row_blocks - self.first)
        self.top = bind(e, "top", self.first * self.rows // self.tiles)
        self.height = bind(e, "height", (self.first + self.count) * self.rows // self.tiles - self.top)
        self.column = bind(e, "column", panel * self.width)
        self.columns = bind(e, "columns", minimum(self.outputs - self.column, self.width))
        self._zero()
        self._examples()
        self._write()
        tasks = self.groups * self.panels * self.row_blocks
        e.append(TaskLoop(t, tasks, None, (), e.close(), False))
        buffers = (*self.face.buffers, *self._tables("in"))
        terms = self.examples * product(self.outer) * self.lines * self.length
        cost = terms * self.width * (most + STREAMED)
        return Kernel("kernel", tile_doc(self.body), buffers, self.face.symbols, tasks, cost, e.close())

    def _scratch(self, stem: str, length: Dim | int) -> str:
        name = self.e.fresh(stem)
        self.e.levels[0].statements.append(Scratch(name, self.dtype, _number(dim(length))))
        return name

    def _zero(self) -> None:
        e = self.e
        i = e.fresh("i")
        e.open(i)
        e.append(Store(self.sums, symbol(i), Number(0, self.dtype)))
        e.append(Loop(i, dim(0), self.height * self.width, True, e.close()))

    def _examples(self) -> None:
        """Blocks of lines of all examples, one after another."""
        e = self.e
        n, iteration = e.fresh("n"), e.fresh("line_block")
        e.open(n)
        example, *outer = decode_into(e, symbol(n), [self.examples, *self.outer])
        of_example, of_group, *_ = self.x.steps
        at = [i * s for i, s in zip(outer, self.outer_steps, strict=True)]
        left = bind(e, "left", sum(at, self.x.at + example * of_example + self.group * of_group))
        e.open(iteration)
        line = bind(e, "line", symbol(iteration) // self.pieces * self.together)
        piece = bind(e, "piece", symbol(iteration) % self.pieces)
        start = bind(e, "start", piece * self.length // self.pieces)
        count = bind(e, "some", (piece + 1) * self.length // self.pieces - start)
        lines = bind(e, "some_lines", minimum(self.lines - line, self.together))
        self._copy((example, *outer, line, start), lines, count)
        self._tiles(left + line * self.line_step + start * self.pixel_step, lines, count)
        iterations = quotient_up(self.lines, self.together) * self.pieces
        e.append(Loop(iteration, dim(0), iterations, False, e.close()))
        e.append(Loop(n, dim(0), self.examples * product(self.outer), False, e.close()))

    def _copy(self, at: Sequence[Dim], lines: Dim, count: Dim) -> None:
        """Copy the columns of a block of lines: channels of a block are neighbours in memory, blocks are far apart.

        Block by block, so that reads are contiguous and hardware prefetches them. ``at`` is the example, outer axes,
        first line and first pixel.
        """
        e, width, block = self.e, dim(self.width), _number(self.block)
        run = block if self.width % block == 0 else 1  # columns that are copied together
        line, pixel, k, j = (e.fresh(s) for s in ("copied_line", "position", "k", "j"))
        e.open(k)
        channel = bind(e, "channel", self.column + symbol(k) * run)
        of_block, lane = bind(e, "block", channel // block), bind(e, "lane", channel % block)
        e.open(line)
        e.open(pixel)
        to = bind(e, "to", (symbol(line) * count + symbol(pixel)) * width + symbol(k) * run)
        e.open(j)
        example, *outer, first, start = at
        above = () if self.is_line else (*outer, first + symbol(line))
        index = (example, self.group, of_block, *above, start + symbol(pixel), lane + symbol(j))
        value = e.element(self.columns_of, index)
        e.append(Store(self.panel, to + symbol(j), value))
        e.append(Loop(j, dim(0), dim(run), True, e.close()))
        e.append(Loop(pixel, dim(0), count, False, e.close()))
        e.append(Loop(line, dim(0), lines, False, e.close()))
        e.append(Loop(k, dim(0), self.columns // run, False, e.close()))

    def _tiles(self, left: Dim, lines: Dim, count: Dim) -> None:
        """All tiles of the task, onto the copied panel."""
        e, q, width = self.e, self.e.fresh("q"), dim(self.width)
        left = bind(e, "block_at", left)
        e.open(q)
        number = bind(e, "tile", self.first + symbol(q))
        row = bind(e, "row", number * self.rows // self.tiles)
        height = bind(e, "rows", (number + 1) * self.rows // self.tiles - row)
        a = Operand(self.x.buffer, left, (row, self.pixel_step))
        c = Operand(self.sums, bind(e, "sums_at", (row - self.top) * width), (width, dim(1)))
        b = Operand(self.panel, dim(0), (width, dim(1)))
        gathered = Gathered(self.line_table, dim(0), lines, self.row_table)
        heights = range(self.rows // self.tiles, -(-self.rows // self.tiles) + 1)
        cases = tuple(
            (ProductTile(r, self.vectors, self.tile.lanes, c, a, b, count, dim(0), dim(1), gathered),) for r in heights
        )
        e.append(Branch(height, heights.start, cases))
        e.append(Loop(q, dim(0), self.count, False, e.close()))

    def _write(self) -> None:
        """Write the sums of all rows, with the epilogue."""
        e = self.e
        r, j = e.fresh("r"), e.fresh("j")
        e.open(r)
        e.open(j)
        e.known[self.result.node, 0] = e.let(Load(self.sums, symbol(r) * self.width + symbol(j), self.dtype))
        store_results(e, self.face, (self.group, self.top + symbol(r), self.column + symbol(j)))
        e.append(Loop(j, dim(0), self.columns, True, e.close()))
        e.append(Loop(r, dim(0), self.height, False, e.close()))


def _number(size: Dim) -> int:
    """A size as a number: engines refuse arrays where a cut depends on an unknown one."""
    assert size.static is not None
    return size.static


def known_cut(x: Sequence[Dim], y: Sequence[Dim], window: Sequence[Dim]) -> bool:
    """Whether the sizes on which a cut depends are known: blocks of channels and their numbers, and the window."""
    return all(n.static is not None and n != 0 for n in (x[2], x[-1], y[2], y[-1], *window))
