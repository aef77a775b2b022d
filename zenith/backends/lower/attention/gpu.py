"""Attention by teams of threads, on guarded tiles: scores and sums are in shared memory.

A task goes through the keys in blocks, as in :mod:`zenith.backends.lower.attention.cpu`, but in the steps of a team: a
:class:`~zenith.backends.tiles.SharedProduct` gives the scores ``[key][query]`` from queries and keys in place,
one loop scales and masks them, an online softmax turns them into weights, another loop rescales the sums so far, and
more products add the weighted values to them, a panel of columns each. One query alone takes the same steps. Scores are
``[key][query]`` and sums ``[column][query]``, padded against bank conflicts in shared memory.
"""

from __future__ import annotations

from zenith.backends.expressions import Apply, Expr, Position
from zenith.backends.kernel import Kernel
from zenith.backends.lower.attention.task import AttentionTask
from zenith.backends.lower.nest import bind
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import GuardedTile
from zenith.backends.tiles import STAGED, Operand, SharedProduct
from zenith.ir.dims import Dim, dim, minimum
from zenith.ir.graph import Graph
from zenith.ir.types import bool_

APART = 4  # elements between the scores of keys: threads that read eight keys of four queries find them in 32 banks


def lower_shared_attention(body: Graph, tile: GuardedTile) -> list[Kernel]:
    """One kernel, whose tasks are blocks of queries of one head."""
    return [_SharedAttention(body, tile).lower()]


class _SharedAttention(AttentionTask):
    """As many keys at a time as a tile has rows, and half as many queries, which leaves room for their sums."""

    def __init__(self, body: Graph, tile: GuardedTile) -> None:
        super().__init__(body, tile.rows // 2)
        self.block, self.panel = tile.rows, tile.panel
        staged = (self.width + self.block) * STAGED
        self.free = tile.shared // self.dtype.itemsize - staged
        self.key_stride = self.width + APART
        self.scores = self.workspace("scores", self.block * self.key_stride)
        self.top, self.total, self.shrink = self.start_state()
        has_gaps = (self.columns.static or 0) * (self.width + 1) <= self.free
        self.column_stride = self.width + has_gaps
        self.sums = self.workspace("sums", self.columns * self.column_stride)

    def fits(self, length: int) -> bool:
        if length > self.free:
            return False
        self.free -= length
        return True

    def write(self) -> None:
        with self.loop("block", 0, quotient_up(self.keys, self.block)) as iteration:
            start = bind(self.e, "start", iteration * self.block)
            many = bind(self.e, "many", minimum(self.keys - start, self.block))
            self._multiply_keys(start, many)
            self._scale_and_mask(start, many)
            self.softmax(self.scores, self.key_stride, self.width, dim(0), many)
            self._shrink_sums(minimum(iteration, 1))
            self._add_values(iteration, start, many)
        self.scale_tops()
        if self.stores_logsumexp:
            with self.loop("r", 0, self.count, lanes=True) as r:
                self.store_logsumexp(r, self.share(r)[1])
        with self.loop("p", 0, self.count * self.columns, lanes=True) as p:
            r, c = bind(self.e, "r", p // self.columns), bind(self.e, "c", p % self.columns)
            self.store_average(r, c, self.load(self.sums, c * self.column_stride + r), self.share(r))

    def _multiply_keys(self, start: Dim, many: Dim) -> None:
        """Products of a block of keys with the queries."""
        k, q = self.k, self.q
        scores = Operand(self.scores.buffer, self.scores.at, (dim(self.key_stride), dim(1)))
        keys = Operand(k.buffer, bind(self.e, "keys_at", k.at + start * k.strides[0]), k.strides)
        queries = Operand(q.buffer, bind(self.e, "queries_at", q.at + self.first * q.strides[0]), q.strides[::-1])
        self.e.append(SharedProduct(self.block, self.width, many, self.count, scores, keys, queries, self.d))

    def _scale_and_mask(self, start: Dim, many: Dim) -> None:
        """Scale and mask products to scores, unless the step of the softmax does."""
        if self.late_scale and not self.params["causal"]:
            return
        with self.loop("p", 0, many * self.width, lanes=True) as p:
            key, r = bind(self.e, "key", p // self.width), bind(self.e, "r", p % self.width)
            at = bind(self.e, "at", key * self.key_stride + r)
            score: Expr = self.load(self.scores, at)
            if not self.late_scale:
                row = minimum(r, self.count - 1)  # lanes without a query repeat the last one
                score = self.masked(score, row, start + key)
            if self.params["causal"]:
                seen = self.put(Apply("x >= y", (Position(self.first + r), Position(start + key)), bool_))
                score = self.apply("where(x, y, z)", seen, score, self.number(-float("inf")))
            self.store(self.scores, at, score)

    def _shrink_sums(self, not_first: Dim) -> None:
        """Earlier sums become relative to the largest scores; before the first block of keys there are none."""
        with self.loop("p", 0, self.width * self.columns * not_first, lanes=True) as p:
            c, r = bind(self.e, "c", p // self.width), bind(self.e, "r", p % self.width)
            at = bind(self.e, "at", c * self.column_stride + r)
            self.store(self.sums, at, self.apply("x * y", self.load(self.sums, at), self.load(self.shrink, r)))

    def _add_values(self, iteration: Dim, start: Dim, many: Dim) -> None:
        """Add the weighted values of a block of keys to the sums; those of the first block are the sums.

        The values' columns are the rows of this product: so it has the shape of the one that gives scores.
        """
        v, columns = self.v, self.columns
        weights = Operand(self.scores.buffer, self.scores.at, (dim(self.key_stride), dim(1)))
        with self.loop("panel", 0, quotient_up(columns, self.panel)) as panel:
            column = bind(self.e, "column", panel * self.panel)
            valid = bind(self.e, "valid", minimum(columns - column, self.panel))
            sums_at = self.sums.at + column * self.column_stride
            sums = Operand(self.sums.buffer, sums_at, (dim(self.column_stride), dim(1)))
            values_at = bind(self.e, "values_at", v.at + start * v.strides[0] + column * v.strides[1])
            values = Operand(v.buffer, values_at, v.strides[::-1])
            tile = SharedProduct(self.panel, self.width, valid, self.count, sums, values, weights, many, iteration)
            self.e.append(tile)
