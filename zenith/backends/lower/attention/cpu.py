"""Attention in one kernel: the scores of a block of queries and a block of keys exist in the cache only.

A task is a block of queries of one head. It goes through the keys in blocks and updates, for each query, the running
maximum of the scores, the sum of the exponentials and the weighted sum of the values; a larger score scales both sums
down (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
Memory is linear in the numbers of queries and keys.

Queries are the lanes. A task packs its queries as columns, once; then the register tile gives scores as
``[key][query]`` from keys that are read in place, at any strides; maxima, exponentials and sums are vectors
without a horizontal step; and the same tile multiplies the weights with the values, in place, too. Columns of values
that do not fill a vector are copied into one.

A few queries alone (one, when a text is generated) do not fill a vector. For them a score is a sum along the columns of
query and key, and all passes run along the keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from zenith.backends.kernel import (
    Accumulator,
    Expr,
    Fold,
    Kernel,
    Name,
    Operand,
    PackPanel,
    ProductTile,
)
from zenith.backends.lower.attention.column_panels import Weighing, add_rows, panels
from zenith.backends.lower.attention.task import AttentionTask
from zenith.backends.lower.attention.task_writer import STACK, Workspace
from zenith.backends.lower.nest import bind, write_case
from zenith.backends.target import TileShape
from zenith.ir.dims import Dim, dim, maximum, minimum, symbol
from zenith.ir.graph import Graph

KEYS = 64  # keys of a block: scores, queries and values of a head of 64 columns stay in the first-level cache
FEW = 4  # so many queries fill enough lanes
FEW_KEYS = 256  # keys of a block for fewer queries


def lower_attention(body: Graph, tile: TileShape) -> list[Kernel]:
    """One kernel, whose tasks are blocks of queries of one head."""
    return [_Attention(body, tile).lower()]


class _Attention(AttentionTask):
    def __init__(self, body: Graph, tile: TileShape) -> None:
        super().__init__(body, tile.panel)
        self.rows, self.vectors, self.lanes = tile.rows, tile.vectors, tile.lanes

    def fits(self, length: int) -> bool:
        return length <= STACK

    def write(self) -> None:
        slack = self.rows * self.width  # a tile that ends with the last key may begin before the first
        self.panels = panels(self.columns, self.v.strides[1], self.lanes, self.vectors)
        self.scores = Workspace(self.workspace("scores", (KEYS + 1) * self.width + 2 * slack).buffer, dim(slack))
        self.start_state(self.rows)
        self.spare = self.workspace("spare", FEW_KEYS * self.panels.rest * self.lanes)
        self.sums = self.workspace("sums", self.panels.width * (self.width + self.rows))
        fills = minimum(self.count // FEW, 1) * minimum(self.keys // self.rows, 1)
        write_case(self.e, fills, (self._write_few, self._write_block))
        with self.loop("r", 0, self.count) as r:
            share = self.share(r)
            self.store_logsumexp(r, share[1])
            with self.loop("c", 0, self.columns, lanes=True) as c:
                self.store_average(r, c, self.load(self.sums, r * self.panels.width + c), share)

    # --- a block of queries, one a lane ---

    def _write_block(self) -> None:
        e = self.e
        self.active = bind(e, "active", (self.count + (self.lanes - 1)) // self.lanes)
        self.packed = self.workspace("packed", self.d * self.width)
        self._pack_queries()
        with self.loop("block", 0, (self.keys + (KEYS - 1)) // KEYS) as iteration:
            start = bind(e, "start", iteration * KEYS)
            many = bind(e, "many", minimum(self.keys - start, KEYS))
            self._write_products(start, many)
            self._scale_and_mask(start, many)
            self._hide(start, many)
            self._weigh(many)
            with self.loop("r", 0, self.count * minimum(iteration, 1)) as r:
                self._shrink_sums(r)
            tiles = (self.count + (self.rows - 1)) // self.rows
            weights = Operand(self.scores.buffer, self.scores.at, (dim(1), dim(self.width)))
            self._average(iteration, start, many, tiles, self.rows, weights, dim(0))
        self.scale_tops()

    def _pack_queries(self) -> None:
        """Queries as columns; unused lanes are zero."""
        source = Operand(self.q.buffer, self.q.at + self.first * self.q.strides[0], self.q.strides[::-1])
        pack = PackPanel(self.vectors, self.lanes, self.packed.buffer, self.packed.at, source, self.d, self.count)
        self.e.append(pack)

    def _write_products(self, start: Dim, many: Dim) -> None:
        """Products as [key][query], in tiles as wide as the queries need."""
        widths = ((self.vectors + 1) // 2, self.vectors)
        whole = minimum((self.active - 1) // widths[0], 1)
        write_case(self.e, whole, [partial(self._product_tiles, start, many, w) for w in widths])

    def _product_tiles(self, start: Dim, many: Dim, vectors: int) -> None:
        with self.loop("i", 0, (many + (self.rows - 1)) // self.rows) as i:
            first = bind(self.e, "key", minimum(i * self.rows, many - self.rows))
            scores = Operand(self.scores.buffer, self.scores.at + first * self.width, (dim(self.width), dim(1)))
            keys = Operand(self.k.buffer, self.k.at + (start + first) * self.k.strides[0], self.k.strides)
            queries = Operand(self.packed.buffer, self.packed.at, (dim(self.width), dim(1)))
            tile = ProductTile(self.rows, vectors, self.lanes, scores, keys, queries, self.d, self.packed.at)
            self.e.append(tile)

    def _hide(self, start: Dim, many: Dim) -> None:
        """Causal: a key is not seen by the queries before it."""
        if not self.params["causal"]:
            return
        with self.loop("key", maximum(self.first + 1 - start, 0), many) as key:
            hidden = bind(self.e, "hidden", minimum(start + key - self.first, self.width))
            with self.loop("r", 0, hidden, lanes=True) as r:
                self.store(self.scores, key * self.width + r, self.number(-float("inf")))

    def _scale_and_mask(self, start: Dim, many: Dim) -> None:
        """Scale and mask products to scores, unless the step of the softmax does."""
        if self.late_scale:
            return
        with self.loop("vector", 0, self.active) as vector, self.loop("key", 0, many) as key:
            vector_at = bind(self.e, "position", key * self.width + vector * self.lanes)
            with self.loop("l", 0, self.lanes, lanes=True) as lane:
                row = minimum(vector * self.lanes + lane, self.count - 1)  # unused lanes repeat the last query
                score = self.masked(self.load(self.scores, vector_at + lane), row, start + key)
                self.store(self.scores, vector_at + lane, score)

    def _weigh(self, many: Dim) -> None:
        with self.loop("vector", 0, self.active) as vector:
            self.softmax(self.scores, self.width, self.lanes, bind(self.e, "lane", vector * self.lanes), many)

    def _shrink_sums(self, row: Dim) -> None:
        """Earlier sums of a query become relative to its largest score."""
        shrink = self.load(self.shrink, row)
        at = bind(self.e, "sums_at", row * self.panels.width)
        with self.loop("c", 0, self.panels.width, lanes=True) as c:
            self.store(self.sums, at + c, self.apply("x * y", self.load(self.sums, at + c), shrink))

    # --- weights times values ---

    def _average(self, onto: Dim, start: Dim, many: Dim, tiles: Dim, rows: int, weights: Operand, row: Dim) -> None:
        """Add the weighted values of a block of keys to the sums, the first of which are those of row ``row``."""
        sums = Workspace(self.sums.buffer, self.sums.at + row * self.panels.width)
        weighing = Weighing(sums, weights, tiles, rows, onto)
        add_rows(self, self.panels, self.v, start, many, self.columns, self.spare, weighing)

    # --- a few queries, one after the other, keys are lanes ---

    def _write_few(self) -> None:
        e = self.e
        with self.loop("r", 0, self.count) as r:
            keys = bind(e, "keys", self.seen(r + 1))
            with self.loop("block", 0, (keys + (FEW_KEYS - 1)) // FEW_KEYS) as iteration:
                start = bind(e, "start", iteration * FEW_KEYS)
                many = bind(e, "many", minimum(keys - start, FEW_KEYS))
                self._score_keys(r, start, many)
                self._weigh_keys(r, many)
                self._shrink_sums(r)
                weights = Operand(self.scores.buffer, self.scores.at, (dim(0), dim(1)))
                self._average(iteration, start, many, dim(1), 1, weights, r)

    def _score_keys(self, r: Dim, start: Dim, many: Dim) -> None:
        """The scores of one query, each a sum of products; then their largest, joined to the running one."""
        e = self.e
        query = bind(e, "query_at", self.q.at + (self.first + r) * self.q.strides[0])
        with self.loop("key", 0, many) as key:
            row = bind(e, "key_at", self.k.at + (start + key) * self.k.strides[0])
            d, total = e.fresh("d"), e.fresh("dot")
            e.open(d)
            pair = (
                self.read(self.q, query + symbol(d) * self.q.strides[1]),
                self.read(self.k, row + symbol(d) * self.k.strides[1]),
            )
            terms = Accumulator(total, self.dtype, 0.0, "x + y", self.apply("x * y", *pair))
            e.append(Fold(d, dim(0), self.d, e.close(), (terms,)))
            e.level_of[total] = len(e.levels) - 1
            self.store(self.scores, key, self.masked(Name(total, self.dtype), r, start + key))

    def _weigh_keys(self, r: Dim, many: Dim) -> None:
        """The same step as for a block, along the keys."""
        top = self._fold(many, -float("inf"), "maximum(x, y)", lambda key: self.load(self.scores, key))
        before = self.load(self.top, r)
        top = self.apply("maximum(x, y)", before, top)
        base = self.apply("where(x == y, z, x)", top, self.number(-float("inf")), self.number(0.0))
        shrink = self.apply("exp(x - y)", before, base)

        def weight(key: Dim) -> Expr:
            found = self.apply("exp(x - y)", self.load(self.scores, key), base)
            self.store(self.scores, key, found)
            return found

        total = self._fold(many, 0.0, "x + y", weight)
        self.store(self.top, r, top)
        self.store(self.shrink, r, shrink)
        self.store(self.total, r, self.apply("x * y + z", self.load(self.total, r), shrink, total))

    def _fold(self, many: Dim, initial: float, combine: str, value: Callable[[Dim], Expr]) -> Name:
        index, name = self.e.fresh("key"), self.e.fresh("joined")
        self.e.open(index)
        accumulator = Accumulator(name, self.dtype, initial, combine, value(symbol(index)))
        self.e.append(Fold(index, dim(0), many, self.e.close(), (accumulator,)))
        self.e.level_of[name] = len(self.e.levels) - 1
        return Name(name, self.dtype)
