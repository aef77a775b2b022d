"""Convolutions on blocks of channels: how output channels are cut into panels, and the epilogue of a pixel.

A convolution is a product of windows with weights, whose columns are output channels. A panel has as many whole blocks
of these as fit a register tile, so that few columns of tiles are empty, or a slice of a block.
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.expressions import Load
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.loops import Span, loop
from zenith.backends.lower.nest import KernelInterface, bind, store_results, tile_result
from zenith.backends.lower.operand import Strided, element_type
from zenith.backends.lower.product.blocked import BlockedProduct
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import GuardedTile, Target, TileShape
from zenith.ir.dims import Dim, dim, minimum
from zenith.ir.graph import Graph

LINES = 8  # lines of the next weights that a tile fetches every few terms: two tiles fetch all; 1 took an eighth longer


def tile_of(body: Graph, target: Target) -> TileShape | GuardedTile:
    """The tile of a convolution: of words where segments have whole ones, neighbours in memory."""
    result, face = tile_result(body), KernelInterface.of(body)
    x, w = body.args(result.node)
    tile = target.product_tile(result.dtype, None, (element_type(face, x), element_type(face, w)))
    if isinstance(tile, GuardedTile) or tile.terms == 1:
        return tile
    block = x.shape[-1].static
    is_whole = block is not None and block % tile.terms == 0 and Strided.of(face, x).steps[-1] == 1
    return tile if is_whole else target.product_tile(result.dtype, None)


@dataclass(frozen=True, slots=True)
class Channels:
    """``panels`` of output channels: each has ``together`` whole blocks, or where that is 0 a slice of one."""

    outputs: Dim
    block: Dim
    vectors: int
    width: int
    together: int
    slices: Dim
    panels: Dim

    @classmethod
    def of(cls, outputs: Dim, blocks: Dim, block: Dim, tile: TileShape) -> Channels:
        """The panels of tiles of so many vectors that most columns are used."""
        lanes, vectors, known = tile.lanes, tile.vectors, block.static
        if known is not None:
            vectors = max(range(1, vectors + 1), key=lambda v: (_used(v * lanes, known), v))
        width = vectors * lanes
        together = 0 if known is None else width // max(known, 1)
        slices = dim(1) if together else quotient_up(block, width)
        panels = quotient_up(blocks, together) if together else blocks * slices
        return cls(outputs, block, vectors, width, together, slices, panels)

    def columns(self, e: ElementBuilder, panel: Dim) -> Span:
        """The output channels of a panel."""
        if self.together:
            width = self.together * self.block
            column = bind(e, "column", panel * width)
            return Span(column, bind(e, "columns", minimum(self.outputs - column, width)))
        inside = bind(e, "inside", panel % self.slices * self.width)
        column = bind(e, "column", panel // self.slices * self.block + inside)
        return Span(column, bind(e, "columns", minimum(self.block - inside, self.width)))


def _used(width: int, block: int) -> float:
    """The share of a tile's columns that panels of whole blocks, or of equal slices of one, use."""
    if width >= block:
        return width // block * block / width
    return block / (-(-block // width) * width)


class BlockedConvolution(BlockedProduct):
    """The kernels of a convolution: operands, sizes of the result, panels of its channels."""

    def __init__(self, body: Graph, tile: TileShape) -> None:
        super().__init__(body, tile)
        self.x, self.w = Strided.of(self.face, self.left), Strided.of(self.face, self.right)
        self.examples, self.groups, blocks, *self.sizes, self.block = self.result.shape
        self.all_terms, outputs = self.right.shape[1:]
        self.channels = Channels.of(outputs, blocks, self.block, tile)

    def ahead(self, e: ElementBuilder, at: Dim, terms: Dim, tile: Dim) -> Dim:
        """The position of the weights that a tile prefetches: its share of the block after the one at ``at``."""
        own, width = self.tile.ahead * LINES, self.channels.width
        return bind(e, "ahead", at + terms * (width + minimum(tile * own, max(0, width - own))))

    def finish(self, e: ElementBuilder, image: Index, columns: Span, sums: str, row: Dim, pixel: Index) -> None:
        """Apply the epilogue to the sums of a pixel of an example and group, a panel from position ``row`` on."""
        together, block = self.channels.together, self.block
        extent, blocks = (block, columns.count // block) if together else (columns.count, dim(1))
        with loop(e, "k", 0, blocks) as k, loop(e, "j", 0, extent, lanes=True) as j:
            e.known[self.result.node, 0] = e.let(Load(sums, row + (k * block + j), self.dtype))
            inside = j if together else j + columns.first % block
            store_results(e, self.face, (*image, columns.first // block + k, *pixel, inside))


def digits_of(number: Dim, radix: list[Dim]) -> list[Dim]:
    """A number in mixed radix, the first digit first."""
    found = []
    for size in reversed(radix[1:]):
        found.append(number % size)
        number = number // size
    return [number, *reversed(found)]
