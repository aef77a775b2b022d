"""Differences, slopes and areas of samples: gradient, trapezoid, ediff1d, unwrap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zenith.errors import ArgumentError, DTypeError, ShapeError, user_line
from zenith.ir.types import kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.conditionals import diff, where
from zenith.numpy.cumulative import cumsum
from zenith.numpy.joining import concatenate, cut
from zenith.numpy.operands import (
    FLOAT64,
    as_array,
    ask,
    compute_array,
    convert,
    dims_of,
    normal_axes,
    normal_axis,
    require,
    result_dtype,
    weak_kind,
)
from zenith.numpy.shaping import ravel, reshape
from zenith.numpy.typing import Array, ArrayLike, Axis
from zenith.trace.dispatch import implements

__all__ = ["ediff1d", "gradient", "trapezoid", "unwrap"]


@implements(np.ediff1d)
def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """The differences of neighbours in the flattened array, between ``to_begin`` and ``to_end``.

    >>> ediff1d([1, 3, 6], to_begin=0)
    array([0, 2, 3])
    """
    row = ravel(ary)
    given = [None if end is None else as_array(end) for end in (to_begin, to_end)]
    for end in given:
        if end is not None and not np.can_cast(end.dtype, row.dtype, "same_kind"):
            raise DTypeError(f"ediff1d: {end.dtype} is no type of differences of {row.dtype}", where=user_line(),
                             fix="cast the array or its ends: x.astype(...)")  # fmt: skip
    ends = [None if end is None else ravel(convert(end, row.dtype)) for end in given]
    segments = [ends[0], diff(row), ends[1]]
    return concatenate([segment for segment in segments if segment is not None])


@implements(np.trapezoid)
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """The area below samples ``y``, by the trapezoidal rule along an axis.

    Parameters
    ----------
    y: samples.
    x: their coordinates, one for each index along the axis or for each sample; evenly at ``dx`` when None.
    dx: the distance of evenly taken samples.
    axis: the axis.

    >>> trapezoid([1, 2, 3]), trapezoid([1, 2, 3], x=[0, 1, 3])
    (np.float64(4.0), np.float64(6.5))
    """
    samples = compute_array("trapezoid", y)
    at = normal_axis("trapezoid", axis, samples.ndim)
    size = dims_of(samples)[at]
    gaps = dx
    if x is not None:
        gaps = diff(x, axis=-1 if as_array(x).ndim == 1 else axis)
        if gaps.ndim == 1:
            gaps = reshape(gaps, tuple(-1 if a == at else 1 for a in range(samples.ndim)))
    some = ask(size, ">=", 1)
    pairs = ew.add(*((cut(samples, at, 1, size), cut(samples, at, 0, size - 1)) if some else (samples, samples)))
    return reductions.sum(ew.divide(ew.multiply(gaps, pairs), 2.0), axis)  # counted in the product, which may have more


@implements(np.unwrap)
def unwrap(p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Array:
    """Angles without jumps: what differs from the one before by more than half a period is moved by periods.

    Parameters
    ----------
    p: angles along an axis.
    discont: differences up to this are no jumps; never less than half a period.
    period: the size of the range that angles are wrapped into; integers stay integers if it is one.

    >>> unwrap([0.0, 6.0, 12.0]).round(2)
    array([ 0.  , -0.28, -0.57])
    """
    x = compute_array("unwrap", p)
    at = normal_axis("unwrap", axis, x.ndim)
    size = dims_of(x)[at]
    gaps = diff(x, axis=at)
    dtype = result_dtype("unwrap", (gaps, period))
    if not ask(size, ">=", 1):
        return convert(x, dtype)
    whole = dtype.kind in "iu" and weak_kind(period) is int
    half = period // 2 if whole else period / 2
    ambiguous = not whole or period % 2 == 0
    wrapped = ew.subtract(ew.remainder(ew.add(gaps, half), period), half)
    if ambiguous:
        edge = ew.logical_and(ew.equal(wrapped, -half), ew.greater(gaps, 0))
        wrapped = where(edge, ew.add(wrapped, period), wrapped)
    limit = half if discont is None else discont
    move = where(ew.less(ew.absolute(gaps), limit), np.zeros((), dtype), ew.subtract(wrapped, gaps))
    unwrapped = ew.add(cut(x, at, 1, size), cumsum(convert(move, dtype), at, dtype=dtype))
    return concatenate([convert(cut(x, at, 0, 1), unwrapped.dtype), unwrapped], at)


# --- slopes ----------------------------------------------------------------------------------------------------


@implements(np.gradient)
def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Axis = None, edge_order: int = 1) -> Any:
    """The slopes of samples along axes: second-order differences inside, one-sided ones at the ends.

    Parameters
    ----------
    f: samples on a grid.
    varargs: the distance of neighbours: one number for all axes, or for each axis a number or the row of coordinates.
    axis: an axis or several; all when None.
    edge_order: 1 or 2, the order of the differences at the ends.

    Returns one array for one axis, else a tuple. Raises ShapeError where an axis has fewer than ``edge_order + 1``
    samples, or coordinates are too few; ArgumentError for another order or number of distances.

    >>> gradient([1.0, 2.0, 4.0, 7.0]), gradient([1.0, 2.0, 6.0], [0.0, 1.0, 3.0])
    (array([1. , 1.5, 2.5, 3. ]), array([1.        , 1.33333333, 2.        ]))
    """
    x = compute_array("gradient", f)
    x = x if kind_of(x.dtype) in ("f", "c") else convert(x, FLOAT64)
    axes = _axes_in_order(axis, x.ndim)
    if len(varargs) not in (0, 1, len(axes)) or (len(varargs) == 1 < len(axes) and as_array(varargs[0]).ndim):
        raise ArgumentError(f"gradient: {len(varargs)} distances for {len(axes)} axes", where=user_line(),
                            fix="give one number for all, or one distance for each axis")  # fmt: skip
    if edge_order not in (1, 2):
        raise ArgumentError(f"gradient: {edge_order!r} is no edge_order", where=user_line(), fix="use 1 or 2")
    gaps = list(varargs) * (1 if len(varargs) == len(axes) else len(axes)) or [1.0] * len(axes)
    found = [_slope(x, at, gap, edge_order) for at, gap in zip(axes, gaps, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _axes_in_order(axis: Axis, rank: int) -> Sequence[int]:
    """Axes counted from 0, in the order in which they were given."""
    normal_axes("gradient", axis, rank)
    given = range(rank) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    return [normal_axis("gradient", a, rank) for a in given]


def _slope(x: Array, axis: int, gap: Any, order: int) -> Array:
    """The slopes along one axis."""
    size = dims_of(x)[axis]
    require(size, ">=", order + 1, f"gradient with edge_order={order} needs {order + 1} samples along an axis")
    span = lambda start, stop: cut(x, axis, start, stop)  # noqa: E731
    step = _steps(x, axis, gap)
    if step is None:
        inside = ew.divide(ew.subtract(span(2, size), span(0, size - 2)), gap * 2.0)
        first, second, last, last_but_one = gap, gap, gap, gap
    else:
        count = dims_of(step)[axis]
        before, after = cut(step, axis, 0, count - 1), cut(step, axis, 1, count)
        inside = _weighted(span(0, size - 2), span(1, size - 1), span(2, size), before, after)
        first, last = cut(step, axis, 0, 1), cut(step, axis, count - 1, count)
        second, last_but_one = (cut(step, axis, 1, 2), cut(step, axis, count - 2, count - 1)) if order == 2 else (0, 0)
    left, right = [span(i, i + 1) for i in range(order + 1)], [span(size - i - 1, size - i) for i in range(order + 1)]
    if order == 1:
        ends = ew.divide(ew.subtract(left[1], left[0]), first), ew.divide(ew.subtract(right[0], right[1]), last)
    else:
        ends = _one_sided(left, first, second), ew.negative(_one_sided(right, last, last_but_one))
    dtype = x.dtype if kind_of(x.dtype) in "fc" else FLOAT64
    return concatenate([convert(p, dtype) for p in (ends[0], inside, ends[1])], axis)


def _steps(x: Array, axis: int, gap: Array) -> Any:
    """The distances between coordinates, as an array that varies along the axis; None for one distance."""
    row = as_array(gap)
    if row.ndim == 0:
        return None
    if row.ndim != 1:
        raise ShapeError("gradient: coordinates must be a row", where=user_line(), fix="give one for each index")
    require(dims_of(row)[0], "==", dims_of(x)[axis], "gradient needs a coordinate for each point along the axis")
    steps = diff(row if kind_of(row.dtype) == "f" else convert(row, FLOAT64))
    return reshape(steps, tuple(-1 if a == axis else 1 for a in range(x.ndim)))


def _weighted(low: Array, middle: Array, high: Array, before: Array, after: Array) -> Array:
    """The slope in the middle of three samples at uneven distances."""
    both = ew.add(before, after)
    first = ew.divide(ew.negative(after), ew.multiply(before, both))
    second = ew.divide(ew.subtract(after, before), ew.multiply(before, after))
    third = ew.divide(before, ew.multiply(after, both))
    return ew.add(ew.add(ew.multiply(first, low), ew.multiply(second, middle)), ew.multiply(third, high))


def _one_sided(samples: Sequence[Array], near: Array, far: Array) -> Array:
    """The slope at the first of three samples, from the parabola through them."""
    both = near + far
    weights = -(near * 2.0 + far) / (near * both), both / (near * far), -near / (far * both)
    terms = [ew.multiply(w, s) for w, s in zip(weights, samples, strict=True)]
    return ew.add(ew.add(terms[0], terms[1]), terms[2])
