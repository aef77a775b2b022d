"""Functions built on the exponential: exp, exp2, expm1, sinh, cosh, tanh, sigmoid.

All share one reduction: ``x = n ln 2 + r`` with integer n and |r| <= ln 2 / 2, so that ``exp(x) = 2**n exp(r)``. The
polynomial gives ``expm1(r)``, which keeps its relative accuracy where exp is near 1. The rounding to n is done by
adding a large constant (``Format.round_magic``), which leaves n in the low bits of the sum: no conversion to integer,
hence no undefined result for NaN, which flows through everything below.

The polynomials are minimax fits (Remez, coefficients rounded one by one, the others fitted again).
"""

from __future__ import annotations

from zenith.backends.vecmath.formats import FORMATS
from zenith.backends.vecmath.ops import Ops, Value, at_least, at_most, polynomial

# (expm1(r) - r) / r**2 for |r| <= 0.3475; error of expm1 relative to itself: 2^-26.1 (float32), 2^-60.8 (float64).
EXPM1 = {
    "float32": (0.49999997, 0.16666538, 0.04166774, 0.008367319, 0.0013837863),
    "float64": (
        0.5,
        0.16666666666666677,
        0.04166666666666668,
        0.008333333333321914,
        0.001388888888890833,
        0.00019841269884805657,
        2.4801587229835093e-05,
        2.755724578457284e-06,
        2.755738327599081e-07,
        2.5108467695848226e-08,
        2.087513851401934e-09,
    ),
}
# (tanh(x) - x) / x**3 in powers of x**2 for |x| <= 0.551; relative error 2^-29.7 and 2^-60.5.
TANH = {
    "float32": (-0.33333316, 0.13332544, -0.053847548, 0.021050714, -0.006242849),
    "float64": (
        -0.333333333333333,
        0.1333333333332652,
        -0.05396825396368116,
        0.021869488383182294,
        -0.008863232552646655,
        0.0035920914962737655,
        -0.0014555391776099528,
        0.000588428557045077,
        -0.00023333909238294753,
        8.325298747124069e-05,
        -1.945401218748811e-05,
    ),
}
SUBNORMAL_SHIFT = 64
"""Powers of two near the bottom of the range are built this much larger and scaled down by one rounded product."""


def nearest_integer(k: Ops, x: Value, factor: float) -> tuple[Value, Value]:
    """n = rint(x * factor) as a float, and an integer whose low bits are n in two's complement."""
    magic = k.const(FORMATS[k.dtype].round_magic)
    shifted = k.fma(x, k.const(factor), magic)
    return k.sub(shifted, magic), k.bitcast_int(shifted)


def reduce_exponent(k: Ops, x: Value) -> tuple[Value, Value, Value]:
    """x = n ln 2 + r: returns r, n, and the integer that holds n in its low bits."""
    ln2 = FORMATS[k.dtype].ln2
    n, bits = nearest_integer(k, x, FORMATS[k.dtype].log2e.hi)
    r = k.fma(n, k.const(-ln2.hi), x)
    return k.fma(n, k.const(-ln2.lo), r), n, bits


def expm1_reduced(k: Ops, r: Value) -> Value:
    """expm1 of |r| <= ln 2 / 2."""
    return k.fma(k.mul(r, r), polynomial(k, r, EXPM1[k.dtype]), r)


def power_of_two(k: Ops, bits: Value, offset: int = 0) -> Value:
    """2**(n + offset), which must be a normal number, from the integer that holds n in its low bits."""
    form = FORMATS[k.dtype]
    base = form.one_bits + (offset << form.mantissa_bits)
    return k.bitcast_float(k.iadd(k.shl(bits, form.mantissa_bits), k.int_const(base)))


def scale(k: Ops, p: Value, n: Value, bits: Value) -> Value:
    """p * 2**n for p in [1/2, 2], rounded once even where the result is subnormal, infinite where it overflows.

    2**n alone is out of range at both ends. It is split as 2**(n - 1) * 2, or 2**(n + 64) * 2**-64 for small n.
    """
    form = FORMATS[k.dtype]
    small = k.lt(n, k.const(-120.0))
    one, up = form.one_bits, SUBNORMAL_SHIFT << form.mantissa_bits
    base = k.select(small, k.int_const(one + up), k.int_const(one - (1 << form.mantissa_bits)))
    factor = k.bitcast_float(k.iadd(k.shl(bits, form.mantissa_bits), base))
    return k.mul(k.mul(p, factor), k.select(small, k.const(2.0**-SUBNORMAL_SHIFT), k.const(2.0)))


