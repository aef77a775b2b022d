"""Real numbers: the distributions that one or two formulas make of uniform ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.errors import DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim
from zenith.ir.types import float32, float64
from zenith.numpy.operands import broadcast_dims, convert, dims_of, shape_text, spread
from zenith.random.keys import checked_shape, high_half, low_half, mixed, word_of, words_of
from zenith.trace.bind import b

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def uniform(key: Any, shape: Any = (), dtype: Any = np.float32, minval: Any = 0.0, maxval: Any = 1.0) -> Any:
    """Numbers of ``minval <= x < maxval``, equally likely.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    shape: a size or a tuple of sizes, which may be traced.
    dtype: float32 or float64. There are 2**23 or 2**52 different numbers.
    minval, maxval: numbers or arrays that broadcast to ``shape``.

    Returns
    -------
    Array of ``shape``. Between 0 and 1 it has the bits of ``jax.random.uniform``; between other bounds an element may
    differ by one unit in the last place, and rounding may make it ``maxval``.

    Raises
    ------
    DTypeError for other element types, ShapeError when bounds do not broadcast to ``shape``.

    >>> from zenith.random import key
    >>> uniform(key(0), (2,), minval=-1.0)
    array([0.895334  , 0.95715976], dtype=float32)
    """
    target = float_dtype("uniform", dtype)
    sizes = checked_shape("uniform", shape)
    unit = unit_interval(words_of(word_of("uniform", key), sizes), target)
    if _is_number(minval, 0) and _is_number(maxval, 1):
        return unit
    low, high = (fitted("uniform", bound, target, sizes) for bound in (minval, maxval))
    return between(unit, low, high)


def unit_interval(word: Any, dtype: np.dtype[Any]) -> Any:
    """Words as multiples of 2**-23 or 2**-52 in ``0 <= x < 1``: every step is exact."""
    if dtype == np.float32:
        return b.mul(b.cast(b.shift_right(mixed(word), 9), dtype=float32), 2.0**-23)
    high = b.mul(b.cast(high_half(word), dtype=float64), 2.0**-32)
    return b.add(high, b.mul(b.cast(b.shift_right(low_half(word), 12), dtype=float64), 2.0**-52))


def between(unit: Any, low: Any, high: Any) -> Any:
    """``unit (high - low) + low``. In float64 the product is exact for float32, so that nobody rounds it."""
    span = b.sub(high, low)
    if unit.dtype == np.float32:
        wide = b.mul(b.cast(unit, dtype=float64), b.cast(span, dtype=float64))
        moved = b.cast(b.add(wide, b.cast(low, dtype=float64)), dtype=float32)
    else:
        moved = b.add(b.mul(unit, span), low)
    return b.maximum(low, moved)


# --- arguments -------------------------------------------------------------------------------------------------


def float_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    """An element type that ``name`` can give; DTypeError for others."""
    target = np.dtype(dtype)
    if target not in FLOATS:
        raise DTypeError(f"{name} gives float32 or float64, not {target}", where=user_line(), fix="cast the result")
    return target


def fitted(name: str, value: Any, dtype: np.dtype[Any], shape: tuple[Dim, ...]) -> Any:
    """A parameter repeated to ``shape``; ShapeError when it has sizes that ``shape`` has not."""
    x = convert(value, dtype)
    if broadcast_dims(name, [shape, dims_of(x)]) != shape:
        raise ShapeError(
            f"{name}: a parameter of shape {shape_text(dims_of(x))} does not broadcast to {shape_text(shape)}",
            where=user_line(),
            fix="give shape= all axes of the parameters",
        )
    return spread(x, shape)


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, (int, float)) and value == number
