"""Binary search in sorted arrays: searchsorted, and what is built on it: digitize and linear interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.errors import ArgumentError, ShapeError, user_line
from zenith.ir.dims import product
from zenith.numpy import elementwise as ew
from zenith.numpy.casts import require_cast
from zenith.numpy.conditionals import where
from zenith.numpy.indexing import take
from zenith.numpy.joining import concatenate, flip
from zenith.numpy.operands import FLOAT64, ask, compute_array, convert, dims_of, require, result_dtype, strong
from zenith.numpy.sorting import argsort
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import user_size
from zenith.trace.tracer import Tracer

COMPLEX128 = np.dtype(np.complex128)

__all__ = ["digitize", "interp", "searchsorted"]


def row(name: str, value: ArrayLike, what: str) -> Array:
    """An operand as an array of one axis; ShapeError for others."""
    x = compute_array(name, value)
    if x.ndim != 1:
        raise ShapeError(
            f"{name} needs {what} as an array of one axis, not of {x.ndim}",
            where=user_line(),
            fix="flatten it: numpy.ravel(x)",
        )
    return x


@implements(np.searchsorted)
def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None) -> Array:
    """The indices at which elements would be inserted into a sorted array to keep it sorted, as int64.

    Parameters
    ----------
    a: an array of one axis in ascending order, nan last.
    v: values, of any shape, which is that of the result.
    side: "left" for the first such index, "right" for the last one, after equal elements.
    sorter: indices that sort ``a``, as :func:`argsort` gives them.

    Raises ShapeError for an ``a`` that is no row, ArgumentError for another side. The elements are searched
    by bisection, so the time grows with the logarithm of the size of ``a``.

    >>> searchsorted([1, 2, 2, 5], [2, 7]), searchsorted([1, 2, 2, 5], 2, side="right")
    (array([1, 4]), np.int64(3))
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: {side!r} is no side", where=user_line(), fix="use 'left' or 'right'")
    array, values = row("searchsorted", a, "the sorted array"), strong(compute_array("searchsorted", v))
    if sorter is not None:
        array = take(array, sorter)
    dtype = result_dtype("searchsorted", (array, values))
    dtype = np.dtype(np.int32) if dtype.kind == "b" else dtype
    shape = dims_of(values)
    flat = b.reshape(convert(values, dtype), shape=(product(shape),))
    return b.reshape(b.searchsorted(convert(array, dtype), flat, right=side == "right"), shape=shape)


@implements(np.digitize)
def digitize(x: ArrayLike, bins: ArrayLike, right: ArrayLike = False) -> Array:
    """The number of the bin of each element, as int64: ``i`` where ``bins[i - 1] <= x < bins[i]``.

    Parameters
    ----------
    x: values of any shape.
    bins: edges in ascending or descending order; of concrete ones this is checked (ArgumentError).
    right: whether bins contain their right edge and not their left one.

    >>> digitize([0.2, 6.4, 3.0], [0.0, 1.0, 2.5, 4.0])
    array([1, 4, 3])
    """
    edges, side = row("digitize", bins, "bins"), "left" if right else "right"
    if not isinstance(edges, Tracer):
        falls_somewhere = bool((edges[1:] < edges[:-1]).any())
        if falls_somewhere and (edges[1:] > edges[:-1]).any():
            raise ArgumentError(
                "digitize: bins must be in ascending or descending order",
                where=user_line(),
                fix="sort them first: numpy.sort(bins)",
            )
        if not falls_somewhere:
            return searchsorted(edges, x, side)
    (count,) = dims_of(edges)
    if not ask(count, ">=", 1):
        return searchsorted(edges, x, side)
    falls = ew.less(edges[-1], edges[0])
    index = searchsorted(where(falls, flip(edges), edges), x, side)
    return where(falls, ew.subtract(user_size(count), index), index)


