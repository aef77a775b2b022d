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

from functools import partial

from zenith.backends.expressions import Expr
from zenith.backends.kernel import Kernel
from zenith.backends.lower.attention.column_panels import Panels, Weighing, add_rows, panels
from zenith.backends.lower.attention.task import AttentionTask
from zenith.backends.lower.attention.task_writer import STACK, Workspace
from zenith.backends.lower.loops import fold
from zenith.backends.lower.nest import bind, write_case
from zenith.backends.lower.operand import dense
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import TileShape
from zenith.backends.tiles import Operand, PackPanel, ProductTile
from zenith.ir.dims import Dim, dim, maximum, minimum
from zenith.ir.graph import Graph

KEYS = 64  # keys of a block: scores, queries and values of a head of 64 columns stay in the first-level cache
FEW = 4  # so many queries fill enough lanes
FEW_KEYS = 256  # keys of a block for fewer queries


def lower_attention(body: Graph, tile: TileShape) -> list[Kernel]:
    """One kernel, whose tasks are blocks of queries of one head."""
    return [CpuAttention(body, tile).lower()]


class CpuAttention(AttentionTask):
    """Writes a task of queries in lanes; a subclass may multiply blocks of them in another form."""

    def __init__(self, body: Graph, tile: TileShape) -> None:
        super().__init__(body, tile.panel)
        self.rows, self.vectors, self.lanes = tile.rows, tile.vectors, tile.lanes
        slack = self.rows * self.width  # a tile that ends with the last key may begin before the first
        self.panels = self.panels_of(self.v.strides[1])
        self.scores = Workspace(self.workspace("scores", (KEYS + 1) * self.width + 2 * slack).buffer, dim(slack))
        self.top, self.total, self.shrink = self.start_state(self.rows)
        self.spare = self.workspace("spare", FEW_KEYS * self.panels.rest * self.lanes)
        self.sums = self.workspace("sums", self.panels.width * (self.width + self.rows))

    def fits(self, length: int) -> bool:
        return length <= STACK

    def panels_of(self, stride: Dim) -> Panels:
        """How the columns of values are cut, which are ``stride`` apart."""
        return panels(self.columns, stride, self.lanes, self.vectors)

    def write(self) -> None:
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
        active = bind(e, "active", quotient_up(self.count, self.lanes))  # vectors of queries
        packed = self.pack_queries()
        with self.loop("block", 0, quotient_up(self.keys, KEYS)) as iteration:
            start = bind(e, "start", iteration * KEYS)
            many = bind(e, "many", minimum(self.keys - start, KEYS))
            self._write_products(packed, self.block_of_keys(start, many), active, many)
            self._scale_and_mask(active, start, many)
            self._hide(start, many)
            with self.loop("vector", 0, active) as vector:
                self.softmax(self.scores, self.width, self.lanes, bind(e, "lane", vector * self.lanes), many)
            with self.loop("r", 0, self.count * minimum(iteration, 1)) as r:
                self._shrink_sums(r)
            self.average_block(iteration, start, many)
        self.scale_tops()

    def pack_queries(self) -> Workspace:
        """Queries as columns; unused lanes are zero."""
        packed = self.workspace("packed", self.d * self.width)
        self.append_queries(packed)
        return packed

    def append_queries(self, packed: Workspace) -> None:
        """Copy the block's queries."""
        source = Operand(self.q.buffer, self.q.at + self.first * self.q.strides[0], self.q.strides[::-1])
        self.e.append(PackPanel(self.vectors, self.lanes, packed.buffer, packed.at, source, self.d, self.count))

    def block_of_keys(self, start: Dim, many: Dim) -> Operand:
        """Some keys, from ``start`` on, as rows."""
        return Operand(self.k.buffer, self.k.at + start * self.k.strides[0], self.k.strides)

    def _write_products(self, packed: Workspace, keys: Operand, active: Dim, many: Dim) -> None:
        """Products as [key][query], in tiles as wide as the queries need."""
        widths = ((self.vectors + 1) // 2, self.vectors)
        whole = minimum((active - 1) // widths[0], 1)
        write_case(self.e, whole, [partial(self._product_tiles, packed, keys, many, w) for w in widths])

    def _product_tiles(self, packed: Workspace, keys: Operand, many: Dim, vectors: int) -> None:
        with self.loop("i", 0, quotient_up(many, self.rows)) as i:
            first = bind(self.e, "key", minimum(i * self.rows, many - self.rows))
            scores = dense(self.scores.buffer, self.scores.at + first * self.width, self.width)
            rows = Operand(keys.buffer, keys.at + first * keys.strides[0], keys.strides)
            queries = dense(packed.buffer, packed.at, self.width)
            self.e.append(ProductTile(self.rows, vectors, self.lanes, scores, rows, queries, self.d, packed.at))

    def _hide(self, start: Dim, many: Dim) -> None:
        """Causal: a key is not seen by the queries before it."""
        if not self.params["causal"]:
            return
        with self.loop("key", maximum(self.first + 1 - start, 0), many) as key:
            hidden = bind(self.e, "hidden", minimum(start + key - self.first, self.width))
            with self.loop("r", 0, hidden, lanes=True) as r:
                self.store(self.scores, key * self.width + r, self.number(-float("inf")))

    def _scale_and_mask(self, active: Dim, start: Dim, many: Dim) -> None:
        """Scale and mask products to scores, unless the step of the softmax does."""
        if self.late_scale:
            return
        with self.loop("vector", 0, active) as vector, self.loop("key", 0, many) as key:
            vector_at = bind(self.e, "position", key * self.width + vector * self.lanes)
            with self.loop("l", 0, self.lanes, lanes=True) as lane:
                row = minimum(vector * self.lanes + lane, self.count - 1)  # unused lanes repeat the last query
                score = self.masked(self.load(self.scores, vector_at + lane), row, start + key)
                self.store(self.scores, vector_at + lane, score)

    def _shrink_sums(self, row: Dim) -> None:
        """Earlier sums of a query become relative to its largest score."""
        shrink = self.load(self.shrink, row)
        at = bind(self.e, "sums_at", row * self.panels.width)
        with self.loop("c", 0, self.panels.width, lanes=True) as c:
            self.store(self.sums, at + c, self.apply("x * y", self.load(self.sums, at + c), shrink))

    # --- weights times values ---

    def average_block(self, onto: Dim, start: Dim, many: Dim) -> None:
        """Add the values of a block of keys, weighted for each query of a block."""
        weights = Operand(self.scores.buffer, self.scores.at, (dim(1), dim(self.width)))
        weighing = Weighing(self.sums, weights, many, quotient_up(self.count, self.rows), self.rows, onto)
        add_rows(self, self.panels, self.v, start, many, self.columns, self.spare, weighing)

    def _average(self, onto: Dim, start: Dim, many: Dim, row: Dim) -> None:
        """The same for one query, row ``row`` of the block."""
        sums = Workspace(self.sums.buffer, self.sums.at + row * self.panels.width)
        weights = Operand(self.scores.buffer, self.scores.at, (dim(0), dim(1)))
        weighing = Weighing(sums, weights, many, dim(1), 1, onto)
        add_rows(self, self.panels, self.v, start, many, self.columns, self.spare, weighing)

    # --- a few queries, one after the other, keys are lanes ---

    def _write_few(self) -> None:
        e = self.e
        with self.loop("r", 0, self.count) as r:
            keys = bind(e, "keys", self.seen(r + 1))
            with self.loop("block", 0, quotient_up(keys, FEW_KEYS)) as iteration:
                start = bind(e, "start", iteration * FEW_KEYS)
                many = bind(e, "many", minimum(keys - start, FEW_KEYS))
                self._score_keys(r, start, many)
                self._weigh_keys(r, many)
                self._shrink_sums(r)
                self._average(iteration, start, many, r)

    def _score_keys(self, r: Dim, start: Dim, many: Dim) -> None:
        """The scores of one query, each a sum of products; then their largest, joined to the running one."""
        e = self.e
        query = bind(e, "query_at", self.q.at + (self.first + r) * self.q.strides[0])
        with self.loop("key", 0, many) as key:
            row = bind(e, "key_at", self.k.at + (start + key) * self.k.strides[0])

            def term(d: Dim, query: Dim = query, row: Dim = row) -> Expr:
                left = self.read(self.q, query + d * self.q.strides[1])
                return self.apply("x * y", left, self.read(self.k, row + d * self.k.strides[1]))

            product = fold(e, ("d", "dot"), self.d, 0.0, "x + y", term)
            self.store(self.scores, key, self.masked(product, r, start + key))

    def _weigh_keys(self, r: Dim, many: Dim) -> None:
        """The same step as for a block, along the keys."""
        stems = "key", "joined"
        top = fold(self.e, stems, many, -float("inf"), "maximum(x, y)", lambda key: self.load(self.scores, key))
        before = self.load(self.top, r)
        top = self.apply("maximum(x, y)", before, top)
        base = self.apply("where(x == y, z, x)", top, self.number(-float("inf")), self.number(0.0))
        shrink = self.apply("exp(x - y)", before, base)

        def weight(key: Dim) -> Expr:
            found = self.apply("exp(x - y)", self.load(self.scores, key), base)
            self.store(self.scores, key, found)
            return found

        total = fold(self.e, stems, many, 0.0, "x + y", weight)
        self.store(self.top, r, top)
        self.store(self.shrink, r, shrink)
        self.store(self.total, r, self.apply("x * y + z", self.load(self.total, r), shrink, total))
