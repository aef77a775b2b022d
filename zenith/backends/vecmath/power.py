"""Powers and the cube root.

A float32 power is ``2**(y log2 |x|)`` in float64 lanes: the product reaches 150, so the logarithm needs about 35 bits,
which short polynomials give. Float64 would need a logarithm of twice the precision, and is the C library's.
"""

from __future__ import annotations

from zenith.backends.vecmath.exponential import nearest_integer, power_of_two, scale
from zenith.backends.vecmath.formats import FORMATS
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

# cbrt(t) for t in [0.3535, 2.8285]; relative error 2^-10.5, which one step of Halley's iteration makes 2^-32.
CUBE_ROOT = (0.4151363, 1.0523907, -0.76114416, 0.3870176, -0.10448452, 0.011282848)


def pow(k: Ops, x: Value, y: Value) -> Value:
    """x to the power y, with the special cases of IEEE 754: x**0 and 1**y are 1 even for NaN."""
    if k.dtype == "float64":
        return k.libm("pow", x, y)
    d, base, exponent = k.double, k.widen(x), k.widen(y)
    one = d.const(1.0)
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


def cbrt(k: Ops, x: Value) -> Value:
    """Cube root: a polynomial for the mantissa, improved by Halley's cubically convergent iteration.

    ``|x| = 2**(3 q) t`` with t in [0.35, 2.83]. The last correction is computed from the exact residual ``t - y**3``.
    """
    d, wide = k.double, k.widen(x)
    f, n = split_any_mantissa(d, d.abs(wide))
    q, q_bits = nearest_integer(d, n, 1.0 / 3.0)
    _, rest_bits = nearest_integer(d, d.fma(q, d.const(-3.0), n), 1.0)
    t = d.mul(d.add(f, d.const(1.0)), power_of_two(d, rest_bits))
    y = polynomial(d, t, CUBE_ROOT)
    for _step in range(1 if k.dtype == "float32" else 2):
        y = _halley(d, y, t)
    result = d.copysign(d.mul(y, power_of_two(d, q_bits)), wide)
    ordinary = d.both(d.lt(d.abs(wide), d.const(float("inf"))), d.lt(d.const(0.0), d.abs(wide)))
    return k.narrow(d.select(ordinary, result, d.add(wide, wide)))  # the sum makes a signalling NaN quiet


def _halley(d: Ops, y: Value, t: Value) -> Value:
    """One step for y**3 = t: y + y (t - y**3) / (2 y**3 + t)."""
    square = d.mul(y, y)
    square_error = d.fma(y, y, d.neg(square))
    residual = d.fma(d.neg(square_error), y, d.fma(d.neg(square), y, t))
    return d.fma(y, d.div(residual, d.fma(d.mul(d.const(2.0), square), y, t)), y)
