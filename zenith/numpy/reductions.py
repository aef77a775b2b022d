"""Reductions over axes: sums, products, extremes, statistics, positions of extremes.

The element type of a result is NumPy's on Linux: sums and products of bool and of signed integers are int64, those of
unsigned integers uint64, unless ``dtype=`` gives another; means of integers are float64.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zenith.errors import ArgumentError, DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim, dim, maximum, product
from zenith.ir.types import NumPyType, bool_, int64, is_narrow, kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy.broadcasting import align, same_shape, spread
from zenith.numpy.casts import require_cast, stored
from zenith.numpy.formulas import truth
from zenith.numpy.operands import (
    BOOL,
    FLOAT64,
    INT64,
    UINT64,
    as_array,
    compute_array,
    compute_dtype,
    convert,
    dims_of,
    normal_axes,
    normal_axis,
    require,
    result_dtype,
    shape_text,
    static_int,
)
from zenith.numpy.typing import Array, ArrayLike, Axes, Axis, DTypeLike, Out, Unset
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.operators import is_weak
from zenith.trace.sizes import user_size
from zenith.trace.ufuncs import reduce_by

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "max", "mean", "min", "prod",
    "ptp", "std", "sum", "var",
]  # fmt: skip

_MISSING = np._NoValue


def _chosen(name: str, x: Array, mask: Any, neutral: Any) -> Array:
    """The array with the neutral element where a mask is false."""
    if mask is True or mask is _MISSING:
        return x
    found, selected, other = align(name, [x, convert(mask, BOOL), convert(neutral, x.dtype)])
    if not same_shape(dims_of(found), dims_of(x)):
        raise ShapeError(f"{name}: where= {shape_text(dims_of(as_array(mask)))} does not fit an array "
                         f"{shape_text(dims_of(x))}", where=user_line(),
                         fix="give a mask of the array's shape, or one that is repeated to it")  # fmt: skip
    return b.where(selected, found, other)


def _begun(result: Array, initial: Any, function: Callable[..., Array]) -> Array:
    """The result of a reduction, joined with its initial value."""
    return result if initial is None or initial is _MISSING else function(result, stored(initial, result.dtype))


def _keep(x: Array, result: Array, axes: Sequence[int], keepdims: bool | Unset) -> Array:
    """The reduced array, with axes of size 1 where ``keepdims`` is true."""
    if not keepdims or keepdims is _MISSING:
        return result
    shape = [dim(1) if a in axes else n for a, n in enumerate(dims_of(x))]
    return b.reshape(result, shape=tuple(shape))


def _reduce(primitive: str, x: Array, axis: Axes, keepdims: bool | Unset, name: str) -> Array:
    axes = normal_axes(name, axis, x.ndim)
    return _keep(x, getattr(b, primitive)(x, axes=axes) if axes else x, axes, keepdims)


def sum_dtype(name: str, x: Array, dtype: Any) -> NumPyType:
    """The element type of a sum: as asked, else NumPy's."""
    if dtype is not None and dtype is not _MISSING:
        return compute_dtype(name, np.dtype(dtype))
    return UINT64 if x.dtype.kind == "u" else INT64 if x.dtype.kind in "bi" else x.dtype


@implements(np.sum)
def sum(
    x: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, keepdims: bool | Unset = False,
    initial: ArrayLike | Unset | None = None, where: ArrayLike | Unset = True,
) -> Array:  # fmt: skip
    """The sum over axes, as ``numpy.sum``: of the elements where a mask is true, and of a number to begin with.

    >>> sum([1, 2, 3], initial=10, where=[True, False, True])
    np.int64(14)
    """
    x = compute_array("sum", x)
    x = _chosen("sum", convert(x, sum_dtype("sum", x, dtype)), where, 0)
    primitive = "reduce_or" if x.dtype.kind == "b" else "reduce_sum"
    return _begun(_reduce(primitive, x, axis, keepdims, "sum"), initial, ew.add)


@implements(np.prod)
def prod(
    x: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, keepdims: bool | Unset = False,
    initial: ArrayLike | Unset | None = None, where: ArrayLike | Unset = True,
) -> Array:  # fmt: skip
    """The product over axes, as ``numpy.prod``: of the elements where a mask is true, and of a number to begin with."""
    x = compute_array("prod", x)
    x = _chosen("prod", convert(x, sum_dtype("prod", x, dtype)), where, 1)
    primitive = "reduce_and" if x.dtype.kind == "b" else "reduce_prod"
    return _begun(_reduce(primitive, x, axis, keepdims, "prod"), initial, ew.multiply)


