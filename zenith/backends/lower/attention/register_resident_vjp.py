"""The way back through attention on tensor cores: weights, changes and sums stay in registers.

The steps are those of :mod:`zenith.backends.lower.attention.task_vjp`, on held matrices ``[own][other]``. A task stages
its own rows once and a block of other rows at a time, which both products read: once as columns, once turned, as rows.
"""

from __future__ import annotations

from collections.abc import Callable

from zenith.backends.kernel import Kernel, Name
from zenith.backends.lower.attention.register_writer import RegisterWriter, padded
from zenith.backends.lower.attention.task_vjp import AttentionVjpTask, Visit
from zenith.backends.lower.attention.task_writer import Room
from zenith.ir.dims import Dim, dim, minimum
from zenith.ir.graph import Graph
from zenith.ir.target import AttentionShape, AttentionTile
from zenith.ir.types import DType


def backward_shape(element: DType, head: int, columns: int, results: tuple[int, ...]) -> AttentionShape:
    """What the kernel of some results keeps, for heads of so many columns of queries and of values."""
    widths = padded(head), padded(columns)
    changes = results != (2,)
    return AttentionShape(element, widths, 1 + changes, tuple(widths[result == 2] for result in results))


def lower_register_attention_vjp(body: Graph, kernels: list[tuple[tuple[int, ...], AttentionTile]]) -> list[Kernel]:
    """A kernel for each group of results, in its tile."""
    return [_RegisterAttentionVjp(body, tile, results).lower() for results, tile in kernels]


class _RegisterAttentionVjp(RegisterWriter, AttentionVjpTask):
    def __init__(self, body: Graph, tile: AttentionTile, results: tuple[int, ...]) -> None:
        super().__init__(body, tile.rows, tile.block, results)
        self.tile, self.element = tile, tile.instruction.element

    def prepare(self) -> None:
        self.wide = [padded(self.columns_of(n).static or 0) for n in (0, 1)]
        self.weights = self.held("weights", self.block)
        self.changes = self.held("changes", self.block) if self.needs_changes else self.weights
        self.sums = {n: self.held("sums", self.wide[n]) for n in sorted(set(self.sums_of.values()))}
        self.own_tiles = {n: self.scratch("own", self.width, self.wide[n]) for n in self._multiplied()}
        self.other_tiles = {n: self.block_tiles("other", self.wide[n]) for n in (0, 1)}
        for n, tile in self.own_tiles.items():
            self.stage(tile, self.width, self.wide[n], self.x_own[n], self.first, self.count, self.columns_of(n))
        for n, room in self.sums.items():
            self._clear(room, self.wide[n])

        if self.tile.stages > 1:
            self._stage_others(dim(0))

    def _stage_others(self, turn: Dim) -> None:
        tiles = [(self.other_tiles[n], self.wide[n], self.x_other[n], self.columns_of(n)) for n in (0, 1)]
        self.stage_ahead(tiles, turn, self.from_other, self.rows)

    def begin_turn(self, part: Dim) -> None:
        """The next block is on its way while this one is computed with."""
        self.turn = part
        if self.tile.stages > 1:
            self._stage_others(part + 1)

    def _multiplied(self) -> tuple[int, ...]:
        return (0, 1) if self.needs_changes else (0,)

    def _clear(self, room: Room, columns: int) -> None:
        self.each_element(columns, lambda r, c: self.store(room, r * columns + c, self.number(0.0)))

    def multiply(self, room: Room, number: int, start: Dim, many: Dim) -> None:
        self._stage_alone(number, start, many)
        self.scores(room, self.own_tiles[number], self.other_tiles[number], self.wide[number], self.turn)

    def _stage_alone(self, number: int, start: Dim, many: Dim) -> None:
        """Copy a block of an operand when it is needed, where it was not copied ahead."""
        if self.tile.stages == 1:
            tile, rows = self.other_tiles[number], self.x_other[number]
            self.stage(tile, self.block, self.wide[number], rows, start, many, self.columns_of(number))

    def each_score(self, many: Dim, visit: Visit) -> None:
        """A column without another row has weight zero: there a tile has zeros, and any weight might be infinite."""

        def at(own: Dim, other: Dim) -> None:
            inside = self.below(other, many, self.block)
            visit(own * self.block + other, minimum(other, many - 1), own, inside)

        self.each_element(self.block, at)

    def collect(self, number: int, part: Dim, start: Dim, many: Dim) -> None:
        if number not in self._multiplied():
            self._stage_alone(number, start, many)
        weights = self.weights if number else self.changes
        self.gather(self.sums[number], weights, self.other_tiles[number], self.wide[number], self.turn)

    def each_sum(self, number: int, visit: Callable[[Dim, Dim, Name], None]) -> None:
        wide, room = self.wide[number], self.sums[number]

        def store(own: Dim, column: Dim) -> None:
            visit(own, column, self.load(room, own * wide + column))

        self.each_element(wide, store, None, self.count, self.columns_of(number))
