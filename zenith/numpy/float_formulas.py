"""Formulas over the bits of numbers: exponents and mantissas, scaling by powers of two, neighbours, lcm.

Operands are arrays of one element type and shape. 16-bit floats are computed with in float32, which represents them and
the middle between any two.
"""

from __future__ import annotations

import ml_dtypes

from zenith.ir.types import DType, NumPyType, float16, float32, int32, int64
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import array_type, b, known_dtype


def _full(value: float, x: Array) -> Array:
    model = array_type(x)
    return b.full(value, model.dtype, model.shape)


def lcm(x: Array, y: Array) -> Array:
    """|x| / gcd * |y|; 0 where both are 0."""
    divisor = b.gcd(x, y)
    safe = b.where(b.eq(divisor, 0), _full(1, x), divisor)  # the smallest integer's divisor by itself is negative
    signed = _element(x).kind == "i"
    x, y = (b.abs(v) if signed else v for v in (x, y))
    return b.mul(b.floor_divide(x, safe), y)


# --- the bits of a number --------------------------------------------------------------------------------------


def _element(x: Array) -> DType:
    return array_type(x).dtype


def wide(x: Array) -> Array:
    """A number in a type whose bits can be read: 16-bit floats in float32."""
    return b.cast(x, dtype=float32) if _element(x).is_narrow else x


def _format(x: Array) -> tuple[int, int, DType]:
    """Bits of the mantissa, bias of the exponent, and the integer type of float32 or float64."""
    info = ml_dtypes.finfo(x.dtype)
    return info.nmant, 1 - info.minexp, int32 if _element(x) == float32 else int64


def _power_of_two(exponent: ArrayLike, like: Array) -> Array:
    """2 to an integer power inside the normal range."""
    bits, bias, whole = _format(like)
    return b.bits_float(b.shift_left(b.add(b.cast(exponent, dtype=whole), bias), bits))


def decompose(x: Array) -> tuple[Array, Array]:
    """The exponent e and the mantissa of float32 or float64 numbers: x = mantissa * 2**e, 1/2 <= |mantissa| < 1.

    What is subnormal is made larger first. Zeros and what is not finite are their own mantissas, with exponent 0.
    """
    bits, bias, _ = _format(x)
    small = b.lt(b.abs(x), float(ml_dtypes.finfo(x.dtype).tiny))
    pattern = b.float_bits(b.where(small, b.mul(x, 2.0 ** (bits + 1)), x))
    mask = (1 << (2 * bias + 1).bit_length()) - 1
    field = b.bit_and(b.shift_right(pattern, bits), mask)
    rest = b.bit_and(pattern, ~(mask << bits))
    plain = b.bit_and(b.lt(b.abs(x), float("inf")), b.ne(x, 0.0))
    mantissa = b.where(plain, b.bits_float(b.bit_or(rest, (bias - 1) << bits)), x)
    lifted = b.where(small, _full(bits + 1, field), b.zeros_like(field))
    exponent = b.sub(b.sub(field, bias - 1), lifted)
    return b.where(plain, exponent, b.zeros_like(exponent)), mantissa


def scaled(x: Array, n: ArrayLike) -> Array:
    """x 2**n by three factors in range; downwards the first two leave all bits above those that are cut off."""
    bits, bias, _ = _format(x)
    up, down = bias, 1 - bias + bits + 1
    for _ in range(2):
        high, low = b.gt(n, up), b.lt(n, 1 - bias)
        factor = b.where(low, _full(2.0**down, x), _full(1.0, x))
        x = b.mul(x, b.where(high, _full(2.0**up, x), factor))
        n = b.where(high, b.sub(n, up), b.where(low, b.sub(n, down), n))
    return b.mul(x, _power_of_two(b.minimum(b.maximum(n, 1 - bias), up), x))


# --- neighbours ------------------------------------------------------------------------------------------------


def _gap(x: Array, narrow: NumPyType) -> Array:
    """The distance from |x| to the next larger number of the type ``narrow``, for x in a type that represents it."""
    info = ml_dtypes.finfo(narrow)
    exponent, _ = decompose(x)
    low = _full(info.minexp, exponent)
    power = b.where(b.eq(x, 0.0), low, b.maximum(b.sub(exponent, 1), low))
    return scaled(_full(1.0, x), b.sub(power, info.nmant))


def nextafter(x: Array, y: Array) -> Array:
    """The number next to x in the direction of y: for one with its own bits, the pattern one above or below."""
    if _element(x).is_narrow:
        return b.cast(_narrow_neighbour(wide(x), wide(y), x.dtype), dtype=known_dtype(x.dtype))
    pattern = b.float_bits(x)
    one = _full(1, pattern)
    away = b.eq(b.lt(x, y), b.lt(b.zeros_like(x), x))
    neighbour = b.bits_float(b.where(away, b.add(pattern, one), b.sub(pattern, one)))
    neighbour = b.where(b.eq(x, 0.0), b.copysign(b.bits_float(one), y), neighbour)
    return _or_operands(x, y, neighbour)


def _or_operands(x: Array, y: Array, neighbour: Array) -> Array:
    """The neighbour; ``y`` where both are equal, nan where one is."""
    ordered = b.bit_and(b.eq(x, x), b.eq(y, y))
    return b.where(ordered, b.where(b.eq(x, y), y, neighbour), b.add(x, y))


def _narrow_neighbour(x: Array, y: Array, narrow: NumPyType) -> Array:
    """By arithmetic in float32, which is exact: a gap on, below a power of two half a gap."""
    info = ml_dtypes.finfo(narrow)
    gap = _gap(x, narrow)
    away = b.eq(b.lt(x, y), b.lt(b.zeros_like(x), x))
    exponent, mantissa = decompose(x)
    border = b.bit_and(b.eq(b.abs(mantissa), 0.5), b.gt(exponent, info.minexp + 1))
    step = b.where(away, gap, b.neg(b.where(border, b.mul(gap, 0.5), gap)))
    neighbour = b.copysign(b.add(b.abs(x), step), x)
    neighbour = b.where(b.eq(x, 0.0), b.copysign(gap, y), neighbour)
    neighbour = b.where(b.eq(b.abs(x), float("inf")), b.copysign(_full(float(info.max), x), x), neighbour)
    return _or_operands(x, y, neighbour)


def spacing(x: Array) -> Array:
    """The distance from x to the next number away from 0, with the sign of x; of float16 to the next larger one.

    That is how NumPy has them.
    """
    infinity = _full(float("inf"), x)
    upwards = b.where(b.lt(b.abs(x), infinity), infinity, x)
    outwards = upwards if _element(x) == float16 else b.where(b.lt(x, 0.0), b.neg(infinity), infinity)
    return b.sub(nextafter(x, outwards), x)
