"""Running sums, products, extremes and sums of exponentials along an axis: NumPy's and the Array API standard's.

The element type of a result is that of the reduction of the same name; extremes have their operand's. For extremes and
sums of exponentials neither has a name: those here are formed as the standard's. A table names the function of a
ufunc's ``accumulate``, so that ``np.maximum.accumulate(x)`` is computed here, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zenith.errors import ShapeError, user_line
from zenith.ir.dims import product
from zenith.ir.types import int64, kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.conditionals import where
from zenith.numpy.operands import compute_array, compute_dtype, convert, dims_of, normal_axis
from zenith.numpy.promotion import loop
from zenith.numpy.typing import Array, ArrayLike, Axis, DTypeLike, Out
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.ufuncs import accumulate_by

__all__ = [
    "cumprod", "cumsum", "cumulative_logsumexp", "cumulative_max", "cumulative_min", "cumulative_prod",
    "cumulative_sum",
]  # fmt: skip

Scan = Callable[..., Array]


def _flattened(x: Array, axis: Axis) -> tuple[Any, Any]:
    """The array and an axis of it; without an axis the array as one row."""
    return (x, axis) if axis is not None else (b.reshape(x, shape=(product(dims_of(x)),)), 0)


def _along(primitive: str, name: str, x: Array, axis: Axis) -> Array:
    return getattr(b, primitive)(x, axis=normal_axis(name, axis, x.ndim), reverse=False)


def _running(name: str, primitive: str, x: Any, axis: Axis, dtype: DTypeLike | None) -> Array:
    """A running sum or product, in the element type of the sum or product of all."""
    x, axis = _flattened(compute_array(name, x), axis)
    return _along(primitive, name, convert(x, reductions.sum_dtype(name, x, dtype)), axis)


@implements(np.cumsum)
def cumsum(a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: Out = None) -> Array:
    """The sums of all elements up to each one, along an axis or over the flattened array.

    The element type is that of :func:`zenith.numpy.sum`.

    >>> cumsum([1, 2, 3])
    array([1, 3, 6])
    """
    return _running("cumsum", "cumsum", a, axis, dtype)


@implements(np.cumprod)
def cumprod(a: ArrayLike, axis: Axis = None, dtype: DTypeLike | None = None, out: Out = None) -> Array:
    """The products of all elements up to each one, along an axis or over the flattened array.

    The element type is that of :func:`zenith.numpy.prod`. Derivatives are exact where elements are 0.

    >>> cumprod([1.0, 2.0, 3.0])
    array([1., 2., 6.])
    """
    return _running("cumprod", "cumprod", a, axis, dtype)


def _with_start(
    name: str, scan: Scan, start: Callable[..., ArrayLike], x: ArrayLike, axis: Axis, dtype: DTypeLike | None,
    include_initial: bool,
) -> Array:  # fmt: skip
    """A running result as the Array API standard has it: ``axis`` is needed unless there is one only.

    ``scan`` computes it of an array, an axis and an element type; ``start`` gives its initial value for the latter.
    """
    x = compute_array(name, x)
    if axis is None and x.ndim != 1:
        raise ShapeError(f"{name} needs an axis for an array of {x.ndim} axes", where=user_line(), fix="say axis=")
    at = normal_axis(name, 0 if axis is None else axis, x.ndim)
    result = scan(x, at, dtype)
    if not include_initial:
        return result
    low, none = tuple(int(a == at) for a in range(x.ndim)), (0,) * x.ndim
    return b.pad(result, np.asarray(start(result.dtype), result.dtype), low=low, high=none, interior=none)


@implements(np.cumulative_sum)
def cumulative_sum(
    x: ArrayLike, /, *, axis: Axis = None, dtype: DTypeLike | None = None, out: Out = None,
    include_initial: bool = False,
) -> Array:  # fmt: skip
    """The sums of all elements up to each one, with a zero in front if ``include_initial``.

    >>> cumulative_sum([1, 2, 3], include_initial=True)
    array([0, 1, 3, 6])
    """
    return _with_start("cumulative_sum", cumsum, lambda _: 0, x, axis, dtype, include_initial)


@implements(np.cumulative_prod)
def cumulative_prod(
    x: ArrayLike, /, *, axis: Axis = None, dtype: DTypeLike | None = None, out: Out = None,
    include_initial: bool = False,
) -> Array:  # fmt: skip
    """The products of all elements up to each one, with a one in front if ``include_initial``.

    >>> cumulative_prod([1, 2, 3], include_initial=True)
    array([1, 1, 2, 6])
    """
    return _with_start("cumulative_prod", cumprod, lambda _: 1, x, axis, dtype, include_initial)


# --- extremes and sums of exponentials -------------------------------------------------------------------------------


def _extreme(name: str, primitive: str) -> Scan:
    """A running extreme; of bools it is one of integers."""

    def scan(x: Array, axis: Axis, dtype: DTypeLike | None) -> Array:
        x = reductions.ordered(name, x if dtype is None else convert(x, compute_dtype(name, np.dtype(dtype))))
        if x.dtype.kind == "b":
            return convert(_along(primitive, name, convert(x, np.dtype(np.int32)), axis), x.dtype)
        return _along(primitive, name, x, axis)

    return scan


_running_max, _running_min = _extreme("cumulative_max", "cummax"), _extreme("cumulative_min", "cummin")


def _bounds(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The smallest and the largest number of an element type."""
    if dtype.kind == "b":
        return False, True
    return (-np.inf, np.inf) if kind_of(dtype) == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


