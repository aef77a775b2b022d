"""Scales and levels of zero for the numbers of a matrix: those with the least squared error, for shares of the range.

A number is ``(level - zero) * scale``, of levels ``lowest`` to ``-lowest - 1``. Numbers come as ``[columns, groups,
terms]``: those of a group, which have one scale, are neighbours, as in the weights of a linear layer. Where zero is in
the middle of the levels, the number that is largest in size has the lowest level, which goes one further than the
highest: its scale is negative where that number is positive, as in GGUF's Q4_0.
"""

from __future__ import annotations

import numpy as np

from zenith.api.jit import jit
from zenith.ir.types import NDArray

SHARES = np.linspace(1.0, 0.7, 31, dtype=np.float32)  # of the range, that the search tries


@jit
def levels_of(numbers: NDArray, scales: NDArray, zeros: NDArray, lowest: float) -> NDArray:
    """The levels of numbers, as int8."""
    levels = np.clip(np.rint(numbers / scales[..., None]) + zeros[..., None], lowest, -lowest - 1)
    found: NDArray = levels.astype(np.int8)
    return found


@jit
def lost(numbers: NDArray, scales: NDArray, zeros: NDArray, lowest: float) -> NDArray:
    """The squared errors of numbers in levels, summed over each group."""
    levels = np.clip(np.rint(numbers / scales[..., None]) + zeros[..., None], lowest, -lowest - 1)
    errors: NDArray = np.square((levels - zeros[..., None]) * scales[..., None] - numbers).sum(-1)
    return errors


@jit
def ranges(numbers: NDArray) -> tuple[NDArray, NDArray]:
    """The least and the largest number of each group, or zero."""
    return np.minimum(numbers.min(-1), 0), np.maximum(numbers.max(-1), 0)


def best_scales(numbers: NDArray, lowest: int, symmetric: bool) -> tuple[NDArray, NDArray]:
    """Scales and levels of zero [columns, groups], float32, for numbers in float32."""
    least, largest = ranges(numbers)
    best = _of_range(least, largest, lowest, symmetric)  # also where errors are beyond what float32 holds
    error = np.full(least.shape, np.inf, np.float32)
    for share in SHARES:
        scales, zeros = _of_range(share * least, share * largest, lowest, symmetric)
        own = lost(numbers, scales, zeros, float(lowest))
        better = own < error
        best = np.where(better, scales, best[0]), np.where(better, zeros, best[1])
        error = np.minimum(own, error)
    return best


def _of_range(least: NDArray, largest: NDArray, lowest: int, symmetric: bool) -> tuple[NDArray, NDArray]:
    """Scales and levels of zero that cover ranges."""
    if symmetric:
        width = np.where(-least > largest, least, largest) / np.float32(lowest)
    else:
        width = (largest - least) / np.float32(-2 * lowest - 1)
    scales = np.where(width == 0, np.float32(1), width).astype(np.float32)
    return scales, np.zeros_like(scales) if symmetric else np.rint(lowest - least / scales)
