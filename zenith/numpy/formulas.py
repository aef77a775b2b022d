"""Elementwise functions without a primitive of their own, as short expressions over primitives.

Operands are arrays of one element type and shape; nan and infinities are as NumPy gives them. What is smooth where its
expression has corners is a primitive, with derivatives of its own: ``zenith/ir/ops/formulas.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from zenith.ir.types import bool_, int32, int64, uint64
from zenith.trace.bind import array_type, b

RADIANS = math.pi / 180.0
DEGREES = 180.0 / math.pi


def full_like(value: complex, x: Any) -> Any:
    """One number of an operand's type and shape."""
    model = array_type(x)
    return b.full(value, model.dtype, model.shape)


def isnan(x: Any) -> Any:
    """Whether floating-point elements are nan."""
    return b.ne(x, x)


def isinf(x: Any) -> Any:
    """Whether floating-point elements are infinite."""
    return b.eq(b.abs(x), float("inf"))


def isfinite(x: Any) -> Any:
    """Whether floating-point elements are neither infinite nor nan."""
    return b.lt(b.abs(x), float("inf"))


def truth(x: Any) -> Any:
    """Whether elements are true: not zero (nan is true)."""
    return x if array_type(x).dtype.kind == "b" else b.ne(x, b.zeros_like(x))


def compared(primitive: str, relation: Callable[[Any, Any], bool], x: Any, y: Any) -> Any:
    """A comparison, also of int64 with uint64: a negative number is below all unsigned ones."""
    compare, types = getattr(b, primitive), [array_type(v).dtype for v in (x, y)]
    if types[0] == types[1]:
        return compare(x, y)
    signed, answer = (x, relation(-1, 0)) if types[0].kind == "i" else (y, relation(0, -1))
    same = compare(*(b.cast(v, dtype=uint64) if v is signed else v for v in (x, y)))
    return b.where(b.lt(signed, 0), b.full(answer, bool_, array_type(x).shape), same)


def integer_fmod(x: Any, y: Any) -> Any:
    """The remainder with the sign of ``x``: moved by one divisor where the signs differ."""
    rest = b.remainder(x, y)
    if array_type(x).dtype.kind == "u":
        return rest
    moved = b.bit_and(b.ne(rest, 0), b.bit_xor(b.lt(x, 0), b.lt(rest, 0)))
    return b.where(moved, b.sub(rest, y), rest)


def reciprocal(x: Any) -> Any:
    """1 / x."""
    return b.div(full_like(1.0, x), x)


def integer_reciprocal(x: Any) -> Any:
    """1 / x rounded towards zero: x itself for 1 and -1, of 0 what infinity is when it is cast, else 0."""
    dtype = array_type(x).dtype
    of_zero = full_like(-(2 ** (8 * dtype.numpy.itemsize - 1)), x) if dtype in (int32, int64) else b.zeros_like(x)
    size = x if dtype.kind == "u" else b.abs(x)
    return b.where(b.eq(size, 1), x, b.where(b.eq(x, 0), of_zero, b.zeros_like(x)))


def fmax(x: Any, y: Any) -> Any:
    """The larger; a nan counts as missing."""
    return b.where(isnan(y), x, b.where(isnan(x), y, b.maximum(x, y)))


def fmin(x: Any, y: Any) -> Any:
    """The smaller; a nan counts as missing."""
    return b.where(isnan(y), x, b.where(isnan(x), y, b.minimum(x, y)))


def signbit(x: Any) -> Any:
    """Whether the sign bit is set, of -0.0 too."""
    return b.lt(b.copysign(full_like(1.0, x), x), 0.0)


def heaviside(x: Any, middle: Any) -> Any:
    """0 below zero, ``middle`` at zero, 1 above; nan for nan."""
    step = b.where(b.lt(x, 0.0), b.zeros_like(x), b.where(b.eq(x, 0.0), middle, full_like(1.0, x)))
    return b.where(isnan(x), x, step)


