"""The inverses of the error function and of its complement.

``erfinv(x) / x`` is a smooth function of ``w = -log(1 - x**2)``, nearly constant where x is small, and far out, where w
is large, nearly linear in the root of w (M. Giles, "Approximating the erfinv function", GPU Computing Gems, 2010). It
is fitted by polynomials in w for small w and in the root for others; the coefficients are Zenith's own.

``erfcinv(y)`` is that function, too, at ``x = 1 - y``, where ``1 - x**2 = y (2 - y)`` keeps its digits however small y
is. Then the root is larger than for any float x, up to 27.3; there, the difference of the function and the root is
fitted by a polynomial in ``q = (root - c) / (root + c)``, which varies with the root's logarithm.
"""

from __future__ import annotations

from typing import NamedTuple

from zenith.backends.vecmath.logarithm import log
from zenith.backends.vecmath.ops import Ops, Value, polynomial


class PolynomialPiece(NamedTuple):
    """erfinv(x) / x up to a bound of the variable, in powers of its distance to the piece's centre."""

    bound: float
    centre: float
    coefficients: tuple[float, ...]


# In w. float32: relative error 2^-25.0; float64: 2^-57.3.
NEAR = {
    "float32": PolynomialPiece(
        5.0,
        0.0,
        (
            0.88622695,
            0.2320135,
            0.011550748,
            -0.002339631,
            -0.000120543475,
            3.936988e-05,
            6.3544057e-06,
            -2.6466168e-06,
            3.3550938e-07,
            -1.96177e-08,
            4.3511472e-10,
        ),
    ),
    "float64": PolynomialPiece(
        6.25,
        3.125,
        (
            1.6536545626831027,
            0.24015818242558834,
            -0.006033670871426908,
            -0.0007407025341546572,
            0.00018673420802008554,
            -1.3882523393920442e-05,
            -1.3654691764001387e-06,
            4.2347881677716927e-07,
            -2.9070390761936884e-08,
            -4.1126604066482585e-09,
            1.0512230784674892e-09,
            -5.4143045472080583e-11,
            -1.2978695334656446e-11,
            2.6305301926231066e-12,
            -8.074595688729043e-14,
            -4.0020617748552674e-14,
            6.525655141401077e-15,
            -3.933508641199522e-17,
            -1.2261848463709764e-16,
            1.5506009496679205e-17,
            6.38844750019161e-19,
            -3.4715307676023003e-19,
            1.877151678052992e-20,
            3.1905586173417536e-21,
            -3.3850330157210103e-22,
        ),
    ),
}
# In the root of w, which is at most 4 in float32 and 6.01 in float64. Relative errors 2^-28.8; 2^-59.6 and 2^-56.4.
FAR = {
    "float32": (
        PolynomialPiece(
            4.0,
            3.125,
            (
                2.9583201,
                1.0037186,
                0.007048014,
                -0.005300233,
                0.0037925062,
                -0.0025250134,
                0.0012709956,
                -0.0003156878,
                -0.00011473274,
                0.00012463461,
                -3.0658008e-05,
            ),
        ),
    ),
    "float64": (
        PolynomialPiece(
            4.0,
            3.25,
            (
                3.0838856104922208,
                1.0052589676941655,
                0.005370914553555201,
                -0.003751208508224261,
                0.0024914420979470237,
                -0.0016882755354636595,
                0.0009532893418069925,
                -0.0003550378135746499,
                2.4031510221694095e-05,
                6.828711576985263e-05,
                -4.7320663035945735e-05,
                1.2465035568283125e-05,
                2.932506943526351e-06,
                -3.985726034382243e-06,
                1.4817772244790875e-06,
                -2.7584506876359507e-08,
                -2.4577015472044047e-07,
                1.3155760748321638e-07,
                -2.0686402109195944e-08,
                -1.5294532436152358e-08,
                7.598895200781737e-09,
            ),
        ),
        PolynomialPiece(
            6.0625,
            5.03125,
            (
                4.8814781489772106,
                1.0102911741198128,
                -0.00015843904954873395,
                -0.0002057201851589192,
                7.298525532900535e-05,
                -1.8853116932345392e-05,
                4.314923668494707e-06,
                -9.380411897622875e-07,
                2.1125064442962736e-07,
                -5.925107420342613e-08,
                2.4261905809378063e-08,
                -1.258458048916448e-08,
                6.500402241030951e-09,
                -2.9249671107017182e-09,
                1.1426918715022214e-09,
                -4.0633210025249045e-10,
                7.640067470379192e-11,
                3.3604358238181e-11,
                -1.7352852482681015e-11,
            ),
        ),
    ),
}


