"""Elementary functions of complex numbers, by their parts, with the special values of annex G of the C standard.

Each writes a function with a builder. Formulas are chosen so that the error's magnitude is small relative to that of
the result, and no intermediate value of a finite result overflows. Where infinities or nan make a formula's product
undefined, such as infinity times 0, the standard's value is chosen.
"""

from __future__ import annotations

import math

import numpy as np

from zenith.ir.builder import Builder
from zenith.ir.graph import Value

INF = math.inf


def _both(b: Builder, z: Value) -> tuple[Value, Value]:
    return b.real(z), b.imag(z)


def _full(b: Builder, value: float, x: Value) -> Value:
    return b.full(value, x.dtype, x.shape)


def _is_infinite(b: Builder, x: Value) -> Value:
    return b.eq(b.abs(x), INF)


def _is_finite(b: Builder, x: Value) -> Value:
    return b.lt(b.abs(x), INF)


def _zero(b: Builder, x: Value) -> Value:
    """0 with the sign of x."""
    return b.copysign(b.zeros_like(x), x)


def _limit(x: Value) -> float:
    """The logarithm of the largest number of a type, a little less."""
    return float(math.floor(math.log(float(np.finfo(x.dtype.numpy).max))))


def _times_i(b: Builder, z: Value) -> Value:
    x, y = _both(b, z)
    return b.complex(b.neg(y), x)


def _over_i(b: Builder, z: Value) -> Value:
    x, y = _both(b, z)
    return b.complex(y, b.neg(x))


# --- exponential and logarithms ----------------------------------------------------------------------------------

_AHEAD = 16.0  # subtracted from an exponent near the limit, and multiplied in as a factor


def exp(b: Builder, z: Value) -> Value:
    """exp(x) (cos(y) + i sin(y)); near the limit in two factors, as a small cosine keeps the product finite."""
    x, y = _both(b, z)
    near = b.gt(x, _limit(x))
    size = b.exp(b.where(near, b.sub(x, _AHEAD), x))
    factor = b.where(near, _full(b, math.exp(_AHEAD), x), _full(b, 1.0, x))
    no_angle, nothing = b.bit_not(_is_finite(b, y)), b.eq(x, -INF)
    one = _full(b, 1.0, x)
    cos = b.where(b.bit_and(no_angle, _is_infinite(b, x)), one, b.cos(y))
    sin = b.where(b.bit_and(no_angle, nothing), one, b.sin(y))
    real, imag = b.mul(b.mul(size, cos), factor), b.mul(b.mul(size, sin), factor)
    return b.complex(real, b.where(b.eq(y, 0.0), y, imag))


def expm1(b: Builder, z: Value) -> Value:
    """expm1(x) cos(y) - 2 sin(y/2)**2, and exp(x) sin(y)."""
    x, y = _both(b, z)
    half = b.sin(b.mul(y, 0.5))
    real = b.sub(b.mul(b.expm1(x), b.cos(y)), b.mul(b.mul(half, half), 2.0))
    imag = b.mul(b.exp(x), b.sin(y))
    return b.complex(b.where(b.eq(y, 0.0), b.expm1(x), real), b.where(b.eq(y, 0.0), y, imag))


def _log_of_size(b: Builder, x: Value, y: Value) -> Value:
    """log(hypot(x, y)): near 1 by log1p, near the largest and the smallest numbers of a multiple, a power of 2."""
    p, q = b.abs(x), b.abs(y)
    large, small = b.maximum(p, q), b.minimum(p, q)
    info = np.finfo(x.dtype.numpy)
    huge, tiny = b.gt(large, float(info.max) / 4), b.lt(large, float(info.tiny / info.eps))
    up = -2.0 * info.nmant

    def chosen(of_huge: float, of_tiny: float, else_: float) -> Value:
        return b.where(huge, _full(b, of_huge, x), b.where(tiny, _full(b, of_tiny, x), _full(b, else_, x)))

    scale = chosen(0.25, 2.0**-up, 1.0)
    length = b.hypot(b.mul(x, scale), b.mul(y, scale))
    far = b.add(b.log(length), chosen(2 * math.log(2.0), up * math.log(2.0), 0.0))
    inside = b.add(b.mul(b.sub(large, 1.0), b.add(large, 1.0)), b.mul(small, small))
    near = b.bit_and(b.gt(length, 0.7), b.lt(length, 1.5))
    safe = b.where(near, inside, b.zeros_like(x))
    return b.where(near, b.mul(b.log1p(safe), 0.5), far)


def log(b: Builder, z: Value) -> Value:
    """The logarithm of the magnitude, and the angle."""
    x, y = _both(b, z)
    return b.complex(_log_of_size(b, x, y), b.arctan2(y, x))


