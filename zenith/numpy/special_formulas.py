"""Functions of ``scipy.special`` without a primitive of their own, as short expressions over primitives.

Operands are arrays of one floating-point type and shape; ends of domains are as SciPy gives them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from zenith.numpy.formulas import full_like, isnan
from zenith.numpy.typing import Array
from zenith.trace.bind import b


def log_sigmoid(x: Array) -> Array:
    """log(1 / (1 + exp(-x))) without overflow."""
    return b.neg(b.logaddexp(b.neg(x), b.zeros_like(x)))


def logit(x: Array) -> Array:
    """log(x / (1 - x)), the inverse of the logistic function."""
    return b.log(b.div(x, b.sub(full_like(1.0, x), x)))


def normal_distribution(x: Array) -> Array:
    """The share of a normal distribution up to x."""
    return b.mul(b.erfc(b.mul(x, -math.sqrt(0.5))), 0.5)


def log_normal_distribution(x: Array) -> Array:
    """The logarithm of that share: far below 0, where the share vanishes, from what is left without exp(-x**2 / 2)."""
    below = b.lt(x, -1.0)
    one = full_like(1.0, x)
    scaled = b.erfcx(b.mul(b.where(below, x, b.neg(one)), -math.sqrt(0.5)))
    lower = b.sub(b.log(b.mul(scaled, 0.5)), b.mul(b.mul(x, x), 0.5))
    beyond = b.mul(b.erfc(b.mul(b.where(below, one, x), math.sqrt(0.5))), -0.5)
    return b.where(below, lower, b.log1p(beyond))


def normal_quantile(p: Array) -> Array:
    """The inverse of the normal distribution: infinite at 0 and 1, nan beyond."""
    return b.mul(b.erfcinv(b.mul(p, 2.0)), -math.sqrt(2.0))


def log_beta(x: Array, y: Array) -> Array:
    """The logarithm of the absolute value of the beta function."""
    return b.sub(b.add(b.lgamma(x), b.lgamma(y)), b.lgamma(b.add(x, y)))


def _gamma_sign(x: Array) -> Array:
    """The sign of the gamma function: it changes at 0 and at every negative integer."""
    whole = b.floor(x)
    odd = b.sub(whole, b.mul(b.floor(b.mul(whole, 0.5)), 2.0))
    one = full_like(1.0, x)
    return b.stop_gradient(b.where(b.lt(x, 0.0), b.sub(one, b.mul(odd, 2.0)), b.copysign(one, x)))


def gamma(x: Array) -> Array:
    """The gamma function, nan at negative integers."""
    pole = b.bit_and(b.lt(x, 0.0), b.eq(x, b.floor(x)))
    return b.where(pole, full_like(math.nan, x), b.mul(_gamma_sign(x), b.exp(b.lgamma(x))))


def beta(x: Array, y: Array) -> Array:
    """The beta function, the quotient of gamma(x) gamma(y) and gamma(x + y)."""
    sign = b.mul(b.mul(_gamma_sign(x), _gamma_sign(y)), _gamma_sign(b.add(x, y)))
    return b.mul(sign, b.exp(log_beta(x, y)))


def log_gamma(x: Array) -> Array:
    """The logarithm of the gamma function, nan below 0, where it is complex."""
    return b.where(b.lt(x, 0.0), full_like(math.nan, x), b.lgamma(x))


def _times_log(x: Array, y: Array, logarithm: Callable[..., Array], safe: float) -> Array:
    """x log(y), 0 where x is 0 and y is no nan; so are the derivatives where x is 0 and the logarithm is no number."""
    nothing = b.bit_and(b.eq(x, 0.0), b.eq(y, y))
    above = b.sub(y, full_like(safe - 1.0, y))  # what the logarithm is of, or as far from its end
    endless = b.bit_and(nothing, b.bit_or(b.le(above, 0.0), b.eq(y, math.inf)))
    found = b.mul(x, logarithm(b.where(endless, full_like(safe, y), y)))
    return b.where(nothing, b.add(found, b.zeros_like(x)), found)  # no zero with a sign


def x_log_y(x: Array, y: Array) -> Array:
    """x log(y), 0 where x is 0."""
    return _times_log(x, y, b.log, 1.0)


def x_log1p_y(x: Array, y: Array) -> Array:
    """x log(1 + y), 0 where x is 0."""
    return _times_log(x, y, b.log1p, 0.0)


def entropy(x: Array) -> Array:
    """-x log(x), 0 at 0, minus infinity below."""
    return b.where(b.lt(x, 0.0), full_like(-math.inf, x), b.neg(x_log_y(x, x)))


def relative_entropy(x: Array, y: Array) -> Array:
    """x log(x / y) for positive x and y, 0 where x is 0 and y is not negative, else infinity."""
    positive = b.bit_and(b.gt(x, 0.0), b.gt(y, 0.0))
    nothing = b.bit_and(b.eq(x, 0.0), b.ge(y, 0.0))
    one = full_like(1.0, x)
    inside = b.mul(x, b.log(b.div(b.where(positive, x, one), b.where(positive, y, one))))
    outside = b.where(b.bit_or(isnan(x), isnan(y)), b.add(x, y), full_like(math.inf, x))
    return b.where(positive, inside, b.where(nothing, b.zeros_like(x), outside))
