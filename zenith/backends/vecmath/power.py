"""Powers and the cube root.

A float32 power is ``2**(y log2 |x|)`` in float64 lanes: the product reaches 150, so the logarithm needs about 35 bits,
which short polynomials give. In float64 it reaches 1075, and the logarithm is a pair of floats (``double_length``).
"""

from __future__ import annotations

from zenith.backends.vecmath import double_length as pair
from zenith.backends.vecmath.double_length import Pair
from zenith.backends.vecmath.exponential import EXPM1, nearest_integer, power_of_two, scale
from zenith.backends.vecmath.formats import FORMATS, SplitConstant
from zenith.backends.vecmath.logarithm import small_int_to_float, split_any_mantissa, split_mantissa
from zenith.backends.vecmath.ops import Ops, Value, at_least, at_most, polynomial

# (log((1 + s) / (1 - s)) - 2 s) / s**3 in powers of s**2, for |s| <= 0.1725; relative error 2^-44.9.
LOG_ODD = (0.6666666667628075, 0.39999995436743796, 0.2857213086123453, 0.2217520259656843, 0.19599393685484362)
# 2**f for |f| <= 1/2; relative error 2^-32.4.
EXP2 = (
    0.9999999999616334,
    0.6931471820648564,
    0.24022651203100823,
    0.055504090760785184,
    0.009618011442094164,
    0.001333376419357621,
    0.000154767089846087,
    1.5399747723257516e-05,
)
# (artanh(s) / s - 1 - z / 3) / z**2 in powers of z = s**2, for |s| <= 0.1717; error 2^-72.8 of artanh(s) / s.
LOG_TAIL = (
    0.19999999999999998,
    0.1428571428571743,
    0.11111111109837492,
    0.09090909320168436,
    0.07692285419131253,
    0.06667916637565498,
    0.05841879238381846,
    0.05960374360371822,
)
THIRD = SplitConstant(0.3333333333333333, 1.850371707708594e-17)
TWICE_LOG2E = SplitConstant(2.8853900817779268, 4.0710547481862066e-17)
LARGEST_EXPONENT = 2.0**65
"""A larger exponent gives 0, 1 or infinity, as this does: no float is nearer to 1 than 2**-53."""

# cbrt(t) for t in [0.3535, 2.8285]; relative error 2^-10.5, which one step of Halley's iteration makes 2^-32.
CUBE_ROOT = (0.4151363, 1.0523907, -0.76114416, 0.3870176, -0.10448452, 0.011282848)


def pow(k: Ops, x: Value, y: Value) -> Value:
    """x to the power y, with the special cases of IEEE 754: x**0 and 1**y are 1 even for NaN."""
    d, base, exponent = k.double, k.widen(x), k.widen(y)
    one = d.const(1.0)
    if k.dtype == "float64":
        size = _exp2_of_pair(k, _scaled_log2(k, k.abs(x), y))
    else:
        size = _exp2(d, d.mul(exponent, _log2(d, d.abs(base))))
    is_unit = d.eq(d.abs(base), one)
    size = d.select(d.both(is_unit, d.eq(exponent, exponent)), one, size)  # also for an infinite exponent
    result = _signed(d, size, base, exponent)
    trivial = d.either(d.eq(base, one), d.eq(exponent, d.const(0.0)))
    return k.narrow(d.select(trivial, one, result))


def _signed(d: Ops, size: Value, base: Value, exponent: Value) -> Value:
    """|base|**exponent with its sign: a negative base needs an integral exponent, and an odd one keeps the sign."""
    integral = d.eq(d.rint(exponent), exponent)
    half = d.mul(exponent, d.const(0.5))
    odd = d.both(integral, d.lt(d.abs(d.sub(half, d.rint(half))), d.const(1.0)))
    odd = d.both(odd, d.lt(d.const(0.25), d.abs(d.sub(half, d.rint(half)))))
    negative = d.both(d.lt(base, d.const(0.0)), d.lt(d.const(-float("inf")), base))
    invalid = d.both(negative, d.lt(d.const(0.0), d.abs(d.sub(exponent, d.rint(exponent)))))
    result = d.select(odd, d.copysign(size, base), size)
    return d.select(invalid, d.const(float("nan")), result)


def _log2(d: Ops, x: Value) -> Value:
    """log2 of a widened float32 x >= 0 to about 42 bits; exact for powers of two, NaN for NaN."""
    f, n = split_mantissa(d, x)
    s = d.div(f, d.add(f, d.const(2.0)))
    z = d.mul(s, s)
    natural = d.fma(d.mul(s, z), polynomial(d, z, LOG_ODD), d.add(s, s))
    result = d.fma(natural, d.const(FORMATS["float64"].log2e.hi), small_int_to_float(d, n))
    infinity = d.const(float("inf"))
    result = d.select(d.lt(x, infinity), result, x)
    return d.select(d.eq(x, d.const(0.0)), d.neg(infinity), result)


