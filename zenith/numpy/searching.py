"""Places in sorted arrays: searchsorted, and what follows from it: digitize and linear interpolation."""

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
from zenith.numpy.operands import FLOAT64, ask, compute_array, convert, dims_of, require, result_dtype
from zenith.numpy.sorting import argsort
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import user_size
from zenith.trace.tracer import Tracer

COMPLEX128 = np.dtype(np.complex128)

__all__ = ["digitize", "interp", "searchsorted"]


def row(name: str, value: Any, what: str) -> Any:
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
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Where elements would have to stand in a sorted array so that it stays sorted, as int64.

    Parameters
    ----------
    a: an array of one axis in ascending order, nan last.
    v: values, of any shape, which is that of the result.
    side: "left" for the first such place, "right" for the last one, behind equal elements.
    sorter: places that bring ``a`` into order, as :func:`argsort` gives them.

    Raises ShapeError for an ``a`` that has not one axis, ArgumentError for another side. The elements are looked at
    by bisection, so the time grows with the logarithm of the size of ``a``.

    >>> searchsorted([1, 2, 2, 5], [2, 7]), searchsorted([1, 2, 2, 5], 2, side="right")
    (array([1, 4]), np.int64(3))
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: {side!r} is no side", where=user_line(), fix="use 'left' or 'right'")
    array, values = row("searchsorted", a, "the sorted array"), compute_array("searchsorted", v)
    if sorter is not None:
        array = take(array, sorter)
    dtype = result_dtype("searchsorted", (array, values))
    dtype = np.dtype(np.int32) if dtype.kind == "b" else dtype
    shape = dims_of(values)
    flat = b.reshape(convert(values, dtype), shape=(product(shape),))
    return b.reshape(b.searchsorted(convert(array, dtype), flat, right=side == "right"), shape=shape)


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: Any = False) -> Any:
    """The number of the bin of each element, as int64: ``i`` where ``bins[i - 1] <= x < bins[i]``.

    Parameters
    ----------
    x: values of any shape.
    bins: borders in ascending or descending order; of concrete ones this is checked (ArgumentError).
    right: whether bins contain their right border and not their left one.

    >>> digitize([0.2, 6.4, 3.0], [0.0, 1.0, 2.5, 4.0])
    array([1, 4, 3])
    """
    borders, side = row("digitize", bins, "bins"), "left" if right else "right"
    if not isinstance(borders, Tracer):
        steps = np.diff(borders)
        if (steps < 0).any() and (steps > 0).any():
            raise ArgumentError(
                "digitize: bins must be in ascending or descending order",
                where=user_line(),
                fix="sort them first: numpy.sort(bins)",
            )
        if not (steps < 0).any():
            return searchsorted(borders, x, side)
    (count,) = dims_of(borders)
    if not ask(count, ">=", 1):
        return searchsorted(borders, x, side)
    falls = ew.less(borders[-1], borders[0])
    place = searchsorted(where(falls, flip(borders), borders), x, side)
    return where(falls, ew.subtract(user_size(count), place), place)


@implements(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """The function through the points ``(xp, fp)`` with straight lines between them, in float64 or complex128.

    Parameters
    ----------
    x: places, of any shape.
    xp: an array of one axis: ascending places of the points; with ``period`` in any order.
    fp: their values, as many; of complex ones both parts are interpolated.
    left, right: results in front of the first point and behind the last; those points' values by default.
    period: the period of the function, a number that is not 0; then ``left`` and ``right`` mean nothing.

    Raises ShapeError for points of other shapes, or when there are none; ArgumentError for a period of 0; DTypeError
    for complex places.

    >>> interp([0.5, 2.5, 9.0], [0.0, 2.0, 3.0], [10.0, 30.0, 20.0])
    array([15., 25., 20.])
    """
    places, points, values = compute_array("interp", x), row("interp", xp, "xp"), row("interp", fp, "fp")
    for given in (places, points):
        require_cast("interp", given.dtype, FLOAT64, "safe")
    if values.dtype.kind == "c":
        values = convert(values, COMPLEX128)
        ends = [None if end is None else convert(end, COMPLEX128) for end in (left, right)]
        parts = [
            interp(x, xp, part(values), *(None if end is None else part(end) for end in ends), period)
            for part in (b.real, b.imag)
        ]
        nowhere = ew.logical_and(ew.isnan(places), ew.greater(user_size(dims_of(points)[0]), 1))
        return b.complex(parts[0], where(nowhere, 0.0, parts[1]))  # nan, as NumPy has it, has no imaginary part
    places, points, values = (convert(a, FLOAT64) for a in (places, points, values))
    (count,) = dims_of(points)
    require(count, "==", dims_of(values)[0], "interp: there must be as many xp as fp")
    require(count, ">=", 1, "interp needs a point")
    if period is not None:
        return _periodic(places, points, values, period)
    first = values[0] if left is None else convert(left, FLOAT64)
    last = values[-1] if right is None else convert(right, FLOAT64)
    inside = _between(places, points, values)
    inside = where(ew.less(places, points[0]), first, inside)
    return where(ew.greater(places, points[-1]), last, inside)


def _between(places: Any, points: Any, values: Any) -> Any:
    """The line through the point in front and the one behind; at a point its value, as NumPy has it.

    Lines start from the point in front, at the last point from that one: so a point's value comes out exactly, and has
    the slope of the line behind it, at the last point of the one in front. A value that is put in place of a line's has
    no slope: that is left to lines without a number.
    """
    after, last = searchsorted(points, places, "right"), user_size(dims_of(points)[0] - 1)
    front = ew.maximum(ew.subtract(after, 1), 0)
    low = ew.maximum(ew.minimum(front, ew.subtract(last, 1)), 0)
    high = ew.minimum(ew.add(low, 1), last)
    x0, x1, y0, y1 = take(points, low), take(points, high), take(values, low), take(values, high)
    apart = ew.subtract(x1, x0)
    slope = ew.divide(ew.subtract(y1, y0), where(ew.equal(apart, 0), np.inf, apart))
    at_end = ew.greater(front, low)
    start, base = where(at_end, x1, x0), where(at_end, y1, y0)
    line = ew.add(ew.multiply(slope, ew.subtract(places, start)), base)
    from_behind = ew.add(ew.multiply(slope, ew.subtract(places, x1)), y1)  # where the other way meets infinity
    exact = ew.logical_or(ew.equal(places, start), ew.equal(y0, y1))
    line = where(ew.isnan(line), where(exact, base, from_behind), line)
    many = ew.greater(user_size(dims_of(points)[0]), 1)  # one point has its value everywhere, at nan too
    return where(ew.logical_and(ew.isnan(places), many), places, line)


def _periodic(places: Any, points: Any, values: Any, period: Any) -> Any:
    """The same of a function that repeats: points in order, with the last one in front and the first one behind."""
    if not isinstance(period, Tracer) and float(period) == 0.0:
        raise ArgumentError("interp: the period is 0", where=user_line(), fix="leave it out, or pass another number")
    length = ew.absolute(convert(period, FLOAT64))
    points = ew.remainder(points, length)
    order = argsort(points)
    points, values = take(points, order), take(values, order)
    points = concatenate([ew.subtract(points[-1:], length), points, ew.add(points[:1], length)])
    return _between(ew.remainder(places, length), points, concatenate([values[-1:], values, values[:1]]))
