"""The error function erf, its complement erfc, and that scaled, erfcx.

Near zero erf is an odd polynomial. Further out both come from the complement, which decays like ``exp(-x**2)`` times a
slowly varying factor: float32 erf needs only its absolute value, and fits the exponent ``-log2(erfc(x))`` itself by a
polynomial; the others need its relative value, and multiply exp(-x**2) by the scaled function
``erfcx(x) = exp(x**2) erfc(x)``. The map ``q = (x - c) / (x + c)`` takes the half-line to [-1, 1), where erfcx times
``x + c`` is close to a polynomial (Shepherd and Laframboise, "Chebyshev Approximation of (1 + 2x) exp(x^2) erfc x",
Mathematics of Computation 36, 1981).
"""

from __future__ import annotations

from zenith.backends.vecmath.exponential import expm1_reduced, nearest_integer, power_of_two, reduce_exponent, scale
from zenith.backends.vecmath.ops import Ops, Value, at_most, polynomial

# (erf(x) - x) / x in powers of x**2. float32: |x| <= 0.93, relative error 2^-25.7; float64: |x| <= 1, 2^-56.3.
ERF_SMALL = {
    "float32": (0.12837915, -0.3761249, 0.11281727, -0.02676274, 0.004986933, -0.000595713),
    "float64": (
        0.1283791670955126,
        -0.376126389031841,
        0.11283791670971098,
        -0.026866170648030832,
        0.005223977652685699,
        -0.000854832853516634,
        0.00012055386161373904,
        -1.4926880479175865e-05,
        1.6481039654518108e-06,
        -1.6556890627912282e-07,
        1.6011393254801033e-08,
        -1.645680782171815e-09,
        1.4328783805585367e-10,
    ),
}
ERF_BORDER = {"float32": 0.925, "float64": 1.0}
# -log2(erfc(x)) for x in [0.92, 3.95]; absolute error of erfc relative to erf 2^-28.7.
LOG2_ERFC = (0.00028240375, 1.6268916, 0.9192603, 0.14994113, -0.03206654, 0.0043904446, -0.0002826859)
# 2**f for |f| <= 1/2, relative error 2^-22.8: enough, since here erfc is at most a fifth of erf.
EXP2_SHORT = (1.0000001, 0.6931474, 0.24021919, 0.055497568, 0.009684872, 0.0013642147)
# (x + c) erfcx(x) in powers of q. For float32 results: c = 3, x <= 10.1, relative error 2^-29.2. For float64:
# x <= 27.4, error 2^-56.5, with c chosen so that the first coefficient is a float64 number to within 2^-67.
ERFCX_CENTRE = {"float32": 3.0, "float64": 3.078125}
ERFCX = {
    "float32": (
        1.0740069078267995,
        -0.8833944778267159,
        0.5902282833232624,
        -0.31046629111669843,
        0.11952932972118063,
        -0.026837263086901892,
        -0.0012272129099218467,
        0.003071248678780725,
        -0.00048512851162557506,
        -0.00031403135537193554,
        7.0106515720807304e-06,
    ),
    "float64": (
        1.0764090930655679,
        -0.8932262614540845,
        0.6083993762186728,
        -0.33114534193412304,
        0.13566612346263537,
        -0.03541826930350473,
        0.0014559214270604191,
        0.0029929454078419294,
        -0.0008967248412948994,
        -0.0001798759998327286,
        0.000141933657307377,
        9.802786111419355e-06,
        -2.1383314323542344e-05,
        -9.15832801229984e-07,
        3.454677013277832e-06,
        2.898562064198481e-07,
        -5.866993688664905e-07,
        -1.0774829589291023e-07,
        9.588571619365585e-08,
        3.187642175555849e-08,
        -1.2674471288095789e-08,
        -6.539024642077111e-09,
        9.077733843234429e-10,
        6.573732863159046e-10,
    ),
}

ERFCX_BORDER = 27.4
EXP_SQUARE_OVERFLOW = 26.65  # exp(x**2) is infinite there, and 2**1024 the largest factor
# sqrt(pi) a erfcx(a) in powers of a**-2, up to where the next term is below 2^-53 beyond the border.
ERFCX_FAR = (1.0, -0.5, 0.75, -1.875, 6.5625, -29.53125, 162.421875)
ONE_OVER_ROOT_PI = 0.5641895835477563


def erf(k: Ops, x: Value) -> Value:
    """The error function, in lanes of the argument's own type."""
    a = k.abs(x)
    small = k.fma(polynomial(k, k.mul(x, x), ERF_SMALL[k.dtype]), a, a)
    in_own_lanes = k.dtype == "float32"
    complement = _erfc_absolute(k, at_most(k, a, 3.95)) if in_own_lanes else _erfc_nonnegative(k, a, k.dtype)
    large = k.sub(k.const(1.0), complement)
    return k.copysign(k.select(k.lt(a, k.const(ERF_BORDER[k.dtype])), small, large), x)


