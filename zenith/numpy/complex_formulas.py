"""Elementwise functions of complex numbers, where they are not the primitive of the same name.

Complex numbers are ordered as NumPy orders them: by real parts, equal ones by imaginary parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from zenith.numpy import formulas as f
from zenith.numpy.typing import Array
from zenith.trace.bind import b


def real_imag(x: Array) -> tuple[Array, Array]:
    """Real and imaginary part, as real arrays."""
    return b.real(x), b.imag(x)


def absolute(x: Array) -> Array:
    """The magnitude, without overflow of a square; infinite if the real or imaginary part is, even with a nan."""
    return b.hypot(*real_imag(x))


def squared(x: Array) -> Array:
    """The square of the magnitude."""
    real, imag = real_imag(x)
    return b.add(b.mul(real, real), b.mul(imag, imag))


def sign(x: Array) -> Array:
    """x / abs(x), 0 at 0; the sign of the one part that is infinite, nan where both are."""
    size, (real, imag) = absolute(x), real_imag(x)
    alone = b.bit_and(f.isinf(size), b.bit_not(b.bit_and(f.isinf(real), f.isinf(imag))))
    safe = b.where(b.eq(size, 0.0), f.full_like(1.0, size), size)

    def direction(component: Array) -> Array:
        sign_alone = b.where(f.isinf(component), b.sign(component), b.zeros_like(component))
        found = b.where(alone, sign_alone, b.div(component, safe))
        return b.where(b.eq(size, 0.0), b.zeros_like(component), found)

    return b.complex(direction(real), direction(imag))


def isnan(x: Array) -> Array:
    """Whether the real or imaginary part is nan."""
    return b.bit_or(*map(f.isnan, real_imag(x)))


def isinf(x: Array) -> Array:
    """Whether the real or imaginary part is infinite."""
    return b.bit_or(*map(f.isinf, real_imag(x)))


def isfinite(x: Array) -> Array:
    """Whether the real and imaginary parts are finite."""
    return b.bit_and(*map(f.isfinite, real_imag(x)))


def rint(x: Array) -> Array:
    """Real and imaginary parts rounded to the nearest integers, ties to even."""
    return b.complex(*map(b.round, real_imag(x)))


def _times(x: Array, number: float) -> Array:
    """The product with a real number, of real and imaginary part alone, so that infinities make no nan."""
    return b.complex(*(b.mul(component, number) for component in real_imag(x)))


def reciprocal(x: Array) -> Array:
    """1 / x; nan of 0, as in NumPy."""
    nothing = b.eq(x, b.zeros_like(x))
    found = b.div(f.full_like(1.0, x), b.where(nothing, f.full_like(1.0, x), x))
    return b.where(nothing, f.full_like(complex("nan+nanj"), x), found)


def exp2(x: Array) -> Array:
    """exp(x log(2)); the error grows with the angle, as NumPy's does."""
    return b.exp(_times(x, math.log(2.0)))


def log2(x: Array) -> Array:
    """log(x) / log(2)."""
    return _times(b.log(x), 1 / math.log(2.0))


def log10(x: Array) -> Array:
    """log(x) / log(10)."""
    return _times(b.log(x), 1 / math.log(10.0))


def ordered(relation: str) -> Callable[[Array, Array], Array]:
    """The comparison by real parts, then by imaginary parts; false for nan."""
    strict = relation[0] + "t"

    def compare(x: Array, y: Array) -> Array:
        (xr, xi), (yr, yi) = real_imag(x), real_imag(y)
        numbers = b.bit_and(b.eq(xi, xi), b.eq(yi, yi))
        first = b.bit_and(getattr(b, strict)(xr, yr), numbers)
        return b.bit_or(first, b.bit_and(b.eq(xr, yr), getattr(b, relation)(xi, yi)))

    return compare


def extreme(relation: str, missing: bool) -> Callable[[Array, Array], Array]:
    """The first operand where it compares so with the second; nan wins, or, where it counts as missing, loses."""
    compare = ordered(relation)

    def choose(x: Array, y: Array) -> Array:
        return b.where(b.bit_or(compare(x, y), isnan(y if missing else x)), x, y)

    return choose
