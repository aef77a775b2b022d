"""Decompositions of numbers: mantissa and exponent, whole and fractional part."""

from __future__ import annotations

import numpy as np

from zenith.errors import DTypeError, user_line
from zenith.ir.types import int32, kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy.broadcasting import align
from zenith.numpy.conditionals import where
from zenith.numpy.elementwise import resolve
from zenith.numpy.float_formulas import decompose, scaled, wide
from zenith.numpy.operands import compute_array, convert
from zenith.numpy.typing import Array, ArrayLike, Out
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.ufuncs import of_ufunc

__all__ = [
    "fix", "frexp", "isneginf", "isposinf", "ldexp", "modf",
]  # fmt: skip


@of_ufunc(np.frexp)
def frexp(x: ArrayLike) -> tuple[Array, Array]:
    """The mantissa m, 1/2 <= |m| < 1, and the exponent e (int32) of numbers m * 2**e; zeros and infinities have e = 0.

    >>> frexp([8.0, -0.75])
    (array([ 0.5 , -0.75]), array([4, 0], dtype=int32))
    """
    (dtype,) = resolve(np.frexp, (x,), "frexp")
    number = wide(convert(x, dtype))
    exponent, _ = decompose(number)
    mantissa = scaled(number, b.neg(exponent))  # not by its bits: so it has the derivative 2**-e
    return convert(mantissa, dtype), b.cast(exponent, dtype=int32)


@of_ufunc(np.ldexp)
def ldexp(x1: ArrayLike, x2: ArrayLike) -> Array:
    """``x1 * 2**x2`` for integers ``x2``, rounded once.

    >>> ldexp([1.0, 3.0], [2, -1])
    array([4. , 1.5])
    """
    dtype, whole = resolve(np.ldexp, (x1, x2), "ldexp")
    x, n = align("ldexp", [convert(x1, dtype), convert(x2, whole)])
    return convert(scaled(wide(x), n), dtype)


# --- whole and fractional parts --------------------------------------------------------------------------------


@of_ufunc(np.modf)
def modf(x: ArrayLike) -> tuple[Array, Array]:
    """The fractional and the whole part of numbers, both with their sign.

    >>> modf([2.5, -0.25])
    (array([ 0.5 , -0.25]), array([ 2., -0.]))
    """
    (dtype,) = resolve(np.modf, (x,), "modf")
    number = convert(x, dtype)
    whole = ew.trunc(number)
    rest = where(ew.isinf(number), np.zeros((), dtype), ew.subtract(number, whole))
    return ew.copysign(rest, number), whole


@implements(np.fix)
def fix(x: ArrayLike, out: Out = None) -> Array:
    """Rounded towards zero; integers as they are.

    >>> fix([2.7, -2.7])
    array([ 2., -2.])
    """
    return ew.trunc(x)


def _infinity(name: str, x: ArrayLike, value: float) -> Array:
    number = compute_array(name, x)
    if kind_of(number.dtype) == "c":
        raise DTypeError(f"{name}: complex numbers have no sign", where=user_line(), fix="ask numpy.isinf, or x.real")
    if kind_of(number.dtype) != "f":
        return ew.isinf(number)
    return ew.equal(number, value)


@implements(np.isposinf)
def isposinf(x: ArrayLike, out: Out = None) -> Array:
    """Whether elements are infinity.

    >>> isposinf([np.inf, -np.inf])
    array([ True, False])
    """
    return _infinity("isposinf", x, np.inf)


@implements(np.isneginf)
def isneginf(x: ArrayLike, out: Out = None) -> Array:
    """Whether elements are minus infinity.

    >>> isneginf([np.inf, -np.inf])
    array([False,  True])
    """
    return _infinity("isneginf", x, -np.inf)
