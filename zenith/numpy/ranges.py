"""Numbers between two ends: in even steps, or in steps that are even as powers or as ratios.

Ends may be arrays, which are broadcast: the numbers between each two are along an axis of their own. How many there
are may be a traced size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.ir.dims import Dim, dim, maximum
from zenith.numpy import elementwise as ew
from zenith.numpy.broadcasting import align
from zenith.numpy.conditionals import where
from zenith.numpy.creation import lifted_iota
from zenith.numpy.operands import as_array, check_device, compute_dtype, convert, dims_of, normal_axis, result_dtype
from zenith.numpy.shaping import expand_dims, moveaxis, reshape
from zenith.numpy.typing import Array, ArrayLike, DTypeLike, Size
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import size_dim, user_size

__all__ = ["geomspace", "linspace", "logspace"]


@implements(np.linspace)
def linspace(
    start: ArrayLike, stop: ArrayLike, num: Any = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DTypeLike | None = None, axis: int = 0, *, device: str | None = None,
) -> Any:  # fmt: skip
    """``num`` evenly spaced numbers from start to stop (left out when ``endpoint`` is false).

    Parameters
    ----------
    start, stop: numbers, or arrays that are broadcast.
    num: how many; a number or a size.
    retstep: whether the result is a pair of the numbers and their distance.
    dtype: the element type; of integers numbers are rounded down.
    axis: the axis of the result along which the numbers are.

    >>> linspace(0, 1, 3), linspace(0, 1, 2, endpoint=False)
    (array([0. , 0.5, 1. ]), array([0. , 0.5]))
    """
    check_device(device)
    exact = result_dtype("linspace", (start, stop, 1.0))
    count = size_dim(num, "linspace: num")
    gaps = maximum(count - 1 if endpoint else count, 1)
    low, high = align("linspace", [convert(start, exact), convert(stop, exact)])
    index = reshape(lifted_iota(count, exact), (user_size(count), *[1] * low.ndim))
    step = ew.divide(ew.subtract(high, low), user_size(gaps))
    result = ew.add(ew.multiply(index, step), low)
    if endpoint:
        result = where(ew.equal(index, user_size(gaps)), high, result)
    result = moveaxis(result, 0, normal_axis("linspace", axis, result.ndim))
    if dtype is not None:
        target = compute_dtype("linspace", np.dtype(dtype))
        result = convert(ew.floor(result) if target.kind in "iu" else result, target)
    return (result, _of_gaps(step, count if endpoint else count + 1)) if retstep else result


def _of_gaps(step: Any, count: Dim) -> Array:
    """The distance of so many numbers, both ends counted; nan where there is one or none, as in NumPy."""
    nothing = np.asarray(np.nan, step.dtype)
    if count.static is not None:
        return step if count.static > 1 else nothing
    return where(ew.greater(user_size(count), 1), step, nothing)


@implements(np.logspace)
def logspace(
    start: ArrayLike, stop: ArrayLike, num: Size = 50, endpoint: bool = True, base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None, axis: int = 0,
) -> Array:  # fmt: skip
    """``num`` powers of ``base`` with evenly spaced exponents from start to stop; all three may be arrays.

    >>> logspace(0, 2, 3)
    array([  1.,  10., 100.])
    """
    bases = as_array(base)
    if bases.ndim:
        rank = max(as_array(x).ndim for x in (start, stop, base))
        start, stop, bases = (_with_axes(as_array(x), rank) for x in (start, stop, base))
        base = expand_dims(bases, normal_axis("logspace", axis, rank + 1))
    result = ew.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return result if dtype is None else convert(result, compute_dtype("logspace", np.dtype(dtype)))


def _with_axes(x: Array, rank: int) -> Array:
    """The array with so many axes; new ones come first."""
    return x if x.ndim >= rank else b.reshape(x, shape=(*[dim(1)] * (rank - x.ndim), *dims_of(x)))


@implements(np.geomspace)
def geomspace(
    start: ArrayLike, stop: ArrayLike, num: Size = 50, endpoint: bool = True, dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:  # fmt: skip
    """``num`` numbers from start to stop, each the same multiple of the one before; not 0, and of one sign if real.

    >>> geomspace(1, 8, 4).round(6)
    array([1., 2., 4., 8.])
    """
    wide = np.zeros((), np.float64 if dtype is None else compute_dtype("geomspace", np.dtype(dtype)))
    exact = result_dtype("geomspace", (start, stop, 1.0, wide))  # as in NumPy, float64 unless a narrower one is asked
    low, high = align("geomspace", [convert(start, exact), convert(stop, exact)])
    sign = ew.sign(low)
    ends = [ew.log10(ew.divide(end, sign)) for end in (low, high)]
    count = size_dim(num, "geomspace: num")
    result = ew.multiply(logspace(*ends, num, endpoint), sign)
    index = reshape(lifted_iota(count, exact), (user_size(count), *[1] * low.ndim))
    result = where(ew.equal(index, 0), low, result)
    if endpoint:
        result = where(ew.equal(index, user_size(maximum(count - 1, 1))), high, result)
    result = moveaxis(result, 0, normal_axis("geomspace", axis, result.ndim))
    return result if dtype is None else convert(result, compute_dtype("geomspace", np.dtype(dtype)))
