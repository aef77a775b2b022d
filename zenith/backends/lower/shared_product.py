"""Products on guarded tiles: a team of threads computes a tile of the result, then the operations behind it.

A task is one tile. It goes through the terms in blocks, each a :class:`~zenith.backends.kernel.SharedProduct` onto sums
that the team shares; operands are read where they lie, at any constant strides, so nothing is packed or copied. The
operations behind the product are one loop over the elements of the tile, in which every thread has its share. For
targets whose tiles are not guarded see :mod:`zenith.backends.lower.product`.
"""

from __future__ import annotations

from zenith.backends.kernel import Kernel, Load, Loop, Operand, Scratch, SharedProduct, TaskLoop
from zenith.backends.lower.cut import quotient_up
from zenith.backends.lower.elements import Index
from zenith.backends.lower.nest import Interface, bind, decode_into, scalar_cost, store_results
from zenith.backends.lower.operand import access, tile_result
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph
from zenith.ir.target import GuardedTile


def lower_shared_product(body: Graph, tile: GuardedTile) -> list[Kernel]:
    """The one kernel."""
    return [_SharedProduct(body, tile).lower()]


class _SharedProduct:
    def __init__(self, body: Graph, tile: GuardedTile) -> None:
        self.body, self.face, self.tile = body, Interface.of(body), tile
        self.result = tile_result(body)
        self.left, self.right = body.args(self.result.node)
        (*self.batch, self.m, self.n), self.k = self.result.shape, self.left.shape[-1]
        self.e = self.face.builder()

    def lower(self) -> Kernel:
        """Task t is a tile; neighbours are in one column of tiles, whose right operand they share."""
        e, tile = self.e, self.tile
        self.sums = e.fresh("sums")
        e.append(Scratch(self.sums, self.result.dtype, tile.rows * tile.panel))
        blocks = bind(e, "blocks", quotient_up(self.m, tile.rows))
        t = e.fresh("t")
        e.open(t)
        self.index, panel = self._split(bind(e, "panel", symbol(t) // blocks))
        self.top = bind(e, "top", symbol(t) % blocks * tile.rows)
        self.column = bind(e, "column", panel * tile.panel)
        self.height = self._part("height", self.m, self.top, tile.rows)
        self.width = self._part("width", self.n, self.column, tile.panel)
        self._terms()
        self._epilogue()
        tasks = product(self.batch) * quotient_up(self.n, tile.panel) * quotient_up(self.m, tile.rows)
        e.append(TaskLoop(t, tasks, None, (), e.close(), False))
        cost = minimum(self.m, tile.rows) * minimum(self.n, tile.panel) * (self.k + scalar_cost(self.body))
        return self.face.kernel(tasks, cost, e)

    def _split(self, panel: Dim) -> tuple[Index, Dim]:
        """The number of a panel of all matrices as the index of its matrix and its number there."""
        panels = quotient_up(self.n, self.tile.panel)
        if not self.batch:
            return (), panel
        return tuple(decode_into(self.e, bind(self.e, "matrix", panel // panels), self.batch)), panel % panels

    def _part(self, stem: str, size: Dim, start: Dim, most: int) -> Dim:
        """How much of a tile is inside: a number when it is the same for all tiles."""
        if size.static is not None and (size.static <= most or size.static % most == 0):
            return dim(min(size.static, most))
        return bind(self.e, stem, minimum(size - start, most))

    def _terms(self) -> None:
        """All blocks of terms; without terms there is one, which makes the sums zero."""
        e, size = self.e, self.tile.block
        if self.k.static is not None and self.k.static <= size:
            self._block(dim(0), self.k)
            return
        part = e.fresh("part")
        e.open(part)
        start = bind(e, "start", symbol(part) * size)
        self._block(start, bind(e, "terms", minimum(self.k - start, size)))
        e.append(Loop(part, dim(0), maximum(1, quotient_up(self.k, size)), False, e.close()))

    def _block(self, start: Dim, terms: Dim) -> None:
        left, right = (access(self.face, x, self.index) for x in (self.left, self.right))
        left_at = left.at + self.top * left.strides[0] + start * left.strides[1]
        right_at = right.at + start * right.strides[0] + self.column * right.strides[1]
        sums = Operand(self.sums, dim(0), (dim(self.tile.panel), dim(1)))
        a = Operand(left.buffer, bind(self.e, "left_at", left_at), left.strides)
        b = Operand(right.buffer, bind(self.e, "right_at", right_at), right.strides)
        shape = (self.tile.rows, self.tile.panel, self.height, self.width)
        self.e.append(SharedProduct(*shape, sums, a, b, terms, start))

    def _epilogue(self) -> None:
        """Apply what stands behind the product to the part of the sums that is inside, and write it."""
        e, p = self.e, self.e.fresh("p")
        e.open(p)
        row, column = bind(e, "row", symbol(p) // self.width), bind(e, "j", symbol(p) % self.width)
        e.known[self.result.node, 0] = e.let(Load(self.sums, row * self.tile.panel + column, self.result.dtype))
        store_results(e, self.face, (*self.index, self.top + row, self.column + column))
        e.append(Loop(p, dim(0), self.height * self.width, True, e.close()))
