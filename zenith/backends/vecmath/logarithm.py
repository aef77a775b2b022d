"""Functions built on the logarithm: log, log2, log10, log1p, arcsinh, arccosh, arctanh.

All share one reduction: ``x = 2**n m`` with m in [sqrt(1/2), sqrt(2)], so that ``log(x) = n ln 2 + log(1 + f)`` with
``f = m - 1``, exactly. The logarithm of m is represented as the sum ``f + w``, in which w is a small correction: the
rounding errors of w hardly matter, and a multiple of ``n ln 2`` can be added between the two.
"""

from __future__ import annotations

from zenith.backends.vecmath.exponential import exp
from zenith.backends.vecmath.formats import FORMATS, SplitConstant
from zenith.backends.vecmath.ops import Ops, Value, polynomial

# float32: (log(1 + f) - f + f**2 / 2) / f**3 for f in [-0.2935, 0.415]; relative error of the logarithm 2^-29.4.
LOG_FLOAT32 = (
    0.33333308,
    -0.24999976,
    0.20002393,
    -0.16669895,
    0.14216523,
    -0.123746544,
    0.11875781,
    -0.118338786,
    0.06959874,
)
# float64: (log((1 + s) / (1 - s)) - 2 s) / s**3 in powers of s**2, for |s| <= 0.1725; relative error 2^-59.4.
LOG_FLOAT64 = (
    0.666666666666674,
    0.3999999999937634,
    0.28571428751746686,
    0.2222219753413095,
    0.1818362212834835,
    0.15312480553327337,
    0.14812518408537143,
)
SUBNORMAL_SHIFT = 64
"""Subnormal arguments are multiplied by two to this power first."""
LARGE = 2.0**60
"""From here on 1 is less than a rounding error of x, and of log(x)."""


def small_int_to_float(k: Ops, i: Value) -> Value:
    """An integer of few bits as a float, through the mantissa (converting 64-bit integers needs AVX-512)."""
    form = FORMATS[k.dtype]
    shifted = k.bitcast_float(k.iadd(i, k.int_const(form.magic_bits)))
    return k.sub(shifted, k.const(form.round_magic))


def split_mantissa(k: Ops, x: Value) -> tuple[Value, Value]:
    """x = 2**n (1 + f) for normal positive x: returns f in [-0.293, 0.415] and the integer n."""
    form = FORMATS[k.dtype]
    bits = k.bitcast_int(x)
    n = k.shr(k.isub(bits, k.int_const(form.sqrt_half_bits)), form.mantissa_bits)
    m = k.bitcast_float(k.isub(bits, k.shl(n, form.mantissa_bits)))
    return k.sub(m, k.const(1.0)), n


def split_any_mantissa(k: Ops, x: Value) -> tuple[Value, Value]:
    """As ``split_mantissa`` for any finite positive x, subnormal too; n as a float."""
    subnormal = k.lt(x, k.const(FORMATS[k.dtype].min_normal))
    f, n = split_mantissa(k, k.select(subnormal, k.mul(x, k.const(2.0**SUBNORMAL_SHIFT)), x))
    shift = k.select(subnormal, k.const(float(SUBNORMAL_SHIFT)), k.const(0.0))
    return f, k.sub(small_int_to_float(k, n), shift)


def log1p_correction(k: Ops, f: Value) -> Value:
    """w such that log(1 + f) = f + w, for f in [-0.2935, 0.415]."""
    if k.dtype == "float32":
        square = k.mul(f, f)
        return k.mul(square, k.fma(f, polynomial(k, f, LOG_FLOAT32), k.const(-0.5)))
    # The form of FreeBSD's e_log.c (Sun, 1993): w = s (f**2 / 2 + s**2 P(s**2)) - f**2 / 2 with s = f / (2 + f).
    s = k.div(f, k.add(f, k.const(2.0)))
    half_square = k.mul(k.mul(k.const(0.5), f), f)
    z = k.mul(s, s)
    return k.fma(s, k.fma(z, polynomial(k, z, LOG_FLOAT64), half_square), k.neg(half_square))


def with_poles(k: Ops, x: Value, x_plus: Value, result: Value) -> Value:
    """The logarithm of ``x_plus`` where it is zero, negative, infinite or NaN; ``x`` is the function's argument."""
    zero, infinity = k.const(0.0), k.const(float("inf"))
    result = k.select(k.lt(x_plus, infinity), result, k.add(x, x))  # the sum makes a signalling NaN quiet
    outside = k.select(k.eq(x_plus, zero), k.neg(infinity), k.const(float("nan")))
    return k.select(k.le(x_plus, zero), outside, result)


def log(k: Ops, x: Value) -> Value:
    """Natural logarithm."""
    ln2 = FORMATS[k.dtype].ln2
    f, n = split_any_mantissa(k, x)
    low = k.fma(n, k.const(ln2.lo), log1p_correction(k, f))
    return with_poles(k, x, x, k.add(k.fma(n, k.const(ln2.hi), f), low))


