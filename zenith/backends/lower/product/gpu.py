"""Products on guarded tiles: a team of threads computes a tile of the result, then its epilogue.

A task is one tile. It goes through the terms in blocks, each a :class:`~zenith.backends.kernel.SharedProduct` onto sums
that the team shares; operands are read in place, at any constant strides, so nothing is packed or copied. The epilogue
is one loop over the elements of the tile, which the threads share. This module is for matrix products;
:mod:`zenith.backends.lower.convolution.gpu` inherits from it.

Where a call has fewer tiles than there are teams, as in products of few rows, the terms are split (split-K), a task
each, whose partial sums go to a temporary buffer; the last task of a tile adds them all up, in order, and applies the
epilogue. The number of splits follows from the sizes. For targets whose tiles are not guarded
see :mod:`zenith.backends.lower.product.cpu`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zenith.backends.cuda.tensor_core_tiles import MIN_SPLIT_TERMS, MatrixTile
from zenith.backends.kernel import (
    STAGED,
    Apply,
    Buffer,
    Expr,
    Folded,
    Kernel,
    LastOf,
    Load,
    Loop,
    Operand,
    Scratch,
    SharedProduct,
    Store,
    TaskLoop,
)
from zenith.backends.lower.nest import Interface, bind, decode_into, scalar_cost, store_results, tile_result, write_case
from zenith.backends.lower.operand import access
from zenith.backends.lower.pointwise.overwrite import with_used_buffers
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import GuardedTile
from zenith.ir.dims import Dim, dim, maximum, minimum, product, row_major, symbol
from zenith.ir.graph import Graph
from zenith.ir.types import int32

TOGETHER = 16  # rows of tiles: a few hundred tiles are computed at a time
Tile = GuardedTile | MatrixTile


def lower_shared_product(body: Graph, tile: Tile, once: bool = False) -> list[Kernel]:
    """The kernel; terms are not split where it runs once for all calls."""
    return [SharedTiles(body, tile, once).lower()]


class SharedTiles:
    """The kernel whose tasks end with tiles of the result in shared memory, and the epilogue.

    The result is that of a matrix product. Subclasses override the methods below for other products.
    """

    def __init__(self, body: Graph, tile: Tile, once: bool) -> None:
        self.body, self.face, self.tile = body, Interface.of(body), tile
        self.result = tile_result(body)
        self.left, self.right = body.args(self.result.node)
        self.batch, self.m, self.n, self.k = self.shape()
        self.blocks, self.panels = quotient_up(self.m, tile.rows), quotient_up(self.n, tile.panel)
        self.tiles = product(self.batch) * self.panels * self.blocks
        self.e = self.face.builder()
        self.partial, self.sums, self.arrived = (self.e.fresh(n) for n in ("partial", "sums", "arrived"))
        self.splits = dim(1) if once else self._split_count()
        self.schedule = tile if isinstance(tile, MatrixTile) else None
        self.line = tile.panel if self.schedule is None else self.schedule.line
        self.e.append(Scratch(self.sums, self.result.dtype, tile.rows * self.line))

    # --- shape and operands ---

    def shape(self) -> tuple[list[Dim], Dim, Dim, Dim]:
        """The batch axes of the product, its rows, columns and terms."""
        *batch, m, n = self.result.shape
        return batch, m, n, self.left.shape[-1]

    def row_of(self, row: Dim) -> tuple[Dim, ...]:
        """The index in the result of a row of the product, with its variables bound."""
        return (*self.index, row)

    def element_of(self, row: tuple[Dim, ...], column: Dim) -> tuple[Dim, ...]:
        """The index in the result of an element of a row."""
        return (*row, column)

    def operands(self, start: Dim) -> tuple[Operand | Folded, Operand]:
        """The operands of the tile's rows and columns, from term ``start`` on."""
        left, right = (access(self.face, x, self.index) for x in (self.left, self.right))
        left_at = left.at + self.top * left.strides[0] + start * left.strides[1]
        right_at = right.at + start * right.strides[0] + self.column * right.strides[1]
        return (
            Operand(left.buffer, bind(self.e, "left_at", left_at), left.strides),
            Operand(right.buffer, bind(self.e, "right_at", right_at), right.strides),
        )

    # --- the kernel ---

    def find(self, number: Dim) -> None:
        """Find the rows and columns of a tile (threadblock swizzling).

        Neighbours are in one column of tiles, whose right operand they share, down to ``TOGETHER`` rows of tiles: the
        operands of concurrent tiles, so many rows and about as many columns, are to fit into the second-level cache.
        """
        e, tile, blocks = self.e, self.tile, bind(self.e, "blocks", self.blocks)
        matrix = dim(0)
        if product(self.batch) != 1:
            matrix = bind(e, "matrix", number // (blocks * self.panels))
            number = bind(e, "of_matrix", number % (blocks * self.panels))
        if self.blocks.static is not None and self.blocks.static <= TOGETHER:
            first, rows = dim(0), blocks
        else:
            first = bind(e, "first_block", number // (self.panels * TOGETHER) * TOGETHER)
            rows = bind(e, "neighbours", minimum(blocks - first, TOGETHER))
            number = bind(e, "neighbour", number % (self.panels * TOGETHER))
        self.top = bind(e, "top", (first + number % rows) * tile.rows)
        self.column = bind(e, "column", number // rows * tile.panel)
        self.index = tuple(decode_into(e, matrix, self.batch)) if self.batch else ()
        self.height = self._inside("height", self.m, self.top, tile.rows)
        self.width = self._inside("width", self.n, self.column, tile.panel)

    def _inside(self, stem: str, size: Dim, start: Dim, most: int) -> Dim:
        """The valid rows or columns of a tile: a number when all tiles have as many."""
        if size.static is not None and (size.static <= most or size.static % most == 0):
            return dim(min(size.static, most))
        return bind(self.e, stem, minimum(size - start, most))

    def elements(self, visit: Callable[[Dim, tuple[Dim, ...]], None]) -> None:
        """A loop over a tile's valid elements, by their positions in the sums and their indices in the result.

        The wide rows of a tile for tensor cores are shared by warps, so that neighbours can be accessed at once.
        """
        if self.schedule is not None:
            self._rows(visit)
            return
        e, p = self.e, self.e.fresh("p")
        e.open(p)
        row, column = bind(e, "row", symbol(p) // self.width), bind(e, "j", symbol(p) % self.width)
        visit(row * self.line + column, self.element_of(self.row_of(self.top + row), self.column + column))
        e.append(Loop(p, dim(0), self.height * self.width, True, e.close()))

    def _rows(self, visit: Callable[[Dim, tuple[Dim, ...]], None]) -> None:
        e, row, column = self.e, self.e.fresh("row"), self.e.fresh("j")
        r, j = symbol(row), symbol(column)
        e.open(row)
        index = self.row_of(self.top + r)
        e.open(column)
        visit(r * self.line + j, self.element_of(index, self.column + j))
        e.append(Loop(column, dim(0), self.width, True, e.close()))
        e.append(Loop(row, dim(0), self.height, False, e.close(), warps=True))

    def store_results(self) -> None:
        """Apply the epilogue to the sums, and write the results."""

        def store(at: Dim, index: tuple[Dim, ...]) -> None:
            self.e.known[self.result.node, 0] = self.e.let(Load(self.sums, at, self.result.dtype))
            store_results(self.e, self.face, index)

        self.elements(store)

    def partial_at(self, split: Dim, index: tuple[Dim, ...]) -> Dim:
        """The position of an element's partial sum of one split."""
        return split * product(self.result.shape) + row_major(self.result.shape, index)

    def _split_count(self) -> Dim:
        """The number of splits of the terms: one, unless there are too few tiles and many terms."""
        wanted, most = dim(self.tile.tasks) // maximum(1, self.tiles), quotient_up(self.k, MIN_SPLIT_TERMS)
        if any(n.static is not None and n.static <= 1 for n in (wanted, most)):
            return dim(1)
        return maximum(1, minimum(wanted, most))

    def lower(self) -> Kernel:
        """Task t is split ``t % splits`` of tile ``t // splits``."""
        e, splits = self.e, bind(self.e, "splits", self.splits)
        t = e.fresh("t")
        e.open(t)
        split = bind(e, "number", symbol(t) % splits)
        tile = bind(e, "tile", symbol(t) // splits)
        self.find(tile)
        self._sum_terms(split, splits)
        write_case(e, minimum(splits - 1, 1), (self.store_results, lambda: self._store_partial(tile, split, splits)))
        e.append(TaskLoop(t, self.tiles * self.splits, None, (), e.close(), False))
        work = minimum(self.m, self.tile.rows) * minimum(self.n, self.tile.panel)
        made = self.face.kernel(self.tiles * self.splits, work * (self.k + scalar_cost(self.body)), e)
        return with_used_buffers(replace(made, buffers=(*made.buffers, *self._own_buffers())))

    def _own_buffers(self) -> tuple[Buffer, Buffer]:
        """The partial sums, and the counters of arrived tasks; both are empty where there is one split only."""
        several = minimum(self.splits - 1, 1)
        partial = product(self.result.shape) * self.splits * several
        return (
            Buffer(self.partial, self.result.dtype, partial, "temporary"),
            Buffer(self.arrived, int32, self.tiles * several, "counter"),
        )

    def _sum_terms(self, split: Dim, splits: Dim) -> None:
        """All blocks of a split's terms; without terms there is one, which makes the sums zero."""
        e, size, first, count = self.e, self.tile.block, dim(0), self.k
        if splits != 1:
            at_hand = STAGED if self.schedule is None else self.schedule.depth
            share = bind(e, "share", quotient_up(quotient_up(self.k, splits), at_hand) * at_hand)
            first = bind(e, "first", minimum(split * share, self.k))
            count = bind(e, "count", minimum(self.k - first, share))
        if self.k.static is not None and self.k.static <= size:
            self._multiply(first, count, dim(0))
            return
        iteration = e.fresh("iteration")
        e.open(iteration)
        done = bind(e, "done", symbol(iteration) * size)
        self._multiply(first + done, bind(e, "terms", minimum(count - done, size)), symbol(iteration))
        e.append(Loop(iteration, dim(0), maximum(1, quotient_up(count, size)), False, e.close()))

    def _multiply(self, start: Dim, terms: Dim, onto: Dim) -> None:
        a, b = self.operands(start)
        sums = Operand(self.sums, dim(0), (dim(self.line), dim(1)))
        shape = (self.tile.rows, self.tile.panel, self.height, self.width)
        self.e.append(SharedProduct(*shape, sums, a, b, terms, onto, self.schedule))

    def _store_partial(self, tile: Dim, split: Dim, splits: Dim) -> None:
        """Write a split's sums; the last task of a tile joins them."""
        dtype = self.result.dtype
        self.elements(lambda at, index: self.e.append(
            Store(self.partial, self.partial_at(split, index), Load(self.sums, at, dtype))))  # fmt: skip
        self.e.open()
        self._join(splits)
        self.e.append(LastOf(self.arrived, tile, splits, self.e.close()))

    def _join(self, splits: Dim) -> None:
        """Add up the partial sums of all splits, in order, and apply the epilogue to the total."""
        self._add(dim(0), onto=False)
        split = self.e.fresh("number")
        self.e.open(split)
        self._add(symbol(split), onto=True)
        self.e.append(Loop(split, dim(1), splits, False, self.e.close()))
        self.store_results()

    def _add(self, split: Dim, onto: bool) -> None:
        dtype = self.result.dtype

        def add(at: Dim, index: tuple[Dim, ...]) -> None:
            total: Expr = Load(self.partial, self.partial_at(split, index), dtype)
            if onto:
                total = Apply("x + y", (Load(self.sums, at, dtype), total), dtype)
            self.e.append(Store(self.sums, at, total))

        self.elements(add)
