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
def sort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: bool = False
) -> Any:
    """The elements in ascending or descending order along an axis, or all of them for ``axis=None``.

    Every kind is stable; nan is the largest.

    >>> sort([3, 1, 2])
    array([1, 2, 3])
    """
    return _sorted("sort", a, axis, order, descending)[0]


@implements(np.argsort)
def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: bool = False
) -> Any:
    """The places of the elements in ascending or descending order along an axis, as int64; equal ones keep their order.

    >>> argsort([3, 1, 2], descending=True)
    array([0, 2, 1])
    """
    return _sorted("argsort", a, axis, order, descending)[1]


def _sorted(name: str, a: Any, axis: Any, order: Any, descending: bool) -> tuple[Any, Any]:
    """The elements in order, and their places."""
    if order is not None:
        raise UnsupportedError(f"{name}: order= is for arrays with fields", where=user_line(), fix="leave it out")
    x = compute_array(name, a)
    if axis is None:
        return b.sort(b.reshape(x, shape=(product(dims_of(x)),)), descending=bool(descending))
    at = normal_axis(name, axis, x.ndim)
    values, places = b.sort(moveaxis(x, at, -1), descending=bool(descending))
    return moveaxis(values, -1, at), moveaxis(places, -1, at)