def log2(k: Ops, x: Value) -> Value:
    """Logarithm to base 2; exact for powers of two."""
    f, n = split_any_mantissa(k, x)
    return with_poles(k, x, x, k.add(n, scaled_log1p(k, f, FORMATS[k.dtype].log2e, k.const(0.0))))


def log10(k: Ops, x: Value) -> Value:
    """Logarithm to base 10."""
    form = FORMATS[k.dtype]
    f, n = split_any_mantissa(k, x)
    low = scaled_log1p(k, f, form.log10e, k.mul(n, k.const(form.log10_2.lo)))
    return with_poles(k, x, x, k.fma(n, k.const(form.log10_2.hi), low))


def scaled_log1p(k: Ops, f: Value, factor: SplitConstant, addend: Value) -> Value:
    """log(1 + f) * factor + addend, for a small addend."""
    high = k.const(factor.hi)
    low = k.fma(log1p_correction(k, f), high, k.fma(f, k.const(factor.lo), addend))
    return k.fma(f, high, low)


def log1p(k: Ops, x: Value) -> Value:
    """log(1 + x) without the cancellation near zero.

    The rounding error c of u = 1 + x is known exactly; divided by the power of two that was taken out of u, it is
    added to f. For small x that restores f = x. (The division is by half the power of two, whose inverse never
    underflows to less than zero; 2**-128 is no normal float32.)
    """
    form = FORMATS[k.dtype]
    one = k.const(1.0)
    u = k.add(one, x)
    f, n = split_mantissa(k, u)
    error = k.select(k.le(one, x), k.sub(one, k.sub(u, x)), k.sub(x, k.sub(u, one)))
    exponent = k.isub(k.int_const(form.one_bits + (1 << form.mantissa_bits)), k.shl(n, form.mantissa_bits))
    f = k.fma(k.mul(error, k.const(0.5)), k.bitcast_float(exponent), f)
    n = small_int_to_float(k, n)
    low = k.fma(n, k.const(form.ln2.lo), log1p_correction(k, f))
    result = with_poles(k, x, u, k.add(k.fma(n, k.const(form.ln2.hi), f), low))
    return k.select(k.lt(k.abs(x), k.const(form.negligible)), x, result)


def logaddexp(k: Ops, x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y)), by the larger operand; infinities of one sign, which have no difference, are the result."""
    apart = k.sub(x, y)
    larger = k.select(k.lt(x, y), y, x)
    smooth = k.add(larger, log1p(k, exp(k, k.neg(k.abs(apart)))))
    return k.select(k.eq(apart, apart), smooth, k.add(x, y))


def arcsinh(k: Ops, x: Value) -> Value:
    """Inverse hyperbolic sine: ``log1p(a + a**2 / (1 + sqrt(1 + a**2)))`` with ``a = |x|``, in float64 for float32.

    Where the square would overflow it is the logarithm of 2 a.
    """
    d, wide = k.double, k.widen(x)
    one, a = d.const(1.0), d.abs(wide)
    square = d.mul(a, a)
    tail = d.div(square, d.add(one, d.sqrt(d.add(one, square))))  # sqrt(1 + a**2) - 1
    return k.narrow(d.copysign(_log1p_or_twice(d, a, d.add(a, tail)), wide))


def _log1p_or_twice(d: Ops, x: Value, y: Value) -> Value:
    """log1p(y), or the logarithm of 2 x where x is so large that y, which is nearly 2 x - 1, may overflow."""
    large = d.lt(d.const(LARGE), x)
    return d.add(log1p(d, d.select(large, x, y)), d.select(large, d.const(FORMATS["float64"].ln2.hi), d.const(0.0)))


def arccosh(k: Ops, x: Value) -> Value:
    """Inverse hyperbolic cosine: ``log1p(t + sqrt(t) sqrt(t + 2))`` with ``t = x - 1``, in float64 for float32.

    Two roots, not the root of the product: each is NaN below 1, wherever the other is.
    """
    d, wide = k.double, k.widen(x)
    t = d.sub(wide, d.const(1.0))
    return k.narrow(_log1p_or_twice(d, wide, d.fma(d.sqrt(t), d.sqrt(d.add(t, d.const(2.0))), t)))


def arctanh(k: Ops, x: Value) -> Value:
    """Inverse hyperbolic tangent: ``log1p(2 a / (1 - a)) / 2`` with ``a = |x|``, in float64 for float32."""
    d, wide = k.double, k.widen(x)
    a = d.abs(wide)
    result = log1p(d, d.div(d.add(a, a), d.sub(d.const(1.0), a)))
    return k.narrow(d.copysign(d.mul(d.const(0.5), result), wide))
