"""Reductions over axes: sums, products, extremes, statistics, positions of extremes.

The element type of a result is NumPy's on Linux: sums and products of bool and of signed integers are int64, those of
unsigned integers uint64, unless ``dtype=`` says another; means of integers are float64.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zenith.errors import UnsupportedError, user_line
from zenith.ir.dims import Dim, dim, maximum, product
from zenith.ir.types import int64, kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy.formulas import truth
from zenith.numpy.operands import (
    FLOAT64,
    INT64,
    UINT64,
    align,
    as_array,
    compute_array,
    compute_dtype,
    convert,
    dims_of,
    normal_axes,
    normal_axis,
    require,
    static_int,
)
from zenith.trace.bind import b
from zenith.trace.dispatch import implements, reduce_by
from zenith.trace.sizes import user_size

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "max", "mean", "min", "prod",
    "ptp", "std", "sum", "var",
]  # fmt: skip

_MISSING = np._NoValue


def _refuse_options(name: str, options: dict[str, Any]) -> None:
    given = sorted(k for k, v in options.items() if v is not None and v is not _MISSING)
    if given:
        raise UnsupportedError(
            f"{name}: the options {', '.join(given)} are not supported",
            where=user_line(),
            fix="use numpy.where for where=, and combine the result with an initial value yourself",
        )


def _keep(x: Any, result: Any, axes: Sequence[int], keepdims: Any) -> Any:
    """The reduced array, with axes of size 1 where ``keepdims`` is true."""
    if not keepdims or keepdims is _MISSING:
        return result
    shape = [dim(1) if a in axes else n for a, n in enumerate(dims_of(x))]
    return b.reshape(result, shape=tuple(shape))


def _reduce(primitive: str, x: Any, axis: Any, keepdims: Any, name: str) -> Any:
    axes = normal_axes(name, axis, x.ndim)
    return _keep(x, getattr(b, primitive)(x, axes=axes) if axes else x, axes, keepdims)


def sum_dtype(name: str, x: Any, dtype: Any) -> np.dtype[Any]:
    """The element type of a sum: as asked, else NumPy's."""
    if dtype is not None and dtype is not _MISSING:
        return compute_dtype(name, np.dtype(dtype))
    return UINT64 if x.dtype.kind == "u" else INT64 if x.dtype.kind in "bi" else x.dtype


@implements(np.sum)
def sum(x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **options: Any) -> Any:
    """The sum over axes, as ``numpy.sum``."""
    _refuse_options("sum", options)
    x = compute_array("sum", x)
    return _reduce("reduce_sum", convert(x, sum_dtype("sum", x, dtype)), axis, keepdims, "sum")


@implements(np.prod)
def prod(x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **options: Any) -> Any:
    """The product over axes, as ``numpy.prod``."""
    _refuse_options("prod", options)
    x = compute_array("prod", x)
    return _reduce("reduce_prod", convert(x, sum_dtype("prod", x, dtype)), axis, keepdims, "prod")


def _nonempty(name: str, x: Any, axes: Sequence[int]) -> None:
    """Demand an element to take the extreme of, unless there is no result at all."""
    sizes = dims_of(x)
    if not builtins.any(n == 0 for a, n in enumerate(sizes) if a not in axes):
        for a in axes:
            require(sizes[a], ">=", 1, f"{name} over an axis without elements has no value")


def _extreme(name: str, primitive: str, logical: str) -> Callable[..., Any]:
    def reduction(x: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **options: Any) -> Any:
        _refuse_options(name, options)
        x = compute_array(name, x)
        _nonempty(name, x, normal_axes(name, axis, x.ndim))
        return _reduce(logical if x.dtype.kind == "b" else primitive, x, axis, keepdims, name)

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"The {name}imum over axes, as ``numpy.{name}``; nan if any element is."
    return reduction


max = implements(np.max, np.amax)(_extreme("max", "reduce_max", "reduce_or"))
min = implements(np.min, np.amin)(_extreme("min", "reduce_min", "reduce_and"))
amax, amin = max, min


def _truth(name: str, x: Any) -> Any:
    return truth(compute_array(name, x))


@implements(np.any)
def any(x: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **options: Any) -> Any:
    """Whether any element is true (not zero), as ``numpy.any``."""
    _refuse_options("any", options)
    return _reduce("reduce_or", _truth("any", x), axis, keepdims, "any")


@implements(np.all)
def all(x: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **options: Any) -> Any:
    """Whether all elements are true (not zero), as ``numpy.all``."""
    _refuse_options("all", options)
    return _reduce("reduce_and", _truth("all", x), axis, keepdims, "all")


