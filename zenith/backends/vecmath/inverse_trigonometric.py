"""Inverse trigonometric functions.

The arctangent is the angle of a point of the plane, for float32 computed in float64: the quotient of the smaller by the
larger coordinate lies in [0, 1], and reflections lead back to its octant. The arcsine is a polynomial up to 1/2, from
where half angles lead back to it.
"""

from __future__ import annotations

from zenith.backends.vecmath import double_length as pair
from zenith.backends.vecmath.double_length import Pair
from zenith.backends.vecmath.formats import SplitConstant
from zenith.backends.vecmath.ops import Ops, Value, polynomial

# (arctan(z) - z) / z**3 in powers of z**2 for 0 <= z <= 1; relative error of the arctangent 2^-31.2.
ARCTANGENT = (
    -0.3333332690109602,
    0.19999671184432088,
    -0.14279833879341966,
    0.11058229147756608,
    -0.08811111815046939,
    0.06741643375089346,
    -0.04469058704336518,
    0.02254041048698709,
    -0.007318209715045508,
    0.0011138388657856723,
)
# The same for |z| <= 0.4143 and float64 results; relative error 2^-57.6.
ARCTANGENT_OF_HALF_OCTANT = (
    -0.3333333333333333,
    0.19999999999998683,
    -0.1428571428548619,
    0.11111111093175918,
    -0.09090908297929888,
    0.07692285804593804,
    -0.06666267322042824,
    0.058773889266823504,
    -0.05220645240048655,
    0.045124451317438745,
    -0.03368347125688297,
    0.015416999257506302,
)
# (arcsin(z) - z) / z**3 in powers of z**2 for 0 <= z <= 1/2; relative error of the arcsine 2^-31.7 and 2^-59.8.
ARCSINE = {
    "float32": (
        0.1666665987012349,
        0.075005109865733,
        0.04451571064559037,
        0.03181767298287731,
        0.014402423554503998,
        0.037565405989110116,
    ),
    "float64": (
        0.16666666666666763,
        0.07499999999970255,
        0.0446428571751244,
        0.030381942683527473,
        0.02237221566120171,
        0.017351600097708572,
        0.01398096117260115,
        0.01139777965986839,
        0.01078650196729007,
        0.0036831651382958673,
        0.021763155866337733,
        -0.021076752790259494,
        0.03267652308594679,
    ),
}
HALF_PI = {
    "float32": SplitConstant(1.57079637050628662109375, -4.37113900018624283e-8),
    "float64": SplitConstant(1.5707963267948966, 6.123233995736766e-17),
}
QUARTER_PI = SplitConstant(0.7853981633974483, 3.061616997868383e-17)
HALF_OCTANT = 0.4142
"""tan(pi / 8): above it a quotient is reflected at the diagonal for float64 results."""
LARGE = 2.0**1000
"""Coordinates above this are made smaller, as their sum may overflow."""
TINY = 2.0**-100
"""The rounding error of a quotient below this hardly counts, and may underflow."""


def _angle_in_octant(k: Ops, small: Value, large: Value) -> Value:
    """The arctangent of small / large in [0, 1], for a float32 result; 1 for inf / inf, and 0 for 0 / 0."""
    z = k.div(small, large)
    z = k.select(k.eq(small, large), k.const(1.0), z)
    z = k.select(k.eq(k.add(small, large), k.const(0.0)), k.const(0.0), z)
    square = k.mul(z, z)
    return k.fma(k.mul(z, square), polynomial(k, square, ARCTANGENT), z)


def _exact_angle_in_octant(k: Ops, small: Value, large: Value) -> Value:
    """The same for a float64 result: pi / 4 - arctan((large - small) / (large + small)) from tan(pi / 8) on."""
    zero = k.const(0.0)
    factor = k.select(k.lt(k.const(LARGE), large), k.const(1 / LARGE), k.const(1.0))
    small, large = k.mul(small, factor), k.mul(large, factor)
    equal = k.eq(small, large)
    reflected = k.either(equal, k.lt(k.mul(large, k.const(HALF_OCTANT)), small))
    difference, total = pair.add_smaller(k, k.neg(large), small), pair.add_smaller(k, large, small)
    z, low = _quotient(
        k,
        (k.select(reflected, difference[0], small), k.select(reflected, difference[1], zero)),
        (k.select(reflected, total[0], large), k.select(reflected, total[1], zero)),
    )
    z, low = (k.select(equal, zero, part) for part in (z, low))
    square = k.mul(z, z)
    curved = k.fma(k.mul(z, square), polynomial(k, square, ARCTANGENT_OF_HALF_OCTANT), low)
    low = k.add(curved, k.select(reflected, k.const(QUARTER_PI.lo), zero))
    angle = k.add(k.select(reflected, k.const(QUARTER_PI.hi), zero), k.add(z, low))
    return k.select(k.eq(k.add(small, large), zero), zero, angle)


