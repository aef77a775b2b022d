"""Reductions that leave out nan: sums, means, extremes and their indices, variances, medians, quantiles.

nan is replaced by the neutral element, and the others are counted. Integers have no nan: for them these are the plain
reductions. A row without any number gives nan, without the warning that NumPy gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zenith.errors import ArgumentError, DTypeError, user_line
from zenith.ir.types import kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.conditionals import where as choice
from zenith.numpy.cumulative import cumprod, cumsum
from zenith.numpy.operands import compute_array, convert, dims_of, element_type, static_int, weak_kind
from zenith.numpy.quantiles import between, check_shares, method_of, middle, require_real, rows, weight_rows, weighted
from zenith.numpy.reductions import float_dtype, in_single
from zenith.numpy.sorting import sort
from zenith.numpy.typing import Array, ArrayLike, Axes, Axis, DTypeLike, Out, Unset
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.tracer import Tracer

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile",
    "nanprod", "nanquantile", "nanstd", "nansum", "nanvar",
]  # fmt: skip

_MISSING = np._NoValue
Rule = Callable[..., Array]


def _replaced(x: Array, value: float) -> Array:
    """Floating-point and complex elements with nan replaced by a number."""
    if kind_of(x.dtype) not in ("f", "c"):
        return x
    return b.where(b.ne(x, x), b.full(value, element_type(x), dims_of(x)), x)


def _in_type(name: str, x: Array, dtype: DTypeLike | None) -> Array:
    """Elements in the type of a result; complex ones of which a part is nan are nan as real numbers, too."""
    found = convert(x, float_dtype(name, x, dtype))
    lost = x.dtype.kind == "c" and found.dtype.kind != "c"
    return choice(b.eq(x, x), found, np.asarray(np.nan, found.dtype)) if lost else found


def _chosen(x: Array, mask: Any) -> Array:
    """Floating-point elements with nan where a mask is false."""
    return x if mask is True or mask is _MISSING else choice(mask, x, np.asarray(np.nan, x.dtype))


def _is_set(keepdims: bool | Unset) -> bool:
    return keepdims is not _MISSING and bool(keepdims)


def _count(x: Array, axis: Axes, keepdims: bool | Unset) -> Array:
    """How many elements are not nan."""
    return reductions.count_nonzero(b.eq(x, x), axis, keepdims=_is_set(keepdims))


def _refuse_whole(name: str, x: Array, dtype: Any) -> None:
    """DTypeError for an integer type of a mean of floats, in which there is no nan."""
    if dtype is not None and dtype is not _MISSING and kind_of(np.dtype(dtype)) not in ("f", "c"):
        raise DTypeError(f"{name} of {x.dtype} cannot be computed in {np.dtype(dtype)}, which has no nan",
                         where=user_line(), fix="ask for a floating-point dtype, and convert the result")  # fmt: skip


# --- sums ------------------------------------------------------------------------------------------------------


@implements(np.nansum)
def nansum(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, keepdims: bool | Unset = False,
    initial: ArrayLike | Unset | None = None, where: ArrayLike | Unset = True,
) -> Array:  # fmt: skip
    """The sum over axes with nan counted as 0.

    >>> nansum([1.0, np.nan, 2.0])
    np.float64(3.0)
    """
    x = _replaced(compute_array("nansum", a), 0.0)
    return reductions.sum(x, axis, dtype, keepdims=keepdims, initial=initial, where=where)


@implements(np.nanprod)
def nanprod(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, keepdims: bool | Unset = False,
    initial: ArrayLike | Unset | None = None, where: ArrayLike | Unset = True,
) -> Array:  # fmt: skip
    """The product over axes with nan counted as 1.

    >>> nanprod([2.0, np.nan, 3.0])
    np.float64(6.0)
    """
    x = _replaced(compute_array("nanprod", a), 1.0)
    return reductions.prod(x, axis, dtype, keepdims=keepdims, initial=initial, where=where)


@implements(np.nancumsum)
def nancumsum(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None) -> Array:
    """The sums of all elements up to each one, with nan counted as 0.

    >>> nancumsum([1.0, np.nan, 2.0])
    array([1., 1., 3.])
    """
    return cumsum(_replaced(compute_array("nancumsum", a), 0.0), axis, dtype)


@implements(np.nancumprod)
def nancumprod(a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None) -> Array:
    """The products of all elements up to each one, with nan counted as 1.

    >>> nancumprod([1.0, np.nan, 2.0])
    array([1., 1., 2.])
    """
    return cumprod(_replaced(compute_array("nancumprod", a), 1.0), axis, dtype)


@implements(np.nanmean)
@in_single
def nanmean(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, keepdims: bool | Unset = False, *,
    where: ArrayLike | Unset = True,
) -> Array:  # fmt: skip
    """The mean over axes of the elements that are not nan, of those where a mask is true.

    >>> nanmean([1.0, np.nan, 2.0])
    np.float64(1.5)
    """
    x = compute_array("nanmean", a)
    if kind_of(x.dtype) not in ("f", "c"):
        return reductions.mean(x, axis, dtype, keepdims=keepdims, where=where)
    _refuse_whole("nanmean", x, dtype)
    x = _chosen(_in_type("nanmean", x, dtype), where)
    return ew.divide(nansum(x, axis, keepdims=keepdims), convert(_count(x, axis, keepdims), x.dtype))


@implements(np.nanvar)
@in_single
def nanvar(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, ddof: int = 0,
    keepdims: bool | Unset = False, *, where: ArrayLike | Unset = True, mean: ArrayLike | Unset | None = None,
    correction: float | Unset = _MISSING,
) -> Array:  # fmt: skip
    """The variance over axes of the elements that are not nan; nan where no more than ``ddof`` are.

    ``where`` is a mask of the elements that count.

    >>> nanvar([1.0, np.nan, 3.0])
    np.float64(1.0)
    """
    x = compute_array("nanvar", a)
    if kind_of(x.dtype) not in ("f", "c"):
        rest = {"where": where, "mean": mean, "correction": correction}
        return reductions.var(x, axis, dtype, None, ddof, keepdims, **rest)
    _refuse_whole("nanvar", x, dtype)
    target = float_dtype("nanvar", x, dtype)
    of_parts = x.dtype.kind == "c" and target.kind != "c"  # distances are those of complex numbers all the same
    x = _chosen(x if of_parts else convert(x, target), where)
    less = static_int(ddof if correction is _MISSING else correction, "nanvar: ddof")
    known = mean is not None and mean is not _MISSING
    centre = mean if known else nanmean(x, axis, target if of_parts else None, keepdims=True)
    distance = choice(b.eq(x, x), ew.subtract(x, centre), np.zeros((), x.dtype))
    total = reductions.sum(ew.squared_distance(distance), axis, keepdims=keepdims)
    freedom = ew.subtract(_count(x, axis, keepdims), less)
    total = convert(total, x.dtype) if dtype is not None and x.dtype.kind == "c" else total
    result = ew.divide(total, convert(freedom, total.dtype))
    found = choice(ew.greater(freedom, 0), result, np.array(np.nan, total.dtype))
    return convert(found, target) if of_parts else found


@implements(np.nanstd)
@in_single
def nanstd(
    a: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, ddof: int = 0,
    keepdims: bool | Unset = False, *, where: ArrayLike | Unset = True, mean: ArrayLike | Unset | None = None,
    correction: float | Unset = _MISSING,
) -> Array:  # fmt: skip
    """The standard deviation over axes of the elements that are not nan; see :func:`nanvar`.

    >>> nanstd([1.0, np.nan, 3.0])
    np.float64(1.0)
    """
    x = compute_array("nanstd", a)
    if kind_of(x.dtype) not in ("f", "c"):
        return reductions.std(x, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    return ew.sqrt(nanvar(x, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction))


# --- extremes --------------------------------------------------------------------------------------------------


def _extreme(name: str, neutral: float, plain: Rule, function: Callable[..., Array]) -> Rule:
    def reduction(
        a: ArrayLike, axis: Axes = None, out: Out = None, keepdims: bool | Unset = False,
        initial: ArrayLike | Unset | None = None, where: ArrayLike | Unset = True,
    ) -> Array:  # fmt: skip
        x = compute_array(name, a)
        result = plain(_replaced(x, neutral), axis, keepdims=keepdims, initial=initial, where=where)
        if kind_of(x.dtype) != "f" or not (initial is None or initial is _MISSING):
            return result
        nothing = ew.equal(_count(x, axis, keepdims), 0)
        return choice(nothing, np.array(np.nan, x.dtype), result)

    reduction.__name__ = reduction.__qualname__ = name
    word, other = ("largest", "4.0") if neutral < 0 else ("smallest", "1.0")
    reduction.__doc__ = f"""The {word} element over axes that is not nan; nan where all are.

    >>> {name}([1.0, np.nan, 4.0])
    np.float64({other})
    """
    return implements(function)(reduction)


nanmax = _extreme("nanmax", -np.inf, reductions.max, np.nanmax)
nanmin = _extreme("nanmin", np.inf, reductions.min, np.nanmin)


def _position(
    name: str,
    a: ArrayLike,
    axis: Axis,
    keepdims: bool | Unset,
    extreme: Callable[..., Array],
    plain: Callable[..., Array],
) -> Array:
    x = compute_array(name, a)
    if kind_of(x.dtype) != "f":
        return plain(x, axis, keepdims=_is_set(keepdims))
    at = reductions.argmax(ew.equal(x, extreme(x, axis, keepdims=True)), axis, keepdims=_is_set(keepdims))
    nothing = ew.equal(_count(x, axis, keepdims), 0)
    if not isinstance(nothing, Tracer) and nothing.any():
        raise ArgumentError(f"{name}: all elements are nan", where=user_line(), fix="leave such rows out")
    return choice(nothing, np.array(-1), at)


@implements(np.nanargmax)
def nanargmax(a: ArrayLike, axis: Axis = None, out: Out = None, *, keepdims: bool | Unset = False) -> Array:
    """The position of the first maximum that is not nan; -1 in a program, an ArgumentError at once, where all are nan.

    >>> nanargmax([1.0, np.nan, 4.0])
    np.int64(2)
    """
    return _position("nanargmax", a, axis, keepdims, nanmax, reductions.argmax)


@implements(np.nanargmin)
def nanargmin(a: ArrayLike, axis: Axis = None, out: Out = None, *, keepdims: bool | Unset = False) -> Array:
    """The position of the first minimum that is not nan; -1 in a program, an ArgumentError at once, where all are nan.

    >>> nanargmin([np.nan, 1.0, 4.0])
    np.int64(1)
    """
    return _position("nanargmin", a, axis, keepdims, nanmin, reductions.argmin)


# --- medians and quantiles -------------------------------------------------------------------------------------


@implements(np.nanmedian)
def nanmedian(
    a: ArrayLike, axis: Axes = None, out: Out = None, overwrite_input: bool = False, keepdims: bool | Unset = False
) -> Array:  # fmt: skip
    """The median over axes of the elements that are not nan.

    >>> nanmedian([1.0, np.nan, 2.0])
    np.float64(1.5)
    """
    x, shape = rows("nanmedian", a, axis, keepdims, nan_of_none=True)
    return b.reshape(middle(sort(x), _count(x, -1, False)), shape=shape)


@implements(np.nanquantile)
def nanquantile(
    a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Out = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool | Unset = False, *, weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The quantiles over axes of the elements that are not nan; see :func:`zenith.numpy.quantile`.

    >>> nanquantile([1.0, np.nan, 2.0], 0.25)
    np.float64(1.25)
    """
    return _quantile("nanquantile", a, q, weak_kind(q) is not None, axis, method, keepdims, weights)


@implements(np.nanpercentile)
def nanpercentile(
    a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Out = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool | Unset = False, *, weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The percentiles over axes of the elements that are not nan; see :func:`zenith.numpy.percentile`.

    >>> nanpercentile([1.0, np.nan, 2.0], 25)
    np.float64(1.25)
    """
    share = ew.divide(q, 100)
    return _quantile("nanpercentile", a, share, weak_kind(q) is not None, axis, method, keepdims, weights)


def _quantile(
    name: str, a: ArrayLike, q: ArrayLike, weak: bool, axis: Axes, method: str, keepdims: bool | Unset,
    weights: ArrayLike | None,
) -> Array:  # fmt: skip
    require_real(name, a)
    rule, q = method_of(name, method, weights), check_shares(name, q)
    x, shape = rows(name, a, axis, keepdims, nan_of_none=weights is None)
    if weights is None:
        result = between(sort(x), _count(x, -1, False), q, weak, rule)
    else:
        w = weight_rows(name, a, axis, weights, dims_of(x))
        result = weighted(x, q, choice(b.eq(x, x), w, np.zeros((), w.dtype)))[1]
    return b.reshape(result, shape=(*dims_of(q), *shape))