def erfc(k: Ops, x: Value) -> Value:
    """The complement 1 - erf(x), relatively accurate where it is small; in float64 for float32."""
    d, wide = k.double, k.widen(x)
    a = d.abs(wide)
    y = _erfc_nonnegative(d, a, k.dtype)
    if k.dtype == "float64":
        y = d.select(d.lt(a, d.const(ERF_BORDER["float64"])), _erfc_near(d, a), y)
    return k.narrow(d.select(d.lt(wide, d.const(0.0)), d.sub(d.const(2.0), y), y))


def _erfc_absolute(k: Ops, a: Value) -> Value:
    """erfc(a) for a in [0.92, 3.95], float32, accurate relative to 1 - erfc(a) only."""
    exponent = k.neg(polynomial(k, a, LOG2_ERFC))
    n, bits = nearest_integer(k, exponent, 1.0)
    return k.mul(polynomial(k, k.sub(exponent, n), EXP2_SHORT), power_of_two(k, bits))


def erfcx(k: Ops, x: Value) -> Value:
    """exp(x**2) erfc(x), which decays as 1 / x where erfc vanishes; in float64 for float32."""
    d, wide = k.double, k.widen(x)
    a = d.abs(wide)
    # exp(x**2) = 2**n (1 + e) with the rounding error of the square, as for erfc.
    b = at_most(d, a, EXP_SQUARE_OVERFLOW)
    square = d.mul(b, b)
    r, n, bits = reduce_exponent(d, square)
    e = expm1_reduced(d, d.add(r, d.fma(b, b, d.neg(square))))
    power = scale(d, d.add(d.const(1.0), e), n, bits)
    (p, p_error), (inverse, inverse_error) = _scaled(d, at_most(d, a, ERFCX_BORDER), "float64")
    y = d.fma(p, inverse, d.fma(p, inverse_error, d.mul(p_error, inverse)))
    near = _erfc_near(d, a)
    y = d.select(d.lt(a, d.const(0.5)), d.fma(e, near, near), y)  # where n is 0
    y = d.select(d.lt(a, d.const(ERFCX_BORDER)), y, _scaled_far(d, a))
    return k.narrow(d.select(d.lt(wide, d.const(0.0)), d.fma(d.const(2.0), power, d.neg(y)), y))


def _erfc_near(k: Ops, a: Value) -> Value:
    """1 - a - a P(a**2): closer than the product of three factors; for a >= 1/2 the first difference is exact."""
    return k.fma(k.neg(a), polynomial(k, k.mul(a, a), ERF_SMALL["float64"]), k.sub(k.const(1.0), a))


def _scaled_far(k: Ops, a: Value) -> Value:
    """erfcx(a) beyond the border: the first terms of its asymptotic series in 1 / a."""
    inverse = k.div(k.const(1.0), a)
    return k.mul(k.mul(inverse, k.const(ONE_OVER_ROOT_PI)), polynomial(k, k.mul(inverse, inverse), ERFCX_FAR))


def _erfc_nonnegative(k: Ops, a: Value, precision: str) -> Value:
    """erfc(a) = exp(-a**2) P(q) / (a + c) for a >= 0, in float64 lanes, accurate enough for ``precision``.

    Every factor is a rounded value and its error up to the one rounding of the final product.
    """
    a = at_most(k, a, ERFCX_BORDER)
    (p, p_error), (inverse, inverse_error) = _scaled(k, a, precision)
    # exp(-a**2) = 2**n (1 + e): the rounding error of the square is subtracted from the reduced argument.
    square = k.mul(a, a)
    square_error = k.fma(a, a, k.neg(square))
    r, n, bits = reduce_exponent(k, k.neg(square))
    increment = k.fma(p, expm1_reduced(k, k.sub(r, square_error)), p_error)
    y = k.add(p, increment)
    y_error = k.sub(increment, k.sub(y, p))
    return scale(k, k.fma(y, inverse, k.fma(y, inverse_error, k.mul(y_error, inverse))), n, bits)


def _scaled(k: Ops, a: Value, precision: str) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """The factors P(q) and 1 / (a + c) of erfcx(a) for 0 <= a <= the border, each a rounded value and its error."""
    centre, coefficients = ERFCX_CENTRE[precision], ERFCX[precision]
    inverse, inverse_error = _reciprocal(k, a, centre)
    q = k.fma(k.const(-2.0 * centre), inverse_error, k.fma(k.const(-2.0 * centre), inverse, k.const(1.0)))
    inner = polynomial(k, q, coefficients[1:])
    p = k.fma(q, inner, k.const(coefficients[0]))
    p_error = k.fma(q, inner, k.sub(k.const(coefficients[0]), p))
    return (p, p_error), (inverse, inverse_error)


def _reciprocal(k: Ops, a: Value, centre: float) -> tuple[Value, Value]:
    """1 / (a + centre) as a rounded quotient and its error, both of which depend on the error of the sum."""
    total = k.add(a, k.const(centre))
    total_error = k.select(
        k.le(k.const(centre), a),
        k.sub(k.const(centre), k.sub(total, a)),
        k.sub(a, k.sub(total, k.const(centre))),
    )
    inverse = k.div(k.const(1.0), total)
    residual = k.fma(k.neg(inverse), total_error, k.fma(k.neg(total), inverse, k.const(1.0)))
    return inverse, k.mul(inverse, residual)
