"""Sorting and what is chosen by order: sort, topk, kthvalue, median."""

from __future__ import annotations

from typing import Any

import zenith.numpy as znp
from zenith.numpy.typing import Array, ArrayLike, Size
from zenith.torch.aten.corners import shared
from zenith.torch.aten.rules import Context, rule, to


@rule("sort")
def _sort(c: Context, x: Array, dim: int = -1, descending: bool = False) -> tuple[Array, Array]:
    """Every sort is stable."""
    return znp.top_k(x, x.shape[dim], dim, largest=descending)


@rule("sort.stable")
def _sort_stable(c: Context, x: Array, stable: bool | None = None, dim: int = -1,
                 descending: bool = False) -> tuple[Array, Array]:  # fmt: skip
    return _sort(c, x, dim, descending)


@rule("argsort")
def _argsort(c: Context, x: Array, dim: int = -1, descending: bool = False) -> Array:
    return _sort(c, x, dim, descending)[1]


@rule("argsort.stable")
def _argsort_stable(c: Context, x: Array, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Array:
    return _sort(c, x, dim, descending)[1]


@rule("topk")
def _topk(c: Context, x: Array, k: Size, dim: int = -1, largest: bool = True,
          sorted: bool = True) -> tuple[Array, Array]:  # fmt: skip
    return znp.top_k(x, k, dim, largest)


@rule("kthvalue")
def _kthvalue(c: Context, x: Array, k: Any, dim: int = -1, keepdim: bool = False) -> tuple[Array, ...]:
    """The last of the k smallest."""
    return tuple(_at(found, k - 1, dim, keepdim) for found in znp.top_k(x, k, dim, largest=False))


@rule("median.dim")
def _median(c: Context, x: Array, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """The lower of the two in the middle; nan, the largest, where there is one."""
    middle = (x.shape[dim] - 1) // 2
    values, indices = znp.top_k(x, x.shape[dim], dim, largest=False)
    last = _at(values, x.shape[dim] - 1, dim, keepdim)
    missing = last != last
    first = znp.argmax(x != x, axis=dim, keepdims=keepdim)
    return (znp.where(missing, last, _at(values, middle, dim, keepdim)),
            znp.where(missing, first, _at(indices, middle, dim, keepdim)))  # fmt: skip


@rule("median")
def _median_of_all(c: Context, x: Array) -> Array:
    return shared(lambda x: _median(c, znp.reshape(x, (-1,)), 0)[0])(x)


@rule("nanmedian.dim")
def _nanmedian(c: Context, x: Array, dim: int = -1, keepdim: bool = False) -> tuple[Array, ...]:
    """The lower of the two in the middle of what is a number."""
    values, indices = znp.top_k(x, x.shape[dim], dim, largest=False)
    middle = znp.maximum(znp.sum(x == x, axis=dim, keepdims=True) - 1, 0) // 2
    found = (znp.take_along_axis(v, middle, axis=dim) for v in (values, indices))
    return tuple(f if keepdim else znp.squeeze(f, axis=dim) for f in found)


@rule("nanmedian")
def _nanmedian_of_all(c: Context, x: Array) -> Array:
    return shared(lambda x: _nanmedian(c, znp.reshape(x, (-1,)), 0)[0])(x)


@rule("searchsorted.Tensor", "searchsorted.Scalar")
def _searchsorted(
    c: Context, row: Array, x: ArrayLike, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Array | None = None,
) -> Array:  # fmt: skip
    """Rows of several axes are searched each for its own values, by counting the elements before them."""
    right = right or side == "right"
    row = row if sorter is None else znp.take_along_axis(row, sorter, axis=-1)
    row, x = to(row, c.common), to(x, c.common)
    if row.ndim == 1:
        return to(znp.searchsorted(row, x, side="right" if right else "left"), c.dtype)
    values, row = znp.expand_dims(x, -1), znp.expand_dims(row, -2)
    before = ~((row > values) if right else (row >= values))  # all of them are before nan
    return to(znp.sum(before, axis=-1), c.dtype)


@rule("bucketize.Tensor", "bucketize.Scalar")
def _bucketize(c: Context, x: ArrayLike, row: Array, *, out_int32: bool = False, right: bool = False) -> Array:
    return _searchsorted(c, row, x, right=right)


@rule("histc")
def _histc(c: Context, x: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """How many elements are in each of ``bins`` equal intervals of a range, that of the elements for an empty one."""
    x = znp.reshape(x, (-1,))
    low, high = (znp.min(x), znp.max(x)) if min == max else (min, max)
    if min == max:
        same = low == high
        low, high = znp.where(same, low - 1, low), znp.where(same, high + 1, high)
    number = znp.floor((x - low) * bins / (high - low))
    number = znp.where(x == high, bins - 1, number)
    inside = (x >= low) & (x <= high)
    counted = znp.expand_dims(znp.where(inside, number, -1), 0) == znp.reshape(znp.arange(bins), (-1, 1))
    return to(znp.sum(counted, axis=1), c.dtype)


def _at(x: Array, coordinate: Any, dim: int, keepdim: bool) -> Array:
    """One element along an axis, which stays with size 1 or is removed."""
    index = [slice(None)] * x.ndim
    index[dim] = slice(coordinate, coordinate + 1) if keepdim else coordinate
    return x[tuple(index)]
