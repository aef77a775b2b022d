"""Powers of complex numbers: whole exponents below 100 multiply out, as NumPy's do; others are exp(y log(x)).

Products preserve what logarithms lose: the square of an imaginary number is real, and x**1 has the derivative 1 at 0.
Each whole power is multiplied in NumPy's order, part by part, so that its bits are NumPy's. 0**0 is 1, 0 to a power of
positive real part 0, to others nan. Of infinite numbers and fractions a result may be nan where NumPy has an infinity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.ir.types import NDArray
from zenith.numpy import formulas as f
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import array_type, b, known_dtype

LIMIT = 100  # from which on NumPy, too, takes logarithms
_BITS = (LIMIT - 1).bit_length()
_INT = known_dtype(np.dtype(np.int64))
_NAN = complex("nan+nanj")

RealImag = tuple[Array, Array]


def whole_numbers(exponent: ArrayLike) -> NDArray | None:
    """Known exponents as int64, where all are whole numbers of less than the limit; None otherwise."""
    given = np.asarray(exponent)
    numbers = given.real.astype(np.float64)
    if (given.imag != 0).any() or not (np.abs(numbers) < LIMIT).all() or (numbers != np.floor(numbers)).any():
        return None
    return numbers.astype(np.int64)


# --- one exponent -----------------------------------------------------------------------------------------------------


def to_whole(x: Array, exponent: int) -> Array:
    """A power by one known whole number."""
    if not exponent:
        return f.full_like(1.0, x)
    found = b.complex(*_products(_real_imag(x), exponent))
    found = b.div(f.full_like(1.0, x), found) if exponent < 0 else found
    of_zero = b.add(found, f.full_like(_NAN if exponent < 0 else 0.0, x))
    return b.where(_is_zero(x), of_zero, found)


def to_fraction(x: Array, y: Array) -> Array:
    """A power by numbers that are known not to be whole: exp(y log(x)), whose error grows with the exponent."""
    return _of_zero(x, _by_logarithm(x, y), b.zeros_like(x), b.gt(b.real(y), 0.0))


def _real_imag(x: Array) -> RealImag:
    return b.real(x), b.imag(x)


def _times(x: RealImag, y: RealImag) -> RealImag:
    """The schoolbook product, each of whose steps is rounded."""
    return b.sub(b.mul(x[0], y[0]), b.mul(x[1], y[1])), b.add(b.mul(x[0], y[1]), b.mul(x[1], y[0]))


def _one(x: RealImag) -> RealImag:
    return f.full_like(1.0, x[0]), b.zeros_like(x[0])


def _products(x: RealImag, exponent: int) -> RealImag:
    """A power by repeated squaring; up to the third by products with the number itself."""
    if 0 < exponent <= 3:
        return x if exponent == 1 else _times(x, x) if exponent == 2 else _times(x, _times(x, x))
    found, square, left = _one(x), x, abs(exponent)
    while left:
        found = _times(found, square) if left % 2 else found
        left //= 2
        square = _times(square, square) if left else square
    return found


# --- exponents by element ---------------------------------------------------------------------------------------------


def to_integers(x: Array, n: Array, known: Any = None) -> Array:
    """Powers by int64 of x's shape; ``known`` ones bound how many squarings are needed."""
    bits = _BITS if known is None else int(np.abs(known).max(initial=1)).bit_length()
    found = _by_bits(x, n, bits)
    if known is None:
        far = b.ge(b.abs(n), LIMIT)
        found = b.where(far, _by_logarithm(x, b.cast(n, dtype=array_type(x).dtype)), found)
    found = _of_zero(x, found, b.add(found, b.zeros_like(x)), b.gt(n, 0))
    return b.where(b.eq(n, 0), f.full_like(1.0, x), found)


def power(x: Array, y: Array) -> Array:
    """Powers by complex numbers: products where these are whole, else exp(y log(x)).

    Products have no derivative by the exponent. They are multiplied by a power that is 1, exp((y - n) log(x)), which
    has that derivative and all further ones.
    """
    real, nothing = b.real(y), b.zeros_like(y)
    whole = b.bit_and(b.eq(b.imag(y), 0.0), b.bit_and(b.eq(real, b.round(real)), b.lt(b.abs(real), float(LIMIT))))
    n = b.stop_gradient(b.where(whole, real, b.zeros_like(real)))
    product = _by_bits(x, b.cast(n, dtype=_INT), _BITS)
    endless = b.bit_not(b.bit_and(*(b.lt(b.abs(component), np.inf) for component in _real_imag(product))))
    rest = b.where(b.bit_or(endless, b.bit_not(whole)), nothing, b.sub(y, b.complex(n, b.zeros_like(n))))
    product = b.where(endless, product, b.mul(product, _by_logarithm(x, rest)))
    of_zero = b.where(whole, b.add(product, nothing), nothing)
    found = _of_zero(x, b.where(whole, product, _by_logarithm(x, y)), of_zero, b.gt(real, 0.0))
    return b.where(b.bit_and(_is_zero(x), _is_zero(y)), f.full_like(1.0, x), found)


def _is_zero(x: Array) -> Array:
    return b.eq(x, b.zeros_like(x))


def _by_bits(x: Array, n: Array, bits: int) -> Array:
    """The products of :func:`_products`, chosen by the exponent's bits.

    A square that an exponent does not need is 1, so that none overflows where the result does not.
    """
    base, size = _real_imag(x), b.abs(n)
    one, square = _one(base), base
    found = one
    for bit in range(bits):
        found = _chosen(b.ne(b.bit_and(size, 1 << bit), 0), _times(found, square), found)
        square = _chosen(b.ge(size, 2 << bit), _times(square, square), one) if bit + 1 < bits else square
    for exponent in range(1, min(4, 1 << bits)):
        found = _chosen(b.eq(n, exponent), _products(base, exponent), found)
    negative, result = b.lt(n, 0), b.complex(*found)
    divisor = b.where(negative, result, f.full_like(1.0, x))
    return b.where(negative, b.div(f.full_like(1.0, x), divisor), result)


def _chosen(condition: Array, x: RealImag, y: RealImag) -> RealImag:
    return b.where(condition, x[0], y[0]), b.where(condition, x[1], y[1])


def _by_logarithm(x: Array, y: Array) -> Array:
    return b.exp(b.mul(y, b.log(b.where(_is_zero(x), f.full_like(1.0, x), x))))


def _of_zero(x: Array, found: Array, of_zero: Array, positive: Array) -> Array:
    """The power, of 0 another value for exponents with a positive real part, nan for others."""
    return b.where(_is_zero(x), b.where(positive, of_zero, b.add(found, f.full_like(_NAN, x))), found)