def log1p(b: Builder, z: Value) -> Value:
    """log(1 + z): near 0 without that sum."""
    x, y = _both(b, z)
    moved = b.add(x, 1.0)
    near = b.bit_and(b.lt(b.abs(x), 0.5), b.lt(b.abs(y), 0.5))
    inside = b.where(near, b.add(b.mul(x, b.add(x, 2.0)), b.mul(y, y)), b.zeros_like(x))
    real = b.where(near, b.mul(b.log1p(inside), 0.5), _log_of_size(b, moved, y))
    return b.complex(real, b.arctan2(y, moved))


# --- square root -------------------------------------------------------------------------------------------------


def sqrt(b: Builder, z: Value) -> Value:
    """The root with a real part that is not negative, of numbers scaled by a power of 4 away from both limits."""
    x, y = _both(b, z)
    info = np.finfo(x.dtype.numpy)
    up = float(2.0 ** (info.nmant // 2 + 1))  # squared it lifts the smallest numbers above the last place of 1
    large = b.maximum(b.abs(x), b.abs(y))
    huge, tiny = b.gt(large, float(info.max) / 8), b.lt(large, float(info.tiny) * up * up)

    def chosen(of_huge: float, of_tiny: float) -> Value:
        return b.where(huge, _full(b, of_huge, x), b.where(tiny, _full(b, of_tiny, x), _full(b, 1.0, x)))

    scale, back = chosen(1 / 16, up * up), chosen(4.0, 1 / up)
    p, q = b.mul(b.abs(x), scale), b.mul(b.abs(y), scale)
    root = b.sqrt(b.mul(b.add(p, b.hypot(p, q)), 0.5))
    nothing = b.eq(root, 0.0)
    other = b.where(nothing, q, b.div(b.mul(q, 0.5), b.where(nothing, _full(b, 1.0, x), root)))
    right = b.ge(x, 0.0)
    real, imag = b.mul(b.where(right, root, other), back), b.mul(b.where(right, other, root), back)
    endless = _is_infinite(b, y)
    return b.complex(b.where(endless, b.abs(y), real), b.copysign(b.where(endless, b.abs(y), imag), y))


# --- hyperbolic functions and those of angles --------------------------------------------------------------------


def sinh(b: Builder, z: Value) -> Value:
    """sinh(x) cos(y) and cosh(x) sin(y)."""
    x, y = _both(b, z)
    no_angle = b.bit_not(_is_finite(b, y))
    as_it_is = b.bit_and(no_angle, b.bit_or(b.eq(x, 0.0), _is_infinite(b, x)))
    real = b.where(as_it_is, x, b.mul(b.sinh(x), b.cos(y)))
    return b.complex(real, b.where(b.eq(y, 0.0), y, b.mul(b.cosh(x), b.sin(y))))


def cosh(b: Builder, z: Value) -> Value:
    """cosh(x) cos(y) and sinh(x) sin(y)."""
    x, y = _both(b, z)
    no_angle = b.bit_not(_is_finite(b, y))
    real = b.where(b.bit_and(no_angle, _is_infinite(b, x)), b.abs(x), b.mul(b.cosh(x), b.cos(y)))
    nothing = b.bit_or(b.bit_and(no_angle, b.eq(x, 0.0)), b.eq(y, 0.0))
    zero = b.mul(_zero(b, x), b.copysign(_full(b, 1.0, y), y))
    return b.complex(real, b.where(nothing, zero, b.mul(b.sinh(x), b.sin(y))))


def tanh(b: Builder, z: Value) -> Value:
    """W. Kahan's quotient by the tangent of y; where its real part is 1 to the last place, the limit.

    W. Kahan, "Branch cuts for complex elementary functions", The State of the Art in Numerical Analysis, 1987.
    """
    x, y = _both(b, z)
    far = b.bit_and(b.gt(b.abs(x), _limit(x) / 8), b.bit_or(_is_finite(b, y), _is_infinite(b, x)))
    near_x = b.where(far, _full(b, 1.0, x), x)
    t, s = b.tan(y), b.sinh(near_x)
    beta, rho = b.add(b.mul(t, t), 1.0), b.sqrt(b.add(b.mul(s, s), 1.0))
    below = b.add(b.mul(beta, b.mul(s, s)), 1.0)
    small = b.mul(b.mul(b.sin(y), b.cos(y)), b.mul(b.exp(b.mul(b.abs(x), -2.0)), 4.0))
    small = b.where(_is_finite(b, y), small, _zero(b, y))
    real = b.where(far, b.copysign(_full(b, 1.0, x), x), b.div(b.mul(beta, b.mul(rho, s)), below))
    imag = b.where(far, small, b.div(t, below))
    return b.complex(b.where(b.eq(x, 0.0), x, real), b.where(b.eq(y, 0.0), y, imag))


def sin(b: Builder, z: Value) -> Value:
    """sinh(i z) / i."""
    return _over_i(b, b.sinh(_times_i(b, z)))


def cos(b: Builder, z: Value) -> Value:
    """cosh(i z)."""
    return b.cosh(_times_i(b, z))


def tan(b: Builder, z: Value) -> Value:
    """tanh(i z) / i."""
    return _over_i(b, b.tanh(_times_i(b, z)))


# --- their inverses ----------------------------------------------------------------------------------------------


def _roots(b: Builder, x: Value, y: Value) -> tuple[Value, Value, Value, Value]:
    """Real and imaginary part of sqrt(1 - z) and of sqrt(1 + z)."""
    one = _full(b, 1.0, x)
    below, above = b.sqrt(b.complex(b.sub(one, x), b.neg(y))), b.sqrt(b.complex(b.add(x, 1.0), y))
    return *_both(b, below), *_both(b, above)


def arcsin(b: Builder, z: Value) -> Value:
    """By the roots of 1 - z and 1 + z, whose products' terms have one sign (W. Kahan); of infinite z the limit."""
    x, y = _both(b, z)
    p, q, r, s = _roots(b, x, y)
    endless = b.bit_or(_is_infinite(b, x), _is_infinite(b, y))
    real = b.arctan2(x, b.where(endless, b.abs(y), b.sub(b.mul(p, r), b.mul(q, s))))
    imag = b.where(endless, b.copysign(_full(b, INF, y), y), b.arcsinh(b.sub(b.mul(p, s), b.mul(q, r))))
    return b.complex(b.where(b.eq(x, 0.0), x, real), imag)


def arccos(b: Builder, z: Value) -> Value:
    """As :func:`arcsin`."""
    x, y = _both(b, z)
    p, q, r, s = _roots(b, x, y)
    endless = b.bit_or(_is_infinite(b, x), _is_infinite(b, y))
    real = b.where(endless, b.arctan2(b.abs(y), x), b.mul(b.arctan2(p, r), 2.0))
    imag = b.where(endless, b.copysign(_full(b, INF, y), b.neg(y)), b.arcsinh(b.sub(b.mul(r, q), b.mul(s, p))))
    upright = b.bit_and(b.eq(x, 0.0), b.ne(y, y))
    return b.complex(b.where(upright, _full(b, math.pi / 2, x), real), imag)


def arccosh(b: Builder, z: Value) -> Value:
    """arccos(z) times i or -i, that with a real part that is not negative."""
    angle, size = _both(b, b.arccos(z))
    return b.complex(b.abs(size), b.copysign(angle, b.imag(z)))


def arcsinh(b: Builder, z: Value) -> Value:
    """i arcsin(z / i)."""
    return _times_i(b, b.arcsin(_over_i(b, z)))


def arctanh(b: Builder, z: Value) -> Value:
    """By log1p(4 x / |1 - z|**2) / 4, near 1 by a logarithm, and half an angle; for large z the limit."""
    x, y = _both(b, z)
    p, one = b.abs(x), _full(b, 1.0, x)
    from_one = b.hypot(b.sub(one, p), y)
    near = b.lt(from_one, 0.5)
    ratio = b.div(b.hypot(b.add(p, 1.0), y), b.where(near, from_one, one))
    quotient = b.mul(b.div(b.div(p, b.where(near, one, from_one)), from_one), 4.0)
    real = b.where(near, b.mul(b.log(ratio), 0.5), b.mul(b.log1p(b.where(near, one, quotient)), 0.25))
    infinite = b.bit_or(_is_infinite(b, x), _is_infinite(b, y))
    far = b.bit_or(infinite, b.gt(b.maximum(p, b.abs(y)), float(1 / np.finfo(x.dtype.numpy).eps) ** 2))
    limit = b.where(b.ne(y, y), y, b.copysign(_full(b, math.pi / 2, y), y))
    close = b.where(far, one, y)
    angle = b.arctan2(b.mul(close, 2.0), b.sub(b.mul(b.sub(one, p), b.add(p, 1.0)), b.mul(close, close)))
    real = b.where(infinite, b.zeros_like(x), real)
    return b.complex(b.where(b.eq(x, 0.0), x, b.copysign(real, x)), b.where(far, limit, b.mul(angle, 0.5)))


def arctan(b: Builder, z: Value) -> Value:
    """arctanh(i z) / i."""
    return _over_i(b, b.arctanh(_times_i(b, z)))
