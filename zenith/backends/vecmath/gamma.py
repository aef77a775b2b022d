"""The logarithm of the gamma function, and its derivative, the digamma function.

Both follow Stirling's series around x + 1/2: what remains of lgamma(x + 1) and digamma(x + 1) is small and smooth for
all x >= 0, a polynomial in q = (x - 1) / (x + 1), which takes the half-line to [-1, 1). One step of the recurrence
leads to x, and the reflection formula to negative x. The polynomials interpolate at Chebyshev's nodes.

Results near zeros of the functions are differences: float32 lines compute in float64, where that costs nothing; the
float64 digamma has a polynomial of its own around its positive zero. Next to the zeros on the negative axis the error
of float64 results is that of numbers around 1. The float64 lgamma is the C library's.
"""

from __future__ import annotations

from zenith.backends.vecmath.logarithm import log
from zenith.backends.vecmath.ops import Ops, Value, at_most, polynomial

HALF_LOG_TWO_PI = 0.9189385332046728
# lgamma(x + 1) - (x + 1/2) (log(x + 1/2) - 1) - log(2 pi) / 2 in powers of q; absolute error 2^-56.8.
LOG_GAMMA = (
    -0.027136195366919316,
    0.034638453980605444,
    -0.008826745656274995,
    0.0014822388738586524,
    -0.00020338597951706643,
    5.93360314163101e-05,
    -1.5012515540115446e-05,
    2.186108311706442e-06,
    -1.1087687875427455e-06,
    2.1554594822242793e-07,
    -2.524804860641171e-08,
    3.898238290882213e-08,
    3.650372783693673e-09,
    2.7122069291292707e-09,
    -1.0911408702237656e-09,
    -4.970652796453189e-10,
    -3.80750765335135e-10,
    -3.848988740209818e-10,
    -2.050844384348436e-10,
    1.0830683297488262e-10,
    1.1187929388373857e-10,
    1.2771950307740632e-12,
    -1.2538405038455455e-11,
)
# digamma(x + 1) - log(x + 1/2) in powers of q; absolute error 2^-57.4.
DIGAMMA = (
    0.017319226990302757,
    -0.04346519963688042,
    0.03719607661363132,
    -0.013680234236878953,
    0.003185242307802188,
    -0.0007484896630914402,
    0.0002460665440885154,
    -6.477537335407086e-05,
    1.749154400135607e-05,
    -6.501288369359331e-06,
    1.4365546948098375e-06,
    -5.328395457314314e-07,
    1.8910056744392294e-07,
    -2.1954163666324118e-08,
    2.7482276289500012e-08,
    -1.3046825400690475e-09,
    1.1774614555495215e-09,
    -8.077932186689514e-10,
    -1.0254120362272861e-10,
    -8.422995856141047e-10,
    -5.854853882416617e-10,
    9.061631555136785e-11,
    2.1719432595762256e-10,
    2.7236449300143716e-11,
    -1.4787644032396385e-11,
)
# digamma(x) / (x - zero) in powers of x - 3/2, for |x - 3/2| <= 0.3; relative error 2^-54.
AROUND_ZERO = (
    0.9510558760318328,
    -0.42362742128146047,
    0.24054248424078495,
    -0.148404923053916,
    0.09498872445349787,
    -0.0619221332721023,
    0.0407608338719583,
    -0.026975796795830426,
    0.01790725221546273,
    -0.011908217852213713,
    0.007926898079796496,
    -0.005279933829835328,
    0.0035204086627283328,
    -0.0023462024544445258,
    0.001538518550810714,
    -0.001025562154521931,
    0.0008337229693579037,
    -0.0005557953842510396,
)
ZERO = (1.4616321449683622, 9.549995429965697e-17)
# sin(pi r) / (pi r) and cos(pi r) in powers of r**2, for |r| <= 1/4; relative errors 2^-59 and 2^-55.4.
SINE = (
    1.0,
    -1.6449340668482264,
    0.8117424252833524,
    -0.1907518241219269,
    0.02614784780776427,
    -0.002346080697728499,
    0.00014842240256046724,
    -6.9128635678705135e-06,
)
COSINE = (
    1.0,
    -4.934802200544679,
    4.058712126416747,
    -1.3352627688519174,
    0.23533063019088787,
    -0.025806885652951306,
    0.0019294657440800042,
    -0.00010356747255199479,
)