def _nonempty(name: str, x: Array, axes: Sequence[int]) -> None:
    """Demand an element to take the extreme of, unless there is no result at all."""
    sizes = dims_of(x)
    if not builtins.any(n == 0 for a, n in enumerate(sizes) if a not in axes):
        for a in axes:
            require(sizes[a], ">=", 1, f"{name} over an axis without elements has no value")


def _extreme(name: str, primitive: str, logical: str, other: Callable[..., Array]) -> Callable[..., Array]:
    def reduction(
        x: ArrayLike, axis: Axes = None, out: Out = None, keepdims: bool | Unset = False,
        initial: ArrayLike | Unset | None = None, where: ArrayLike | Unset = True,
    ) -> Array:  # fmt: skip
        x = ordered(name, compute_array(name, x))
        if initial is not None and initial is not _MISSING:
            x = _chosen(name, x, where, initial)
        elif where is True or where is _MISSING:
            _nonempty(name, x, normal_axes(name, axis, x.ndim))
        else:
            raise ArgumentError(f"{name}: the mask of where= may be false everywhere, which leaves no {name}imum",
                                where=user_line(), fix="give initial= too, a number to begin with")  # fmt: skip
        result = _reduce(logical if x.dtype.kind == "b" else primitive, x, axis, keepdims, name)
        return _begun(result, initial, other)

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = (
        f"The {name}imum over axes, as ``numpy.{name}``; nan if any element is. ``initial`` is one more number to "
        "choose from, which ``where``, a mask of elements, needs."
    )
    return reduction


max = implements(np.max, np.amax)(_extreme("max", "reduce_max", "reduce_or", ew.maximum))
min = implements(np.min, np.amin)(_extreme("min", "reduce_min", "reduce_and", ew.minimum))
amax, amin = max, min


def _truth(name: str, x: ArrayLike) -> Array:
    return truth(compute_array(name, x))


@implements(np.any)
def any(
    x: ArrayLike, axis: Axes = None, out: Out = None, keepdims: bool | Unset = False, *,
    where: ArrayLike | Unset = True, initial: ArrayLike | Unset | None = None,
) -> Array:  # fmt: skip
    """Whether any element (of those where a mask is true) is true (not zero), as ``numpy.any``."""
    chosen = _chosen("any", _truth("any", x), where, False)
    return _begun(_reduce("reduce_or", chosen, axis, keepdims, "any"), initial, ew.logical_or)


@implements(np.all)
def all(
    x: ArrayLike, axis: Axes = None, out: Out = None, keepdims: bool | Unset = False, *,
    where: ArrayLike | Unset = True, initial: ArrayLike | Unset | None = None,
) -> Array:  # fmt: skip
    """Whether all elements (of those where a mask is true) are true (not zero), as ``numpy.all``."""
    chosen = _chosen("all", _truth("all", x), where, True)
    return _begun(_reduce("reduce_and", chosen, axis, keepdims, "all"), initial, ew.logical_and)


