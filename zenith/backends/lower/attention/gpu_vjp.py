"""The backward pass of attention by teams of threads, on guarded tiles: products and sums are in shared memory.

The steps are those of :mod:`zenith.backends.lower.attention.task_vjp`. Products ``[other][own]`` read their operands in
place; sums are ``[column][own]``, a panel of columns a product, as in :mod:`zenith.backends.lower.attention.gpu`, and
padded against bank conflicts.
"""

from __future__ import annotations

from collections.abc import Callable

from zenith.backends.expressions import Apply, Name, Position
from zenith.backends.kernel import Kernel
from zenith.backends.lower.attention.gpu import APART
from zenith.backends.lower.attention.task_vjp import AttentionVjpTask, Visit, wanted
from zenith.backends.lower.attention.task_writer import Workspace
from zenith.backends.lower.nest import bind
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import GuardedTile
from zenith.backends.tiles import STAGED, Operand, SharedProduct
from zenith.ir.dims import Dim, dim, minimum
from zenith.ir.graph import Graph
from zenith.ir.types import bool_


def lower_shared_attention_vjp(body: Graph, tile: GuardedTile) -> list[Kernel]:
    """A kernel for the queries' cotangents, and one for those of keys and values."""
    return [_SharedAttentionVjp(body, tile, results).lower() for results in wanted(body)]


class _SharedAttentionVjp(AttentionVjpTask):
    """As many other rows at a time as a tile has rows, and half as many own ones, which leaves room for their sums."""

    def __init__(self, body: Graph, tile: GuardedTile, results: tuple[int, ...]) -> None:
        super().__init__(body, tile.rows // 2, tile.rows, results)
        self.panel = tile.panel
        staged = (self.width + self.block) * STAGED
        self.free = tile.shared // self.dtype.itemsize - staged
        self.stride = self.width + APART
        self.weights, self.dscores = (self.workspace(name, self.block * self.stride) for name in ("weights", "changes"))
        summed = sorted(set(self.sums_of.values()))
        needed = sum((self.columns_of(n) for n in summed), dim(0))
        self.column_stride = self.width + ((needed.static or 0) * (self.width + 1) <= self.free)
        self.sums = {n: self.workspace("sums", self.columns_of(n) * self.column_stride) for n in summed}

    def fits(self, length: int) -> bool:
        if length > self.free:
            return False
        self.free -= length
        return True

    def multiply(self, workspace: Workspace, number: int, iteration: Dim, start: Dim, many: Dim) -> None:
        own, other, e = self.x_own[number], self.x_other[number], self.e
        target = Operand(workspace.buffer, workspace.at, (dim(self.stride), dim(1)))
        rows = Operand(other.buffer, bind(e, "others_at", self.rows_of(other, start)), other.strides)
        columns = Operand(own.buffer, bind(e, "own_at", self.rows_of(own, self.first)), own.strides[::-1])
        terms = self.columns_of(number)
        e.append(SharedProduct(self.block, self.width, many, self.count, target, rows, columns, terms))

    def each_score(self, many: Dim, visit: Visit) -> None:
        with self.loop("p", 0, many * self.width, lanes=True) as p:
            other, own = bind(self.e, "other", p // self.width), bind(self.e, "own", p % self.width)
            at = bind(self.e, "at", other * self.stride + own)
            visit(at, other, minimum(own, self.count - 1))  # lanes without a row repeat the last one

    def collect(self, number: int, iteration: Dim, start: Dim, many: Dim) -> None:
        """The columns of the other rows are the rows of this product, which has the shape of those of scores."""
        e, other, factors = self.e, self.x_other[number], self.weights if number else self.dscores
        weights = Operand(factors.buffer, factors.at, (dim(self.stride), dim(1)))
        columns, into = self.columns_of(number), self.sums[number]
        with self.loop("panel", 0, quotient_up(columns, self.panel)) as panel:
            column = bind(e, "column", panel * self.panel)
            valid = bind(e, "valid", minimum(columns - column, self.panel))
            sums = Operand(into.buffer, into.at + column * self.column_stride, (dim(self.column_stride), dim(1)))
            at = bind(e, "others_at", self.rows_of(other, start) + column * other.strides[1])
            rows = Operand(other.buffer, at, other.strides[::-1])
            e.append(SharedProduct(self.panel, self.width, valid, self.count, sums, rows, weights, many, iteration))

    def each_sum(self, number: int, visit: Callable[[Dim, Dim, Name], None]) -> None:
        columns = self.columns_of(number)
        some = self.put(Apply("x > 0", (Position(self.rows),), bool_))
        with self.loop("p", 0, self.count * columns, lanes=True) as p:
            own, column = bind(self.e, "own", p // columns), bind(self.e, "column", p % columns)
            total = self.load(self.sums[number], column * self.column_stride + own)
            visit(own, column, self.apply("where(x, y, z)", some, total, self.number(0.0)))
