"""Elementwise functions without a primitive of their own, as short expressions over primitives.

Operands are arrays of one element type and shape; nan and infinities are as NumPy gives them. What is smooth where its
expression has corners is a primitive, with derivatives of its own: ``zenith/ir/ops/formulas.py``.
"""

from __future__ import annotations

import math
from typing import Any

from zenith.trace.bind import array_type, b

RADIANS = math.pi / 180.0
DEGREES = 180.0 / math.pi


def _full(value: float, x: Any) -> Any:
    model = array_type(x)
    return b.full(value, model.dtype, model.shape)


def isnan(x: Any) -> Any:
    """Whether floating-point elements are nan."""
    return b.ne(x, x)


def truth(x: Any) -> Any:
    """Whether elements are true: not zero (nan is true)."""
    return x if array_type(x).dtype.kind == "b" else b.ne(x, b.zeros_like(x))


def integer_fmod(x: Any, y: Any) -> Any:
    """The remainder with the sign of ``x``: moved by one divisor where the signs differ."""
    rest = b.remainder(x, y)
    if array_type(x).dtype.kind == "u":
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


def heaviside(x: Any, middle: Any) -> Any:
    """0 below zero, ``middle`` at zero, 1 above; nan for nan."""
    step = b.where(b.lt(x, 0.0), b.zeros_like(x), b.where(b.eq(x, 0.0), middle, _full(1.0, x)))
    return b.where(isnan(x), x, step)
