"""Running sums, products, extremes and sums of exponentials along an axis: NumPy's and the Array API standard's.

The element type of a result is that of the reduction of the same name; extremes keep theirs. What a ufunc's
``accumulate`` is says a table, so that ``np.maximum.accumulate(x)`` arrives here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zenith.errors import ShapeError, user_line
from zenith.ir.dims import product
from zenith.ir.types import int64
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.operands import compute_array, compute_dtype, convert, dims_of, normal_axis
from zenith.numpy.promotion import loop
from zenith.numpy.selection import where
from zenith.trace.bind import b
from zenith.trace.dispatch import accumulate_by, implements

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum"]


def _flattened(x: Any, axis: Any) -> tuple[Any, Any]:
    """The array and an axis of it; without an axis the array as one row."""
    return (x, axis) if axis is not None else (b.reshape(x, shape=(product(dims_of(x)),)), 0)


def _along(primitive: str, name: str, x: Any, axis: Any) -> Any:
    return getattr(b, primitive)(x, axis=normal_axis(name, axis, x.ndim), reverse=False)


def _running(name: str, primitive: str, x: Any, axis: Any, dtype: Any) -> Any:
    """A running sum or product, in the element type of the sum or product of all."""
    x, axis = _flattened(compute_array(name, x), axis)
    return _along(primitive, name, convert(x, reductions.sum_dtype(name, x, dtype)), axis)


@implements(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """The sums of all elements up to each one, along an axis or over the flattened array.

    The element type is that of :func:`zenith.numpy.sum`.

    >>> cumsum([1, 2, 3])
    array([1, 3, 6])
    """
    return _running("cumsum", "cumsum", a, axis, dtype)


@implements(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """The products of all elements up to each one, along an axis or over the flattened array.

    The element type is that of :func:`zenith.numpy.prod`. Zeros do no harm to derivatives.

    >>> cumprod([1.0, 2.0, 3.0])
    array([1., 2., 6.])
    """
    return _running("cumprod", "cumprod", a, axis, dtype)


def _with_start(name: str, x: Any, axis: Any, dtype: Any, include_initial: Any, start: int) -> Any:
    """A running sum or product as the Array API standard has it: ``axis`` is needed unless there is one only."""
    x = compute_array(name, x)
    if axis is None and x.ndim != 1:
        raise ShapeError(f"{name} needs an axis for an array of {x.ndim} axes", where=user_line(), fix="say axis=")
    result = _running(name, name.replace("ulative_", ""), x, axis, dtype)
    if not include_initial:
        return result
    at = normal_axis(name, 0 if axis is None else axis, x.ndim)
    low, none = tuple(int(a == at) for a in range(x.ndim)), (0,) * x.ndim
    return b.pad(result, np.asarray(start, result.dtype), low=low, high=none, interior=none)


@implements(np.cumulative_sum)
def cumulative_sum(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: Any = False
) -> Any:
    """The sums of all elements up to each one, with a zero in front if ``include_initial``.

    >>> cumulative_sum([1, 2, 3], include_initial=True)
    array([0, 1, 3, 6])
    """
    return _with_start("cumulative_sum", x, axis, dtype, include_initial, 0)


@implements(np.cumulative_prod)
def cumulative_prod(
    x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: Any = False
) -> Any:
    """The products of all elements up to each one, with a one in front if ``include_initial``.

    >>> cumulative_prod([1, 2, 3], include_initial=True)
    array([1, 1, 2, 6])
    """
    return _with_start("cumulative_prod", x, axis, dtype, include_initial, 1)


# --- accumulate ------------------------------------------------------------------------------------------------------


def _extremes(primitive: str) -> Callable[..., Any]:
    def accumulate(x: Any, axis: Any = 0, dtype: Any = None) -> Any:
        x = compute_array(primitive, x)
        x = x if dtype is None else convert(x, compute_dtype(primitive, np.dtype(dtype)))
        if x.dtype.kind == "b":
            return convert(_along(primitive, primitive, convert(x, np.dtype(np.int32)), axis), x.dtype)
        return _along(primitive, primitive, x, axis)

    accumulate.__name__ = f"_{primitive}"
    return accumulate


def _with_places(primitive: str) -> Callable[..., Any]:
    """Running extremes, and where each comes from: the last of equal places, the last nan."""

    def accumulate(x: Any, axis: Any) -> tuple[Any, Any]:
        x = compute_array(primitive, x)
        values, at = _extremes(primitive)(x, axis), normal_axis(primitive, axis, x.ndim)
        own = b.broadcast(b.iota(size=dims_of(x)[at], dtype=int64), shape=dims_of(x), axes=(at,))
        attained = ew.logical_or(ew.equal(x, values), ew.not_equal(x, x))
        return values, _along("cummax", primitive, where(attained, own, 0), axis)

    accumulate.__name__ = f"_{primitive}_and_places"
    return accumulate


def _cumlogsumexp(x: Any, axis: Any = 0, dtype: Any = None) -> Any:
    x = compute_array("logaddexp.accumulate", x)
    wanted = np.dtype(dtype) if dtype is not None else loop(np.logaddexp, (x.dtype, x.dtype))[-1]
    return _along("cumlogsumexp", "logaddexp.accumulate", convert(x, compute_dtype("logaddexp", wanted)), axis)


accumulate_by(np.add, lambda x, axis=0, dtype=None: cumsum(x, axis, dtype))
accumulate_by(np.multiply, lambda x, axis=0, dtype=None: cumprod(x, axis, dtype))
accumulate_by(np.maximum, implements()(_extremes("cummax")))
accumulate_by(np.minimum, implements()(_extremes("cummin")))
for _primitive in ("cummax", "cummin"):
    implements()(_with_places(_primitive))
accumulate_by(np.logaddexp, implements()(_cumlogsumexp))