def _exp2(d: Ops, x: Value) -> Value:
    """2**x to about 32 bits."""
    x = at_least(d, at_most(d, x, 200.0), -200.0)
    n, bits = nearest_integer(d, x, 1.0)
    return scale(d, polynomial(d, d.sub(x, n), EXP2), n, bits)


def _scaled_log2(k: Ops, x: Value, factor: Value) -> Pair:
    """factor * log2(x) for x >= 0, to 2**-66 of itself; infinite, with a second part of zero, beyond 2**11.

    The logarithm is 2 artanh(s) with s = f / (f + 2): s and the first two terms of its series are pairs.
    """
    f, n = split_any_mantissa(k, x)
    sum_high, sum_low = pair.add_smaller(k, k.const(2.0), f)
    inverse = k.div(k.const(1.0), sum_high)
    s_high = k.mul(f, inverse)
    rest = k.fma(k.neg(s_high), sum_low, k.fma(k.neg(s_high), sum_high, f))
    s = pair.add_smaller(k, s_high, k.mul(rest, inverse))
    z = pair.multiply_pairs(k, s, s)
    third = pair.multiply_pairs(k, z, pair.constant(k, THIRD))
    tail = k.mul(k.mul(z[0], z[0]), polynomial(k, z[0], LOG_TAIL))
    beyond, error = pair.add_smaller(k, third[0], tail)  # artanh(s) = s (1 + beyond)
    correction = pair.multiply_pairs(k, s, (beyond, k.add(error, third[1])))
    artanh, error = pair.add_smaller(k, s[0], correction[0])
    scaled = pair.multiply_pairs(k, (artanh, k.add(error, k.add(correction[1], s[1]))), pair.constant(k, TWICE_LOG2E))
    log2, error = pair.add_smaller(k, n, scaled[0])
    return _limited_product(k, x, factor, (log2, k.add(error, scaled[1])))


def _limited_product(k: Ops, x: Value, factor: Value, log2: Pair) -> Pair:
    """factor * log2, in which log2 is that of x: infinite for 0 and infinity."""
    zero, infinity = k.const(0.0), k.const(float("inf"))
    high = k.select(k.lt(x, infinity), log2[0], x)
    high = k.select(k.eq(x, zero), k.neg(infinity), high)
    factor = at_least(k, at_most(k, factor, LARGEST_EXPONENT), -LARGEST_EXPONENT)
    product, error = pair.multiply(k, factor, high)
    low = k.fma(factor, log2[1], error)
    return product, k.select(k.lt(k.abs(product), k.const(2048.0)), low, zero)


def _exp2_of_pair(k: Ops, x: Pair) -> Value:
    """2**(x[0] + x[1])."""
    high = at_least(k, at_most(k, x[0], 1025.0), -1080.0)
    n, bits = nearest_integer(k, high, 1.0)
    r = pair.multiply_pairs(k, (k.sub(high, n), x[1]), pair.constant(k, FORMATS["float64"].ln2))
    curved = k.mul(k.mul(r[0], r[0]), polynomial(k, r[0], EXPM1["float64"]))
    small = k.add(curved, k.fma(r[1], k.add(r[0], curved), r[1]))  # the second part, times its derivative
    return scale(k, k.add(k.const(1.0), k.add(r[0], small)), n, bits)


def cbrt(k: Ops, x: Value) -> Value:
    """Cube root: a polynomial for the mantissa, improved by Halley's cubically convergent iteration.

    ``|x| = 2**(3 q) t`` with t in [0.35, 2.83]. The last correction is computed from the exact residual ``t - y**3``.
    """
    f, n = split_any_mantissa(k, k.abs(x))
    q, q_bits = nearest_integer(k, n, 1.0 / 3.0)
    _, rest_bits = nearest_integer(k, k.fma(q, k.const(-3.0), n), 1.0)
    t = k.mul(k.add(f, k.const(1.0)), power_of_two(k, rest_bits))
    y = polynomial(k, t, CUBE_ROOT)
    for _step in range(1 if k.dtype == "float32" else 2):
        y = _halley(k, y, t)
    result = k.copysign(k.mul(y, power_of_two(k, q_bits)), x)
    ordinary = k.both(k.lt(k.abs(x), k.const(float("inf"))), k.lt(k.const(0.0), k.abs(x)))
    return k.select(ordinary, result, k.add(x, x))  # the sum makes a signalling NaN quiet


def _halley(d: Ops, y: Value, t: Value) -> Value:
    """One step for y**3 = t: y + y (t - y**3) / (2 y**3 + t)."""
    square = d.mul(y, y)
    square_error = d.fma(y, y, d.neg(square))
    residual = d.fma(d.neg(square_error), y, d.fma(d.neg(square), y, t))
    return d.fma(y, d.div(residual, d.fma(d.mul(d.const(2.0), square), y, t)), y)
