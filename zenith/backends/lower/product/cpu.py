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
since a product of few rows takes as long as reading its matrix does. Where the processor multiplies pairs of bfloat16,
and for bytes, panels have words of several terms, and a tile's rows are copied unless they are words in memory. The
design follows Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34, 2008).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

from zenith.backends.expressions import Apply, Load, Number
from zenith.backends.kernel import Kernel, Scratch, Store
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.loops import Span, block_of, loop, scratch, task_loop
from zenith.backends.lower.nest import bind, scalar_cost, write_case
from zenith.backends.lower.operand import OperandAccess, access, dense, element_type
from zenith.backends.lower.product.blocked import STREAMED, BlockedProduct, Rows, panel_columns, tiles_of
from zenith.backends.lower.task_grid import TaskGrid, quotient_up
from zenith.backends.target import TileShape
from zenith.backends.tiles import Operand, ProductTile
from zenith.ir.dims import Dim, dim, maximum, minimum, product
from zenith.ir.graph import Graph
from zenith.ir.types import DType, uint32


def lower_product(body: Graph, tile: TileShape, fixed: Collection[str] = ()) -> list[Kernel]:
    """The product kernel, after the packing kernel when the right operand is among the ``fixed`` inputs."""
    product_of = _Product(body, tile, fixed)
    return [*([product_of.pack()] if product_of.packed else []), product_of.kernel()]


@dataclass(frozen=True, slots=True)
class _Task:
    """Some rows of a panel of columns at an index of the batch, whose sums are a scratch buffer.

    The first ``uneven`` tiles have a row more than ``even``.
    """

    panel: Dim
    index: Index
    columns: Span
    rows: Rows
    even: Dim
    uneven: Dim
    sums: Operand


