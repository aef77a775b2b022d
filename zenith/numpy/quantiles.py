"""Medians and quantiles: sort, then interpolate at the virtual index that a method defines.

A quantile of n sorted elements has a virtual index from 0 to n - 1, rarely an integer; the nine methods of Hyndman and
Fan and four others differ in that index and in the interpolation there (R. J. Hyndman and Y. Fan, "Sample quantiles in
statistical packages", The American Statistician 50(4), 1996). Neither the number of elements nor the quantile needs to
be known: both may be values of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith.errors import ArgumentError, DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim, dim, product
from zenith.ir.types import kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.conditionals import round as round_even
from zenith.numpy.conditionals import where
from zenith.numpy.cumulative import cumsum
from zenith.numpy.indexing import take_along_axis
from zenith.numpy.operands import (
    FLOAT64,
    INT64,
    as_array,
    ask,
    compute_array,
    convert,
    dims_of,
    normal_axes,
    require,
    result_dtype,
    user_shape,
    weak_kind,
)
from zenith.numpy.shaping import broadcast_to, expand_dims, moveaxis, reshape
from zenith.numpy.sorting import argsort, sort
from zenith.numpy.typing import Array, ArrayLike, Axes, Out, Unset
from zenith.trace.bind import b, known_dtype
from zenith.trace.dispatch import implements
from zenith.trace.sizes import user_size
from zenith.trace.tracer import Tracer

__all__ = ["median", "percentile", "quantile"]


@implements(np.median)
def median(
    a: ArrayLike, axis: Axes = None, out: Out = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The middle of the sorted elements along axes, or the mean of the two in the middle; nan where any is, or none is
    there. Integers have medians in float64.

    >>> median([3, 1, 2]), median([[7, 1], [4, 2]], axis=1)
    (np.float64(2.0), array([4., 3.]))
    """
    x, shape = rows("median", a, axis, keepdims, nan_of_none=True)
    ordered = sort(x)
    count = user_size(dims_of(x)[-1])
    return b.reshape(_or_nan(ordered, middle(ordered, count)), shape=shape)


