"""NumPy references for functions of scipy.special, in the widest type there is: series that converge, plainly.

They are the meaning of the primitives, not their speed: kernels have formulas of their own.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from zenith.ir.ops.reference import erfinv
from zenith.ir.types import NDArray

Wide = Any
_LGAMMA = ctypes.CDLL(None).lgamma
_LGAMMA.restype, _LGAMMA.argtypes = ctypes.c_double, [ctypes.c_double]
_C_LGAMMA = np.vectorize(_LGAMMA, otypes=[np.float64])
_ERFC = np.vectorize(math.erfc, otypes=[np.float64])

# Bernoulli numbers B2, B4, ... B20.
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
_STEPS = 16  # of the recurrence, before a series in 1 / x is used
_BORDER = 40.0  # between the series around 0 and that in 1 / x of Bessel functions
# Where digamma is 0, as a sum, and its derivatives there over 1!, 2!, 3! ...
_ZERO = (1.4616321449683622, 9.549995429965697e-17)
_AT_ZERO = (0.9676722454476212, -0.4427631689835921, 0.258499760955651, -0.16394270544240652, 0.10782405069126237,
            -0.07219956125645471)  # fmt: skip


def erfc(x: NDArray) -> NDArray:
    """The complement of the error function, by the C library in double precision."""
    return _ERFC(x).astype(x.dtype) if x.size else x.copy()


def erfcx(x: NDArray) -> Any:
    """exp(x**2) erfc(x): Laplace's continued fraction from 1 on; below, the difference from a series; reflected."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble)
        a = np.abs(wide)
        near = np.minimum(a, 1)
        inside = np.where(a < 1, _exp_square(near) - _scaled_erf(near), _erfc_fraction(np.maximum(a, 1)))
        return np.where(wide < 0, 2 * _exp_square(a) - inside, inside).astype(x.dtype)


def _exp_square(a: Wide) -> Wide:
    """exp(a**2), where the square is split so that its rounding is not magnified."""
    a = np.minimum(a, 200)  # where it is infinite
    high = a.astype(np.float32).astype(a.dtype)
    return np.exp(high * high) * np.exp((a - high) * (a + high))


def _scaled_erf(a: Wide) -> Wide:
    """exp(a**2) erf(a) for a in [0, 1]: the series has positive terms only."""
    term = 2 * a / np.sqrt(_pi(a))
    total = term
    for n in range(1, 40):
        term = term * (2 * a * a) / (2 * n + 1)
        total = total + term
    return total


def _erfc_fraction(a: Wide) -> Wide:
    """exp(a**2) erfc(a) for a >= 1."""
    fraction = a
    for n in range(400, 0, -1):
        fraction = a + (n / a.dtype.type(2)) / fraction
    return 1 / (fraction * np.sqrt(_pi(a)))


def erfcinv(x: NDArray) -> NDArray:
    """The inverse of erfc: in the middle that of erf, else Newton's method on the logarithm of erfc."""
    wide = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        size = np.where(wide > 1, 2 - wide, wide)
        y = np.sqrt(-np.log(size * (2 - size)))
        for _ in range(8):
            scaled = erfcx(y)
            y = y + (np.log(scaled) - y * y - np.log(size)) * scaled * np.sqrt(_pi(wide)) / 2
        tail = np.where(size == 0, np.inf, np.where(size < 0, np.nan, y))
        middle = erfinv((1 - wide).astype(np.float64))
        return np.where(np.abs(1 - wide) < 0.5, middle, np.where(wide > 1, -tail, tail)).astype(x.dtype)


def lgamma(x: NDArray) -> NDArray:
    """The logarithm of the absolute value of the gamma function, by the C library in double precision."""
    return np.asarray(_C_LGAMMA(x)).astype(x.dtype) if x.size else x.copy()