@implements(np.count_nonzero)
def count_nonzero(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many elements are not zero, as int64."""
    return _reduce("reduce_sum", b.cast(_truth("count_nonzero", x), dtype=int64), axis, keepdims, "count_nonzero")


def _count(x: Any, axes: Sequence[int], less: int = 0) -> Any:
    """The number of elements reduced, minus ``less`` and at least 0, as a Python number or traced size."""
    total: Dim = product(dims_of(x)[a] for a in axes)
    return user_size(maximum(total - less, 0) if less else total)


def float_dtype(name: str, x: Any, dtype: Any) -> np.dtype[Any]:
    """The element type of a mean: as asked, else float64 of integers."""
    if dtype is not None and dtype is not _MISSING:
        return compute_dtype(name, np.dtype(dtype))
    return FLOAT64 if x.dtype.kind in "biu" else compute_dtype(name, x.dtype)


@implements(np.mean)
def mean(x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **options: Any) -> Any:
    """The arithmetic mean over axes, as ``numpy.mean``: in float64 for integers; nan of nothing."""
    _refuse_options("mean", options)
    x = compute_array("mean", x)
    total = sum(convert(x, float_dtype("mean", x, dtype)), axis, keepdims=keepdims)
    return ew.divide(total, _count(x, normal_axes("mean", axis, x.ndim)))


@implements(np.var)
def var(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
    correction: Any = _MISSING, **options: Any,
) -> Any:  # fmt: skip
    """The variance over axes, as ``numpy.var``: mean squared distance from the mean, divided by count - ddof.

    ``correction`` is the standard's name for ``ddof``; both are numbers, known before.
    """
    _refuse_options("var", options)
    x = compute_array("var", x)
    x = convert(x, float_dtype("var", x, dtype))
    distance = ew.subtract(x, mean(x, axis, keepdims=True))
    total = sum(ew.squared_distance(distance), axis, keepdims=keepdims)
    less = ddof if correction is _MISSING else correction
    return ew.divide(total, _freedom(x, normal_axes("var", axis, x.ndim), less, total.dtype))


def _freedom(x: Any, axes: Sequence[int], less: Any, dtype: np.dtype[Any]) -> Any:
    """The number of elements reduced, minus a number that need not be whole, and at least 0."""
    if isinstance(less, float) and not less.is_integer():
        return convert(ew.maximum(_count(x, axes) - less, 0.0), dtype)
    return _count(x, axes, static_int(int(less) if isinstance(less, float) else less, "var: ddof"))


@implements(np.std)
def std(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
    correction: Any = _MISSING, **options: Any,
) -> Any:  # fmt: skip
    """The standard deviation over axes, as ``numpy.std``: the square root of :func:`var`."""
    return ew.sqrt(var(x, axis, dtype, None, ddof, keepdims, correction=correction, **options))


@implements(np.average)
def average(x: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False) -> Any:
    """The mean, weighted when ``weights`` of the same shape (or one for each place along ``axis``) are given."""
    if returned:
        _refuse_options("average", {"returned": True})
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    x, weights = as_array(x), as_array(weights)
    if weights.ndim == 1 and x.ndim > 1:
        at = normal_axis("average", axis, x.ndim)
        weights = b.reshape(weights, shape=tuple(dims_of(weights)[0] if a == at else 1 for a in range(x.ndim)))
    x, weights = align("average", [x, weights])
    total = sum(weights, axis, keepdims=keepdims)
    return ew.divide(sum(ew.multiply(x, weights), axis, keepdims=keepdims), total)


@implements(np.ptp)
def ptp(x: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """Maximum minus minimum over axes."""
    return ew.subtract(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


def _position(name: str, x: Any, axis: Any, keepdims: Any) -> Any:
    full = axis is None
    flat = b.reshape(x, shape=(product(dims_of(x)),)) if full else x
    axis = 0 if full else normal_axis(name, axis, x.ndim)
    require(dims_of(flat)[axis], ">=", 1, f"{name} over an axis without elements has no value")
    return _keep(x, b.argmax(flat, axis=axis), tuple(range(x.ndim)) if full else (axis,), keepdims)


@implements(np.argmax)
def argmax(x: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """The position of the first maximum (the first nan, if any) along an axis, or in the flattened array; int64."""
    return _position("argmax", compute_array("argmax", x), axis, keepdims)


@implements(np.argmin)
def argmin(x: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    """The position of the first minimum (the first nan, if any) along an axis, or in the flattened array; int64."""
    x = compute_array("argmin", x)
    return _position("argmin", b.neg(x) if kind_of(x.dtype) == "f" else b.bit_not(x), axis, keepdims)


for _ufunc, _name in (
    ("add", "sum"), ("multiply", "prod"), ("maximum", "max"), ("minimum", "min"), ("logical_and", "all"),
    ("logical_or", "any"),
):  # fmt: skip
    reduce_by(_ufunc, _name)
