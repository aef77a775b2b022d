"""Products: a matrix product on register tiles, with the elementwise operations behind it.

Two kernels. *pack* copies the right operand into panels as wide as a tile, ``[batch][panel][k][columns]``, padded with
zeros; the planner runs it once, at link time, when the operand is a constant. *product* cuts the result into tasks, one
panel times one block of rows; a task walks its rows in balanced register tiles: the tile of sums goes to a scratch
buffer in the first-level cache, and the operations behind the product read it there, in ordinary lanes loops.

Operands are read at any constant strides, so transposed, sliced and broadcast operands are not copied. The design
follows Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34, 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.kernel import (
    Branch,
    Buffer,
    Kernel,
    Load,
    Loop,
    Number,
    Operand,
    ProductTile,
    Scratch,
    Store,
    TaskLoop,
)
from zenith.backends.lower.collapse import step
from zenith.backends.lower.elements import ElementBuilder, Index, row_major
from zenith.backends.lower.nest import Interface, bind, decode_into, scalar_cost, store_outputs
from zenith.ir.dims import Dim, dim, minimum, product, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Elements, Tile
from zenith.ir.target import Target, TileShape


@dataclass(frozen=True, slots=True)
class Access:
    """Where an operand's element [batch..., row, column] lies: buffer, position at the batch index, two strides."""

    buffer: str
    at: Dim
    strides: tuple[Dim, Dim]


def lower_product(body: Graph, target: Target) -> list[Kernel]:
    """The packing kernel and the product kernel."""
    lowering = _Product(body, target)
    return [lowering.pack(), lowering.product()]