def lgamma(k: Ops, x: Value) -> Value:
    """The logarithm of the absolute value of the gamma function; infinite at 0 and at negative integers."""
    if k.dtype == "float64":
        return k.libm("lgamma", x)
    d, wide = k.double, k.widen(x)
    a = at_most(d, d.abs(wide), 2.0**130)  # beyond, the result is infinite
    y = d.add(a, d.const(0.5))
    stirling = d.fma(y, d.sub(log(d, y), d.const(1.0)), d.const(HALF_LOG_TWO_PI))
    above = d.add(stirling, polynomial(d, _centred(d, a), LOG_GAMMA))
    positive = d.lt(d.const(0.0), wide)
    step = log(d, d.select(positive, a, d.abs(_sine_cosine_pi(d, a)[0])))
    result = d.select(positive, d.sub(above, step), d.neg(d.add(above, step)))
    zero = d.either(d.eq(wide, d.const(1.0)), d.eq(wide, d.const(2.0)))
    return k.narrow(d.select(zero, d.const(0.0), result))


def digamma(k: Ops, x: Value) -> Value:
    """The derivative of lgamma; infinite at 0, nan at negative integers."""
    d, wide = k.double, k.widen(x)
    a = d.abs(wide)
    one = d.const(1.0)
    above = d.add(log(d, d.add(a, d.const(0.5))), polynomial(d, _centred(d, at_most(d, a, 2.0**60)), DIGAMMA))
    sine, cosine = _sine_cosine_pi(d, at_most(d, a, 2.0**60))
    negative = d.lt(d.copysign(one, wide), d.const(0.0))
    result = d.add(above, d.select(negative, d.div(cosine, sine), d.neg(d.div(one, a))))
    pole = d.both(negative, d.both(d.eq(sine, d.const(0.0)), d.le(one, a)))
    result = d.select(pole, d.const(float("nan")), result)
    return k.narrow(result) if k.dtype == "float32" else _at_zero(k, x, result)


def _at_zero(k: Ops, x: Value, result: Value) -> Value:
    """Around the zero its distance, exact but for one rounding, times a polynomial."""
    distance = k.sub(k.sub(x, k.const(ZERO[0])), k.const(ZERO[1]))
    offset = k.sub(x, k.const(1.5))
    near = k.lt(k.abs(offset), k.const(0.3))
    return k.select(near, k.mul(distance, polynomial(k, offset, AROUND_ZERO)), result)


def _centred(d: Ops, x: Value) -> Value:
    """(x - 1) / (x + 1)."""
    one = d.const(1.0)
    return d.div(d.sub(x, one), d.add(x, one))


def _sine_cosine_pi(d: Ops, a: Value) -> tuple[Value, Value]:
    """sin(pi a) / pi and cos(pi a), up to one sign for both, from the distance to the nearest half of an integer."""
    r = d.sub(a, d.rint(a))
    size = d.abs(r)
    outer = d.lt(d.const(0.25), size)
    t = d.select(outer, d.sub(d.const(0.5), size), size)
    square = d.mul(t, t)
    sine, cosine = d.mul(t, polynomial(d, square, SINE)), polynomial(d, square, COSINE)
    inverse_pi, pi = d.const(0.3183098861837907), d.const(3.141592653589793)
    first = d.select(outer, d.mul(cosine, inverse_pi), sine)
    return d.copysign(first, r), d.select(outer, d.mul(sine, pi), cosine)
