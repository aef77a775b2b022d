"""What elementwise functions are for complex numbers, where it is not the primitive of the same name.

Complex numbers are ordered as NumPy orders them: by real parts, equal ones by imaginary parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from zenith.numpy import formulas as f
from zenith.trace.bind import b


def parts(x: Any) -> tuple[Any, Any]:
    """Real and imaginary part."""
    return b.real(x), b.imag(x)


def absolute(x: Any) -> Any:
    """The distance from 0, without overflow on the way; infinite if a part is, whatever the other one is."""
    return b.hypot(*parts(x))


def squared(x: Any) -> Any:
    """The square of the distance from 0."""
    real, imag = parts(x)
    return b.add(b.mul(real, real), b.mul(imag, imag))


def sign(x: Any) -> Any:
    """x / abs(x), 0 at 0; of one infinite part its sign, nan where both are infinite."""
    size, (real, imag) = absolute(x), parts(x)
    alone = b.bit_and(f.isinf(size), b.bit_not(b.bit_and(f.isinf(real), f.isinf(imag))))
    safe = b.where(b.eq(size, 0.0), f.full_like(1.0, size), size)

    def direction(part: Any) -> Any:
        sign_alone = b.where(f.isinf(part), b.sign(part), b.zeros_like(part))
        found = b.where(alone, sign_alone, b.div(part, safe))
        return b.where(b.eq(size, 0.0), b.zeros_like(part), found)

    return b.complex(direction(real), direction(imag))


def isnan(x: Any) -> Any:
    """Whether a part is nan."""
    return b.bit_or(*map(f.isnan, parts(x)))


def isinf(x: Any) -> Any:
    """Whether a part is infinite."""
    return b.bit_or(*map(f.isinf, parts(x)))


def isfinite(x: Any) -> Any:
    """Whether both parts are finite."""
    return b.bit_and(*map(f.isfinite, parts(x)))


def rint(x: Any) -> Any:
    """Both parts rounded to the nearest integers, ties to even."""
    return b.complex(*map(b.round, parts(x)))


def _times(x: Any, number: float) -> Any:
    """The product with a real number, which leaves infinite parts alone."""
    return b.complex(*(b.mul(part, number) for part in parts(x)))


def reciprocal(x: Any) -> Any:
    """1 / x; nan of 0, as NumPy has it."""
    nothing = b.eq(x, b.zeros_like(x))
    found = b.div(f.full_like(1.0, x), b.where(nothing, f.full_like(1.0, x), x))
    return b.where(nothing, f.full_like(complex("nan+nanj"), x), found)


def exp2(x: Any) -> Any:
    """exp(x log(2)); the error grows with the angle, as NumPy's does."""
    return b.exp(_times(x, math.log(2.0)))


def log2(x: Any) -> Any:
    """log(x) / log(2)."""
    return _times(b.log(x), 1 / math.log(2.0))


def log10(x: Any) -> Any:
    """log(x) / log(10)."""
    return _times(b.log(x), 1 / math.log(10.0))


def ordered(relation: str) -> Callable[[Any, Any], Any]:
    """The comparison by real parts, then by imaginary parts; false beside nan."""
    strict = relation[0] + "t"

    def compare(x: Any, y: Any) -> Any:
        (xr, xi), (yr, yi) = parts(x), parts(y)
        numbers = b.bit_and(b.eq(xi, xi), b.eq(yi, yi))
        first = b.bit_and(getattr(b, strict)(xr, yr), numbers)
        return b.bit_or(first, b.bit_and(b.eq(xr, yr), getattr(b, relation)(xi, yi)))

    return compare


def extreme(relation: str, missing: bool) -> Callable[[Any, Any], Any]:
    """The first operand where it compares so with the second; nan wins, or, where it counts as missing, loses."""
    compare = ordered(relation)

    def choose(x: Any, y: Any) -> Any:
        return b.where(b.bit_or(compare(x, y), isnan(y if missing else x)), x, y)

    return choose