# --- functions of scipy.special --------------------------------------------------------------------------------


def log_sigmoid(x: Any) -> Any:
    """log(1 / (1 + exp(-x))) without overflow."""
    return b.neg(b.logaddexp(b.neg(x), b.zeros_like(x)))


def logit(x: Any) -> Any:
    """log(x / (1 - x)), the inverse of the logistic function."""
    return b.log(b.div(x, b.sub(full_like(1.0, x), x)))


def normal_distribution(x: Any) -> Any:
    """The share of a normal distribution up to x."""
    return b.mul(b.erfc(b.mul(x, -math.sqrt(0.5))), 0.5)


def log_beta(x: Any, y: Any) -> Any:
    """The logarithm of the absolute value of the beta function."""
    return b.sub(b.add(b.lgamma(x), b.lgamma(y)), b.lgamma(b.add(x, y)))


def _gamma_sign(x: Any) -> Any:
    """The sign of the gamma function: it changes at 0 and at every negative integer."""
    whole = b.floor(x)
    odd = b.sub(whole, b.mul(b.floor(b.mul(whole, 0.5)), 2.0))
    one = full_like(1.0, x)
    return b.stop_gradient(b.where(b.lt(x, 0.0), b.sub(one, b.mul(odd, 2.0)), b.copysign(one, x)))


def gamma(x: Any) -> Any:
    """The gamma function, of which nan stands at negative integers."""
    pole = b.bit_and(b.lt(x, 0.0), b.eq(x, b.floor(x)))
    return b.where(pole, full_like(math.nan, x), b.mul(_gamma_sign(x), b.exp(b.lgamma(x))))


def beta(x: Any, y: Any) -> Any:
    """The beta function, the quotient of gamma(x) gamma(y) and gamma(x + y)."""
    sign = b.mul(b.mul(_gamma_sign(x), _gamma_sign(y)), _gamma_sign(b.add(x, y)))
    return b.mul(sign, b.exp(log_beta(x, y)))


def log_gamma(x: Any) -> Any:
    """The logarithm of the gamma function, nan below 0, where it is complex."""
    return b.where(b.lt(x, 0.0), full_like(math.nan, x), b.lgamma(x))


def _times_log(x: Any, y: Any, logarithm: Any, safe: float) -> Any:
    """x log(y), 0 where x is 0 and y is no nan; so are the derivatives there."""
    nothing = b.bit_and(b.eq(x, 0.0), b.eq(y, y))
    return b.where(nothing, b.zeros_like(x), b.mul(x, logarithm(b.where(nothing, full_like(safe, y), y))))


def x_log_y(x: Any, y: Any) -> Any:
    """x log(y), 0 where x is 0."""
    return _times_log(x, y, b.log, 1.0)


def x_log1p_y(x: Any, y: Any) -> Any:
    """x log(1 + y), 0 where x is 0."""
    return _times_log(x, y, b.log1p, 0.0)


def entropy(x: Any) -> Any:
    """-x log(x), 0 at 0, minus infinity below."""
    return b.where(b.lt(x, 0.0), full_like(-math.inf, x), b.neg(x_log_y(x, x)))


def relative_entropy(x: Any, y: Any) -> Any:
    """x log(x / y) for positive x and y, 0 where x is 0 and y is not negative, else infinity."""
    positive = b.bit_and(b.gt(x, 0.0), b.gt(y, 0.0))
    nothing = b.bit_and(b.eq(x, 0.0), b.ge(y, 0.0))
    one = full_like(1.0, x)
    inside = b.mul(x, b.log(b.div(b.where(positive, x, one), b.where(positive, y, one))))
    outside = b.where(b.bit_or(isnan(x), isnan(y)), b.add(x, y), full_like(math.inf, x))
    return b.where(positive, inside, b.where(nothing, b.zeros_like(x), outside))
