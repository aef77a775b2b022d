"""Choice between elements and small functions made of others: where, clip, nan_to_num, isclose, triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np

from zenith.errors import ArgumentError, DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim, dim
from zenith.ir.types import NumPyType, int64, kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.broadcasting import align, spread
from zenith.numpy.casts import require_cast, warn_of_lost_imaginary
from zenith.numpy.joining import concatenate, cut
from zenith.numpy.operands import (
    BOOL,
    FLOAT64,
    INT64,
    UINT64,
    as_array,
    ask,
    compute_array,
    compute_dtype,
    convert,
    dims_of,
    normal_axis,
    number,
    result_dtype,
    strong,
    weak_kind,
)
from zenith.numpy.typing import Array, ArrayLike, DTypeLike, Out, Size, Unset
from zenith.trace.bind import b, known_dtype
from zenith.trace.dispatch import implementation, implements
from zenith.trace.memory import NUMBER
from zenith.trace.operators import is_weak, python_number
from zenith.trace.sizes import TracedSize, UserSize, size_dim
from zenith.trace.tracer import Tracer

__all__ = [
    "allclose", "array_equal", "array_equiv", "astype", "clip", "diff", "isclose", "nan_to_num", "round", "select",
    "sinc", "tri", "tril", "triu",
]  # fmt: skip


def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array:
    """``x`` where the condition is true (not zero), ``y`` elsewhere, with broadcasting and promotion."""
    dtype = result_dtype("where", (x, y))
    test = as_array(condition)
    test = test if test.dtype == BOOL else b.ne(test, b.zeros_like(test))
    return b.where(*align("where", [test, convert(x, dtype), convert(y, dtype)]))


@implements(np.select)
def select(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Any:
    """The first choice whose condition is true, else ``default``."""
    dtype = result_dtype("select", (*choicelist, default))
    result = convert(default, dtype)
    for place, condition in enumerate(condlist):
        if as_array(condition).dtype.kind != "b":
            raise DTypeError(f"select: condition {place} holds no bools", where=user_line(), fix="compare with !=")
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        result = where(condition, convert(choice, dtype), result)
    return result


@implements(np.clip)
def clip(
    x: Any, a_min: ArrayLike | None = None, a_max: ArrayLike | None = None, out: Out = None, *,
    min: ArrayLike | None = None, max: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Elements below ``a_min`` become ``a_min``, above ``a_max`` become ``a_max``; None is no bound."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    dtype = result_dtype("clip", [v for v in (x, low, high) if v is not None])
    low, high = _bounds_inside(dtype, low, high)
    x = convert(x, dtype)
    if low is not None:
        x = ew.maximum(x, convert(low, dtype))
    return x if high is None else ew.minimum(x, convert(high, dtype))


def _bounds_inside(
    dtype: NumPyType, low: ArrayLike | None, high: ArrayLike | None
) -> tuple[ArrayLike | None, ArrayLike | None]:
    """Python ints beyond the integer type of a result bound nothing."""
    if dtype.kind in "iu":
        limits = np.iinfo(cast(Any, dtype))
        low = None if type(low) is int and low <= limits.min else _inside(low, dtype)
        high = None if type(high) is int and high >= limits.max else _inside(high, dtype)
    return low, high


def _inside(bound: ArrayLike | None, dtype: NumPyType) -> ArrayLike | None:
    """A bound that the program computes as a Python int, moved to the nearest number of a type of integers."""
    if not isinstance(bound, (Tracer, TracedSize)) or weak_kind(bound) is not int or dtype == INT64:
        return bound
    limits, wide = np.iinfo(cast(Any, dtype)), strong(as_array(bound))
    above = ew.maximum(wide, np.int64(limits.min))
    return convert(above if dtype == UINT64 else ew.minimum(above, np.int64(limits.max)), dtype)


@implements(np.round, np.around)
def round(x: ArrayLike, decimals: int = 0, out: Out = None) -> Array:
    """Rounded to the nearest integer, ties to even; or to ``decimals`` decimal places, by scaling as NumPy does.

    Bools are rounded to float16, and to no decimal places (DTypeError).
    """
    x = compute_array("round", x)
    if kind_of(x.dtype) == "c":
        return b.complex(round(b.real(x), decimals), round(b.imag(x), decimals))
    if x.dtype == BOOL:
        if decimals:
            require_cast("round", FLOAT64, BOOL)
        return ew.rint(x)
    if kind_of(x.dtype) != "f" and decimals >= 0:
        return x
    if decimals == 0:
        return ew.rint(x)
    if kind_of(x.dtype) != "f":
        return convert(round(convert(x, FLOAT64), decimals), x.dtype)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return ew.divide(ew.rint(ew.multiply(x, scale)), scale)
    return ew.multiply(ew.rint(ew.divide(x, scale)), scale)


@implements(np.astype, gives="same")
def astype(
    x: ArrayLike, dtype: DTypeLike | None, order: str = "K", casting: str = "unsafe", subok: bool = True,
    copy: bool = True, device: str | None = None,
) -> Array:  # fmt: skip
    """The array with another element type, as ``ndarray.astype``; DTypeError where the rule ``casting`` forbids it."""
    x, target = as_array(x), np.dtype(dtype)
    known_dtype(target)
    require_cast("astype", x.dtype, target, casting)
    warn_of_lost_imaginary(x.dtype, target)
    if x.dtype != target:
        return b.cast(x, dtype=known_dtype(target))
    if isinstance(x, Tracer) and x.memory.access == NUMBER:
        return number(strong(x))
    return x.copy() if copy else strong(x)


@implements(np.nan_to_num, gives="view")
def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """nan replaced by a number, infinities by the largest finite numbers or by given ones; in place unless ``copy``."""
    given = compute_array("nan_to_num", x)
    result = _finite(given, nan, posinf, neginf)
    if not copy:
        return implementation("_write_result")(x, result, "nan_to_num")
    return result.renewed() if isinstance(result, Tracer) else result.copy() if result is x else result


def _finite(x: Array, nan: float, posinf: float | None, neginf: float | None) -> Array:
    if kind_of(x.dtype) == "c":
        return b.complex(*(_finite(component(x), nan, posinf, neginf) for component in (b.real, b.imag)))
    if kind_of(x.dtype) != "f":
        return x
    limits = ml_dtypes.finfo(x.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    x = where(ew.isnan(x), convert(nan, x.dtype), x)
    for limit, finite in ((-np.inf, low), (np.inf, high)):
        x = where(ew.equal(x, limit), convert(finite, x.dtype), x)
    return x


@implements(np.isclose)
def isclose(a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    """Whether |a - b| <= atol + rtol * |b|, elementwise; infinities are close to themselves."""
    y: Any = cast(Any, b) * 1.0 if is_weak(b) else ew.multiply(b, 1.0)
    near = ew.less_equal(ew.absolute(ew.subtract(a, y)), ew.add(ew.multiply(ew.absolute(y), rtol), atol))
    result = ew.logical_or(ew.logical_and(near, ew.isfinite(y)), ew.equal(a, b))  # inf * 1.0 of complex inf has a nan
    return ew.logical_or(result, ew.logical_and(ew.isnan(a), ew.isnan(y))) if equal_nan else result


@implements(np.allclose)
def allclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array | bool:
    """Whether all elements are close, a bool."""
    return _truth(reductions.all(isclose(a, b, rtol, atol, equal_nan)))


@implements(np.array_equal)
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array | bool:
    """Whether two arrays have one shape and equal elements, a bool."""
    x, y = as_array(a1), as_array(a2)
    if x.ndim != y.ndim or not all(ask(n, "==", m) for n, m in zip(dims_of(x), dims_of(y), strict=True)):
        return False
    same = ew.equal(x, y)
    if equal_nan:
        same = ew.logical_or(same, ew.logical_and(ew.isnan(x), ew.isnan(y)))
    return _truth(reductions.all(same))


@implements(np.array_equiv)
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array | bool:
    """Whether two arrays are equal when broadcast against each other, a bool; false where they do not fit.

    >>> array_equiv([1, 1], 1)
    True
    """
    x, y = as_array(a1), as_array(a2)
    for n, m in zip(reversed(dims_of(x)), reversed(dims_of(y)), strict=False):
        if not (n == 1 or m == 1 or ask(n, "==", m) or ask(n, "==", 1) or ask(m, "==", 1)):
            return False
    return _truth(reductions.all(ew.equal(x, y)))


def _truth(found: Array) -> Array | bool:
    """A truth as NumPy gives it here: Python's own."""
    return python_number(found) if isinstance(found, Tracer) else bool(found)


