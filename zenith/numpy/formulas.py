"""Elementwise functions without a primitive of their own, as short expressions over primitives.

Operands are arrays of one element type and shape. The expressions are chosen for accuracy at the edges: no overflow
where the result is finite, nan and infinities as NumPy gives them.
"""

from __future__ import annotations

import math
from typing import Any

from zenith.trace.bind import array_type, b

RADIANS = math.pi / 180.0
DEGREES = 180.0 / math.pi
_LN2 = math.log(2.0)
_INF = float("inf")


def _full(value: float, x: Any) -> Any:
    model = array_type(x)
    return b.full(value, model.dtype, model.shape)


def isnan(x: Any) -> Any:
    """Whether floating-point elements are nan."""
    return b.ne(x, x)


def truth(x: Any) -> Any:
    """Whether elements are true: not zero (nan is true)."""
    return x if array_type(x).dtype.kind == "b" else b.ne(x, b.zeros_like(x))


def fmod(x: Any, y: Any) -> Any:
    """The remainder with the sign of ``x``: of magnitudes for floats, moved by one divisor for integers."""
    dtype = array_type(x).dtype
    if dtype.is_float:
        return b.copysign(b.remainder(b.abs(x), b.abs(y)), x)
    rest = b.remainder(x, y)
    if dtype.kind == "u":
        return rest
    moved = b.bit_and(b.ne(rest, 0), b.bit_xor(b.lt(x, 0), b.lt(rest, 0)))
    return b.where(moved, b.sub(rest, y), rest)


def reciprocal(x: Any) -> Any:
    """1 / x."""
    return b.div(_full(1.0, x), x)


def integer_reciprocal(x: Any) -> Any:
    """1 / x rounded towards zero: x itself for 1 and -1, else 0."""
    if array_type(x).dtype.kind == "u":
        return b.where(b.eq(x, 1), x, b.zeros_like(x))
    return b.where(b.eq(b.abs(x), 1), x, b.zeros_like(x))


def fmax(x: Any, y: Any) -> Any:
    """The larger; a nan counts as missing."""
    return b.where(isnan(y), x, b.where(isnan(x), y, b.maximum(x, y)))


def fmin(x: Any, y: Any) -> Any:
    """The smaller; a nan counts as missing."""
    return b.where(isnan(y), x, b.where(isnan(x), y, b.minimum(x, y)))


def signbit(x: Any) -> Any:
    """Whether the sign bit is set, of -0.0 too."""
    return b.lt(b.copysign(_full(1.0, x), x), 0.0)


def cbrt(x: Any) -> Any:
    """The real cube root: a power, corrected by one step of Newton's method."""
    size = b.abs(x)
    root = b.power(size, 1.0 / 3.0)
    plain = b.eq(b.mul(size, 0.0), 0.0)  # neither infinite nor nan
    nonzero = b.bit_and(plain, b.gt(root, 0.0))
    safe = b.where(nonzero, root, _full(1.0, x))
    step = b.div(b.sub(safe, b.div(b.div(size, safe), safe)), 3.0)
    return b.copysign(b.where(nonzero, b.sub(safe, step), root), x)


def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) without overflow; equal operands (infinite ones too) give x + log(2)."""
    gap = b.sub(x, y)
    smooth = b.add(b.maximum(x, y), b.log1p(b.exp(b.neg(b.abs(gap)))))
    return b.where(b.eq(x, y), b.add(x, _LN2), smooth)


def logaddexp2(x: Any, y: Any) -> Any:
    """log2(2**x + 2**y) without overflow; equal operands (infinite ones too) give x + 1."""
    gap = b.sub(x, y)
    smooth = b.add(b.maximum(x, y), b.div(b.log1p(b.exp2(b.neg(b.abs(gap)))), _LN2))
    return b.where(b.eq(x, y), b.add(x, 1.0), smooth)


def arcsinh(x: Any) -> Any:
    """Inverse hyperbolic sine by log1p, by log where the square would overflow."""
    a = b.abs(x)
    square = b.mul(a, a)
    small = b.log1p(b.add(a, b.div(square, b.add(b.sqrt(b.add(square, 1.0)), 1.0))))
    return b.copysign(b.where(b.gt(a, 1e9), b.add(b.log(a), _LN2), small), x)


def arccosh(x: Any) -> Any:
    """Inverse hyperbolic cosine by log1p, by log where the square would overflow."""
    t = b.sub(x, 1.0)
    small = b.log1p(b.add(t, b.mul(b.sqrt(t), b.sqrt(b.add(t, 2.0)))))
    return b.where(b.gt(x, 1e9), b.add(b.log(x), _LN2), small)


def arctanh(x: Any) -> Any:
    """Inverse hyperbolic tangent, log1p(2 a / (1 - a)) / 2 with the sign of x."""
    a = b.abs(x)
    return b.copysign(b.mul(b.log1p(b.div(b.mul(a, 2.0), b.sub(_full(1.0, a), a))), 0.5), x)


def hypot(x: Any, y: Any) -> Any:
    """sqrt(x*x + y*y) without overflow: the larger times sqrt(1 + ratio**2); infinite if either is."""
    p, q = b.abs(x), b.abs(y)
    large, small = b.maximum(p, q), b.minimum(p, q)
    ratio = b.div(small, b.where(b.eq(large, 0.0), _full(1.0, large), large))
    length = b.mul(large, b.sqrt(b.add(b.mul(ratio, ratio), 1.0)))
    infinite = b.bit_or(b.eq(p, _INF), b.eq(q, _INF))
    return b.where(infinite, _full(_INF, x), length)


def heaviside(x: Any, middle: Any) -> Any:
    """0 below zero, ``middle`` at zero, 1 above; nan for nan."""
    step = b.where(b.lt(x, 0.0), b.zeros_like(x), b.where(b.eq(x, 0.0), middle, _full(1.0, x)))
    return b.where(isnan(x), x, step)
