"""The gradient of a convolution by its weights: products whose terms are places, one for each place of the window.

On blocks of channels (:mod:`zenith.ir.ops.convolution_weights`) the channels of a block, and where the window has no
holes the places of its row, too, follow each other in memory: they are the rows of the left operand, at one place of
the window's other axes. Columns are channels of the result, whose places follow each other as the left operand's do.
So the register tile sums over the places of a line, and over some lines at once: where those begin stands in a table.

A task has a panel of columns and some *units*: a block of channels at a place of the window's other axes. For a block
of lines it copies the panel, which all its rows then meet. Sums of all units stay in the second-level cache; an example
and a block of lines, of at most as many terms as a product's, are added after another.
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
from zenith.backends.lower.convolution import STREAMED, Strided
from zenith.backends.lower.cut import quotient_up
from zenith.backends.lower.nest import Interface, bind, decode_into, store_results
from zenith.backends.lower.operand import tile_doc, tile_result
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph
from zenith.ir.target import TileShape
from zenith.ir.types import DType, int64


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
        self.examples, self.groups, self.blocks, *places, self.block = y.shape
        self.channel_blocks = x.shape[2]
        along = [n * s for n, s in zip(params["strides"], self.x.steps[3:-1], strict=True)]
        if len(places) == 1:  # one line
            places, along = [dim(1), *places], [dim(0), *along]
        self.is_line = len(y.shape) == 5
        *self.outer, self.lines, self.length = places
        *self.outer_steps, self.line_step, self.place_step = along
        holes = [s * d for s, d in zip(self.x.steps[3:-1], params["dilation"], strict=True)]
        self._cut_window(list(params["window"]), holes, x.shape[-1])
        self._cut_columns()
        self._cut_lines()
        self.places = self.face.builder().fresh("places")

    def _cut_window(self, window: list[Dim], steps: list[Dim], channels: Dim) -> None:
        """Rows are the channels of a block, those of a row of the window together where they follow each other."""
        self.rows = channels
        joined = window[-1] * channels
        if steps[-1] == self.x.steps[-1] * channels and _number(joined) <= self.tile.block:
            self.rows = joined
            window.pop()
            steps.pop()
        self.radix, self.window_steps = [self.channel_blocks, *window], [self.x.steps[2], *steps]

    def _cut_columns(self) -> None:
        """Panels of columns, whole blocks of channels of the result as far as a tile has room for them."""
        lanes, block = self.tile.lanes, _number(self.block)
        outputs = _number(self.blocks) * block
        self.vectors = max(1, min(self.tile.vectors, -(-outputs // lanes)))
        self.width = self.vectors * lanes
        self.panels = -(-outputs // self.width)
        self.outputs = outputs

    def _cut_lines(self) -> None:
        """How many lines, or how much of one, have a block of terms; units of a task, so many that there are tasks."""
        most = self.tile.block
        self.pieces = maximum(1, quotient_up(self.length, most))
        self.together = maximum(1, dim(most) // maximum(1, self.length))
        units = _number(product(self.radix))
        held = max(1, most // _number(self.rows))
        wanted = -(-units * self.panels // self.tile.tasks)
        self.units, self.some = units, max(1, min(units, held, wanted))
        self.unit_blocks = -(-units // self.some)

    def table(self) -> Kernel:
        """Where each line of a block begins in x, from the first one on."""
        e = self.face.builder()
        e.taken.add(self.places)
        p = e.fresh("line")
        e.open(p)
        e.append(Store(self.places, symbol(p), e.let(Position(symbol(p) * self.line_step))))
        e.append(TaskLoop(p, self.together, None, (), e.close(), False))
        table = Buffer(self.places, int64, self.together, "temporary")
        tasks = self.together
        return Kernel("kernel", "places", (table,), self.face.symbols, tasks, dim(2), e.close(), operations=dim(0))

    def kernel(self) -> Kernel:
        """Task t sums a panel of columns of some units; neighbours share the panel."""
        e = self.e = self.face.builder()
        e.taken.add(self.places)
        self.sums = self._scratch("sums", self.some * self.rows * self.width)
        self.panel = self._scratch("panel", self.tile.block * self.width)
        t = e.fresh("t")
        e.open(t)
        rest = bind(e, "rest", symbol(t) // self.unit_blocks)
        panel, self.group = bind(e, "panel_at", rest % self.panels), bind(e, "group", rest // self.panels)
        part = bind(e, "part", symbol(t) % self.unit_blocks)
        self.unit = bind(e, "unit", part * self.units // self.unit_blocks)
        self.count = bind(e, "count", (part + 1) * self.units // self.unit_blocks - self.unit)
        self.column = bind(e, "column", panel * self.width)
        self.columns = bind(e, "columns", minimum(self.outputs - self.column, self.width))
        self._zero()
        self._examples()
        self._write()
        tasks = self.groups * self.panels * self.unit_blocks
        e.append(TaskLoop(t, tasks, None, (), e.close(), False))
        buffers = (*self.face.buffers, Buffer(self.places, int64, self.together, "in"))
        terms = self.examples * product(self.outer) * self.lines * self.length
        cost = terms * self.width * (self.some * self.rows + STREAMED)
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
        e.append(Loop(i, dim(0), self.count * self.rows * self.width, True, e.close()))

    def _examples(self) -> None:
        """Blocks of lines of all examples, one after another."""
        e = self.e
        n, turn = e.fresh("n"), e.fresh("lines_turn")
        e.open(n)
        example, *outer = decode_into(e, symbol(n), [self.examples, *self.outer])
        of_example, of_group, *_ = self.x.steps
        at = [i * s for i, s in zip(outer, self.outer_steps, strict=True)]
        left = bind(e, "left", sum(at, self.x.at + example * of_example + self.group * of_group))
        e.open(turn)
        line = bind(e, "line", symbol(turn) // self.pieces * self.together)
        piece = bind(e, "piece", symbol(turn) % self.pieces)
        start = bind(e, "start", piece * self.length // self.pieces)
        count = bind(e, "some", (piece + 1) * self.length // self.pieces - start)
        lines = bind(e, "some_lines", minimum(self.lines - line, self.together))
        self._copy((example, *outer, line, start), lines, count)
        self._units(left + line * self.line_step + start * self.place_step, lines, count)
        turns = quotient_up(self.lines, self.together) * self.pieces
        e.append(Loop(turn, dim(0), turns, False, e.close()))
        e.append(Loop(n, dim(0), self.examples * product(self.outer), False, e.close()))

    def _copy(self, at: Sequence[Dim], lines: Dim, count: Dim) -> None:
        """The columns of a block of lines, side by side: channels of a block are neighbours, blocks are far apart.

        ``at`` is the example, and the first place.
        """
        e, width, block = self.e, dim(self.width), _number(self.block)
        run = block if self.width % block == 0 else 1  # columns that are copied together
        line, place, k, j = (e.fresh(s) for s in ("copied_line", "place", "k", "j"))
        e.open(line)
        e.open(place)
        to = bind(e, "to", (symbol(line) * count + symbol(place)) * width)
        e.open(k)
        channel = bind(e, "channel", self.column + symbol(k) * run)
        of_block, lane = bind(e, "block", channel // block), bind(e, "lane", channel % block)
        e.open(j)
        example, *outer, first, start = at
        above = () if self.is_line else (*outer, first + symbol(line))
        index = (example, self.group, of_block, *above, start + symbol(place), lane + symbol(j))
        value = e.element(self.columns_of, index)
        e.append(Store(self.panel, to + symbol(k) * run + symbol(j), value))
        e.append(Loop(j, dim(0), dim(run), True, e.close()))
        e.append(Loop(k, dim(0), self.columns // run, False, e.close()))
        e.append(Loop(place, dim(0), count, False, e.close()))
        e.append(Loop(line, dim(0), lines, False, e.close()))

    def _units(self, left: Dim, lines: Dim, count: Dim) -> None:
        """The tiles of all units, for the panel that was copied."""
        e, u = self.e, self.e.fresh("u")
        left = bind(e, "block_at", left)
        e.open(u)
        digits = decode_into(e, bind(e, "unit_at", self.unit + symbol(u)), self.radix)
        first = bind(e, "first", sum((d * s for d, s in zip(digits, self.window_steps, strict=True)), left))
        rows, most = _number(self.rows), self.tile.rows
        tiles, q = -(-rows // most), e.fresh("q")
        e.open(q)
        row = bind(e, "row", symbol(q) * rows // tiles)
        height = bind(e, "height", (symbol(q) + 1) * rows // tiles - row)
        a = Operand(self.x.buffer, bind(e, "a_at", first + row * self.x.steps[-1]), (self.x.steps[-1], self.place_step))
        to = bind(e, "sums_at", (symbol(u) * rows + row) * self.width)
        c = Operand(self.sums, to, (dim(self.width), dim(1)))
        b = Operand(self.panel, dim(0), (dim(self.width), dim(1)))
        gathered = Gathered(self.places, dim(0), lines)
        heights = range(rows // tiles, -(-rows // tiles) + 1)
        cases = tuple(
            (ProductTile(r, self.vectors, self.tile.lanes, c, a, b, count, dim(0), dim(1), gathered),) for r in heights
        )
        e.append(Branch(height, heights.start, cases))
        e.append(Loop(q, dim(0), dim(tiles), False, e.close()))
        e.append(Loop(u, dim(0), self.count, False, e.close()))

    def _write(self) -> None:
        """The sums of all units, whose terms follow each other."""
        e = self.e
        r, j = e.fresh("r"), e.fresh("j")
        e.open(r)
        term = bind(e, "term", self.unit * self.rows + symbol(r))
        e.open(j)
        e.known[self.result.node, 0] = e.let(Load(self.sums, symbol(r) * self.width + symbol(j), self.dtype))
        store_results(e, self.face, (self.group, term, self.column + symbol(j)))
        e.append(Loop(j, dim(0), self.columns, True, e.close()))
        e.append(Loop(r, dim(0), self.count * self.rows, False, e.close()))


def _number(size: Dim) -> int:
    """What is known of a cut: engines refuse arrays of which it is not."""
    assert size.static is not None
    return size.static


def known_cut(x: Sequence[Dim], y: Sequence[Dim], window: Sequence[Dim]) -> bool:
    """Whether the sizes on which a cut depends are known: blocks of channels and their numbers, and the window."""
    return all(n.static is not None and n != 0 for n in (x[2], x[-1], y[2], y[-1], *window))