class Tail(NamedTuple):
    """erfinv(x) / x - root from a bound of the root on, in powers of the distance of q to the piece's centre."""

    bound: float
    middle: float
    centre: float
    coefficients: tuple[float, ...]


# Up to the roots of the smallest numbers, 10.2 and 27.3. Relative errors of the sum with the root: 2^-27.2; 2^-55.2.
TAIL = {
    "float32": Tail(
        4.0,
        6.0,
        0.03,
        (
            -0.13658902,
            0.11784919,
            0.039315786,
            -0.08001922,
            0.11554652,
            -0.120668925,
            0.13244501,
            -0.12029419,
        ),
    ),
    "float64": Tail(
        6.0,
        9.0,
        0.15,
        (
            -0.09787856399662453,
            0.11668102329414798,
            -0.01633128729762919,
            -0.001310027916922363,
            0.02347025887186974,
            -0.025722450287187025,
            0.03225610527081263,
            -0.028720622715332506,
            0.029586613724108705,
            -0.023899904906728747,
            0.022839174643298876,
            -0.016788987459843967,
            0.015627095477033916,
            -0.009920251014728876,
            0.009069394712095257,
            -0.005066646357318687,
            0.006627990227442236,
            0.0006201547289133732,
        ),
    ),
}


def erfinv(k: Ops, x: Value) -> Value:
    """The inverse of erf: infinite at -1 and 1, NaN beyond; in lanes of the argument's own type."""
    one = k.const(1.0)
    w = k.neg(log(k, k.fma(k.neg(x), x, one)))
    ratio = _ratio(k, w, k.sqrt(w))
    return k.select(k.eq(k.abs(x), one), k.copysign(k.const(float("inf")), x), k.mul(ratio, x))


def erfcinv(k: Ops, y: Value) -> Value:
    """The inverse of erfc: infinite at 0, minus infinity at 2, NaN beyond; in lanes of the argument's own type."""
    one, two = k.const(1.0), k.const(2.0)
    x = k.sub(one, y)
    product = k.select(k.lt(y, k.const(0.5)), k.mul(y, k.sub(two, y)), k.fma(k.neg(x), x, one))
    w = k.neg(log(k, product))
    root, tail = k.sqrt(w), TAIL[k.dtype]
    middle = k.const(tail.middle)
    q = k.div(k.sub(root, middle), k.add(root, middle))
    ratio = k.select(k.lt(root, k.const(tail.bound)), _ratio(k, w, root), k.add(root, _value(k, q, tail)))
    end = k.either(k.eq(y, k.const(0.0)), k.eq(y, two))
    return k.select(end, k.copysign(k.const(float("inf")), x), k.mul(ratio, x))


def _ratio(k: Ops, w: Value, root: Value) -> Value:
    """erfinv(x) / x, for roots that an x has whose distance to 1 is that of floats around it."""
    first, *further = FAR[k.dtype]
    ratio = _value(k, root, first)
    for before, piece in zip((first, *further), further, strict=False):
        ratio = k.select(k.lt(root, k.const(before.bound)), ratio, _value(k, root, piece))
    near = NEAR[k.dtype]
    return k.select(k.lt(w, k.const(near.bound)), _value(k, w, near), ratio)


def _value(k: Ops, variable: Value, piece: PolynomialPiece | Tail) -> Value:
    return polynomial(k, k.sub(variable, k.const(piece.centre)), piece.coefficients)
