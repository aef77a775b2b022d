"""Sorting along an axis: stable, with nan last, as NumPy's stable sorts are."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.errors import UnsupportedError, user_line
from zenith.ir.dims import product
from zenith.numpy.operands import compute_array, dims_of, normal_axis
from zenith.numpy.shaping import moveaxis
from zenith.trace.bind import b
from zenith.trace.dispatch import implements

__all__ = ["argsort", "sort"]


@implements(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """The elements in ascending order along an axis, or all of them for ``axis=None``; every kind is stable.

    >>> sort([3, 1, 2])
    array([1, 2, 3])
    """
    x, at = _row_last("sort", a, axis, order)
    return moveaxis(b.sort(x), -1, at)


@implements(np.argsort)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """The places of the elements in ascending order along an axis, as int64; equal elements keep their order.

    >>> argsort([3, 1, 2])
    array([1, 2, 0])
    """
    x, at = _row_last("argsort", a, axis, order)
    return moveaxis(b.argsort(x), -1, at)


def _row_last(name: str, a: Any, axis: Any, order: Any) -> tuple[Any, int]:
    """The array with the axis to sort along at the end, and where that axis belongs."""
    if order is not None:
        raise UnsupportedError(f"{name}: order= is for arrays with fields", where=user_line(), fix="leave it out")
    x = compute_array(name, a)
    if axis is None:
        return b.reshape(x, shape=(product(dims_of(x)),)), 0
    at = normal_axis(name, axis, x.ndim)
    return moveaxis(x, at, -1), at