@implements(np.count_nonzero)
def count_nonzero(x: ArrayLike, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """How many elements are not zero, as int64."""
    return _reduce("reduce_sum", b.cast(_truth("count_nonzero", x), dtype=int64), axis, keepdims, "count_nonzero")


def _count(x: Array, axes: Sequence[int], less: int = 0) -> Any:
    """The number of elements reduced, minus ``less`` and at least 0, as a Python number or traced size."""
    total: Dim = product(dims_of(x)[a] for a in axes)
    return user_size(maximum(total - less, 0) if less else total)


def _counted(name: str, x: Array, axis: Axes, keepdims: bool | Unset, mask: Any) -> Any:
    """The number of elements reduced, those where a mask is true: as int64, or where all count as :func:`_count`."""
    if mask is True or mask is _MISSING:
        return _count(x, normal_axes(name, axis, x.ndim))
    return count_nonzero(_chosen(name, b.full(True, bool_, dims_of(x)), mask, False), axis, keepdims=keepdims)


def float_dtype(name: str, x: Array, dtype: Any) -> NumPyType:
    """The element type of a mean: as asked, else float64 of integers."""
    if dtype is not None and dtype is not _MISSING:
        return compute_dtype(name, np.dtype(dtype))
    return FLOAT64 if x.dtype.kind in "biu" else compute_dtype(name, x.dtype)


def in_single(function: Callable[..., Array]) -> Callable[..., Array]:
    """A statistic of 16-bit floats in float32, rounded at its end: sums, squares and counts may exceed float16."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def computed(*args: Any, **kwargs: Any) -> Array:
        given = signature.bind(*args, **kwargs)
        x = compute_array(function.__name__, next(iter(given.arguments.values())))
        target = float_dtype(function.__name__, x, given.arguments.get("dtype"))
        if not is_narrow(target):
            return function(*args, **kwargs)
        given.arguments["dtype"] = np.float32
        return convert(function(*given.args, **given.kwargs), target)

    return computed


@implements(np.mean)
@in_single
def mean(
    x: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, keepdims: bool | Unset = False, *,
    where: ArrayLike | Unset = True,
) -> Array:  # fmt: skip
    """The arithmetic mean over axes, as ``numpy.mean``: in float64 for integers; nan of nothing.

    ``where`` is a mask of the elements that count. In an integer ``dtype`` the sum is one of integers, and the mean is
    cut towards 0.
    """
    x = compute_array("mean", x)
    target = float_dtype("mean", x, dtype)
    total = sum(x, axis, target, keepdims=keepdims, where=where)
    return _shared(total, _counted("mean", x, axis, keepdims, where))


def _shared(total: Array, count: Array) -> Array:
    """A sum divided by a number of elements, in the type of the sum: an integer one is cut towards 0."""
    if total.dtype.kind in "biu":
        return convert(ew.divide(convert(total, FLOAT64), convert(count, FLOAT64)), total.dtype)
    return ew.divide(total, count if is_weak(count) else convert(count, total.dtype))


@implements(np.var)
@in_single
def var(
    x: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, ddof: float = 0,
    keepdims: bool | Unset = False, *, where: ArrayLike | Unset = True, mean: ArrayLike | Unset | None = _MISSING,
    correction: float | Unset = _MISSING,
) -> Array:  # fmt: skip
    """The variance over axes, as ``numpy.var``: mean squared distance from the mean, divided by count - ddof.

    Parameters
    ----------
    ddof, correction: two names for what is taken from the count; a number, known before.
    where: a mask of the elements that count.
    mean: the mean where it is known already, with axes of size 1 for those of ``axis``.

    In an integer ``dtype`` the mean, the sum of squares and the result are cut towards 0.
    """
    x = compute_array("var", x)
    target = float_dtype("var", x, dtype)
    centre = _mean(x, axis, target, keepdims=True, where=where) if mean is _MISSING or mean is None else mean
    squares = ew.squared_distance(ew.subtract(x, centre))
    wanted = target if target.kind in "biu" or (target.kind == "f" and squares.dtype != target) else None
    wanted = target if dtype is not None and target.kind == "c" else wanted
    total = sum(squares, axis, wanted, keepdims=keepdims, where=where)
    less = ddof if correction is _MISSING else correction
    return _shared(total, _freedom(x, axis, keepdims, where, less, total.dtype))


_mean = mean


def _freedom(x: Array, axis: Axes, keepdims: bool | Unset, mask: Any, less: Any, dtype: NumPyType) -> Array:
    """The number of elements reduced, minus a number that need not be whole, and at least 0."""
    count = _counted("var", x, axis, keepdims, mask)
    if not is_weak(count) or (isinstance(less, float) and not less.is_integer()):
        return convert(ew.maximum(ew.subtract(count, less), 0), dtype)
    less = static_int(int(less) if isinstance(less, float) else less, "var: ddof")
    return _count(x, normal_axes("var", axis, x.ndim), less)


@implements(np.std)
@in_single
def std(
    x: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Out = None, ddof: float = 0,
    keepdims: bool | Unset = False, *, where: ArrayLike | Unset = True, mean: ArrayLike | Unset | None = _MISSING,
    correction: float | Unset = _MISSING,
) -> Array:  # fmt: skip
    """The standard deviation over axes, as ``numpy.std``: the square root of :func:`var`.

    An integer ``dtype`` is for one number alone: DTypeError for arrays of them.
    """
    found = var(x, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    root = ew.sqrt(found)
    if found.dtype.kind not in "biu":
        return root
    if found.ndim:
        require_cast("std", root.dtype, found.dtype)
    return convert(root, found.dtype)


@implements(np.average)
def average(
    x: ArrayLike, axis: Axes = None, weights: ArrayLike | None = None, returned: bool = False, *,
    keepdims: bool | Unset = False,
) -> Any:  # fmt: skip
    """The mean, weighted when ``weights`` are given: of the array's shape, or of the sizes of the axes ``axis``.

    Integers are weighted in float64. With ``returned`` the result is a pair of the mean and the sum of the weights.

    >>> average([1, 2], weights=[3, 1], returned=True)
    (np.float64(1.25), np.float64(4.0))
    """
    x = as_array(x)
    if weights is None:
        found = mean(x, axis, keepdims=keepdims)
        total = convert(_count(x, normal_axes("average", axis, x.ndim)), found.dtype)
    else:
        shares = _weights(x, as_array(weights), axis)
        whole = (np.zeros(()),) if x.dtype.kind in "biu" else ()
        dtype = result_dtype("average", (x, shares, *whole))
        x, shares = align("average", [convert(x, dtype), convert(shares, dtype)])
        total = sum(shares, axis, keepdims=keepdims)
        found = ew.divide(sum(ew.multiply(x, shares), axis, keepdims=keepdims), total)
    return (found, spread(total, dims_of(found))) if returned else found


def _weights(x: Array, weights: Array, axis: Axes) -> Array:
    """Weights with an axis for each of the array's: of size 1 where they do not depend on it."""
    if weights.ndim == x.ndim:
        for n, m in zip(dims_of(weights), dims_of(x), strict=True):
            require(n, "==", m, "average: weights of as many axes must have the array's shape")
        return weights
    if axis is None:
        raise ShapeError(f"average: weights {shape_text(dims_of(weights))} do not fit an array "
                         f"{shape_text(dims_of(x))}", where=user_line(),
                         fix="say which axes they are of: axis=")  # fmt: skip
    at = [normal_axis("average", a, x.ndim) for a in (axis if isinstance(axis, (tuple, list)) else [axis])]
    if len(at) != weights.ndim:
        raise ShapeError(f"average: weights of {weights.ndim} axes for {len(at)} axes", where=user_line(),
                         fix="give weights of the array's shape, or an axis for each that axis= names")  # fmt: skip
    order = sorted(range(len(at)), key=at.__getitem__)
    transposed = b.transpose(weights, axes=tuple(order)) if order != list(range(len(at))) else weights
    sizes = dict(zip(sorted(at), dims_of(transposed), strict=True))
    return b.reshape(transposed, shape=tuple(sizes.get(a, dim(1)) for a in range(x.ndim)))


@implements(np.ptp)
def ptp(x: ArrayLike, axis: Axes = None, out: Out = None, keepdims: bool | Unset = False) -> Array:
    """Maximum minus minimum over axes."""
    return ew.subtract(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


def ordered(name: str, x: Array) -> Array:
    """An array, whose elements must have an order; DTypeError for complex numbers."""
    if kind_of(x.dtype) == "c":
        raise DTypeError(
            f"{name} of complex numbers, which NumPy orders by their real parts first, is not supported",
            where=user_line(), types=(x.dtype,), fix="take a part of them, x.real or x.imag, or abs(x)",
        )  # fmt: skip
    return x


def _position(name: str, x: Array, axis: Axis, keepdims: bool | Unset) -> Array:
    full = axis is None
    flat = b.reshape(x, shape=(product(dims_of(x)),)) if full else x
    axis = 0 if full else normal_axis(name, axis, x.ndim)
    require(dims_of(flat)[axis], ">=", 1, f"{name} over an axis without elements has no value")
    return _keep(x, b.argmax(flat, axis=axis), tuple(range(x.ndim)) if full else (axis,), keepdims)


@implements(np.argmax)
def argmax(x: ArrayLike, axis: Axis = None, out: Out = None, *, keepdims: bool | Unset = False) -> Array:
    """The position of the first maximum (the first nan, if any) along an axis, or in the flattened array; int64."""
    return _position("argmax", ordered("argmax", compute_array("argmax", x)), axis, keepdims)


@implements(np.argmin)
def argmin(x: ArrayLike, axis: Axis = None, out: Out = None, *, keepdims: bool | Unset = False) -> Array:
    """The position of the first minimum (the first nan, if any) along an axis, or in the flattened array; int64."""
    x = ordered("argmin", compute_array("argmin", x))
    return _position("argmin", b.neg(x) if kind_of(x.dtype) == "f" else b.bit_not(x), axis, keepdims)


for _ufunc, _name in (
    ("add", "sum"), ("multiply", "prod"), ("maximum", "max"), ("minimum", "min"), ("logical_and", "all"),
    ("logical_or", "any"),
):  # fmt: skip
    reduce_by(_ufunc, _name)