def exp(k: Ops, x: Value) -> Value:
    """e to the power x."""
    form = FORMATS[k.dtype]
    x = at_least(k, at_most(k, x, form.exp_overflow), form.exp_underflow)
    r, n, bits = reduce_exponent(k, x)
    return scale(k, k.add(k.const(1.0), expm1_reduced(k, r)), n, bits)


def exp2(k: Ops, x: Value) -> Value:
    """2 to the power x; exact for integral x."""
    form = FORMATS[k.dtype]
    x = at_least(k, at_most(k, x, form.exp2_overflow), form.exp2_underflow)
    n, bits = nearest_integer(k, x, 1.0)
    r = k.mul(k.sub(x, n), k.const(form.ln2.hi))
    return scale(k, k.add(k.const(1.0), expm1_reduced(k, r)), n, bits)


def half_expm1(k: Ops, x: Value) -> Value:
    """expm1(x) / 2, which does not overflow before expm1 does, as 2**(n-1) expm1(r) + (2**(n-1) - 1/2)."""
    form = FORMATS[k.dtype]
    x = at_least(k, at_most(k, x, form.exp_overflow), form.expm1_saturated)
    r, _, bits = reduce_exponent(k, x)
    factor = power_of_two(k, bits, -1)
    return k.fma(factor, expm1_reduced(k, r), k.sub(factor, k.const(0.5)))


def expm1(k: Ops, x: Value) -> Value:
    """exp(x) - 1 without the cancellation near zero."""
    negligible = k.lt(k.abs(x), k.const(FORMATS[k.dtype].negligible))
    half = half_expm1(k, x)
    return k.select(negligible, x, k.add(half, half))


def sinh(k: Ops, x: Value) -> Value:
    """Hyperbolic sine: ``h + h / (2 h + 1)`` with ``h = expm1(|x|) / 2``, in float64 for float32."""
    if k.dtype == "float64":
        return k.libm("sinh", x)
    d, wide = k.double, k.widen(x)
    half = half_expm1(d, d.abs(wide))
    result = d.add(half, d.div(half, d.fma(d.const(2.0), half, d.const(1.0))))
    return k.narrow(d.copysign(result, wide))


def cosh(k: Ops, x: Value) -> Value:
    """Hyperbolic cosine: ``(y + 1 / y) / 2`` with ``y = exp(|x|)``, in float64 for float32."""
    if k.dtype == "float64":
        return k.libm("cosh", x)
    d = k.double
    y = exp(d, d.abs(k.widen(x)))
    return k.narrow(d.mul(d.const(0.5), d.add(y, d.div(d.const(1.0), y))))


def tanh(k: Ops, x: Value) -> Value:
    """Hyperbolic tangent: ``1 - 2 / (exp(2 |x|) + 1)``, and a polynomial below 0.55, where that cancels."""
    one, two = k.const(1.0), k.const(2.0)
    a, square = k.abs(x), k.mul(x, x)
    small = k.fma(k.mul(a, square), polynomial(k, square, TANH[k.dtype]), a)
    doubled = at_most(k, k.add(a, a), -FORMATS[k.dtype].expm1_saturated)
    r, _, bits = reduce_exponent(k, doubled)
    factor = power_of_two(k, bits)
    large = k.sub(one, k.div(two, k.fma(factor, expm1_reduced(k, r), k.add(factor, one))))
    return k.copysign(k.select(k.lt(a, k.const(0.55)), small, large), x)


def sigmoid(k: Ops, x: Value) -> Value:
    """The logistic function 1 / (1 + exp(-x)), as ``y / (1 + y)`` with ``y = exp(x)`` where x is negative.

    Only exponentials of negative arguments occur: none overflows, and small results keep their relative accuracy.
    There y = 2**n (1 + e) suffers the rounding of 1 + e, a relative error c; with (1 - c) + y in place of 1 + y
    the quotient does not see it.
    """
    one, zero = k.const(1.0), k.const(0.0)
    is_negative = k.lt(x, zero)
    below = at_least(k, k.neg(k.abs(x)), FORMATS[k.dtype].exp_underflow)
    r, n, bits = reduce_exponent(k, below)
    e = expm1_reduced(k, r)
    sum_ = k.add(one, e)
    error = k.select(is_negative, k.sub(e, k.sub(sum_, one)), zero)
    y = scale(k, sum_, n, bits)
    return k.div(k.select(is_negative, y, one), k.add(one, k.sub(y, error)))