def _quotient(k: Ops, x: Pair, y: Pair) -> Pair:
    """x / y; the second part is zero for quotients that are no ordinary numbers."""
    quotient = k.div(x[0], y[0])
    rest = k.fma(k.neg(quotient), y[1], k.add(k.fma(k.neg(quotient), y[0], x[0]), x[1]))
    low = k.div(rest, y[0])
    return quotient, k.select(k.le(k.const(TINY), k.abs(quotient)), low, k.const(0.0))


def _angle(k: Ops, y: Value, x: Value) -> Value:
    """The angle of the point (x, y) in [-pi, pi], for coordinates in float64, rounded to the type of k."""
    d = k.double
    across, up = d.abs(x), d.abs(y)
    steep = d.lt(across, up)
    in_octant = _exact_angle_in_octant if k.dtype == "float64" else _angle_in_octant
    angle = in_octant(d, d.select(steep, across, up), d.select(steep, up, across))
    angle = d.select(steep, _minus(d, 2, angle), angle)
    left = d.lt(d.copysign(d.const(1.0), x), d.const(0.0))
    return k.narrow(d.copysign(d.select(left, _minus(d, 4, angle), angle), y))


def _minus(d: Ops, octants: int, angle: Value) -> Value:
    """The angle of this many octants, less another."""
    high, low = d.const(octants * QUARTER_PI.hi), d.const(octants * QUARTER_PI.lo)
    return d.add(d.sub(high, angle), low)


def arctan(k: Ops, x: Value) -> Value:
    """Inverse tangent, in [-pi/2, pi/2]."""
    return _angle(k, k.widen(x), k.double.const(1.0))


def arctan2(k: Ops, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), in [-pi, pi]; the signs of zeros choose the side of the cut."""
    return _angle(k, k.widen(y), k.widen(x))


def arcsin(k: Ops, x: Value) -> Value:
    """Inverse sine, in [-pi/2, pi/2]: pi/2 less twice that of the half angle where |x| > 1/2."""
    steep, root, rest = _half_angle(k, k.abs(x))
    quarter_turn = HALF_PI[k.dtype]
    high, low = pair.add_smaller(k, k.const(quarter_turn.hi), k.neg(k.add(root, root)))
    reflected = k.add(high, k.add(low, k.sub(k.const(quarter_turn.lo), k.add(rest, rest))))
    return k.copysign(k.select(steep, reflected, k.add(root, rest)), x)


def arccos(k: Ops, x: Value) -> Value:
    """Inverse cosine, in [0, pi]: twice the arcsine of the half angle where x > 1/2, and pi less that below -1/2."""
    steep, root, rest = _half_angle(k, k.abs(x))
    quarter_turn, half_turn, zero = HALF_PI[k.dtype], _doubled(HALF_PI[k.dtype]), k.const(0.0)
    left = k.lt(x, zero)

    def start(turn: str) -> Value:
        ends = k.select(left, k.const(getattr(half_turn, turn)), zero)
        return k.select(steep, ends, k.const(getattr(quarter_turn, turn)))

    def way(part: Value) -> Value:
        return k.select(steep, k.copysign(k.add(part, part), x), k.neg(k.copysign(part, x)))

    high, low = pair.add_smaller(k, start("hi"), way(root))
    return k.add(high, k.add(low, k.add(start("lo"), way(rest))))


def _doubled(x: SplitConstant) -> SplitConstant:
    return SplitConstant(2 * x.hi, 2 * x.lo)


def _half_angle(k: Ops, x: Value) -> tuple[Value, Value, Value]:
    """Whether x > 1/2; and the arcsine of x or, where it is, of sqrt((1 - x) / 2): a number and what it lacks.

    The root's rounding error counts: its square is less than (1 - x) / 2, which is exact, by twice the root times it.
    """
    steep = k.lt(k.const(0.5), x)
    square = k.select(steep, k.mul(k.sub(k.const(1.0), x), k.const(0.5)), k.mul(x, x))
    root = k.sqrt(square)
    error = k.div(k.fma(k.neg(root), root, square), k.add(root, root))
    error = k.select(k.both(steep, k.lt(k.const(0.0), root)), error, k.const(0.0))
    root = k.select(steep, root, x)
    return steep, root, k.fma(k.mul(root, square), polynomial(k, square, ARCSINE[k.dtype]), error)