@implements()
def cumulative_max(
    x: ArrayLike, /, *, axis: Axis = None, dtype: DTypeLike | None = None, out: Out = None,
    include_initial: bool = False,
) -> Array:  # fmt: skip
    """The largest of all elements up to each one, nan from the first nan on; ``include_initial`` puts the smallest
    number of the element type in front.

    >>> cumulative_max([1, 3, 2])
    array([1, 3, 3])
    """
    least = lambda dtype: _bounds(dtype)[0]  # noqa: E731
    return _with_start("cumulative_max", _running_max, least, x, axis, dtype, include_initial)


@implements()
def cumulative_min(
    x: ArrayLike, /, *, axis: Axis = None, dtype: DTypeLike | None = None, out: Out = None,
    include_initial: bool = False,
) -> Array:  # fmt: skip
    """The smallest of all elements up to each one, nan from the first nan on; ``include_initial`` puts the largest
    number of the element type in front.

    >>> cumulative_min([2.0, 3.0, 1.0], include_initial=True)
    array([inf,  2.,  2.,  1.])
    """
    most = lambda dtype: _bounds(dtype)[1]  # noqa: E731
    return _with_start("cumulative_min", _running_min, most, x, axis, dtype, include_initial)


@implements()
def cumulative_logsumexp(
    x: ArrayLike, /, *, axis: Axis = None, dtype: DTypeLike | None = None, out: Out = None,
    include_initial: bool = False,
) -> Array:  # fmt: skip
    """The logarithm of the sum of the exponentials of all elements up to each one, without overflow.

    ``include_initial`` puts the logarithm of 0, minus infinity, in front.

    >>> cumulative_logsumexp([1000.0, 1000.0]).round(4)
    array([1000.    , 1000.6931])
    """
    return _with_start("cumulative_logsumexp", _logsumexp, lambda _: -np.inf, x, axis, dtype, include_initial)


def _logsumexp(x: Array, axis: Axis, dtype: DTypeLike | None) -> Array:
    wanted = np.dtype(dtype) if dtype is not None else loop(np.logaddexp, (x.dtype, x.dtype))[-1]
    found = compute_dtype("cumulative_logsumexp", wanted)
    return _along("cumlogsumexp", "cumulative_logsumexp", convert(x, found), axis)


def _with_indices(primitive: str, scan: Scan) -> Callable[..., tuple[Array, Array]]:
    """Running extremes, and the index of each: the last of equal elements, the last nan."""

    def function(x: Array, axis: Axis) -> tuple[Array, Array]:
        x = compute_array(primitive, x)
        values, at = scan(x, axis, None), normal_axis(primitive, axis, x.ndim)
        own = b.broadcast(b.iota(size=dims_of(x)[at], dtype=int64), shape=dims_of(x), axes=(at,))
        attained = ew.logical_or(ew.equal(x, values), ew.not_equal(x, x))
        return values, _along("cummax", primitive, where(attained, own, 0), axis)

    function.__name__ = f"_{primitive}_and_indices"
    return function


implements()(_with_indices("cummax", _running_max))
implements()(_with_indices("cummin", _running_min))
for _ufunc, _name in (
    ("add", "cumsum"), ("multiply", "cumprod"), ("maximum", "cumulative_max"), ("minimum", "cumulative_min"),
    ("logaddexp", "cumulative_logsumexp"),
):  # fmt: skip
    accumulate_by(_ufunc, _name)