class _Product(BlockedProduct):
    def __init__(self, body: Graph, tile: TileShape, fixed: Collection[str]) -> None:
        super().__init__(body, tile)
        *self.batch, self.m, self.n = self.result.shape
        self.k, self.in_words = self.left.shape[-1], tile.terms > 1
        stored = access(self.face, self.right, tuple(dim(0) for _ in self.batch))
        self.matrices, self.panel_size = product(self.batch), self._rows(self.k) * tile.panel
        self.longest = max(1, tile.block if self.k.static is None else min(tile.block, self.k.static))  # of blocks
        self.row = self.longest + (tile.terms if self.in_words else 0)  # of a tile's copy: zeros fill the last word
        copied = element_type(self.face, self.left) if self.in_words else self.dtype
        self.copied = Scratch(self.names.fresh("rows" if self.in_words else "wide"), copied, tile.rows * self.row)
        is_packed = stored.buffer in fixed
        tasks = tile.tasks if is_packed else tile.tasks // 2  # each task makes its own copy
        self.cut = TaskGrid.of(self.m, self.n, self.matrices, tile, tasks)
        if is_packed:
            size = self.matrices * self.cut.panels * self.panel_size
            self.packed = self.packed_from(stored.buffer, uint32 if self.in_words else stored.dtype, size)

    def _rows(self, terms: Dim) -> Dim:
        """Rows of a panel with so many terms."""
        return quotient_up(terms, self.tile.terms) if self.in_words else terms

    def _decode(self, e: ElementBuilder, number: Dim) -> tuple[Span, Index]:
        return panel_columns(e, self.cut, number, self.n, self.tile.panel, self.batch)

    # --- the right operand, ahead of all calls ---

    def pack(self) -> Kernel:
        """Task t copies panel t of the right operand."""
        assert self.packed is not None
        e, tasks = self.builder(), self.matrices * self.cut.panels
        with task_loop(e, tasks) as t:
            columns, index = self._decode(e, t)
            target = dense(self.packed.panels.name, t * self.panel_size, self.tile.panel)
            self._copy(e, access(self.face, self.right, index), Span(dim(0), self.k), columns, target)
        return self.packing_kernel(e, tasks, self.panel_size * STREAMED)

    def _copy(self, e: ElementBuilder, right: OperandAccess, terms: Span, columns: Span, target: Operand) -> None:
        at = right.at + terms.first * right.strides[0] + columns.first * right.strides[1]
        source = Operand(right.buffer, at, right.strides)
        self.append_copy(e, self.tile.vectors, source, target, terms.count, columns.count)

    # --- the product ---

    def kernel(self) -> Kernel:
        """Task t computes one block of rows of one panel of columns; neighbours share the panel."""
        e, width = self.builder(), self.tile.panel
        sums = dense(scratch(e, "sums", self.dtype, self.tile.row_block * width), dim(0), width)
        blocks, tasks = bind(e, "blocks", self.cut.blocks), self.matrices * self.cut.panels * self.cut.blocks
        with task_loop(e, tasks) as t:
            block, panel = bind(e, "block", t % blocks), bind(e, "panel", t // blocks)
            columns, index = self._decode(e, panel)
            rows = self.rows_of(e, block, blocks, self.m)
            even, uneven = bind(e, "even", rows.count // rows.tiles), bind(e, "uneven", rows.count % rows.tiles)
            self._terms(e, _Task(panel, index, columns, rows, even, uneven, sums))
            self.store_sums(
                e, sums, rows.count, columns.count, lambda r, j: (*index, rows.first + r, columns.first + j)
            )
        return self.product_kernel(e, tasks, self._cost())

    def _cost(self) -> Dim:
        rows = quotient_up(self.m, maximum(1, self.cut.blocks))
        passes = rows + STREAMED if self.packed else rows + 2 * STREAMED
        return self.tile.panel * (self._rows(self.k) * passes + rows * scalar_cost(self.body))

    def _terms(self, e: ElementBuilder, task: _Task) -> None:
        """All blocks of terms; without terms there is one, which makes the sums zero."""
        size = self.tile.block
        if self.k.static is not None and self.k.static <= size:
            self._block(e, task, Span(dim(0), self.k))
            return
        with loop(e, "block", 0, maximum(1, quotient_up(self.k, size))) as block:
            self._block(e, task, block_of(e, ("start", "terms"), block, size, self.k))

    def _block(self, e: ElementBuilder, task: _Task, terms: Span) -> None:
        """One block of terms for all rows of the task: packed, copied, or for few rows and whole panels in place."""
        width = self.tile.panel
        if self.packed is not None:
            at = bind(e, "packed_at", task.panel * self.panel_size + self._rows(terms.first) * width)
            self._tiles(e, task, dense(self.packed.panels.name, at, width), terms)
            return
        source = access(self.face, self.right, task.index)
        cases = [partial(read, e, task, source, terms) for read in (self._read_in_place, self._read_copy)]
        if self.in_words or source.strides[1] != 1 or (self.cut.least_rows or 0) > self.tile.rows:
            cases[1]()
            return
        write_case(e, minimum(task.rows.tiles - 1 + width - task.columns.count, 1), cases)

    def _read_in_place(self, e: ElementBuilder, task: _Task, source: OperandAccess, terms: Span) -> None:
        at = bind(e, "right_at", source.at + terms.first * source.strides[0] + task.columns.first)
        self._tile(e, task, Operand(source.buffer, at, source.strides), terms, Span(dim(0), task.rows.count), at)

    def _read_copy(self, e: ElementBuilder, task: _Task, source: OperandAccess, terms: Span) -> None:
        width = self.tile.panel
        dtype, terms_of_row = (uint32, self.tile.terms) if self.in_words else (self.dtype, 1)
        copy = dense(scratch(e, "copy", dtype, -(-self.longest // terms_of_row) * width), dim(0), width)
        self._copy(e, source, terms, task.columns, copy)
        self._tiles(e, task, copy, terms)

    def _tiles(self, e: ElementBuilder, task: _Task, b: Operand, terms: Span) -> None:
        """The register tiles of a block of terms, of nearly equal heights: 7 rows are cut 4 + 3, not 6 + 1."""
        tiles, even, uneven = task.rows.tiles, task.even, task.uneven
        if tiles == 1:
            self._tile(e, task, b, terms, Span(dim(0), task.rows.count), self._ahead(e, b, terms.count, dim(0)))
            return
        with loop(e, "q", 0, tiles) as q:
            count = bind(e, "count", even + minimum(1, uneven // (q + 1)))
            rows = Span(bind(e, "row", q * even + minimum(q, uneven)), count)
            self._tile(e, task, b, terms, rows, self._ahead(e, b, terms.count, q))

    def _ahead(self, e: ElementBuilder, b: Operand, terms: Dim, q: Dim) -> Dim:
        """The position from which tile ``q`` prefetches: its slice of the next block, if that is packed too."""
        if self.packed is None:
            return b.at
        rows = self._rows(terms)
        return bind(e, "ahead", b.at + rows * self.tile.panel + q * rows * self.tile.ahead)

    def _tile(self, e: ElementBuilder, task: _Task, b: Operand, terms: Span, rows: Span, ahead: Dim) -> None:
        """One register tile, some of the rows of the task."""
        left = access(self.face, self.left, task.index)
        at = left.at + (task.rows.first + rows.first) * left.strides[0] + terms.first * left.strides[1]
        a = Operand(left.buffer, bind(e, "left_at", at), left.strides)
        a = a if self._is_ready(left) else self._copied_rows(e, a, left.dtype, rows.count, terms.count)
        c = replace(task.sums, at=bind(e, "sums_at", rows.first * self.tile.panel))
        least, most = self.cut.heights
        tile = ProductTile(least, self.tile.vectors, self.tile.lanes, c, a, b, terms.count, ahead, terms.first)
        e.append(tile if least == most else tiles_of(tile, rows.count, most))

    def _is_ready(self, left: OperandAccess) -> bool:
        """Whether a tile reads the left operand where it is."""
        if self.in_words:
            return left.strides[1] == 1 and self.k.static is not None and self.k.static % self.tile.terms == 0
        return left.dtype == self.dtype

    def _copied_rows(self, e: ElementBuilder, a: Operand, dtype: DType, rows: Dim, terms: Dim) -> Operand:
        """A tile's rows of a left operand of 16-bit floats: widened, else every column of the tile would widen them.

        Of words only the terms become neighbours, and zeros fill the last one.
        """
        outermost = e.levels[0].statements
        outermost += [] if self.copied in outermost else [self.copied]
        with loop(e, "r", 0, rows) as r:
            with loop(e, "k", 0, terms, lanes=True) as k:
                element = e.let(Load(a.buffer, a.at + r * a.strides[0] + k * a.strides[1], dtype))
                value = element if self.in_words else e.let(Apply("x", (element,), self.dtype))
                e.append(Store(self.copied.name, r * self.row + k, value))
            for missing in range(self.tile.terms - 1 if self.in_words else 0):
                e.append(Store(self.copied.name, r * self.row + terms + missing, Number(0, self.copied.dtype)))
        return dense(self.copied.name, dim(0), self.row)
