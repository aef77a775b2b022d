"""Running sums. Blocks of a fixed size are summed by comparing places, and so are the blocks' totals.

A kernel computes each element as a sum of its own, so that nothing is carried from one element to the next: about
``n * BLOCK + (n / BLOCK) ** 2`` additions for ``n`` elements, and no copies of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.ir.dims import product
from zenith.ir.types import int64
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.operands import compute_array, convert, dims_of, normal_axis
from zenith.numpy.selection import where
from zenith.numpy.shaping import moveaxis
from zenith.trace.bind import b
from zenith.trace.dispatch import implements

__all__ = ["cumsum"]

BLOCK = 64


@implements(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """The sums of all elements up to each one, along an axis or over the flattened array.

    The element type is that of :func:`zenith.numpy.sum`.

    >>> cumsum([1, 2, 3])
    array([1, 3, 6])
    """
    x = compute_array("cumsum", a)
    if axis is None:
        x, axis = b.reshape(x, shape=(product(dims_of(x)),)), 0
    at = normal_axis("cumsum", axis, x.ndim)
    x = moveaxis(convert(x, reductions.sum_dtype("cumsum", x, dtype)), at, -1)
    *lead, size = dims_of(x)
    blocks = (size + (BLOCK - 1)) // BLOCK
    low, high = (0,) * x.ndim, (*[0] * len(lead), blocks * BLOCK - size)
    padded = b.pad(x, np.zeros((), x.dtype), low=low, high=high, interior=low)
    inside = _running(b.reshape(padded, shape=(*lead, blocks, BLOCK)), ew.less_equal)
    before = _running(inside[..., -1], ew.less)
    total = b.reshape(ew.add(inside, before[..., None]), shape=(*lead, blocks * BLOCK))
    return moveaxis(b.slice(total, start=low, stop=(*lead, size), step=(1,) * x.ndim), -1, at)


def _running(x: Any, precedes: Any) -> Any:
    """For each place of the last axis the sum of all elements whose place ``precedes`` it."""
    place = b.iota(size=dims_of(x)[-1], dtype=int64)
    counted = precedes(place, b.reshape(place, shape=(*dims_of(place), 1)))
    return reductions.sum(where(counted, x[..., None, :], np.zeros((), x.dtype)), -1, dtype=x.dtype)