def digamma(x: NDArray) -> NDArray:
    """The derivative of lgamma: the recurrence up to where its asymptotic series converges; reflected below 0."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble)
        negative = np.signbit(x)
        a = np.where(negative, 1 - wide, wide)
        reflection = _pi(wide) / np.tan(_pi(wide) * (wide - np.rint(wide)))
        result = np.where(negative, _positive_digamma(a) - reflection, _positive_digamma(a))
        near = np.abs(x.astype(np.float64) - _ZERO[0]) < 1e-3
        result = np.where(near, _digamma_at_zero(wide), result)
        result = np.where(negative & (wide == np.rint(wide)), np.where(wide == 0, np.inf, np.nan), result)
        return np.where(np.isinf(x), np.where(negative, np.nan, np.inf), result).astype(x.dtype)


def _pi(like: Wide) -> Wide:
    return np.arccos(np.asarray(-1, like.dtype))


def _digamma_at_zero(x: Wide) -> Wide:
    distance = x - np.longdouble(_ZERO[0]) - np.longdouble(_ZERO[1])
    return sum(c * distance ** (i + 1) for i, c in enumerate(_AT_ZERO))


def _positive_digamma(x: Wide) -> Wide:
    total = sum(-1 / (x + i) for i in range(_STEPS))
    y = x + _STEPS
    series = sum(np.longdouble(b) / (2 * (i + 1)) / y ** (2 * (i + 1)) for i, b in enumerate(BERNOULLI))
    return total + np.log(y) - 1 / (2 * y) - series


def bessel(x: NDArray, order: int, scaled: bool) -> NDArray:
    """The modified Bessel function of order 0 or 1, times exp(-abs(x)) where ``scaled``."""
    with np.errstate(all="ignore"):
        a = np.abs(x.astype(np.longdouble))
        near = _series(np.minimum(a, _BORDER), order) * np.exp(-a if scaled else 0 * a)
        far = _asymptotic(np.maximum(a, _BORDER), order)
        far = far if scaled else np.exp(a / 2) * far * np.exp(a / 2)
        result = np.where(a < _BORDER, near, np.where(np.isinf(a), 0 if scaled else np.inf, far))
        return (np.copysign(result, x) if order else result).astype(x.dtype)


def _series(a: Wide, order: int) -> Wide:
    """The power series, all of whose terms are positive."""
    term = (a / 2) ** order
    total = term
    for k in range(1, 120):
        term = term * (a / 2) ** 2 / (k * (k + order))
        total = total + term
    return total


def _asymptotic(a: Wide, order: int) -> Wide:
    """exp(-a) I(a) for large a."""
    term = np.ones_like(a)
    total = term
    for k in range(1, 30):
        term = term * ((2 * k - 1) ** 2 - 4 * order) / (8 * k * a)
        total = total + term
    return total / np.sqrt(2 * _pi(a) * a)


def polygamma(x: NDArray, order: int) -> Any:
    """The derivatives of digamma, from the Hurwitz zeta function by Euler and Maclaurin; reflected below 0."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble)
        inside = _positive_polygamma(np.where(x < 0, 1 - wide, wide), order)
        angle = _pi(wide) * (wide - np.rint(wide))
        slope = np.polynomial.polynomial.polyval(np.cos(angle) / np.sin(angle), cotangent_derivative(order))
        return np.where(x < 0, (-1) ** order * inside - _pi(wide) ** (order + 1) * slope, inside).astype(x.dtype)


def _positive_polygamma(a: Wide, order: int) -> Wide:
    s, y = order + 1, a + _STEPS
    total = sum((a + i) ** -s for i in range(_STEPS)) + y ** (1 - s) / (s - 1) + y**-s / 2
    for power, weight in tail_weights(order):
        total = total + weight * y**-power
    return (-1) ** (order + 1) * math.factorial(order) * total


def tail_weights(order: int) -> list[tuple[int, float]]:
    """Powers of 1 / y, and their factors, in Euler and Maclaurin's remainder of sums of ``(y + i) ** -(order + 1)``."""
    found, factor = [], float(order + 1)
    for i, b in enumerate(BERNOULLI):
        found.append((order + 2 * i + 2, factor * b / math.factorial(2 * (i + 1))))
        factor *= (order + 2 * i + 2) * (order + 2 * i + 3)
    return found


def cotangent_derivative(order: int) -> list[float]:
    """The derivative of the cotangent, as coefficients of a polynomial in the cotangent, from the constant term on."""
    p = [0.0, 1.0]
    for _ in range(order):
        slope = [i * c for i, c in enumerate(p)][1:]
        p = [-(s + q) for s, q in zip([*slope, 0.0, 0.0], [0.0, 0.0, *slope], strict=True)]
    return p
