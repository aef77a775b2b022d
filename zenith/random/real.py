"""Real numbers: the distributions that are one or two formulas of uniform numbers."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from zenith.errors import DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim
from zenith.ir.types import DTYPES, NumPyType, float32, float64, is_narrow
from zenith.numpy.broadcasting import broadcast_dims, same_shape, spread
from zenith.numpy.operands import as_array, convert, dims_of, shape_text, weak_kind
from zenith.numpy.typing import Array, ArrayLike, DTypeLike, Shape
from zenith.random.keys import checked_shape, high_half, low_half, mixed, word_of, words_of
from zenith.trace.bind import b

_ROOT_TWO = math.sqrt(2.0)
_NAMES = [t.numpy_name for t in DTYPES if t.is_float]
FLOATS = tuple(t.numpy for t in DTYPES if t.is_float)
FLOAT_NAMES = f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}"


def uniform(
    key: Array, shape: Shape = (), dtype: DTypeLike = np.float32, minval: ArrayLike = 0.0, maxval: ArrayLike = 1.0
) -> Array:
    """Numbers of ``minval <= x < maxval``, equally likely.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    shape: a size or a tuple of sizes, which may be traced.
    dtype: float16, bfloat16, float32 or float64. There are 2**23 or 2**52 different numbers; those of 16 bits are
        float32's, rounded, but never to 1.
    minval, maxval: numbers or arrays that broadcast to ``shape``.

    Returns
    -------
    Array of ``shape``. Between 0 and 1 it has the bits of ``jax.random.uniform``; between other bounds an element may
    differ by one unit in the last place, and rounding may make it ``maxval``.

    Raises
    ------
    DTypeError: other element types. ShapeError: bounds that do not broadcast to ``shape``.

    >>> from zenith.random import key
    >>> uniform(key(0), (2,), minval=-1.0)
    array([0.895334  , 0.95715976], dtype=float32)
    """
    target = float_dtype("uniform", dtype)
    sizes, wide = checked_shape("uniform", shape), computed_in(target)
    unit = unit_interval(words_of(word_of("uniform", key), sizes), wide)
    if _is_number(minval, 0) and _is_number(maxval, 1):
        return unit if wide == target else b.minimum(convert(unit, target), _below_one(target))
    low, high = (fitted("uniform", bound, wide, sizes) for bound in (minval, maxval))
    return convert(between(unit, low, high), target)


def normal(key: Array, shape: Shape = (), dtype: DTypeLike = np.float32) -> Array:
    """Numbers of the normal distribution with mean 0 and variance 1: ``sqrt(2) erfinv(u)`` for u between -1 and 1.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    shape: a size or a tuple of sizes, which may be traced.
    dtype: float16, bfloat16, float32 or float64; those of 16 bits are float32's, rounded.

    Returns
    -------
    Array of ``shape``: at most 4 units in the last place from the exact value for u in float32, 3 in float64.
    ``jax.random`` takes the same u; its numbers are within 1e-5 (1 + abs(x)) in float32, since its erfinv is rougher.

    >>> from zenith.random import key
    >>> normal(key(0), (3,)).round(3)
    array([ 1.623,  2.025, -0.434], dtype=float32)
    """
    target = float_dtype("normal", dtype)
    words = words_of(word_of("normal", key), checked_shape("normal", shape))
    return convert(normal_of(words, computed_in(target)), target)


def normal_of(word: Array, dtype: NumPyType) -> Array:
    """The normal numbers of words, in float32 or float64."""
    return b.mul(b.erfinv(symmetric_unit(word, dtype)), _ROOT_TWO)


def symmetric_unit(word: Array, dtype: NumPyType) -> Array:
    """Words as numbers between -1 and 1, both excluded."""
    lowest = float(np.nextafter(dtype.type(-1), dtype.type(0)))
    return b.add(b.mul(unit_interval(word, dtype), 2.0), lowest)


def truncated_normal(
    key: Array, lower: ArrayLike, upper: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = np.float32
) -> Array:
    """Numbers of the normal distribution that are between ``lower`` and ``upper``.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    lower, upper: numbers or arrays, in units of the standard deviation.
    shape: a size or a tuple of sizes; by default that of the broadcast bounds.
    dtype: float16, bfloat16, float32 or float64; those of 16 bits are float32's, rounded.

    Returns
    -------
    Array of ``shape``, clipped to the bounds. Between bounds that are both far out in one tail, where erf of them is
    nearly 1, numbers become coarse: beyond 5 in float32 and 8 in float64 there are only the bounds.

    >>> from zenith.random import key
    >>> truncated_normal(key(0), -1.0, 1.0, (3,)).round(3)
    array([ 0.862,  0.941, -0.291], dtype=float32)
    """
    target = float_dtype("truncated_normal", dtype)
    wide = computed_in(target)
    low, high = (convert(bound, wide) for bound in (lower, upper))
    sizes = shape_or("truncated_normal", shape, (low, high))
    low, high = (fitted("truncated_normal", bound, wide, sizes) for bound in (low, high))
    unit = unit_interval(words_of(word_of("truncated_normal", key), sizes), wide)
    u = between(unit, *(b.erf(b.div(bound, _ROOT_TWO)) for bound in (low, high)))
    inside = float(np.nextafter(np.ones((), wide), 0))  # erfinv of 1 is infinite
    normal = b.mul(b.erfinv(b.minimum(b.maximum(u, -inside), inside)), _ROOT_TWO)
    return convert(b.minimum(b.maximum(normal, low), high), target)


def exponential(key: Array, shape: Shape = (), dtype: DTypeLike = np.float32) -> Array:
    """Numbers of the exponential distribution with mean 1: ``-log1p(-u)`` for u between 0 and 1.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    shape: a size or a tuple of sizes, which may be traced.
    dtype: float16, bfloat16, float32 or float64; those of 16 bits are float32's, rounded.

    Returns
    -------
    Array of ``shape``: 2 units in the last place from the exact value for u, 4 from ``jax.random``'s.

    >>> from zenith.random import key
    >>> exponential(key(0), (3,)).round(3)
    array([2.95 , 3.843, 0.404], dtype=float32)
    """
    target = float_dtype("exponential", dtype)
    words = words_of(word_of("exponential", key), checked_shape("exponential", shape))
    u = unit_interval(words, computed_in(target))
    return convert(b.neg(b.log1p(b.neg(u))), target)


def gumbel(key: Array, shape: Shape = (), dtype: DTypeLike = np.float32) -> Array:
    """Numbers of the Gumbel distribution: ``-log(-log(u))`` for u between 0 and 1, the smallest normal number if 0.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    shape: a size or a tuple of sizes, which may be traced.
    dtype: float16, bfloat16, float32 or float64; those of 16 bits are float32's, rounded.

    Returns
    -------
    Array of ``shape``. Both logarithms err by 2 units in the last place of their results at most; ``jax.random``'s
    numbers are within 1e-6 (1 + abs(x)) in float32.

    >>> from zenith.random import key
    >>> gumbel(key(0), (3,)).round(3)
    array([ 2.923,  3.833, -0.097], dtype=float32)
    """
    target = float_dtype("gumbel", dtype)
    words = words_of(word_of("gumbel", key), checked_shape("gumbel", shape))
    return convert(gumbel_of(words, computed_in(target)), target)


def gumbel_of(word: Array, dtype: np.dtype[Any]) -> Array:
    """The Gumbel numbers of words, in float32 or float64."""
    u = b.maximum(unit_interval(word, dtype), float(np.finfo(dtype).tiny))
    return b.neg(b.log(b.neg(b.log(u))))


# --- from words to numbers -------------------------------------------------------------------------------------


def unit_interval(word: Array, dtype: NumPyType) -> Array:
    """Words as multiples of 2**-23 or 2**-52 in ``0 <= x < 1``: every step is exact."""
    if dtype == np.float32:
        return b.mul(b.cast(b.shift_right(mixed(word), 9), dtype=float32), 2.0**-23)
    high = b.mul(b.cast(high_half(word), dtype=float64), 2.0**-32)
    return b.add(high, b.mul(b.cast(b.shift_right(low_half(word), 12), dtype=float64), 2.0**-52))


def between(unit: Array, low: ArrayLike, high: ArrayLike) -> Array:
    """``unit (high - low) + low``. For float32 the product is exact in float64, so that it is not rounded."""
    span = b.sub(high, low)
    if unit.dtype == np.float32:
        wide = b.mul(b.cast(unit, dtype=float64), b.cast(span, dtype=float64))
        moved = b.cast(b.add(wide, b.cast(low, dtype=float64)), dtype=float32)
    else:
        moved = b.add(b.mul(unit, span), low)
    return b.maximum(low, moved)


# --- arguments -------------------------------------------------------------------------------------------------


def float_dtype(name: str, dtype: DTypeLike | None) -> NumPyType:
    """An element type that ``name`` can return; DTypeError for others."""
    target = np.dtype(dtype)
    if target not in FLOATS:
        raise DTypeError(f"{name} gives {FLOAT_NAMES}, not {target}", where=user_line(), fix="cast the result")
    return target


def computed_in(dtype: NumPyType) -> NumPyType:
    """The element type in which numbers of ``dtype`` are computed: float32 for 16-bit floats."""
    return float32.numpy if is_narrow(dtype) else dtype


def floats(what: str, value: ArrayLike) -> Array:
    """Floating-point parameters of a distribution, in the type it computes in; DTypeError for others."""
    x = convert(value, float32.numpy) if weak_kind(value) else as_array(value)
    if x.dtype not in FLOATS:
        raise DTypeError(f"{what} {FLOAT_NAMES}, not {x.dtype}", where=user_line(), fix="cast first")
    return convert(x, computed_in(x.dtype))


def _below_one(dtype: NumPyType) -> float:
    """The largest number below 1."""
    return 1.0 - float(ml_dtypes.finfo(dtype).eps) / 2


def fitted(name: str, value: ArrayLike, dtype: NumPyType, shape: tuple[Dim, ...]) -> Array:
    """A parameter repeated to ``shape``; ShapeError when it does not broadcast to it."""
    x = convert(value, dtype)
    if not same_shape(broadcast_dims(name, [shape, dims_of(x)]), shape):
        raise ShapeError(
            f"{name}: a parameter of shape {shape_text(dims_of(x))} does not broadcast to {shape_text(shape)}",
            where=user_line(),
            fix="give shape= all axes of the parameters",
        )
    return spread(x, shape)


def shape_or(name: str, shape: Shape | None, parameters: tuple[Any, ...]) -> tuple[Dim, ...]:
    """The user's shape, or without one that of the broadcast parameters."""
    return broadcast_dims(name, [dims_of(p) for p in parameters]) if shape is None else checked_shape(name, shape)


def _is_number(value: object, number: int) -> bool:
    return isinstance(value, (int, float)) and value == number
