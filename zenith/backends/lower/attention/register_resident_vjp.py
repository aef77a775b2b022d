"""The backward pass of attention on tensor cores: weights, cotangents of scores and sums are register-resident.

The steps are those of :mod:`zenith.backends.lower.attention.task_vjp`, on register matrices ``[own][other]``. A task
stages its own rows once and a block of other rows at a time, which both products read, one of them transposed.
"""

from __future__ import annotations

from collections.abc import Callable

from zenith.backends.expressions import Name
from zenith.backends.kernel import Kernel
from zenith.backends.lower.attention.register_writer import RegisterWriter, padded
from zenith.backends.lower.attention.task_vjp import AttentionVjpTask, Visit
from zenith.backends.lower.attention.task_writer import Workspace
from zenith.backends.tensor_core_tiles import AttentionShape, AttentionTile
from zenith.ir.dims import Dim, dim, minimum
from zenith.ir.graph import Graph
from zenith.ir.types import DType


def backward_shape(element: DType, head: int, columns: int, results: tuple[int, ...]) -> AttentionShape:
    """The shape of the kernel of some results, for heads of ``head`` columns of queries and ``columns`` of values."""
    widths = padded(head), padded(columns)
    with_dscores = results != (2,)
    return AttentionShape(element, widths, 1 + with_dscores, tuple(widths[result == 2] for result in results))


def lower_register_attention_vjp(body: Graph, kernels: list[tuple[tuple[int, ...], AttentionTile]]) -> list[Kernel]:
    """A kernel for each group of results, in its tile."""
    return [_RegisterAttentionVjp(body, tile, results).lower() for results, tile in kernels]


class _RegisterAttentionVjp(RegisterWriter, AttentionVjpTask):
    def __init__(self, body: Graph, tile: AttentionTile, results: tuple[int, ...]) -> None:
        super().__init__(body, tile.rows, tile.block, results)
        self.tile, self.element = tile, tile.instruction.element
        self.wide = [padded(self.columns_of(n).static or 0) for n in (0, 1)]
        self.weights = self.register_matrix("weights", self.block)
        self.dscores = self.register_matrix("changes", self.block) if self.needs_dscores else self.weights
        self.sums = {n: self.register_matrix("sums", self.wide[n]) for n in sorted(set(self.sums_of.values()))}
        self.own_tiles = {n: self.scratch("own", self.width, self.wide[n]) for n in self._multiplied()}
        self.other_tiles = {n: self.block_tiles("other", self.wide[n]) for n in (0, 1)}
        for n, own in self.own_tiles.items():
            self.stage(own, self.width, self.wide[n], self.x_own[n], self.first, self.count, self.columns_of(n))
        for n, workspace in self.sums.items():
            self._clear(workspace, self.wide[n])
        if self.tile.stages > 1:
            self._stage_others(dim(0))

    def _stage_others(self, iteration: Dim) -> None:
        tiles = [(self.other_tiles[n], self.wide[n], self.x_other[n], self.columns_of(n)) for n in (0, 1)]
        self.stage_ahead(tiles, iteration, self.from_other, self.rows)

    def begin_iteration(self, iteration: Dim) -> None:
        """Begin to copy the next block of other rows, which overlaps with the computation of this one."""
        if self.tile.stages > 1:
            self._stage_others(iteration + 1)

    def _multiplied(self) -> tuple[int, ...]:
        return (0, 1) if self.needs_dscores else (0,)

    def _clear(self, workspace: Workspace, columns: int) -> None:
        self.each_element(columns, lambda r, c: self.store(workspace, r * columns + c, self.number(0.0)))

    def multiply(self, workspace: Workspace, number: int, iteration: Dim, start: Dim, many: Dim) -> None:
        self._stage_alone(number, start, many)
        self.scores(workspace, self.own_tiles[number], self.other_tiles[number], self.wide[number], iteration)

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

    def collect(self, number: int, iteration: Dim, start: Dim, many: Dim) -> None:
        if number not in self._multiplied():
            self._stage_alone(number, start, many)
        weights = self.weights if number else self.dscores
        self.gather(self.sums[number], weights, self.other_tiles[number], self.wide[number], iteration)

    def each_sum(self, number: int, visit: Callable[[Dim, Dim, Name], None]) -> None:
        wide, workspace = self.wide[number], self.sums[number]

        def store(own: Dim, column: Dim) -> None:
            visit(own, column, self.load(workspace, own * wide + column))

        self.each_element(wide, store, None, self.count, self.columns_of(number))
