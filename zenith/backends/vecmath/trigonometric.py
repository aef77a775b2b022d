"""Trigonometric functions, in float64 lanes for float32 arguments.

An argument is reduced to a fraction of a turn, ``x / (2 pi) mod 1``, without a branch and for every float32 up to
2**128. The number 1 / (2 pi) is cut into pieces of 28 bits: the product of a piece and a 24-bit float is exact in
float64, and so is what remains when its nearest integer is dropped. The remainders are added from the coarsest to the
finest after the nearest quarter turn has been taken off, so that the result keeps full relative accuracy next to the
multiples of pi / 2. (The method of M. Payne and R. Hanek, SIGNUM Newsletter 18, 1983, with floats for integers.)

A float64 argument loses its quarter turns to pi / 2 as a sum of three floats, with all rounding errors kept (W. Cody
and W. Waite, Software Manual for the Elementary Functions, 1980); what remains is a pair of floats, as the multiples of
pi / 2 nearest to a float agree with it in up to 62 more bits.
"""

from __future__ import annotations

import math

from zenith.backends.vecmath import double_length as pair
from zenith.backends.vecmath.double_length import Pair
from zenith.backends.vecmath.ops import Ops, Value, polynomial

# The first 196 bits of 1 / (2 pi): piece i counts units of 2**(-28 (i + 1)).
INVERSE_TURN_BITS = 28
INVERSE_TURN = (42722829, 194220293, 78114973, 99908941, 58131309, 145057359, 17711367)
PIECES_ABOVE_ONE = 5
"""A float32 times any later piece stays far below one turn, so that there is no integer to drop."""

# sin(pi/2 f) / f and cos(pi/2 f) in powers of f**2 for |f| <= 0.5001; relative errors 2^-37.7 and 2^-34.1.
SINE = (1.5707963267877363, -0.6459640961002013, 0.07969258178999761, -0.004681260233451737, 0.00015819417532985324)
COSINE = (0.999999999943824, -1.2337005395476468, 0.25366918220091933, -0.02085993315995301, 0.0009033565630028199)
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
"""float64 arguments from here on are left to the C library: their reduction needs a thousand bits of pi."""


def _reduce_float32(d: Ops, x: Value) -> tuple[Value, Value]:
    """For a widened float32, x = (q + f) pi / 2 modulo a turn: returns an integral q of few bits and |f| <= 1/2."""
    pieces = [value * 2.0 ** (-INVERSE_TURN_BITS * (i + 1)) for i, value in enumerate(INVERSE_TURN)]
    turns = []
    for piece in pieces[:PIECES_ABOVE_ONE]:
        product = d.mul(x, d.const(piece))
        turns.append(d.sub(product, d.rint(product)))
    rough = turns[0]
    for turn in turns[1:]:
        rough = d.add(rough, turn)
    quarters = d.rint(d.mul(rough, d.const(4.0)))
    rest = d.fma(quarters, d.const(-0.25), turns[0])
    for turn in turns[1:]:
        rest = d.add(rest, turn)
    for piece in pieces[PIECES_ABOVE_ONE:]:
        rest = d.fma(x, d.const(piece), rest)
    return quarters, d.mul(rest, d.const(4.0))


def _sine_cosine(d: Ops, f: Value) -> tuple[Value, Value]:
    """sin and cos of f quarter turns, |f| <= 1/2."""
    square = d.mul(f, f)
    return d.mul(f, polynomial(d, square, SINE)), polynomial(d, square, COSINE)


def _quadrant(d: Ops, q: Value) -> tuple[Value, Value]:
    """For an integral q: whether it is odd, and whether sin((q + f) pi / 2) is negative for small f > 0."""
    position = d.fma(d.rint(d.mul(q, d.const(0.25))), d.const(-4.0), q)  # -2, -1, 0, 1 or 2
    odd = d.eq(d.abs(position), d.const(1.0))
    return odd, d.either(d.lt(position, d.const(0.0)), d.lt(d.const(1.5), position))


def _reduce_float64(k: Ops, x: Value) -> tuple[Value, Pair]:
    """x = q pi / 2 + r for |x| < FAR: returns an integral q and r, which is at most pi / 4, as a pair."""
    quarters = k.rint(k.mul(x, k.const(2.0 / math.pi)))
    first, second, third = (pair.multiply(k, quarters, k.const(part)) for part in HALF_PI)
    near, error = pair.add(k, k.sub(x, first[0]), k.neg(first[1]))  # the difference is exact: they are neighbours
    rest, second_error = pair.add(k, near, k.neg(second[0]))
    low = k.sub(k.sub(k.add(second_error, error), second[1]), third[0])
    return quarters, pair.add_smaller(k, rest, low)


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
    """The quarter turns nearest to x, and sine and cosine of what remains, in float64."""
    if k.dtype == "float64":
        quarters, r = _reduce_float64(k, x)
        return quarters, *_sine_cosine_of_pair(k, r)
    quarters, f = _reduce_float32(k.double, k.widen(x))
    return quarters, *_sine_cosine(k.double, f)


def _result(k: Ops, function: str, x: Value, near: Value) -> Value:
    """The function's value from that for numbers which are no float64 of FAR and beyond."""
    near = k.narrow(near)
    return k.rarely(k.le(k.const(FAR), k.abs(x)), function, x, near) if k.dtype == "float64" else near


def _turned(d: Ops, quarters: Value, sine: Value, cosine: Value) -> Value:
    """The sine after these quarter turns."""
    odd, negative = _quadrant(d, quarters)
    result = d.select(odd, cosine, sine)
    return d.select(negative, d.neg(result), result)


def _keep_zero(k: Ops, x: Value, result: Value) -> Value:
    """The sign of a zero, which the reduction loses."""
    return k.select(k.eq(x, k.const(0.0)), x, result)


def sin(k: Ops, x: Value) -> Value:
    """Sine of an angle in radians."""
    return _keep_zero(k, x, _result(k, "sin", x, _turned(k.double, *_remainder(k, x))))


def cos(k: Ops, x: Value) -> Value:
    """Cosine of an angle in radians."""
    d, (quarters, sine, cosine) = k.double, _remainder(k, x)
    return _result(k, "cos", x, _turned(d, d.add(quarters, d.const(1.0)), sine, cosine))


def tan(k: Ops, x: Value) -> Value:
    """Tangent of an angle in radians: sin r / cos r, or -cos r / sin r after an odd number of quarters."""
    d, (quarters, sine, cosine) = k.double, _remainder(k, x)
    odd, _ = _quadrant(d, quarters)
    quotient = d.div(d.select(odd, d.neg(cosine), sine), d.select(odd, sine, cosine))
    return _keep_zero(k, x, _result(k, "tan", x, quotient))
