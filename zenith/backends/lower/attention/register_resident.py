"""Attention on tensor cores: scores and sums of a block of queries are register-resident from the first to last key.

A task stages its queries once and keys and values a block at a time, the next one while it computes with the present
one if shared memory has room for both. A product gives the scores, an online softmax turns them into weights in
registers, and these, rounded to the operands' 16 bits, are the left operand of the product that adds the weighted
values to the sums (Dao, "FlashAttention-2", 2023). Steps are statements of the kernel IR on register matrices, which
:mod:`zenith.backends.cuda.register_matrices` lowers.
"""

from __future__ import annotations

from zenith.backends.expressions import Expr, Name
from zenith.backends.kernel import Kernel
from zenith.backends.lower.attention.register_writer import RegisterWriter, padded
from zenith.backends.lower.attention.task import AttentionTask
from zenith.backends.lower.nest import bind
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.tensor_core_tiles import AttentionShape, AttentionTile
from zenith.ir.dims import Dim, dim, minimum
from zenith.ir.graph import Graph
from zenith.ir.types import DType


def forward_shape(element: DType, head: int, columns: int) -> AttentionShape:
    """The shape of the kernel, for heads of ``head`` columns of queries and ``columns`` of values."""
    widths = padded(head), padded(columns)
    return AttentionShape(element, widths, 1, widths[1:])


def lower_register_attention(body: Graph, tile: AttentionTile) -> list[Kernel]:
    """One kernel, whose tasks are blocks of queries of one head."""
    return [_RegisterAttention(body, tile).lower()]


class _RegisterAttention(RegisterWriter, AttentionTask):
    def __init__(self, body: Graph, tile: AttentionTile) -> None:
        super().__init__(body, tile.rows)
        self.tile, self.element = tile, tile.instruction.element
        self.wide, self.across = padded(self.d.static or 0), padded(self.columns.static or 0)
        self.queries = self.scratch("queries", tile.rows, self.wide)
        keys, values = self.block_tiles("tile_keys", self.wide), self.block_tiles("tile_values", self.across)
        self.blocks = (keys, self.wide, self.k, self.d), (values, self.across, self.v, self.columns)
        self.products = self.register_matrix("scores", tile.block)
        self.sums = self.register_matrix("sums", self.across)
        self.top, self.total, self.shrink = (self.register_matrix(stem) for stem in ("top", "total", "shrink"))

    def write(self) -> None:
        block, blocks, ((keys, *_), (values, *_)) = self.tile.block, self.blocks, self.blocks
        self._start()
        self.stage(self.queries, self.tile.rows, self.wide, self.q, self.first, self.count, self.d)
        if self.tile.stages > 1:
            self.stage_ahead(blocks, dim(0), dim(0), self.keys)
        with self.loop("block", 0, quotient_up(self.keys, block)) as iteration:
            start = bind(self.e, "start", iteration * block)
            many = bind(self.e, "many", minimum(self.keys - start, block))
            if self.tile.stages > 1:
                self.stage_ahead(blocks, iteration + 1, dim(0), self.keys)
            else:
                for tile, wide, operand, width in blocks:
                    self.stage(tile, block, wide, operand, start, many, width)
            self.scores(self.products, self.queries, keys, self.wide, iteration)
            self.each_element(block, lambda r, c: self._score(r, c, start, many))
            self._weigh()
            self.gather(self.sums, self.products, values, self.across, iteration)
        self._finish()

    def _start(self) -> None:
        def start(r: Dim) -> None:
            self.store(self.top, r, self.number(-float("inf")))
            self.store(self.total, r, self.number(0.0))

        self.each_row(start)
        self.each_element(self.across, lambda r, c: self.store(self.sums, r * self.across + c, self.number(0.0)))

    def _score(self, r: Dim, c: Dim, start: Dim, many: Dim) -> None:
        """A product becomes a score; columns without a key are masked, rows without a query repeat the last one."""
        at = r * self.tile.block + c
        score: Expr = self.load(self.products, at)
        query, key = minimum(r, self.count - 1), start + minimum(c, many - 1)
        if not self.late_scale:
            score = self.masked(score, query, key)
        seen = [self.below(c, many, self.tile.block)]
        seen += [self.below(start + c, self.first + r + 1, 0)] if self.params["causal"] else []
        for condition in seen:
            if condition is not None:
                score = self.apply("where(x, y, z)", condition, score, self.number(-float("inf")))
        self.store(self.products, at, score)

    def _weigh(self) -> None:
        """Scores become weights; earlier sums are rescaled as the running maximum grows."""
        block, scale = self.tile.block, self.number(float(self.params["scale"]) if self.late_scale else 1.0)
        bases: list[Name] = []

        def weigh(r: Dim, c: Dim) -> None:
            at = r * block + c
            weight = self.apply("exp((x - y) * z)", self.load(self.products, at), bases[-1], scale)
            self.store(self.products, at, weight)

        def shrink(r: Dim) -> None:
            factor = self.apply("exp((x - y) * z)", self.load(self.shrink, r), self._base(r), scale)
            self.store(self.shrink, r, factor)
            self.store(self.total, r, self.apply("x * y", self.load(self.total, r), factor))

        def shrink_sum(r: Dim, c: Dim) -> None:
            at = r * self.across + c
            self.store(self.sums, at, self.apply("x * y", self.load(self.sums, at), bases[-1]))

        self.each_row(lambda r: self.store(self.shrink, r, self.load(self.top, r)))
        self.fold(self.top, self.products, -float("inf"), "maximum(x, y)")
        self.each_row(shrink)
        self.each_element(block, weigh, lambda r: bases.append(self._base(r)))
        self.fold(self.total, self.products, 0.0, "x + y")
        self.each_element(self.across, shrink_sum, lambda r: bases.append(self.load(self.shrink, r)))

    def _base(self, r: Dim) -> Name:
        """What is subtracted from scores: the running maximum, 0 where all keys are masked."""
        top = self.load(self.top, r)
        return self.apply("where(x == y, z, x)", top, self.number(-float("inf")), self.number(0.0))

    def _finish(self) -> None:
        shares: list[tuple[Expr, Expr]] = []
        if self.stores_logsumexp:
            if self.late_scale:
                scale = self.number(self.params["scale"])
                self.each_row(lambda r: self.store(self.top, r, self.apply("x * y", self.load(self.top, r), scale)))
            self.each_row(lambda r: self.store_logsumexp(r, self.share(r)[1]), self.count)

        def store(r: Dim, c: Dim) -> None:
            self.store_average(r, c, self.load(self.sums, r * self.across + c), shares[-1])

        before = lambda r: shares.append(self.share(r))  # noqa: E731
        self.each_element(self.across, store, before, self.count, self.columns)
