"""Attention on bfloat16, where the processor multiplies pairs of them: both products have two terms at a time.

Queries and values are packed as words of two neighbours in a column. Keys are copied as rows of whole words, unless
they are such rows in memory. Weights are rounded to bfloat16 and packed like values; their sum, by which the weighted
values are divided, is that from before (so does FlashAttention for tensor cores): the error is less than that of a
result in bfloat16. Products of a few queries take as long as keys and values are read, and stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

from zenith.backends.expressions import Load, Number
from zenith.backends.kernel import Kernel, Store
from zenith.backends.lower.attention.column_panels import Panels, Weighing, add_rows
from zenith.backends.lower.attention.cpu import KEYS, CpuAttention
from zenith.backends.lower.attention.task_writer import Workspace
from zenith.backends.lower.nest import KernelInterface, tile_result, tile_result_of
from zenith.backends.lower.operand import dense, element_type
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import TileShape
from zenith.backends.tiles import Operand, PackPanel
from zenith.ir.dims import Dim, dim, maximum
from zenith.ir.graph import Graph
from zenith.ir.types import DType, bfloat16, uint32

PAIR = 2  # terms of a word


def takes_pairs(body: Graph, rounds_to: DType | None) -> bool:
    """Whether queries, keys and values are bfloat16, and the weights may be: as the result is, or by ``precision=``."""
    face, operands = KernelInterface.of(body), body.args(tile_result(body).node)[:3]
    if any(element_type(face, operand) != bfloat16 for operand in operands):
        return False
    averages = [value for value in body.outputs if tile_result_of(body, value) != 1]
    return rounds_to == bfloat16 or all(value.dtype == bfloat16 for value in averages)


def lower_paired_attention(body: Graph, tile: TileShape) -> list[Kernel]:
    """One kernel, like :func:`zenith.backends.lower.attention.cpu.lower_attention`'s."""
    return [_PairedAttention(body, tile).lower()]


class _PairedAttention(CpuAttention):
    def __init__(self, body: Graph, tile: TileShape) -> None:
        super().__init__(body, tile)
        self.block_panels = replace(self._copied(), width=self.panels.width)
        self.weights = self.workspace("words", (KEYS // PAIR + 1) * self.width, uint32)
        self.row = quotient_up(self.d, PAIR) * PAIR  # of a copied key
        slack = self.rows * self.row  # a tile that ends with the last key may begin before the first
        keys = None if self._are_words() else self.workspace("rows", KEYS * self.row + slack, bfloat16)
        self.keys_copy = None if keys is None else dense(keys.buffer, keys.at + slack, self.row)
        self.values = self.workspace("pairs", KEYS // PAIR * self.block_panels.rest * self.lanes, uint32)

    def panels_of(self, stride: Dim) -> Panels:
        in_place = super().panels_of(stride)
        return replace(in_place, width=maximum(in_place.width, self._copied().width))

    def _copied(self) -> Panels:
        return super().panels_of(dim(0))

    def pack_queries(self) -> Workspace:
        packed = self.workspace("packed", quotient_up(self.d, PAIR) * self.width, uint32)
        self.append_queries(packed)
        return packed

    def _are_words(self) -> bool:
        """Whether a key's terms are whole words in memory."""
        return self.k.strides[1] == 1 and self.d.static is not None and self.d.static % PAIR == 0

    def block_of_keys(self, start: Dim, many: Dim) -> Operand:
        found, copy = super().block_of_keys(start, many), self.keys_copy
        if copy is None:
            return found
        with self.loop("key", 0, many) as key:
            at, to = found.at + key * found.strides[0], copy.at + key * self.row
            with self.loop("d", 0, self.d, lanes=True) as d:
                term = self.put(Load(found.buffer, at + d * found.strides[1], bfloat16))
                self.e.append(Store(copy.buffer, to + d, term))
            with self.loop("d", self.d, self.row) as d:
                self.e.append(Store(copy.buffer, to + d, Number(0, bfloat16)))
        return copy

    def average_block(self, onto: Dim, start: Dim, many: Dim) -> None:
        scores = dense(self.scores.buffer, self.scores.at, self.width)
        to = self.weights
        self.e.append(PackPanel(self.vectors, self.lanes, to.buffer, to.at, scores, many, dim(self.width)))
        words = Operand(to.buffer, to.at, (dim(1), dim(self.width)))
        tiles = quotient_up(self.count, self.rows)
        weighing = Weighing(self.sums, words, quotient_up(many, PAIR), tiles, self.rows, onto)
        add_rows(self, self.block_panels, self.v, start, many, self.columns, self.values, weighing)
