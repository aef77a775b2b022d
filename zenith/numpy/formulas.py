"""Elementwise functions without a primitive of their own, as short expressions over primitives.

Operands are arrays of one element type and shape; nan and infinities are as NumPy gives them. What is smooth where its
expression has corners is a primitive, with derivatives of its own: ``zenith/ir/ops/formulas.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from zenith.ir.types import bool_, int32, int64, uint64
from zenith.numpy.typing import Array
from zenith.trace.bind import array_type, b

RADIANS = math.pi / 180.0
DEGREES = 180.0 / math.pi


def full_like(value: complex, x: Array) -> Array:
    """One number of an operand's type and shape."""
    model = array_type(x)
    return b.full(value, model.dtype, model.shape)


def isnan(x: Array) -> Array:
    """Whether floating-point elements are nan."""
    return b.ne(x, x)


def isinf(x: Array) -> Array:
    """Whether floating-point elements are infinite."""
    return b.eq(b.abs(x), float("inf"))


def isfinite(x: Array) -> Array:
    """Whether floating-point elements are neither infinite nor nan."""
    return b.lt(b.abs(x), float("inf"))


def truth(x: Array) -> Array:
    """Whether elements are true: not zero (nan is true)."""
    return x if array_type(x).dtype.kind == "b" else b.ne(x, b.zeros_like(x))


def compared(primitive: str, relation: Callable[..., bool], x: Array, y: Array) -> Array:
    """A comparison, also of int64 with uint64: a negative number is below all unsigned ones."""
    compare, types = getattr(b, primitive), [array_type(v).dtype for v in (x, y)]
    if types[0] == types[1]:
        return compare(x, y)
    signed, answer = (x, relation(-1, 0)) if types[0].kind == "i" else (y, relation(0, -1))
    same = compare(*(b.cast(v, dtype=uint64) if v is signed else v for v in (x, y)))
    return b.where(b.lt(signed, 0), b.full(answer, bool_, array_type(x).shape), same)


def integer_fmod(x: Array, y: Array) -> Array:
    """The remainder with the sign of ``x``: moved by one divisor where the signs differ."""
    rest = b.remainder(x, y)
    if array_type(x).dtype.kind == "u":
        return rest
    moved = b.bit_and(b.ne(rest, 0), b.bit_xor(b.lt(x, 0), b.lt(rest, 0)))
    return b.where(moved, b.sub(rest, y), rest)


def reciprocal(x: Array) -> Array:
    """1 / x."""
    return b.div(full_like(1.0, x), x)


def integer_reciprocal(x: Array) -> Array:
    """1 / x rounded towards zero: x itself for 1 and -1, of 0 what infinity is when it is cast, else 0."""
    dtype = array_type(x).dtype
    of_zero = full_like(-(2 ** (8 * dtype.numpy.itemsize - 1)), x) if dtype in (int32, int64) else b.zeros_like(x)
    size = x if dtype.kind == "u" else b.abs(x)
    return b.where(b.eq(size, 1), x, b.where(b.eq(x, 0), of_zero, b.zeros_like(x)))


def fmax(x: Array, y: Array) -> Array:
    """The larger; a nan counts as missing."""
    return b.where(isnan(y), x, b.where(isnan(x), y, b.maximum(x, y)))


def fmin(x: Array, y: Array) -> Array:
    """The smaller; a nan counts as missing."""
    return b.where(isnan(y), x, b.where(isnan(x), y, b.minimum(x, y)))


def signbit(x: Array) -> Array:
    """Whether the sign bit is set, of -0.0 too."""
    return b.lt(b.copysign(full_like(1.0, x), x), 0.0)


def heaviside(x: Array, middle: Array) -> Array:
    """0 below zero, ``middle`` at zero, 1 above; nan for nan."""
    step = b.where(b.lt(x, 0.0), b.zeros_like(x), b.where(b.eq(x, 0.0), middle, full_like(1.0, x)))
    return b.where(isnan(x), x, step)
