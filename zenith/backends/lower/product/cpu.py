"""Products: a matrix product on register tiles, with an elementwise epilogue.

The result is cut into tasks, a panel of columns as wide as a tile times a block of rows. A task goes through the terms
in blocks, and through its rows in register tiles of nearly equal heights; its sums stay in a scratch buffer, from which
the epilogue reads them in ordinary loops of lanes: a gelu there took no measurable time. Reductions of rows (layernorm)
are kernels of their own, since no task has a whole row.

A block of the right operand is read once for every tile. An operand that is the same in every call is *packed* into
panels ``[batch][panel][term][column]``, padded with zeros, once. Any other is copied block by block by the task that
needs it, into memory that stays in its core's cache: with 126 rows such a product ran at 0.8 to 0.9 of the speed with
packed panels. The copy does not pay for a single tile of rows, which reads the operand's rows in place.

Operands are read at any constant strides, so transposed, sliced and broadcast operands are not copied first. 16-bit
floats are widened by their readers, the tile or the copy, and summed in float32; packed they stay 16 bits wide,
since a product of few rows takes as long as reading its matrix does. The design follows Goto
and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34, 2008).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from zenith.backends.kernel import (
    Apply,
    Branch,
    Buffer,
    Kernel,
    Load,
    Loop,
    Operand,
    PackPanel,
    ProductTile,
    Scratch,
    Store,
    TaskLoop,
)
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import Interface, bind, decode_into, scalar_cost, store_results, tile_result, write_case
from zenith.backends.lower.operand import Access, access, is_read_elsewhere, tile_doc
from zenith.backends.lower.task_grid import Cut
from zenith.backends.target import TileShape
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.types import DType

STREAMED = 8  # rows whose arithmetic takes about as long as it takes to fetch a panel: fewer are not cheaper


def lower_product(body: Graph, tile: TileShape, fixed: Collection[str] = ()) -> list[Kernel]:
    """The product kernel, after the packing kernel when the right operand is among the ``fixed`` inputs."""
    return _Product(body, tile, fixed).kernels()


class _Product:
    def __init__(self, body: Graph, tile: TileShape, fixed: Collection[str]) -> None:
        self.body, self.face, self.tile = body, Interface.of(body), tile
        self.result = tile_result(body)
        self.left, self.right = body.args(self.result.node)
        self.batch = self.result.shape[:-2]
        self.m, self.n = self.result.shape[-2:]
        self.k = self.left.shape[-1]
        self.panel_size = self.k * self.tile.panel
        self.packed = self.face.builder().fresh("packed")
        stored = self._access(self.right, tuple(dim(0) for _ in self.batch))
        self.is_packed, self.packed_dtype = stored.buffer in fixed, stored.dtype
        tasks = self.tile.tasks if self.is_packed else self.tile.tasks // 2  # each task makes its own copy
        self.cut = Cut.of(self.m, self.n, product(self.batch), self.tile, tasks)

    def kernels(self) -> list[Kernel]:
        """All kernels, in order."""
        return [self._pack(), self._product()] if self.is_packed else [self._product()]

    def _access(self, value: Value, batch: Index) -> Access:
        return access(self.face, value, batch)

    def _builder(self) -> ElementBuilder:
        e = self.face.builder()
        e.taken.add(self.packed)
        return e

    def _decode(self, task: Dim) -> Index:
        """Decode a task number to a panel and a batch index."""
        e = self.e
        self.column = bind(e, "column", task % self.cut.panels * self.tile.panel)
        self.columns = self._columns()
        if not self.batch:
            return ()
        return tuple(decode_into(e, bind(e, "matrix", task // self.cut.panels), list(self.batch)))

    def _columns(self) -> Dim:
        """The columns of a panel: a number when all panels have as many."""
        width = self.tile.panel
        if self.n.static is not None and self.n.static % width == 0:
            return dim(width)
        return bind(self.e, "columns", minimum(self.n - self.column, width))

    # --- the right operand, ahead of all calls ---

    def _packed_buffer(self, role: str) -> Buffer:
        size = product(self.batch) * self.cut.panels * self.panel_size
        return Buffer(self.packed, self.packed_dtype, size, role)

    def _pack(self) -> Kernel:
        """Task t copies panel t of the right operand."""
        e = self.e = self._builder()
        t = e.fresh("t")
        e.open(t)
        source = self._access(self.right, self._decode(symbol(t)))
        self._copy(source, dim(0), self.k, self.packed, symbol(t) * self.panel_size)
        tasks, cost = product(self.batch) * self.cut.panels, self.panel_size * STREAMED
        e.append(TaskLoop(t, tasks, None, (), e.close(), False))
        buffers = (next(b for b in self.face.buffers if b.name == source.buffer), self._packed_buffer("temporary"))
        return Kernel("kernel", "pack", buffers, self.face.symbols, tasks, cost, e.close(), operations=dim(0))

    def _copy(self, source: Access, start: Dim, terms: Dim, target: str, to: Dim) -> None:
        at = source.at + start * source.strides[0] + self.column * source.strides[1]
        at, to = bind(self.e, "from_at", at), bind(self.e, "to_at", to)
        panel = Operand(source.buffer, at, source.strides)
        self.e.append(PackPanel(self.tile.vectors, self.tile.lanes, target, to, panel, terms, self.columns))

    # --- the product ---

    def _product(self) -> Kernel:
        """Task t computes one block of rows of one panel of columns; neighbours share the panel."""
        e = self.e = self._builder()
        self.sums, self.wide = self._scratch("sums", self.tile.row_block * self.tile.panel), ""
        blocks = bind(e, "blocks", self.cut.blocks)
        t = e.fresh("t")
        e.open(t)
        block = bind(e, "block", symbol(t) % blocks)
        self.panel = bind(e, "panel", symbol(t) // blocks)
        self.index = self._decode(self.panel)
        self.top = bind(e, "top", block * self.m // blocks)
        self.height = bind(e, "height", (block + 1) * self.m // blocks - self.top)
        self.tiles = bind(e, "tiles", (self.height + (self.tile.rows - 1)) // self.tile.rows)
        self.even = bind(e, "even", self.height // self.tiles)
        self.uneven = bind(e, "uneven", self.height % self.tiles)
        self._terms()
        self._epilogue()
        tasks = product(self.batch) * self.cut.panels * self.cut.blocks
        e.append(TaskLoop(t, tasks, None, (), e.close(), False))
        return Kernel("kernel", tile_doc(self.body), self._buffers(), self.face.symbols, tasks, self._cost(), e.close())

    def _scratch(self, stem: str, length: int) -> str:
        name = self.e.fresh(stem)
        self.e.levels[0].statements.append(Scratch(name, self.result.dtype, length))
        return name

    def _buffers(self) -> tuple[Buffer, ...]:
        if not self.is_packed:
            return self.face.buffers
        right = self._access(self.right, tuple(dim(0) for _ in self.batch)).buffer
        others = [b for b in self.face.buffers if b.name != right or is_read_elsewhere(self.face, self.right, 1)]
        return (*others, self._packed_buffer("in"))

    def _cost(self) -> Dim:
        blocks = maximum(1, self.cut.blocks)
        rows = (self.m + (blocks - 1)) // blocks
        passes = rows + STREAMED if self.is_packed else rows + 2 * STREAMED
        return self.tile.panel * (self.k * passes + rows * scalar_cost(self.body))

    def _terms(self) -> None:
        """All blocks of terms; without terms there is one, which makes the sums zero."""
        e, size = self.e, self.tile.block
        if self.k.static is not None and self.k.static <= size:
            self._block(dim(0), self.k)
            return
        iteration = e.fresh("block")
        e.open(iteration)
        start = bind(e, "start", symbol(iteration) * size)
        self._block(start, bind(e, "terms", minimum(self.k - start, size)))
        e.append(Loop(iteration, dim(0), maximum(1, (self.k + (size - 1)) // size), False, e.close()))

    def _block(self, start: Dim, terms: Dim) -> None:
        """One block of terms for all rows of the task: packed, copied, or for few rows and whole panels in place."""
        width = dim(self.tile.panel)
        if self.is_packed:
            at = bind(self.e, "packed_at", self.panel * self.panel_size + start * width)
            self._tiles(Operand(self.packed, at, (width, dim(1))), start, terms)
            return
        source = self._access(self.right, self.index)
        cases = [partial(self._read_in_place, source, start, terms), partial(self._read_copy, source, start, terms)]
        if source.strides[1] != 1 or (self.cut.least_rows or 0) > self.tile.rows:
            cases[1]()
            return
        write_case(self.e, minimum(self.tiles - 1 + self.tile.panel - self.columns, 1), cases)

    def _read_in_place(self, source: Access, start: Dim, terms: Dim) -> None:
        at = bind(self.e, "right_at", source.at + start * source.strides[0] + self.column)
        self._tile(Operand(source.buffer, at, source.strides), start, terms, (dim(0), self.height), at)

    def _read_copy(self, source: Access, start: Dim, terms: Dim) -> None:
        copy = self._scratch("copy", self._longest() * self.tile.panel)
        self._copy(source, start, terms, copy, dim(0))
        self._tiles(Operand(copy, dim(0), (dim(self.tile.panel), dim(1))), start, terms)

    def _tiles(self, b: Operand, start: Dim, terms: Dim) -> None:
        """The register tiles of a block of terms, of nearly equal heights: 7 rows are cut 4 + 3, not 6 + 1."""
        e = self.e
        if self.tiles == 1:
            self._tile(b, start, terms, (dim(0), self.height), self._ahead(b, terms, dim(0)))
            return
        q = e.fresh("q")
        e.open(q)
        count = bind(e, "count", self.even + minimum(1, self.uneven // (symbol(q) + 1)))
        row = bind(e, "row", symbol(q) * self.even + minimum(symbol(q), self.uneven))
        self._tile(b, start, terms, (row, count), self._ahead(b, terms, symbol(q)))
        e.append(Loop(q, dim(0), self.tiles, False, e.close()))

    def _ahead(self, b: Operand, terms: Dim, q: Dim) -> Dim:
        """The position from which tile ``q`` prefetches: its slice of the next block, if that is packed too."""
        if not self.is_packed:
            return b.at
        return bind(self.e, "ahead", b.at + terms * self.tile.panel + q * terms * self.tile.ahead)

    def _tile(self, b: Operand, start: Dim, terms: Dim, rows: tuple[Dim, Dim], ahead: Dim) -> None:
        """One register tile: the row of the task where it begins and its height are ``rows``."""
        (row, count), (least, most) = rows, self.cut.heights
        left = self._access(self.left, self.index)
        at = bind(self.e, "left_at", left.at + (self.top + row) * left.strides[0] + start * left.strides[1])
        a = Operand(left.buffer, at, left.strides)
        a = a if left.dtype == self.result.dtype else self._widened(a, left.dtype, count, terms)
        width = dim(self.tile.panel)
        c = Operand(self.sums, bind(self.e, "sums_at", row * width), (width, dim(1)))
        shape = (self.tile.vectors, self.tile.lanes)
        tiles = [ProductTile(r, *shape, c, a, b, terms, ahead, start) for r in range(least, most + 1)]
        self.e.append(tiles[0] if len(tiles) == 1 else Branch(count, least, tuple((t,) for t in tiles)))

    def _widened(self, a: Operand, dtype: DType, count: Dim, terms: Dim) -> Operand:
        """A tile's rows of a left operand of 16-bit floats: else every column of the tile would widen them."""
        e, longest = self.e, self._longest()
        self.wide = self.wide or self._scratch("wide", self.tile.rows * longest)
        r, k = e.fresh("r"), e.fresh("k")
        e.open(r)
        e.open(k)
        element = e.let(Load(a.buffer, a.at + symbol(r) * a.strides[0] + symbol(k) * a.strides[1], dtype))
        value = e.let(Apply("x", (element,), self.result.dtype))
        e.append(Store(self.wide, symbol(r) * longest + symbol(k), value))
        e.append(Loop(k, dim(0), terms, True, e.close()))
        e.append(Loop(r, dim(0), count, False, e.close()))
        return Operand(self.wide, dim(0), (dim(longest), dim(1)))

    def _longest(self) -> int:
        """The number of terms of a block at most."""
        return max(1, self.tile.block if self.k.static is None else min(self.tile.block, self.k.static))

    # --- the epilogue ---

    def _epilogue(self) -> None:
        """Apply the epilogue to the valid rows and columns of the sums, and write the results."""
        e = self.e
        r, j = e.fresh("r"), e.fresh("j")
        e.open(r)
        e.open(j)
        at = symbol(r) * self.tile.panel + symbol(j)
        e.known[self.result.node, 0] = e.let(Load(self.sums, at, self.result.dtype))
        store_results(e, self.face, (*self.index, self.top + symbol(r), self.column + symbol(j)))
        e.append(Loop(j, dim(0), self.columns, True, e.close()))
        e.append(Loop(r, dim(0), self.height, False, e.close()))