@implements(np.quantile)
def quantile(
    a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Out = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The quantiles ``q`` of the elements along axes, as ``numpy.quantile``; nan where any element is.

    Parameters
    ----------
    a: numbers; integers give float64 where a method interpolates.
    q: numbers from 0 to 1, of any shape, with which the result's begins; values of the program are not checked.
    axis: one axis, several, or None for all.
    method: one of NumPy's: "linear", "hazen", "weibull", "median_unbiased", "normal_unbiased",
        "interpolated_inverted_cdf", "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "lower", "higher",
        "midpoint" and "nearest".
    weights: one for each element (or for each index along the axis), not negative; with method "inverted_cdf" only.

    Raises ArgumentError for another method or a quantile outside of 0 to 1, ShapeError when there is no element,
    DTypeError for complex numbers.

    >>> quantile([1.0, 2.0, 4.0], 0.75), quantile([1, 2, 4], [0.0, 0.6], method="lower")
    (np.float64(3.0), array([1, 2]))
    """
    return _quantile("quantile", a, q, weak_kind(q) is not None, axis, method, keepdims, weights)


@implements(np.percentile)
def percentile(
    a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Out = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The percentiles ``q``, from 0 to 100, of the elements along axes: :func:`quantile` of a hundredth of each.

    >>> percentile([1.0, 2.0, 4.0], [50, 75])
    array([2., 3.])
    """
    share = ew.divide(q, 100)
    return _quantile("percentile", a, share, weak_kind(q) is not None, axis, method, keepdims, weights)


# --- rows of elements ------------------------------------------------------------------------------------------


def rows(
    name: str, a: ArrayLike, axis: Axes, keepdims: bool | Unset, nan_of_none: bool = False
) -> tuple[Any, tuple[Any, ...]]:  # fmt: skip
    """The elements to be reduced along a last axis, and the shape of a result of one number a row.

    Rows without elements are refused, or replaced by one nan each.
    """
    x = compute_array(name, a)
    axes = normal_axes(name, axis, x.ndim)
    own = dims_of(x)
    others = [i for i in range(x.ndim) if i not in axes]
    lead, count = tuple(own[i] for i in others), product(own[i] for i in axes)
    reduced = tuple(dim(1) if i in axes else n for i, n in enumerate(own))
    shape = reduced if keepdims is not np._NoValue and keepdims else lead
    if not any(n == 0 for n in lead):
        if nan_of_none and not ask(count, ">=", 1):
            dtype = x.dtype if kind_of(x.dtype) in ("f", "c") else FLOAT64
            return b.full(np.nan, known_dtype(dtype), (*lead, dim(1))), shape
        require(count, ">=", 1, f"{name} over an axis without elements has no value")
    moved = moveaxis(x, axes, tuple(range(len(others), x.ndim)))
    return b.reshape(moved, shape=(*lead, count)), shape


def middle(ordered: Array, count: ArrayLike) -> Array:
    """The median of the first ``count`` elements of each sorted row; ``count`` is a size, or a number for each row."""
    dtype = ordered.dtype if kind_of(ordered.dtype) in ("f", "c") else FLOAT64
    last = ew.subtract(count, 1)
    low, high = (ew.maximum(ew.floor_divide(index, 2), 0) for index in (last, ew.add(last, 1)))
    x, y = (convert(element(ordered, index), dtype) for index in (low, high))
    mean = reductions.mean(b.concat(*(expand_dims(v, -1) for v in (x, y)), axis=x.ndim), -1)
    return where(ew.equal(low, high), x, mean)


def element(ordered: Array, index: ArrayLike) -> Array:
    """The element at an index of each row: at one index for all, or at one for each row."""
    index = convert(index, INT64)
    if index.ndim == 0:
        return b.take(ordered, index, axis=ordered.ndim - 1)
    return take_along_axis(ordered, expand_dims(index, -1), -1)[..., 0]


def _or_nan(ordered: Array, result: Array) -> Array:
    """The result, nan for rows that have a nan, which is sorted last."""
    if kind_of(ordered.dtype) not in ("f", "c"):
        return result
    last = ordered[..., -1]
    return where(ew.isnan(last), convert(last, result.dtype), result)


# --- virtual indices -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuantileMethod:
    """The virtual index of the quantile ``q`` of ``n`` elements, and the weight of the next element (NumPy's gamma).

    ``weight(index, rest)`` is that weight, ``rest`` being the index's fraction; None when the index is an integer.
    """

    index: Callable[..., Array]
    weight: Callable[..., Array] | None


def _continuous(alpha: float, beta: float) -> QuantileMethod:
    """Hyndman and Fan's methods 4 to 9: ``n q + alpha + q (1 - alpha - beta) - 1``."""

    def index(n: Any, q: Array) -> Array:
        shift = ew.add(ew.multiply(q, 1 - alpha - beta), alpha)
        return ew.subtract(ew.add(ew.multiply(n, q), shift), 1)

    return QuantileMethod(index, lambda index, rest: rest)


def _linear(n: Any, q: Array) -> Array:
    return ew.multiply(n - 1, q)


def _from_one(n: Any, q: Array) -> Array:
    return ew.subtract(ew.multiply(n, q), 1)


def _rounded(function: Callable[[Array], Array]) -> QuantileMethod:
    return QuantileMethod(lambda n, q: function(_linear(n, q)), None)


def _closest(n: Any, q: Array) -> Array:
    """The nearest index, the even one (counted from 1) between two."""
    index = ew.subtract(_from_one(n, q), 0.5)
    down = ew.floor(index)
    stay = ew.logical_and(ew.equal(index, down), ew.equal(ew.remainder(down, 2), 1))
    return where(stay, down, ew.add(down, 1))


def _one_of(rest: Array, whole: float, broken: float) -> Array:
    """A weight for what is at an index, and one for what is between two."""
    return convert(where(ew.equal(rest, 0), whole, broken), rest.dtype)


METHODS = {
    "inverted_cdf": QuantileMethod(lambda n, q: ew.ceil(_from_one(n, q)), None),
    "averaged_inverted_cdf": QuantileMethod(_from_one, lambda index, rest: _one_of(rest, 0.5, 1.0)),
    "closest_observation": QuantileMethod(_closest, None),
    "interpolated_inverted_cdf": _continuous(0, 1),
    "hazen": _continuous(0.5, 0.5),
    "weibull": _continuous(0, 0),
    "linear": QuantileMethod(_linear, lambda index, rest: rest),
    "median_unbiased": _continuous(1 / 3, 1 / 3),
    "normal_unbiased": _continuous(3 / 8, 3 / 8),
    "lower": _rounded(ew.floor),
    "higher": _rounded(ew.ceil),
    "midpoint": QuantileMethod(
        lambda n, q: ew.multiply(ew.add(ew.floor(_linear(n, q)), ew.ceil(_linear(n, q))), 0.5),
        lambda index, rest: _one_of(rest, 0.0, 0.5),
    ),
    "nearest": _rounded(round_even),
}


def require_real(name: str, a: ArrayLike) -> None:
    """DTypeError for complex numbers, which have no quantiles."""
    dtype = as_array(a).dtype
    if kind_of(dtype) == "c":
        raise DTypeError(f"{name} is for real numbers, not {dtype}", where=user_line(),
                         fix="take its real or imag, or abs")  # fmt: skip


def method_of(name: str, method: str, weights: ArrayLike | None) -> QuantileMethod:
    """The method with a name; ArgumentError when there is none, or when it knows no weights and they are given."""
    if method not in METHODS:
        known = ", ".join(METHODS)
        raise ArgumentError(f"{name}: {method!r} is no method", where=user_line(), fix=f"use one of {known}")
    if weights is not None and method != "inverted_cdf":
        raise ArgumentError(f"{name}: only the method 'inverted_cdf' knows weights", where=user_line(),
                            fix="leave weights out, or say method='inverted_cdf'")  # fmt: skip
    return METHODS[method]


def check_shares(name: str, q: ArrayLike) -> Array:
    """The quantiles as an array; ArgumentError for concrete ones outside of 0 to 1."""
    q = as_array(q)
    if not isinstance(q, Tracer) and q.size and not (q.min() >= 0 and q.max() <= 1):
        top = 100 if name.endswith("percentile") else 1
        raise ArgumentError(f"{name}: a number lies outside of its range", where=user_line(),
                            fix=f"give numbers from 0 to {top}")  # fmt: skip
    return q


def between(ordered: Array, n: Any, q: Array, weak: bool, method: QuantileMethod) -> Array:
    """The quantiles ``q`` of the first ``n`` elements of each sorted row, with q's axes in front of the rows'.

    ``n`` is a size, or an array of the rows' shape; with ``weak`` q does not affect the element type.
    """
    q = reshape(q, (*q.shape, *[1] * (ordered.ndim - 1)))
    count = n if weak_kind(n) is int or q.dtype.kind != "f" else convert(n, q.dtype)
    index = method.index(count, q)
    low = ew.floor(index)
    last = ew.subtract(n, 1)
    down, up = (_gather(ordered, ew.maximum(ew.minimum(convert(p, INT64), last), 0)) for p in (low, ew.add(low, 1)))
    if method.weight is None or (q.dtype.kind in "iu" and index.dtype.kind in "iu"):
        return down
    weight = method.weight(index, ew.subtract(index, low))
    return _lerp(down, up, convert(weight, result_dtype("quantile", (ordered, 1.0))) if weak else weight)


def _gather(ordered: Array, indices: Array) -> Array:
    """The elements at indices: the same ones of each row, or others for each row."""
    lead = ordered.ndim - 1
    front = indices.ndim - lead
    if all(n == 1 for n in dims_of(indices)[front:]):
        found = b.take(ordered, b.reshape(indices, shape=dims_of(indices)[:front]), axis=lead)
        return moveaxis(found, tuple(range(lead, lead + front)), tuple(range(front)))
    columns = moveaxis(indices, tuple(range(front)), tuple(range(lead, lead + front)))
    flat = b.reshape(columns, shape=(*dims_of(columns)[:lead], product(dims_of(columns)[lead:])))
    found = b.reshape(take_along_axis(ordered, flat, -1), shape=dims_of(columns))
    return moveaxis(found, tuple(range(lead, lead + front)), tuple(range(front)))


def _lerp(low: Array, high: Array, weight: Array) -> Array:
    """``low + weight * (high - low)``, from the nearer end, so that neither end is missed."""
    gap = ew.subtract(high, low)
    from_low = ew.add(low, ew.multiply(gap, weight))
    from_high = ew.subtract(high, ew.multiply(gap, ew.subtract(1, weight)))
    return where(ew.greater_equal(weight, 0.5), from_high, from_low)


def _quantile(
    name: str, a: ArrayLike, q: ArrayLike, weak: bool, axis: Axes, method: str, keepdims: bool,
    weights: ArrayLike | None,
) -> Array:  # fmt: skip
    require_real(name, a)
    rule, q = method_of(name, method, weights), check_shares(name, q)
    x, shape = rows(name, a, axis, keepdims)
    if weights is None:
        ordered = sort(x)
        result = between(ordered, user_size(dims_of(x)[-1]), q, weak, rule)
    else:
        ordered, result = weighted(x, q, weight_rows(name, a, axis, weights, dims_of(x)))
    return b.reshape(_or_nan(ordered, result), shape=(*dims_of(q), *shape))


def weighted(x: Array, q: Array, weights: ArrayLike) -> tuple[Array, Array]:
    """The sorted rows, and the first element of each whose share of all weights, and of those before, reaches ``q``."""
    order = argsort(x, -1)
    ordered = take_along_axis(x, order, -1)
    total = cumsum(take_along_axis(weights, order, -1), -1, dtype=np.float64)
    share = ew.divide(total, total[..., -1:])
    share = where(ew.equal(share, 0), -1.0, share)  # what weighs nothing is not found, for q = 0 either
    share = convert(share, q.dtype) if q.dtype.kind == "f" else share
    columns = reshape(q, (*q.shape, *[1] * x.ndim))
    before = reductions.count_nonzero(ew.less(share, columns), -1)
    return ordered, _gather(ordered, ew.minimum(before, user_size(dims_of(x)[-1] - 1)))


def weight_rows(name: str, a: ArrayLike, axis: Axes, weights: ArrayLike, shape: Sequence[Dim]) -> Array:
    """The weights in rows like the rows of elements; ArgumentError for a negative concrete one."""
    w, x = compute_array(name, weights), as_array(a)
    if not isinstance(w, Tracer) and bool((w < 0).any()):
        raise ArgumentError(f"{name}: a weight is negative", where=user_line(), fix="give weights of 0 or more")
    axes = normal_axes(name, axis, x.ndim)
    if w.ndim == x.ndim:
        w = rows(name, broadcast_to(w, user_shape(dims_of(x))), axis, False)[0]
    elif w.ndim == len(axes):
        w = reshape(w, (-1,))
    else:
        raise ShapeError(f"{name}: weights of {w.ndim} axes fit neither the array nor the axes that are reduced",
                         where=user_line(), fix="give a weight for each element")  # fmt: skip
    return broadcast_to(w, user_shape(shape))