class _Product:
    def __init__(self, body: Graph, target: Target) -> None:
        self.body, self.face = body, Interface.of(body)
        number = next(n for n, r in body.nodes() if isinstance(r.primitive.lowering, Tile))
        self.result = Value(number, 0, body.node(number).types[0])
        self.left, self.right = body.args(number)
        self.batch = self.result.shape[:-2]
        self.m, self.n = self.result.shape[-2:]
        self.k = self.left.shape[-1]
        self.tile: TileShape = target.product_tile(self.result.dtype, self.n.static)
        self.panels = (self.n + (self.tile.panel - 1)) // self.tile.panel
        self.panel_size = self.k * self.tile.panel
        self.packed = self.face.builder().fresh("packed")

    def _access(self, value: Value, batch: Index) -> Access:
        """Follow index maps back to a buffer and read off the strides."""
        row, column = "row_of_operand", "column_of_operand"
        index: Index = (*batch, symbol(row), symbol(column))
        while (value.node, value.output) not in self.face.inputs:
            node, found = self.body.node(value.node), list[Index]()
            (source,) = self.body.args(value.node)
            assert isinstance(node.primitive.lowering, Elements)
            read = [lambda *i, found=found: found.append(tuple(map(dim, i)))]
            node.primitive.lowering.element(None, index, read, [source.type], node.params)
            value, index = source, found[0]
        at = row_major(value.shape, index)
        strides = step(at, row), step(at, column)
        assert strides[0] is not None and strides[1] is not None, "fusion keeps operands at constant strides"
        origin = at.substitute({row: 0, column: 0})
        return Access(self.face.inputs[value.node, value.output], origin, (strides[0], strides[1]))

    def _buffer(self, name: str) -> Buffer:
        return next(b for b in self.face.buffers if b.name == name)

    def _packed_buffer(self, role: str) -> Buffer:
        return Buffer(self.packed, self.result.dtype, product(self.batch) * self.panels * self.panel_size, role)

    def pack(self) -> Kernel:
        """Task t copies panel t of the right operand."""
        e = self.face.builder()
        e.taken.add(self.packed)
        t = e.fresh("t")
        e.open(t)
        panel, batch = self._split(e, symbol(t), self.panels, "panel")
        access = self._access(self.right, batch)
        width = self.tile.panel
        first = bind(e, "first", panel * width)
        valid = bind(e, "valid", minimum(self.n - first, width))
        k = e.fresh("term")
        e.open(k)
        target = bind(e, "to", (symbol(t) * self.k + symbol(k)) * width)
        source = bind(e, "source", access.at + symbol(k) * access.strides[0] + first * access.strides[1])
        j, pad = e.fresh("j"), e.fresh("pad")
        copy = Store(
            self.packed,
            target + symbol(j),
            Load(access.buffer, source + symbol(j) * access.strides[1], self.result.dtype),
        )
        zero = Store(self.packed, target + symbol(pad), Number(_zero(self.result), self.result.dtype))
        e.append(Loop(j, dim(0), valid, True, (copy,)))
        e.append(Loop(pad, valid, dim(width), True, (zero,)))
        e.append(Loop(k, dim(0), self.k, False, e.close()))
        tasks, cost = product(self.batch) * self.panels, self.panel_size * 2
        e.append(TaskLoop(t, tasks, None, (), e.close(), False))
        buffers = (self._buffer(access.buffer), self._packed_buffer("temporary"))
        return Kernel("kernel", "pack", buffers, self.face.symbols, tasks, cost, e.close(), operations=dim(0))

    def _split(self, e: ElementBuilder, task: Dim, inner: Dim, stem: str) -> tuple[Dim, Index]:
        """A task number as (inner number, batch index)."""
        number = bind(e, stem, task % inner)
        rest = bind(e, "matrix", task // inner)
        return number, tuple(decode_into(e, rest, list(self.batch))) if self.batch else ()

    def product(self) -> Kernel:
        """Task t computes one block of rows of one panel of columns; neighbours share the panel."""
        self.e = e = self.face.builder()
        e.taken.add(self.packed)
        self.scratch = e.fresh("tile")
        blocks = (self.m + (self.tile.row_block - 1)) // self.tile.row_block
        e.append(Scratch(self.scratch, self.result.dtype, self.tile.rows * self.tile.panel))
        t = e.fresh("t")
        e.open(t)
        block = bind(e, "block", symbol(t) % blocks)
        matrix_panel = bind(e, "matrix_panel", symbol(t) // blocks)
        panel, batch = self._split(e, matrix_panel, self.panels, "panel")
        self.panel_at = bind(e, "panel_at", matrix_panel * self.panel_size)
        self.column = bind(e, "column", panel * self.tile.panel)
        self.columns = bind(e, "columns", minimum(self.n - self.column, self.tile.panel))
        top = bind(e, "top", block * self.tile.row_block)
        height = bind(e, "height", minimum(self.m - top, self.tile.row_block))
        self._tiles(top, height, batch)
        tasks = product(self.batch) * self.panels * blocks
        e.append(TaskLoop(t, tasks, None, (), e.close(), False))
        right = self._access(self.right, tuple(dim(0) for _ in self.batch)).buffer
        others = [b for b in self.face.buffers if b.name != right or self._read_elsewhere(right)]
        rows = minimum(self.m, self.tile.row_block)
        cost = rows * self.tile.panel * (self.k // 4 + scalar_cost(self.body))
        return Kernel(
            "kernel", self._doc(), (*others, self._packed_buffer("in")), self.face.symbols, tasks, cost, e.close()
        )

    def _doc(self) -> str:
        names = (r.primitive.name for _, r in self.body.nodes() if r.primitive.name not in ("input", "transpose"))
        return "; ".join(dict.fromkeys(names))

    def _read_elsewhere(self, buffer: str) -> bool:
        """Whether the packed operand's buffer is also the left operand or read behind the product."""
        if self._access(self.left, tuple(dim(0) for _ in self.batch)).buffer == buffer:
            return True
        number = next(n for (n, _), name in self.face.inputs.items() if name == buffer)
        path: set[int] = set()
        value = self.right
        while (value.node, value.output) not in self.face.inputs:
            path.add(value.node)
            (value,) = self.body.args(value.node)
        return any(user not in path and user != self.result.node for _, user, _ in self.body.users(number))

    def _tiles(self, top: Dim, height: Dim, batch: Index) -> None:
        """The register tiles of a block, of nearly equal heights: 7 rows are cut 4 + 3, not 6 + 1."""
        e, rows = self.e, self.tile.rows
        tiles = bind(e, "tiles", (height + (rows - 1)) // rows)
        even, rest = bind(e, "even", height // tiles), bind(e, "uneven", height % tiles)
        q = e.fresh("q")
        e.open(q)
        count = bind(e, "count", even + minimum(1, rest // (symbol(q) + 1)))
        row = bind(e, "row", top + symbol(q) * even + minimum(symbol(q), rest))
        left = self._access(self.left, batch)
        a = Operand(left.buffer, bind(e, "left_at", left.at + row * left.strides[0]), left.strides)
        b = Operand(self.packed, self.panel_at, (dim(self.tile.panel), dim(1)))
        c = Operand(self.scratch, dim(0), (dim(self.tile.panel), dim(1)))
        ahead = bind(e, "ahead", self.panel_at + self.panel_size + symbol(q) * self.k * self.tile.ahead)
        shape = (self.tile.vectors, self.tile.lanes)
        cases = tuple((ProductTile(r, *shape, c, a, b, self.k, ahead),) for r in range(1, rows + 1))
        e.append(Branch(count, 1, cases))
        self._epilogue(row, count, batch)
        e.append(Loop(q, dim(0), tiles, False, e.close()))

    def _epilogue(self, row: Dim, count: Dim, batch: Index) -> None:
        """Apply what stands behind the product to the valid part of the tile, and write it."""
        e = self.e
        r, j = e.fresh("r"), e.fresh("j")
        e.open(r)
        e.open(j)
        at = symbol(r) * self.tile.panel + symbol(j)
        e.known[self.result.node, 0] = e.let(Load(self.scratch, at, self.result.dtype))
        store_outputs(e, self.face, (*batch, row + symbol(r), self.column + symbol(j)))
        e.append(Loop(j, dim(0), self.columns, True, e.close()))
        e.append(Loop(r, dim(0), count, False, e.close()))


def _zero(value: Value) -> float | int:
    return 0.0 if value.dtype.is_float else 0
