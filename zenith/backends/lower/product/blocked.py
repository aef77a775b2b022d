"""Blocked products on cores with vectors: what matrix products, convolutions and their gradients by weights share.

A task has some rows of a *panel* of columns, as wide as a register tile. It goes through the terms in blocks, and for
each block through its rows in tiles of nearly equal heights, whose sums stay in a scratch buffer; a block of the right
operand is read once for all tiles. A right operand that is the same in every call is packed into panels once, by a
kernel of its own. How a product is cut follows from sizes and target, before any statement is written; what loops
introduce, such as the rows of a task, is passed on in records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from zenith.backends.expressions import Load
from zenith.backends.kernel import Branch, Buffer, Kernel
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.loops import Span, loop, share_of
from zenith.backends.lower.nest import KernelInterface, bind, decode_into, store_results, tile_result
from zenith.backends.lower.operand import is_read_elsewhere, tile_doc
from zenith.backends.lower.task_grid import TaskGrid, quotient_up
from zenith.backends.target import TileShape
from zenith.backends.tiles import Operand, PackPanel, ProductTile, ScaledTile
from zenith.ir.dims import Dim, dim, minimum
from zenith.ir.graph import Graph
from zenith.ir.types import DType

STREAMED = 8  # rows whose arithmetic takes about as long as it takes to fetch a panel: fewer are not cheaper


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a task, and how many register tiles they are cut into."""

    first: Dim
    count: Dim
    tiles: Dim


@dataclass(frozen=True, slots=True)
class Packed:
    """A right operand that is packed ahead of all calls: its buffer, and that of its ``panels``."""

    source: Buffer
    panels: Buffer


class BlockedProduct:
    """The kernels of one body; subclasses set ``packed`` where one of them packs the right operand.

    They are written to builders that are passed on, and nothing is changed once the object is made.
    """

    packed: Packed | None = None

    def __init__(self, body: Graph, tile: TileShape) -> None:
        self.body, self.face, self.tile = body, KernelInterface.of(body), tile
        self.result = tile_result(body)
        self.dtype, (self.left, self.right, *self.others) = self.result.dtype, body.args(self.result.node)
        self.names = self.face.builder()  # of buffers: no kernel uses them for anything else

    def builder(self) -> ElementBuilder:
        """A builder for the statements of one of the kernels."""
        e = self.face.builder()
        e.taken |= self.names.taken
        return e

    def packed_from(self, name: str, dtype: DType, size: Dim) -> Packed:
        """An input packed into so many elements."""
        source = next(b for b in self.face.buffers if b.name == name)
        return Packed(source, Buffer(self.names.fresh("packed"), dtype, size, "in"))

    # --- statements ---

    def rows_of(self, e: ElementBuilder, number: Dim, shares: Dim, rows: Dim) -> Rows:
        """A task's share of all rows."""
        span = share_of(e, ("top", "height"), number, shares, rows)
        return Rows(span.first, span.count, bind(e, "tiles", quotient_up(span.count, self.tile.rows)))

    @contextmanager
    def each_tile(self, e: ElementBuilder, rows: Rows) -> Iterator[tuple[Dim, Span]]:
        """A loop over the tiles of a task; gives the number of the tile, and its rows counted from the task's first."""
        with loop(e, "q", 0, rows.tiles) as q:
            yield q, share_of(e, ("row", "rows"), q, rows.tiles, rows.count)

    def append_copy(
        self, e: ElementBuilder, vectors: int, source: Operand, target: Operand, terms: Dim, columns: Dim
    ) -> None:
        """Copy some terms of a panel of columns, which is padded with zeros."""
        at, to = bind(e, "from_at", source.at), bind(e, "to_at", target.at)
        panel = Operand(source.buffer, at, source.strides)
        e.append(PackPanel(vectors, self.tile.lanes, target.buffer, to, panel, terms, columns))

    def store_sums(
        self, e: ElementBuilder, sums: Operand, rows: Dim, columns: Dim, at: Callable[[Dim, Dim], Index]
    ) -> None:
        """Apply the epilogue to the sums of some rows and columns, whose indices in the result are ``at``."""
        with loop(e, "r", 0, rows) as r, loop(e, "j", 0, columns, lanes=True) as j:
            e.known[self.result.node, 0] = e.let(Load(sums.buffer, r * sums.strides[0] + j, self.dtype))
            store_results(e, self.face, at(r, j))

    # --- kernels ---

    def table_kernel(self, e: ElementBuilder, tables: tuple[Buffer, ...], cost: Dim) -> Kernel:
        """The kernel that writes tables of offsets, once its statements are written."""
        buffers = tuple(replace(table, role="temporary") for table in tables)
        return Kernel("kernel", "offsets", buffers, self.face.symbols, dim(1), cost, e.close(), operations=dim(0))

    def packing_kernel(self, e: ElementBuilder, tasks: Dim, cost: Dim, packed: Packed | None = None) -> Kernel:
        """The kernel that packs an operand, the right one unless another is given, once its statements are written."""
        packed = self.packed if packed is None else packed
        assert packed is not None
        buffers = packed.source, replace(packed.panels, role="temporary")
        return Kernel("kernel", "pack", buffers, self.face.symbols, tasks, cost, e.close(), operations=dim(0))

    def product_kernel(self, e: ElementBuilder, tasks: Dim, cost: Dim, tables: tuple[Buffer, ...] = ()) -> Kernel:
        """The kernel of the products, once its statements are written; it reads packed panels and ``tables``, too."""
        buffers = self.face.buffers
        if self.packed is not None:
            is_read = is_read_elsewhere(self.face, self.right, 1)
            others = [b for b in buffers if b.name != self.packed.source.name or is_read]
            buffers = (*others, self.packed.panels)
        doc, symbols = tile_doc(self.body), self.face.symbols
        return Kernel("kernel", doc, (*buffers, *tables), symbols, tasks, cost, e.close())


def panel_columns(
    e: ElementBuilder, cut: TaskGrid, number: Dim, columns: Dim, width: int, batch: Sequence[Dim]
) -> tuple[Span, Index]:
    """The columns of a panel, as a number when all panels have as many, and its index in the batch."""
    first = bind(e, "column", number % cut.panels * width)
    is_whole = columns.static is not None and columns.static % width == 0
    count = dim(width) if is_whole else bind(e, "columns", minimum(columns - first, width))
    if not batch:
        return Span(first, count), ()
    return Span(first, count), tuple(decode_into(e, bind(e, "matrix", number // cut.panels), batch))


def tiles_of(tile: ProductTile | ScaledTile, rows: Dim, most: int) -> Branch:
    """A register tile of so many rows, from those of ``tile`` up to ``most``."""
    cases = tuple((replace(tile, rows=height),) for height in range(tile.rows, most + 1))
    return Branch(rows, tile.rows, cases)
