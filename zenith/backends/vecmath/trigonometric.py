"""Trigonometric functions and their inverses, in float64 lanes for float32 arguments.

An argument is reduced to a fraction of a turn, ``x / (2 pi) mod 1``, without a branch and for every float32 up to
2**128. The number 1 / (2 pi) is cut into pieces of 28 bits: the product of a piece and a 24-bit float is exact in
float64, and so is what remains when its nearest integer is dropped. The remainders are added from the coarsest to the
finest after the nearest quarter turn has been taken off, so that the result keeps full relative accuracy next to the
multiples of pi / 2. (The method of M. Payne and R. Hanek, SIGNUM Newsletter 18, 1983, with floats for integers.)

In float64 these functions are the C library's.
"""

from __future__ import annotations

from zenith.backends.vecmath.ops import Ops, Value, polynomial

# The first 196 bits of 1 / (2 pi): piece i counts units of 2**(-28 (i + 1)).
INVERSE_TURN_BITS = 28
INVERSE_TURN = (42722829, 194220293, 78114973, 99908941, 58131309, 145057359, 17711367)
PIECES_ABOVE_ONE = 5
"""A float32 times any later piece stays far below one turn, so that there is no integer to drop."""

# sin(pi/2 f) / f and cos(pi/2 f) in powers of f**2 for |f| <= 0.5001; relative errors 2^-37.7 and 2^-34.1.
SINE = (1.5707963267877363, -0.6459640961002013, 0.07969258178999761, -0.004681260233451737, 0.00015819417532985324)
COSINE = (0.999999999943824, -1.2337005395476468, 0.25366918220091933, -0.02085993315995301, 0.0009033565630028199)
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
PI = 3.141592653589793


def reduce_quarters(d: Ops, x: Value) -> tuple[Value, Value]:
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


def _sine_of_quarters(d: Ops, q: Value, f: Value) -> Value:
    """sin((q + f) pi / 2)."""
    sine, cosine = _sine_cosine(d, f)
    odd, negative = _quadrant(d, q)
    result = d.select(odd, cosine, sine)
    return d.select(negative, d.neg(result), result)


def sin(k: Ops, x: Value) -> Value:
    """Sine of an angle in radians."""
    if k.dtype == "float64":
        return k.libm("sin", x)
    d = k.double
    quarters, f = reduce_quarters(d, k.widen(x))
    result = k.narrow(_sine_of_quarters(d, quarters, f))
    return k.select(k.eq(x, k.const(0.0)), x, result)  # the reduction loses the sign of a zero


def cos(k: Ops, x: Value) -> Value:
    """Cosine of an angle in radians."""
    if k.dtype == "float64":
        return k.libm("cos", x)
    d = k.double
    quarters, f = reduce_quarters(d, k.widen(x))
    return k.narrow(_sine_of_quarters(d, d.add(quarters, d.const(1.0)), f))


def tan(k: Ops, x: Value) -> Value:
    """Tangent of an angle in radians: sin f / cos f, or -cos f / sin f after an odd number of quarters."""
    if k.dtype == "float64":
        return k.libm("tan", x)
    d = k.double
    quarters, f = reduce_quarters(d, k.widen(x))
    sine, cosine = _sine_cosine(d, f)
    odd, _ = _quadrant(d, quarters)
    result = k.narrow(d.div(d.select(odd, d.neg(cosine), sine), d.select(odd, sine, cosine)))
    return k.select(k.eq(x, k.const(0.0)), x, result)


def _angle(d: Ops, y: Value, x: Value) -> Value:
    """The angle of the point (x, y) in [-pi, pi], for widened float32 numbers or sums of their squares.

    The quotient of the smaller by the larger coordinate lies in [0, 1]; reflections lead back to the octant.
    """
    across, up = d.abs(x), d.abs(y)
    steep = d.lt(across, up)
    z = d.div(d.select(steep, across, up), d.select(steep, up, across))
    z = d.select(d.eq(across, up), d.const(1.0), z)  # inf / inf
    z = d.select(d.eq(d.add(across, up), d.const(0.0)), d.const(0.0), z)  # 0 / 0
    square = d.mul(z, z)
    angle = d.fma(d.mul(z, square), polynomial(d, square, ARCTANGENT), z)
    angle = d.select(steep, d.sub(d.const(PI / 2), angle), angle)
    left = d.lt(d.copysign(d.const(1.0), x), d.const(0.0))
    return d.copysign(d.select(left, d.sub(d.const(PI), angle), angle), y)


def arctan(k: Ops, x: Value) -> Value:
    """Inverse tangent, in [-pi/2, pi/2]."""
    if k.dtype == "float64":
        return k.libm("atan", x)
    d = k.double
    return k.narrow(_angle(d, k.widen(x), d.const(1.0)))


def arctan2(k: Ops, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), in [-pi, pi]; the signs of zeros choose the side of the cut."""
    if k.dtype == "float64":
        return k.libm("atan2", y, x)
    return k.narrow(_angle(k.double, k.widen(y), k.widen(x)))


def arcsin(k: Ops, x: Value) -> Value:
    """Inverse sine, in [-pi/2, pi/2]: the angle of the point (sqrt(1 - x**2), x) of the unit circle."""
    if k.dtype == "float64":
        return k.libm("asin", x)
    d, wide = k.double, k.widen(x)
    return k.narrow(_angle(d, wide, _other_leg(d, wide)))


def arccos(k: Ops, x: Value) -> Value:
    """Inverse cosine, in [0, pi]: the angle of the point (x, sqrt(1 - x**2)) of the unit circle."""
    if k.dtype == "float64":
        return k.libm("acos", x)
    d, wide = k.double, k.widen(x)
    return k.narrow(_angle(d, _other_leg(d, wide), wide))


def _other_leg(d: Ops, x: Value) -> Value:
    """sqrt(1 - x**2); the square of a widened float32 is exact, and |x| > 1 gives NaN."""
    return d.sqrt(d.sub(d.const(1.0), d.mul(x, x)))
