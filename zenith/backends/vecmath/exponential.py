"""Functions built on the exponential: exp, exp2, expm1, sinh, cosh, tanh, sigmoid.

All share one reduction: ``x = n ln 2 + r`` with integer n, so that ``exp(x) = 2**n exp(r)``, and a polynomial for
``expm1(r)``, which keeps its relative accuracy where exp is near 1. The rounding to n is done by adding a large
constant, which leaves n in the low bits of the sum: no conversion to integer, hence no undefined result for NaN, which
flows through everything below. The constant also holds the bias of binary exponents, so one shift of the sum is
``2**n``. Where ``2**n`` is out of range although the result is not, each function has a formula that avoids it.

The polynomials are minimax fits (coefficients rounded one by one, the others fitted again).
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
# exp(r) for |r| <= 0.6935; relative error 2^-26.0 and 2^-56.5.
EXP = {
    "float32": (1.0, 1.0, 0.50000036, 0.16666618, 0.04166123, 0.008335935, 0.0014104778, 0.0001962975),
    "float64": (
        1.0,
        1.0,
        0.4999999999999993,
        0.16666666666666938,
        0.041666666666702164,
        0.008333333333269717,
        0.001388888888356616,
        0.00019841269892912212,
        2.4801590835814354e-05,
        2.755730061291357e-06,
        2.755615669309547e-07,
        2.5055037876170543e-08,
        2.1062442718298316e-09,
        1.593543951086045e-10,
    ),
}
# (expm1(2 r) / 2 - r) / r**2 for |r| <= 0.1737: the coefficients of EXPM1 times powers of two.
HALF_EXPM1_OF_DOUBLE = {dtype: tuple(c * 2.0 ** (i + 1) for i, c in enumerate(e)) for dtype, e in EXPM1.items()}
SUBNORMAL_SHIFT = 64
"""Powers of two near the bottom of the range are built this much larger and scaled down by one rounded product."""

HALF_EXP_OVERFLOW = 710.8
"""Any float64 above this has an infinite exp(x) / 2, yet its binary exponent is at most the largest plus one."""


def nearest_integer(k: Ops, x: Value, factor: float, offset: int = 0, step: int = 1) -> tuple[Value, Value]:
    """The multiple n of ``step`` nearest to x * factor, as a float, and its exponent for :func:`power_of_two`.

    That is an integer with n / step + offset and the bias of exponents in its low bits.
    """
    form = FORMATS[k.dtype]
    magic = k.const(step * (form.round_magic + form.exponent_bias + offset))
    shifted = k.fma(x, k.const(factor), magic)
    return k.sub(shifted, magic), k.bitcast_int(shifted)


def reduce_exponent(k: Ops, x: Value, offset: int = 0, step: int = 1) -> tuple[Value, Value, Value]:
    """x = n ln 2 + r with n a multiple of ``step``: returns r, n, and the exponent that holds n / step + offset."""
    ln2 = FORMATS[k.dtype].ln2
    n, exponent = nearest_integer(k, x, FORMATS[k.dtype].log2e.hi, offset, step)
    r = k.fma(n, k.const(-ln2.hi), x)
    return k.fma(n, k.const(-ln2.lo), r), n, exponent


def expm1_reduced(k: Ops, r: Value) -> Value:
    """expm1 of |r| <= ln 2 / 2."""
    return k.fma(k.mul(r, r), polynomial(k, r, EXPM1[k.dtype]), r)


def power_of_two(k: Ops, exponent: Value) -> Value:
    """2**n, which must be a normal number, from the exponent that holds n."""
    return k.bitcast_float(k.shl(exponent, FORMATS[k.dtype].mantissa_bits))


def scale(k: Ops, p: Value, n: Value, exponent: Value) -> Value:
    """p * 2**n for p in [1/2, 2], rounded once even where the result is subnormal, infinite where it overflows.

    2**n alone is out of range at both ends. It is split as 2**(n - 1) * 2, or 2**(n + 64) * 2**-64 for small n.
    """
    small = k.lt(n, k.const(-120.0))
    offset = k.select(small, k.int_const(SUBNORMAL_SHIFT), k.int_const(-1))
    factor = power_of_two(k, k.iadd(exponent, offset))
    return k.mul(k.mul(p, factor), k.select(small, k.const(2.0**-SUBNORMAL_SHIFT), k.const(2.0)))


def exp(k: Ops, x: Value) -> Value:
    """e to the power x, as ``exp(r) 2**(n/2) 2**(n/2)`` with even n: both factors are normal, one product rounds."""
    form = FORMATS[k.dtype]
    x = at_least(k, at_most(k, x, form.exp_overflow), form.exp_underflow)
    r, _, exponent = reduce_exponent(k, x, step=2)
    root = power_of_two(k, exponent)
    return k.mul(k.mul(polynomial(k, r, EXP[k.dtype]), root), root)


def exp2(k: Ops, x: Value) -> Value:
    """2 to the power x; exact for integral x."""
    form = FORMATS[k.dtype]
    x = at_least(k, at_most(k, x, form.exp2_overflow), form.exp2_underflow)
    n, exponent = nearest_integer(k, x, 1.0)
    r = k.mul(k.sub(x, n), k.const(form.ln2.hi))
    return scale(k, k.add(k.const(1.0), expm1_reduced(k, r)), n, exponent)


def half_expm1(k: Ops, x: Value) -> Value:
    """expm1(x) / 2, which does not overflow before expm1 does."""
    form = FORMATS[k.dtype]
    return scaled_expm1(k, at_least(k, at_most(k, x, form.exp_overflow), form.expm1_saturated), 1)


def scaled_expm1(k: Ops, x: Value, halvings: int) -> Value:
    """expm1(x) / 2**h as 2**(n-h) expm1(r) + (2**(n-h) - 2**-h), for n - h in the range of binary exponents."""
    r, _, exponent = reduce_exponent(k, x, offset=-halvings)
    factor = power_of_two(k, exponent)
    return k.fma(factor, expm1_reduced(k, r), k.sub(factor, k.const(0.5**halvings)))


def _half_expm1_of_any(k: Ops, a: Value) -> Value:
    """expm1(a) / 2 for a >= 0, which does not overflow before its own value does."""
    if k.dtype == "float32":
        return half_expm1(k.double, k.widen(a))
    quarter = scaled_expm1(k, at_most(k, a, HALF_EXP_OVERFLOW), 2)
    return k.add(quarter, quarter)


def expm1(k: Ops, x: Value) -> Value:
    """exp(x) - 1 without the cancellation near zero."""
    negligible = k.lt(k.abs(x), k.const(FORMATS[k.dtype].negligible))
    half = half_expm1(k, x)
    return k.select(negligible, x, k.add(half, half))


def sinh(k: Ops, x: Value) -> Value:
    """Hyperbolic sine: ``h + h / (2 h + 1)`` with ``h = expm1(|x|) / 2``, in float64 for float32."""
    d, half = k.double, _half_expm1_of_any(k, k.abs(x))
    finite = at_most(d, half, 1e300)
    result = d.add(half, d.div(finite, d.fma(d.const(2.0), finite, d.const(1.0))))
    return k.copysign(k.narrow(result), x)


def cosh(k: Ops, x: Value) -> Value:
    """Hyperbolic cosine: ``y + 1 / (4 y)`` with ``y = exp(|x|) / 2``, in float64 for float32."""
    d = k.double
    y = d.add(_half_expm1_of_any(k, k.abs(x)), d.const(0.5))
    return k.narrow(d.add(y, d.div(d.const(0.25), y)))


def tanh(k: Ops, x: Value) -> Value:
    """Hyperbolic tangent, from ``h = expm1(2 |x|) / 2``.

    It is ``h / (h + 1)``, which suffers from the rounding of h + 1 where h is small. There ``h - h h / (h + 1)`` is
    better, and ``1 - 1 / (h + 1)`` where h is large. With ``m = min(h, 1)`` both are ``m - m m / (h + 1)``.
    """
    form = FORMATS[k.dtype]
    a = at_most(k, k.abs(x), form.expm1_saturated / -2)
    # 2 |x| = n ln 2 + 2 r. In float32 the high half of ln 2 suffices: where n is large, tanh hardly changes.
    n, exponent = nearest_integer(k, a, 2 * form.log2e.hi)
    r = k.fma(n, k.const(form.ln2.hi / -2), a)
    if k.dtype == "float64":
        r = k.fma(n, k.const(form.ln2.lo / -2), r)
    increment = k.fma(k.mul(r, r), polynomial(k, r, HALF_EXPM1_OF_DOUBLE[k.dtype]), r)
    factor, half = power_of_two(k, exponent), k.const(0.5)
    h = k.fma(factor, increment, k.fma(factor, half, k.neg(half)))
    m = at_most(k, h, 1.0)
    quotient = k.div(m, k.add(h, k.const(1.0)))
    return k.copysign(k.fma(k.neg(quotient), m, m), x)


def sigmoid(k: Ops, x: Value) -> Value:
    """The logistic function ``1 / (1 + exp(-x))``, with numerator and denominator scaled by 2**-64.

    So the denominator stays in range where the quotient is nearly zero, which may then be subnormal and is rounded
    once. With ``exp(-x) = 2**n (1 + e)`` it is ``2**n + (2**n e + 1)``: the inner sum rounds to less than the outer.
    """
    form = FORMATS[k.dtype]
    x = at_least(k, at_most(k, x, form.sigmoid_saturated), form.exp_underflow)
    r, _, exponent = reduce_exponent(k, k.neg(x), offset=-SUBNORMAL_SHIFT)
    factor, one = power_of_two(k, exponent), k.const(2.0**-SUBNORMAL_SHIFT)
    return k.div(one, k.add(factor, k.fma(factor, expm1_reduced(k, r), one)))
