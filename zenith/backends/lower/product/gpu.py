"""Products on guarded tiles: a team of threads computes a tile of the result, then its epilogue.

A task is one tile. It goes through the terms in blocks, each a :class:`~zenith.backends.tiles.SharedProduct` onto sums
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
from dataclasses import dataclass, replace
from functools import partial

from zenith.backends.expressions import Apply, Expr, Load
from zenith.backends.kernel import Buffer, Kernel, LastOf, Store
from zenith.backends.lower.loops import Span, block_length, block_of, loop, scratch, task_loop
from zenith.backends.lower.nest import (
    KernelInterface,
    bind,
    decode_into,
    scalar_cost,
    store_results,
    tile_result,
    with_used_buffers,
    write_case,
)
from zenith.backends.lower.operand import access, dense
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import GuardedTile
from zenith.backends.tensor_core_tiles import MIN_SPLIT_TERMS, MatrixTile
from zenith.backends.tiles import STAGED, Folded, Operand, SharedProduct
from zenith.ir.dims import Dim, dim, maximum, minimum, product, row_major
from zenith.ir.graph import Graph
from zenith.ir.types import int32

TOGETHER = 16  # rows of tiles: a few hundred tiles are computed at a time
Tile = GuardedTile | MatrixTile


def lower_shared_product(body: Graph, tile: Tile, once: bool = False) -> list[Kernel]:
    """The kernel; terms are not split where it runs once for all calls."""
    return [SharedTiles(body, tile, once).lower()]


@dataclass(frozen=True, slots=True)
class ResultTile:
    """A tile of the result at an index of the batch: the rows and columns of it that are inside."""

    index: tuple[Dim, ...]
    rows: Span
    columns: Span


class SharedTiles:
    """The kernel whose tasks end with tiles of the result in shared memory, and the epilogue.

    The result is that of a matrix product. Subclasses override the methods below for other products.
    """

    def __init__(self, body: Graph, tile: Tile, once: bool) -> None:
        self.body, self.face, self.tile = body, KernelInterface.of(body), tile
        self.result = tile_result(body)
        self.left, self.right = body.args(self.result.node)
        self.batch, self.m, self.n, self.k = self.shape()
        self.blocks, self.panels = quotient_up(self.m, tile.rows), quotient_up(self.n, tile.panel)
        self.tiles = product(self.batch) * self.panels * self.blocks
        self.e = self.face.builder()
        self.partial, self.arrived = (self.e.fresh(n) for n in ("partial", "arrived"))
        self.splits = dim(1) if once else self._split_count()
        self.schedule = tile if isinstance(tile, MatrixTile) else None
        self.line = tile.panel if self.schedule is None else self.schedule.line
        self.sums = scratch(self.e, "sums", self.result.dtype, tile.rows * self.line)

    # --- shape and operands ---

    def shape(self) -> tuple[list[Dim], Dim, Dim, Dim]:
        """The batch axes of the product, its rows, columns and terms."""
        *batch, m, n = self.result.shape
        return batch, m, n, self.left.shape[-1]

    def row_of(self, tile: ResultTile, row: Dim) -> tuple[Dim, ...]:
        """The index in the result of a row of the product, with its variables bound."""
        return (*tile.index, row)

    def element_of(self, row: tuple[Dim, ...], column: Dim) -> tuple[Dim, ...]:
        """The index in the result of an element of a row."""
        return (*row, column)

    def operands(self, tile: ResultTile, start: Dim) -> tuple[Operand | Folded, Operand]:
        """The operands of the tile's rows and columns, from term ``start`` on."""
        left, right = (access(self.face, x, tile.index) for x in (self.left, self.right))
        left_at = left.at + tile.rows.first * left.strides[0] + start * left.strides[1]
        right_at = right.at + start * right.strides[0] + tile.columns.first * right.strides[1]
        return (
            Operand(left.buffer, bind(self.e, "left_at", left_at), left.strides),
            Operand(right.buffer, bind(self.e, "right_at", right_at), right.strides),
        )

    # --- the kernel ---

    def find(self, number: Dim) -> ResultTile:
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
        top = bind(e, "top", (first + number % rows) * tile.rows)
        column = bind(e, "column", number // rows * tile.panel)
        index = tuple(decode_into(e, matrix, self.batch)) if self.batch else ()
        height = block_length(e, "height", top, tile.rows, self.m)
        return ResultTile(index, Span(top, height), Span(column, block_length(e, "width", column, tile.panel, self.n)))

    def elements(self, tile: ResultTile, visit: Callable[[Dim, tuple[Dim, ...]], None]) -> None:
        """A loop over a tile's valid elements, by their positions in the sums and their indices in the result.

        The wide rows of a tile for tensor cores are shared by warps, so that neighbours can be accessed at once.
        """
        e, rows, columns = self.e, tile.rows, tile.columns
        if self.schedule is not None:
            with loop(e, "row", 0, rows.count, warps=True) as row:
                index = self.row_of(tile, rows.first + row)
                with loop(e, "j", 0, columns.count, lanes=True) as column:
                    visit(row * self.line + column, self.element_of(index, columns.first + column))
            return
        with loop(e, "p", 0, rows.count * columns.count, lanes=True) as p:
            row, column = bind(e, "row", p // columns.count), bind(e, "j", p % columns.count)
            index = self.row_of(tile, rows.first + row)
            visit(row * self.line + column, self.element_of(index, columns.first + column))

    def store_results(self, tile: ResultTile) -> None:
        """Apply the epilogue to the sums, and write the results."""

        def store(at: Dim, index: tuple[Dim, ...]) -> None:
            self.e.known[self.result.node, 0] = self.e.let(Load(self.sums, at, self.result.dtype))
            store_results(self.e, self.face, index)

        self.elements(tile, store)

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
        e, splits, tasks = self.e, bind(self.e, "splits", self.splits), self.tiles * self.splits
        with task_loop(e, tasks) as t:
            split, number = bind(e, "number", t % splits), bind(e, "tile", t // splits)
            tile = self.find(number)
            self._sum_terms(tile, split, splits)
            cases = partial(self.store_results, tile), partial(self._store_partial, tile, number, split, splits)
            write_case(e, minimum(splits - 1, 1), cases)
        work = minimum(self.m, self.tile.rows) * minimum(self.n, self.tile.panel)
        made = self.face.kernel(tasks, work * (self.k + scalar_cost(self.body)), e)
        return with_used_buffers(replace(made, buffers=(*made.buffers, *self._own_buffers())))

    def _own_buffers(self) -> tuple[Buffer, Buffer]:
        """The partial sums, and the counters of arrived tasks; both are empty where there is one split only."""
        several = minimum(self.splits - 1, 1)
        partial = product(self.result.shape) * self.splits * several
        return (
            Buffer(self.partial, self.result.dtype, partial, "temporary"),
            Buffer(self.arrived, int32, self.tiles * several, "counter"),
        )

    def _sum_terms(self, tile: ResultTile, split: Dim, splits: Dim) -> None:
        """All blocks of a split's terms; without terms there is one, which makes the sums zero."""
        e, size, first, count = self.e, self.tile.block, dim(0), self.k
        if splits != 1:
            at_hand = STAGED if self.schedule is None else self.schedule.depth
            share = bind(e, "share", quotient_up(quotient_up(self.k, splits), at_hand) * at_hand)
            first = bind(e, "first", minimum(split * share, self.k))
            count = bind(e, "count", minimum(self.k - first, share))
        if self.k.static is not None and self.k.static <= size:
            self._multiply(tile, Span(first, count), dim(0))
            return
        with loop(e, "iteration", 0, maximum(1, quotient_up(count, size))) as iteration:
            block = block_of(e, ("done", "terms"), iteration, size, count)
            self._multiply(tile, Span(first + block.first, block.count), iteration)

    def _multiply(self, tile: ResultTile, terms: Span, onto: Dim) -> None:
        a, b = self.operands(tile, terms.first)
        shape = (self.tile.rows, self.tile.panel, tile.rows.count, tile.columns.count)
        sums = dense(self.sums, dim(0), self.line)
        self.e.append(SharedProduct(*shape, sums, a, b, terms.count, onto, self.schedule))

    def _store_partial(self, tile: ResultTile, number: Dim, split: Dim, splits: Dim) -> None:
        """Write a split's sums; the last task of a tile joins them."""
        dtype = self.result.dtype
        self.elements(tile, lambda at, index: self.e.append(
            Store(self.partial, self.partial_at(split, index), Load(self.sums, at, dtype))))  # fmt: skip
        self.e.open()
        self._join(tile, splits)
        self.e.append(LastOf(self.arrived, number, splits, self.e.close()))

    def _join(self, tile: ResultTile, splits: Dim) -> None:
        """Add up the partial sums of all splits, in order, and apply the epilogue to the total."""
        self._add(tile, dim(0), onto=False)
        with loop(self.e, "number", 1, splits) as split:
            self._add(tile, split, onto=True)
        self.store_results(tile)

    def _add(self, tile: ResultTile, split: Dim, onto: bool) -> None:
        dtype = self.result.dtype

        def add(at: Dim, index: tuple[Dim, ...]) -> None:
            total: Expr = Load(self.partial, self.partial_at(split, index), dtype)
            if onto:
                total = Apply("x + y", (Load(self.sums, at, dtype), total), dtype)
            self.e.append(Store(self.sums, at, total))

        self.elements(tile, add)
