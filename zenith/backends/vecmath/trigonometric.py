"""Trigonometric functions, in float64 lanes for float32 arguments.

An argument loses its quarter turns to pi / 2 as a sum of several floats (W. Cody and W. Waite, Software Manual for the
Elementary Functions, 1980). For a float32 two float64 are enough: no float32 below ``FAR`` is nearer to a multiple of
pi / 2 than their errors are small. A float64 needs three, with all rounding errors kept; what remains is a pair of
floats, as the multiples of pi / 2 nearest to a float agree with it in up to 62 more bits.

The number of quarter turns is rounded by adding a large constant, whose sum has it in its low bits: moved to the top
they are a float, with the sign of the result, that is zero after an even number of turns.
"""

from __future__ import annotations

import math

from zenith.backends.vecmath import double_length as pair
from zenith.backends.vecmath.double_length import Pair
from zenith.backends.vecmath.formats import FORMATS
from zenith.backends.vecmath.ops import Ops, Value, polynomial

# sin(r) / r and cos(r) in powers of r**2 for |r| <= 0.7856; relative errors 2^-28.2 and 2^-34.1.
SINE = (0.9999999967550723, -0.16666650198731867, 0.008332015095733433, -0.00019501647796583467)
COSINE = (0.9999999999437882, -0.49999999570651615, 0.04166661314927336, -0.0013886526680262695, 2.4372456195758432e-05)
# (sin(r) - r) / r**3 and (cos(r) - 1 + r**2 / 2) / r**4 in powers of r**2 for |r| <= 0.7875; relative errors of the
# functions 2^-57.7 and 2^-63.1.
SINE_TAIL = (
    -0.1666666666666664,
    0.008333333333323817,
    -0.00019841269830601178,
    2.755731389573099e-06,
    -2.5050782347431187e-08,
    1.5897874341719672e-10,
)
COSINE_TAIL = (
    0.04166666666666665,
    -0.0013888888888881333,
    2.4801587293284522e-05,
    -2.755731530246303e-07,
    2.087583695066334e-09,
    -1.1364897695109342e-11,
)
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
"""pi / 2 as a sum of three float64."""
FAR = 2.0**30
"""Arguments from here on are left to the C library: their reduction needs a thousand bits of pi."""


def _quarters(d: Ops, x: Value) -> tuple[Value, Value]:
    """The quarter turns nearest to x, and an integer that has their number in its low bits."""
    magic = d.const(FORMATS["float64"].round_magic)
    shifted = d.fma(x, d.const(2.0 / math.pi), magic)
    return d.sub(shifted, magic), d.bitcast_int(shifted)


def _reduce_float32(d: Ops, x: Value, quarters: Value) -> Value:
    """For a widened float32, |x| < FAR: r of x = quarters pi / 2 + r."""
    return d.fma(quarters, d.const(-HALF_PI[1]), d.fma(quarters, d.const(-HALF_PI[0]), x))


def _sine_cosine(d: Ops, r: Value) -> tuple[Value, Value]:
    """sin and cos of |r| <= pi / 4, for float32 results."""
    square = d.mul(r, r)
    return d.mul(r, polynomial(d, square, SINE)), polynomial(d, square, COSINE)


def _reduce_float64(k: Ops, x: Value, quarters: Value) -> Pair:
    """The same for a float64, as a pair."""
    first, second, third = (pair.multiply(k, quarters, k.const(part)) for part in HALF_PI)
    near, error = pair.add(k, k.sub(x, first[0]), k.neg(first[1]))  # the difference is exact: they are neighbours
    rest, second_error = pair.add(k, near, k.neg(second[0]))
    low = k.sub(k.sub(k.add(second_error, error), second[1]), third[0])
    return pair.add_smaller(k, rest, low)


def _sine_cosine_of_pair(k: Ops, r: Pair) -> tuple[Value, Value]:
    """sin and cos of r, |r| <= pi / 4; the second part of r counts by the derivatives."""
    high, low = r
    square = k.mul(high, high)
    half = k.mul(square, k.const(0.5))
    curved = k.mul(k.mul(high, square), polynomial(k, square, SINE_TAIL))
    sine = k.add(high, k.add(curved, k.fma(k.neg(half), low, low)))
    near_one = k.sub(k.const(1.0), half)
    error = k.sub(k.sub(k.const(1.0), near_one), half)
    tail = k.fma(k.mul(square, square), polynomial(k, square, COSINE_TAIL), k.fma(k.neg(high), low, error))
    return sine, k.add(near_one, tail)


def _remainder(k: Ops, x: Value) -> tuple[Value, Value, Value]:
    """The number of quarter turns nearest to x, as the low bits of an integer, and sine and cosine of what remains."""
    d, wide = k.double, k.widen(x)
    quarters, number = _quarters(d, wide)
    if k.dtype == "float64":
        return number, *_sine_cosine_of_pair(k, _reduce_float64(k, x, quarters))
    return number, *_sine_cosine(d, _reduce_float32(d, wide, quarters))


def _turned(d: Ops, number: Value, sine: Value, cosine: Value) -> Value:
    """The sine after so many quarter turns: the other function after an odd one, negative in the third and fourth."""
    turns = _turns(d, number)
    result = d.select(_is_odd(d, turns), cosine, sine)
    return d.mul(result, d.copysign(d.const(1.0), turns))


def _turns(d: Ops, number: Value) -> Value:
    """The last two bits of a number of turns as the sign of a float, and as the first bit of its exponent."""
    return d.bitcast_float(d.shl(number, 62))


def _is_odd(d: Ops, turns: Value) -> Value:
    """Whether the last bit is set, with which the exponent begins."""
    return d.lt(d.const(1.0), d.abs(turns))


def _result(k: Ops, function: str, x: Value, near: Value) -> Value:
    """The function's value from that for numbers below FAR, in float64."""
    d, wide = k.double, k.widen(x)
    return k.narrow(d.rarely(d.le(d.const(FAR), d.abs(wide)), function, wide, near))


def _keep_zero(k: Ops, x: Value, result: Value) -> Value:
    """The sign of a zero, which the reduction loses."""
    return k.select(k.eq(x, k.const(0.0)), x, result)


def sin(k: Ops, x: Value) -> Value:
    """Sine of an angle in radians."""
    return _keep_zero(k, x, _result(k, "sin", x, _turned(k.double, *_remainder(k, x))))


def cos(k: Ops, x: Value) -> Value:
    """Cosine of an angle in radians."""
    d, (number, sine, cosine) = k.double, _remainder(k, x)
    return _result(k, "cos", x, _turned(d, d.iadd(number, d.int_const(1)), sine, cosine))


def tan(k: Ops, x: Value) -> Value:
    """Tangent of an angle in radians: sin r / cos r, or -cos r / sin r after an odd number of quarters."""
    d, (number, sine, cosine) = k.double, _remainder(k, x)
    odd = _is_odd(d, _turns(d, number))
    quotient = d.div(d.select(odd, d.neg(cosine), sine), d.select(odd, sine, cosine))
    return _keep_zero(k, x, _result(k, "tan", x, quotient))
