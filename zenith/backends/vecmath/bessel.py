"""The modified Bessel functions I0 and I1, also divided by exp(|x|), in float64 lanes.

Up to a border both are series in the square of the argument, all of whose terms are positive: nothing cancels. Beyond
it they are ``exp(a) / sqrt(a)`` times a slowly varying factor, a polynomial in 1 / a. (The division of the range is
that of C. W. Clenshaw, "Chebyshev series for mathematical functions", National Physical Laboratory Mathematical Tables
5, 1962.) The polynomials interpolate at Chebyshev's nodes.
"""

from __future__ import annotations

from zenith.backends.vecmath.exponential import exp
from zenith.backends.vecmath.ops import Ops, Value, at_most, polynomial

BORDER = {"float32": 8.0, "float64": 16.0}
# I0(a) and I1(a) / a in powers of a**2, for a up to the border; relative errors 2^-37.3 and 2^-41.2 for float32
# results, and of the order of the coefficients' rounding, 2^-55, for float64.
SERIES = {
    0: {
        "float32": (
            1.000000000005861,
            0.24999999996905267,
            0.015625000027048107,
            0.00043402776849957883,
            6.7816856792870155e-06,
            6.78166656004351e-08,
            4.709621152758906e-10,
            2.4022716027732928e-12,
            9.402516061059225e-15,
            2.8620200600088e-17,
            7.73396022541711e-20,
            1.0574942023526907e-22,
            4.773217165893802e-25,
        ),
        "float64": (
            1.0,
            0.25,
            0.015624999999999995,
            0.00043402777777777916,
            6.781684027777558e-06,
            6.781684027779913e-08,
            4.709502797054e-10,
            2.402807549588742e-12,
            9.385966988129709e-15,
            2.896903397810077e-17,
            7.242258363966159e-20,
            1.4963345829635667e-22,
            2.597800387008188e-25,
            3.842928111712589e-28,
            4.901457352683358e-31,
            5.4476790922107805e-34,
            5.3110676049882365e-37,
            4.634153611770156e-40,
            3.434062987962434e-43,
            2.7749307968741435e-46,
            8.798806724567359e-50,
            1.863371446595299e-52,
            -5.588902828072293e-56,
            7.923960859161715e-59,
        ),
    },
    1: {
        "float32": (
            0.5000000000002023,
            0.062499999998932056,
            0.0026041666676001178,
            5.4253471901983145e-05,
            6.781684597911476e-07,
            5.651397324603597e-09,
            3.363971454938403e-11,
            1.501569480729061e-13,
            5.220150066471134e-16,
            1.4363736932125096e-18,
            3.462455023013419e-21,
            4.708715077990487e-24,
            1.7599167975856656e-26,
        ),
        "float64": (
            0.5,
            0.0625,
            0.0026041666666666665,
            5.4253472222222246e-05,
            6.781684027777736e-07,
            5.65140335648189e-09,
            3.3639305693315576e-11,
            1.5017547184650683e-13,
            5.214426105318128e-16,
            1.4484516971348392e-18,
            3.2919356505865677e-21,
            6.234727009278615e-24,
            9.991544560412334e-27,
            1.372470246884308e-29,
            1.633848252380245e-32,
            1.7022318192265158e-35,
            1.562855836159459e-38,
            1.2844010119030246e-41,
            9.119829555351634e-45,
            6.75359109947416e-48,
            2.3965935783827842e-51,
            3.889875704560474e-54,
            -9.695264714171021e-58,
            1.569107058935912e-60,
        ),
    },
}
# sqrt(a) exp(-a) I(a) in powers of 2 border / a - 1, for a beyond the border; relative errors 2^-32.5 and 2^-54.
FACTOR = {
    0: {
        "float32": (
            0.4021765094450081,
            0.003360552227107552,
            0.00013621634810372812,
            1.1139924003904079e-05,
            1.4801668682355922e-06,
            3.071251794715818e-07,
            1.0222957952124411e-07,
            3.173468265128346e-08,
            3.21343456778252e-09,
        ),
        "float64": (
            0.40052897918718267,
            0.0016160154003827555,
            3.0355013467521555e-05,
            1.0944942081118486e-06,
            6.02631709425831e-08,
            4.569801078911799e-09,
            4.5056344285047066e-10,
            5.5742662249958974e-11,
            8.47417329970367e-12,
            1.5519361168912292e-12,
            3.1215453810173803e-13,
            8.374946422391967e-14,
            4.945454665080769e-14,
            1.740507221088811e-14,
        ),
    },
    1: {
        "float32": (
            0.38939845902587233,
            -0.009749577441134048,
            -0.00021923605339011808,
            -1.5035390362454545e-05,
            -1.8310212382191527e-06,
            -3.581953648145277e-07,
            -1.1423534161320156e-07,
            -3.5904638329365215e-08,
            -4.2368978067496745e-09,
        ),
        "float64": (
            0.394220213406121,
            -0.004770398290913601,
            -4.976699102618386e-05,
            -1.5068432513051608e-06,
            -7.616857104027238e-08,
            -5.4886550631112085e-09,
            -5.230560755752985e-10,
            -6.315083090910724e-11,
            -9.423985509317358e-12,
            -1.7012433700704588e-12,
            -3.388065939053205e-13,
            -8.970953029945164e-14,
            -5.23991356206996e-14,
            -1.8421324551235118e-14,
        ),
    },
}


