"""Convolutions in bytes: as products are (:mod:`zenith.quantization.integers`), of windows by weights.

One scale and level of zero hold for all of the array. Weights have a scale for each output channel, and zero is their
level 0, so that sums of windows are not needed. Zeros around the array are bytes, too: whoever computes what is inside
of them writes its bytes into the border.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zenith.ir.builder import Builder
from zenith.ir.graph import Value
from zenith.ir.primitive import Params
from zenith.ir.types import NDArray, float32, int32, uint8
from zenith.quantization.integers import Columns, Levels, rounded
from zenith.quantization.products import inside_of


def static_convolution(
    b: Builder, args: Sequence[Value], matrix: Value, known: Columns, levels: Levels, params: Params
) -> Value:
    """The convolution, with levels that are known ahead; the matrix is that of the weights, [terms, channels]."""
    x, w = args
    weights = b.reshape(b.transpose(matrix, axes=(1, 0)), shape=w.shape)
    sums = b.conv(b.cast(_in_bytes(b, x, levels), dtype=int32), b.cast(weights, dtype=int32), **params)
    found = b.cast(sums, dtype=float32)
    if levels.zero:
        found = b.sub(found, _of_channels(b, levels.zero * known.sums, found))
    found = b.mul(found, _of_channels(b, np.float32(levels.scale) * known.scales, found))
    return found if found.dtype == x.dtype else b.cast(found, dtype=x.dtype)


def _in_bytes(b: Builder, x: Value, levels: Levels) -> Value:
    inside = inside_of(b.so_far, x)
    q = rounded(b, inside, b.full(1 / levels.scale, float32, inside.shape), levels)
    if inside == x:
        return q
    borders = b.so_far.node(x.node).params
    return b.pad(q, b.full(levels.zero, uint8, ()), **borders)


def _of_channels(b: Builder, values: NDArray, like: Value) -> Value:
    """A number for each channel of an array (n, c, sizes...)."""
    constant = b.graph.add_constant(np.asarray(values, np.float32), b.line)
    return b.broadcast(constant, shape=like.shape, axes=(1,))