@implements(np.interp)
def interp(
    x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: ArrayLike | None = None, right: ArrayLike | None = None,
    period: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The function through the points ``(xp, fp)`` with straight lines between them, in float64 or complex128.

    Parameters
    ----------
    x: coordinates, of any shape.
    xp: an array of one axis: ascending coordinates of the points; with ``period`` in any order.
    fp: their values, as many; of complex ones real and imaginary parts are interpolated.
    left, right: results before the first point and after the last; those points' values by default.
    period: the period of the function, a number that is not 0; then ``left`` and ``right`` mean nothing.

    Raises ShapeError for points of other shapes, or when there are none; ArgumentError for a period of 0; DTypeError
    for complex coordinates.

    >>> interp([0.5, 2.5, 9.0], [0.0, 2.0, 3.0], [10.0, 30.0, 20.0])
    array([15., 25., 20.])
    """
    queries, points, values = compute_array("interp", x), row("interp", xp, "xp"), row("interp", fp, "fp")
    for given in (queries, points):
        require_cast("interp", given.dtype, FLOAT64, "safe")
    if values.dtype.kind == "c":
        values = convert(values, COMPLEX128)
        ends = [None if end is None else convert(end, COMPLEX128) for end in (left, right)]
        real_imag = [
            interp(x, xp, component(values), *(None if end is None else component(end) for end in ends), period)
            for component in (b.real, b.imag)
        ]
        nowhere = ew.logical_and(ew.isnan(queries), ew.greater(user_size(dims_of(points)[0]), 1))
        return b.complex(real_imag[0], where(nowhere, 0.0, real_imag[1]))  # nan, as in NumPy, has no imaginary part
    queries, points, values = (convert(a, FLOAT64) for a in (queries, points, values))
    (count,) = dims_of(points)
    require(count, "==", dims_of(values)[0], "interp: there must be as many xp as fp")
    require(count, ">=", 1, "interp needs a point")
    if period is not None:
        return _periodic(queries, points, values, period)
    first = values[0] if left is None else convert(left, FLOAT64)
    last = values[-1] if right is None else convert(right, FLOAT64)
    inside = _between(queries, points, values)
    inside = where(ew.less(queries, points[0]), first, inside)
    return where(ew.greater(queries, points[-1]), last, inside)


def _between(queries: Array, points: Array, values: Array) -> Array:
    """The line through the points before and after; at a point its value, as in NumPy.

    Lines start from the point before, at the last point from that one: so a point's value is exact, and its derivative
    is the slope of the line after it, at the last point of the line before it. A value that replaces a line's has no
    derivative: only lines whose value is nan are replaced.
    """
    after, last = searchsorted(points, queries, "right"), user_size(dims_of(points)[0] - 1)
    front = ew.maximum(ew.subtract(after, 1), 0)
    low = ew.maximum(ew.minimum(front, ew.subtract(last, 1)), 0)
    high = ew.minimum(ew.add(low, 1), last)
    x0, x1, y0, y1 = take(points, low), take(points, high), take(values, low), take(values, high)
    apart = ew.subtract(x1, x0)
    slope = ew.divide(ew.subtract(y1, y0), where(ew.equal(apart, 0), np.inf, apart))
    at_end = ew.greater(front, low)
    start, base = where(at_end, x1, x0), where(at_end, y1, y0)
    line = ew.add(ew.multiply(slope, ew.subtract(queries, start)), base)
    from_end = ew.add(ew.multiply(slope, ew.subtract(queries, x1)), y1)  # where the other direction meets infinity
    exact = ew.logical_or(ew.equal(queries, start), ew.equal(y0, y1))
    line = where(ew.isnan(line), where(exact, base, from_end), line)
    many = ew.greater(user_size(dims_of(points)[0]), 1)  # one point has its value everywhere, at nan too
    return where(ew.logical_and(ew.isnan(queries), many), queries, line)


def _periodic(queries: Array, points: Array, values: Array, period: Any) -> Array:
    """The same of a periodic function: points sorted, with the last one added before and the first one after."""
    if not isinstance(period, Tracer) and float(period) == 0.0:
        raise ArgumentError("interp: the period is 0", where=user_line(), fix="leave it out, or pass another number")
    length = ew.absolute(convert(period, FLOAT64))
    points = ew.remainder(points, length)
    order = argsort(points)
    points, values = take(points, order), take(values, order)
    points = concatenate([ew.subtract(points[-1:], length), points, ew.add(points[:1], length)])
    return _between(ew.remainder(queries, length), points, concatenate([values[-1:], values, values[:1]]))
