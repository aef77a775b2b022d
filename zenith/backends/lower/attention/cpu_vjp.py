"""The backward pass of attention on cores with vectors: weights and cotangents of scores exist in the cache only.

A task's own rows are the lanes (:mod:`zenith.backends.lower.attention.task_vjp`). It packs them as columns, once; then
the register tile gives products ``[other][own]`` from other rows that are read in place, one loop along the lanes
computes weights and cotangents of scores, and the same tile adds other rows, weighted, to the sums of the own ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from zenith.backends.expressions import Apply, Name, Position
from zenith.backends.kernel import Kernel
from zenith.backends.lower.attention.column_panels import Weighing, add_rows, panels
from zenith.backends.lower.attention.task_vjp import AttentionVjpTask, Visit, wanted
from zenith.backends.lower.attention.task_writer import STACK, Workspace
from zenith.backends.lower.nest import bind, write_case
from zenith.backends.lower.operand import dense
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import TileShape
from zenith.backends.tiles import Operand, PackPanel, ProductTile
from zenith.ir.dims import Dim, dim, minimum
from zenith.ir.graph import Graph
from zenith.ir.types import bool_

OTHERS = 64  # other rows of a block at most: both blocks of products and the own rows stay in the second-level cache


def lower_attention_vjp(body: Graph, tile: TileShape) -> list[Kernel]:
    """A kernel for the queries' cotangents, and one for those of keys and values."""
    return [_AttentionVjp(body, tile, results).lower() for results in wanted(body)]


class _AttentionVjp(AttentionVjpTask):
    def __init__(self, body: Graph, tile: TileShape, results: tuple[int, ...]) -> None:
        super().__init__(body, tile.panel, max(1, OTHERS // tile.rows) * tile.rows, results)
        self.height, self.vectors, self.lanes = tile.rows, tile.vectors, tile.lanes
        length = self.block * self.width + self.height  # a tile's last rows may have more lanes than there are
        self.weights, self.dscores = self.workspace("weights", length), self.workspace("changes", length)
        self.packed = {number: self._packed(number) for number in ((0, 1) if self.needs_dscores else (0,))}
        summed = sorted(set(self.sums_of.values()))
        self.cuts = {
            n: panels(self.columns_of(n), self.x_other[n].strides[1], self.lanes, self.vectors) for n in summed
        }
        self.sums = {n: self.workspace("sums", cut.width * (self.width + self.height)) for n, cut in self.cuts.items()}
        self.spare = self.workspace("spare", self.block * max(cut.rest for cut in self.cuts.values()) * self.lanes)

    def fits(self, length: int) -> bool:
        return length <= STACK

    def _packed(self, number: int) -> Workspace:
        """The own rows of an operand as columns; unused lanes are zero."""
        own, terms = self.x_own[number], self.columns_of(number)
        workspace = self.workspace("packed", terms * self.width)
        source = Operand(own.buffer, self.rows_of(own, self.first), own.strides[::-1])
        self.e.append(PackPanel(self.vectors, self.lanes, workspace.buffer, workspace.at, source, terms, self.count))
        return workspace

    def multiply(self, workspace: Workspace, number: int, iteration: Dim, start: Dim, many: Dim) -> None:
        """In tiles of full height, the last of which may repeat rows; few rows go one by one."""
        cases = [partial(self._products, workspace, number, start, many, height) for height in (1, self.height)]
        write_case(self.e, minimum(many // self.height, 1), cases)

    def _products(self, workspace: Workspace, number: int, start: Dim, many: Dim, height: int) -> None:
        rows, packed = self.x_other[number], self.packed[number]
        with self.loop("i", 0, quotient_up(many, height)) as i:
            first = bind(self.e, "row", minimum(i * height, many - height))
            target = dense(workspace.buffer, workspace.at + first * self.width, self.width)
            left = Operand(rows.buffer, self.rows_of(rows, start + first), rows.strides)
            right = dense(packed.buffer, packed.at, self.width)
            terms = self.columns_of(number)
            self.e.append(ProductTile(height, self.vectors, self.lanes, target, left, right, terms, packed.at))

    def each_score(self, many: Dim, visit: Visit) -> None:
        with self.loop("other", 0, many) as other:
            row_at = bind(self.e, "position", other * self.width)
            with self.loop("own", 0, self.count, lanes=True) as own:
                visit(row_at + own, other, own)

    def collect(self, number: int, iteration: Dim, start: Dim, many: Dim) -> None:
        factors = self.weights if number else self.dscores
        weights = Operand(factors.buffer, factors.at, (dim(1), dim(self.width)))
        tiles = quotient_up(self.count, self.height)
        weighing = Weighing(self.sums[number], weights, many, tiles, self.height, iteration)
        columns, rows = self.columns_of(number), self.x_other[number]
        add_rows(self, self.cuts[number], rows, start, many, columns, self.spare, weighing)

    def each_sum(self, number: int, visit: Callable[[Dim, Dim, Name], None]) -> None:
        some = self.put(Apply("x > 0", (Position(self.rows),), bool_))
        with self.loop("own", 0, self.count) as own:
            at = bind(self.e, "sums_at", own * self.cuts[number].width)
            with self.loop("column", 0, self.columns_of(number), lanes=True) as column:
                total = self.load(self.sums[number], at + column)
                visit(own, column, self.apply("where(x, y, z)", some, total, self.number(0.0)))