def bessel_i0(k: Ops, x: Value) -> Value:
    """The modified Bessel function of order 0."""
    d, a = _magnitude(k, x)
    return k.narrow(_unscaled(d, a, _near(d, a, 0, k.dtype), _far(d, a, 0, k.dtype), k.dtype))


def bessel_i1(k: Ops, x: Value) -> Value:
    """The modified Bessel function of order 1, an odd one."""
    d, a = _magnitude(k, x)
    near = d.mul(_near(d, a, 1, k.dtype), a)
    return k.narrow(d.copysign(_unscaled(d, a, near, _far(d, a, 1, k.dtype), k.dtype), k.widen(x)))


def bessel_i0e(k: Ops, x: Value) -> Value:
    """exp(-abs(x)) times the modified Bessel function of order 0."""
    d, a = _magnitude(k, x)
    return k.narrow(_scaled(d, a, _near(d, a, 0, k.dtype), _far(d, a, 0, k.dtype), k.dtype))


def bessel_i1e(k: Ops, x: Value) -> Value:
    """exp(-abs(x)) times the modified Bessel function of order 1."""
    d, a = _magnitude(k, x)
    near = d.mul(_near(d, a, 1, k.dtype), a)
    return k.narrow(d.copysign(_scaled(d, a, near, _far(d, a, 1, k.dtype), k.dtype), k.widen(x)))


def _magnitude(k: Ops, x: Value) -> tuple[Ops, Value]:
    return k.double, k.double.abs(k.widen(x))


def _near(d: Ops, a: Value, order: int, precision: str) -> Value:
    """I0(a), or I1(a) / a, up to the border.

    Relatively, the series changes a / 2 times as fast as the square, whose error for float64 comes in by the slope.
    """
    near = at_most(d, a, BORDER[precision])
    square = d.mul(near, near)
    if precision == "float32":
        return polynomial(d, square, SERIES[order][precision])
    *rest, value = map(d.const, SERIES[order][precision])
    slope = d.const(0.0)
    for c in reversed(rest):
        slope, value = d.fma(slope, square, value), d.fma(value, square, c)
    return d.fma(slope, d.fma(near, near, d.neg(square)), value)


def _far(d: Ops, a: Value, order: int, precision: str) -> Value:
    """sqrt(a) exp(-a) I(a) beyond the border."""
    border = d.const(BORDER[precision])
    far = d.select(d.lt(a, border), border, a)
    u = d.sub(d.div(d.const(2.0 * BORDER[precision]), far), d.const(1.0))
    return polynomial(d, u, FACTOR[order][precision])


def _unscaled(d: Ops, a: Value, near: Value, far: Value, precision: str) -> Value:
    """The half of the exponential twice: it overflows where the function still does not."""
    half = exp(d, d.mul(at_most(d, a, 1000.0), d.const(0.5)))
    large = d.mul(d.mul(half, d.div(far, d.sqrt(a))), half)
    large = d.select(d.lt(a, d.const(1000.0)), large, d.mul(a, d.const(float("inf"))))
    return d.select(d.lt(a, d.const(BORDER[precision])), near, large)


def _scaled(d: Ops, a: Value, near: Value, far: Value, precision: str) -> Value:
    small = d.mul(near, exp(d, d.neg(at_most(d, a, BORDER[precision]))))
    return d.select(d.lt(a, d.const(BORDER[precision])), small, d.div(far, d.sqrt(a)))
