"""Whether a convolution is computed by Winograd's transforms, and by which: a model of operations, and of errors.

F(2x2) is as exact as the direct convolution. F(4x4) has to be allowed: by an ``error_budget`` of the user's that is not
less than the error to be expected.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from zenith.backends.engines import Refusal
from zenith.backends.lower.convolution.channels import tile_of
from zenith.backends.lower.convolution.winograd_transforms import F2, F4, Transforms
from zenith.backends.lower.nest import KernelInterface, tile_result
from zenith.backends.lower.operand import source_of
from zenith.backends.lower.product.blocked import STREAMED
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import GuardedTile, Target, TileShape
from zenith.ir.dims import Dim, product, symbol
from zenith.ir.graph import Graph
from zenith.ir.types import DType, bfloat16

WORKING_SET = 3 << 18  # bytes that a task transforms and sums: most of a second-level cache
WORTH = 64  # pixels for which weights are transformed: that takes as long as the products for 16 of them save
USUAL = 1 << 24  # products of one element of a window, over all pixels, channels and output channels


def few_pixels(body: Graph, fixed: Collection[str]) -> Refusal | None:
    """The refusal where weights that change from call to call would be transformed for too few pixels of the result."""
    face, result = KernelInterface.of(body), tile_result(body)
    _, w = body.args(result.node)
    source, _ = source_of(face, w, tuple(symbol(f"axis{k}_of_operand") for k in range(len(w.shape))))
    pixels = product([result.shape[0], *result.shape[3:-1]]).static
    if face.inputs[source.node, source.output] in fixed or pixels is None or pixels >= WORTH:
        return None
    return Refusal(f"weights that change would be transformed for {pixels} pixels in every call")


def winograd_cost(body: Graph, target: Target) -> float | Refusal:
    """The time relative to that of the direct convolution, by a model of operations."""
    found = best_transforms(body, target)
    return found if isinstance(found, Refusal) else round(found[0], 2)


def best_transforms(body: Graph, target: Target) -> tuple[float, Transforms] | Refusal:
    """The fastest transforms that the target allows, and their time relative to that of the direct convolution."""
    result = tile_result(body)
    tile = target.product_tile(result.dtype, None)
    if isinstance(tile, GuardedTile):
        return Refusal(f"{target.name} has no register tiles")
    refusal = _not_computed(body)
    if refusal is not None:
        return refusal
    x, w = body.args(result.node)
    direct, ours = tile_of(body, target), tile_of_transformed(body, target).terms  # terms at once
    assert not isinstance(direct, GuardedTile), "there are register tiles"
    channels, itemsize = w.shape[1] // 9, result.dtype.itemsize
    larger = ours == 1 and _error(F4, channels, tile, result.dtype) <= target.error_budget
    allowed = [F2, F4] if larger else [F2]
    offers = [
        direct.terms / ours * _operations(
            x.shape, result.shape, tile.lanes, most_tiles(channels, tile.panel, itemsize, t), t, ours)
        for t in allowed
    ]  # fmt: skip
    least = min(offers)
    if least >= 1:
        return Refusal(f"it takes {least:.2f} of the direct convolution's operations")
    return least, allowed[offers.index(least)]


def tile_of_transformed(body: Graph, target: Target) -> TileShape:
    """The tile of what is transformed: of words where operands may be rounded, since transforms round once more."""
    tile = tile_of(body, target) if target.rounds_to == bfloat16 else target.product_tile(tile_result(body).dtype, None)
    assert not isinstance(tile, GuardedTile), "there are register tiles"
    return tile


def _not_computed(body: Graph) -> Refusal | None:
    """Why the transforms do not compute a convolution, if they do not."""
    result = tile_result(body)
    params, (x, _) = body.node(result.node).params, body.args(result.node)
    window = [n.static for n in params["window"]]
    if window != [3, 3] or {*params["strides"], *params["dilation"]} != {1} or result.shape[1] != 1:
        return Refusal("it computes windows of 3x3 neighbours, without groups of channels")
    if not result.dtype.is_float:
        return Refusal(f"{result.dtype} has no halves")
    if any(n.static is None for n in (x.shape[2], x.shape[-1], result.shape[2], result.shape[-1])):
        return Refusal("how many channels there are is not known")
    return None


def _error(transforms: Transforms, channels: Dim, tile: TileShape, dtype: DType) -> float:
    """The relative error of results that is to be expected."""
    computed = np.float64 if dtype.bits == 64 else np.float32
    return transforms.error(channels.static or 0, tile.block, float(np.finfo(computed).eps) / 2)


def most_tiles(channels: Dim, width: int, itemsize: int, transforms: Transforms) -> int:
    """How many tiles a task has in cache, with so many channels and a panel's sums."""
    return max(1, WORKING_SET // (transforms.positions * itemsize * ((channels.static or 0) + width)))


def _operations(
    x: Sequence[Dim], result: Sequence[Dim], lanes: int, most: int, transforms: Transforms, words: int
) -> float:
    """The operations of a tile over those of the direct convolution, for a channel and an output channel.

    Products have ``words`` of so many terms, the sums of transforms have not.

    Reading weights takes as long as the products of ``STREAMED`` rows. An unknown number of pixels follows from
    ``USUAL``: networks give all layers about as many operations, fewer pixels where there are more channels
    (K. He and others, *Deep residual learning for image recognition*, arXiv:1512.03385, section 3.3).
    """
    blocks, block, outputs, width = (n.static or 0 for n in (x[2], x[-1], result[2], result[-1]))
    pairs = max(1, blocks * block * outputs * width)
    tiles = product([result[0], *(quotient_up(n, transforms.step) for n in result[3:-1])]).static
    pixels = product([result[0], *result[3:-1]]).static
    some = max(1, min(most, USUAL // (pairs * transforms.step**2)) if tiles is None else tiles)
    direct = 9 * (transforms.step**2 + STREAMED / some) if pixels is None else 9 * (pixels + STREAMED) / some
    sides = ((blocks, block, transforms.input_cost), (outputs, width, transforms.output_cost))
    input_cost, output_cost = (n * -(-b // lanes) * lanes * cost for n, b, cost in sides)
    ours = transforms.positions * (1 + STREAMED / max(1, min(some, most))) + words * (input_cost + output_cost) / pairs
    return ours / direct