@implements(np.sinc)
def sinc(x: ArrayLike) -> Array:
    """sin(pi x) / (pi x), 1 at 0."""
    x = convert(x, result_dtype("sinc", (x, 1.0)))
    zero, angle = ew.equal(x, 0.0), ew.multiply(x, np.pi)
    safe = where(zero, 1.0, angle)
    near = ew.subtract(1.0, ew.divide(ew.multiply(angle, angle), 6.0))  # at 0 it has sinc's value and derivatives
    return where(zero, near, ew.divide(ew.sin(safe), safe))


@implements(np.diff)
def diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | Unset | None = None,
    append: ArrayLike | Unset | None = None,
) -> Array:  # fmt: skip
    """Differences of neighbours along an axis, ``n`` times; ``prepend`` and ``append`` are first joined to its ends.

    >>> diff([1, 3, 6], prepend=0)
    array([1, 2, 3])
    """
    x = compute_array("diff", a)
    if n < 0:
        raise ArgumentError(f"diff: {n} differences", where=user_line(), fix="use n >= 0")
    if n == 0:
        return x
    at = normal_axis("diff", axis, x.ndim)
    x = _between_ends(x, at, prepend, append)
    for _ in range(n):
        size = dims_of(x)[at]
        last = size - 1 if ask(size, ">=", 1) else size
        function = ew.not_equal if x.dtype.kind == "b" else ew.subtract
        x = function(cut(x, at, 1 if last != size else 0, size), cut(x, at, 0, last))
    return x


def _between_ends(x: Array, axis: int, first: Any, last: Any) -> Array:
    """The array joined along an axis between two others, None for none; a number is one slice."""
    joined = []
    for end in (first, x, last):
        if end is None or end is np._NoValue:
            continue
        array = as_array(end)
        shape = tuple(dim(1) if a == axis else n for a, n in enumerate(dims_of(x)))
        joined.append(array if array.ndim else spread(array, shape))
    return concatenate(joined, axis) if len(joined) > 1 else x


# --- triangles -------------------------------------------------------------------------------------------------


def _triangle_mask(shape: Sequence[Dim], k: Any) -> Array:
    """True where column <= row + k, for the last two sizes of ``shape``; a row is each row of a square."""
    if not shape:
        raise ShapeError("a triangle needs an array with axes, not a number", where=user_line(), fix="give a matrix")
    rows, columns = shape[0], shape[-1]
    row = b.broadcast(b.iota(size=rows, dtype=int64), shape=(rows, columns), axes=(0,))
    column = b.broadcast(b.iota(size=columns, dtype=int64), shape=(rows, columns), axes=(1,))
    return ew.less_equal(column, ew.add(row, k))


@implements(np.tril)
def tril(m: ArrayLike, k: UserSize = 0) -> Array:
    """The lower triangle of the last two axes, zeros above diagonal ``k``."""
    x = as_array(m)
    return where(_triangle_mask(dims_of(x)[-2:], k), x, np.zeros((), x.dtype))


@implements(np.triu)
def triu(m: ArrayLike, k: UserSize = 0) -> Array:
    """The upper triangle of the last two axes, zeros below diagonal ``k``."""
    x = as_array(m)
    return where(_triangle_mask(dims_of(x)[-2:], ew.subtract(k, 1)), np.zeros((), x.dtype), x)


@implements(np.tri)
def tri(N: Size, M: ArrayLike | None = None, k: Size = 0, dtype: DTypeLike = float, *, like: object = None) -> Array:
    """Ones at and below diagonal ``k``, zeros above."""
    shape = (size_dim(N), size_dim(N if M is None else M))
    return convert(_triangle_mask(shape, k), compute_dtype("tri", np.dtype(dtype)))
