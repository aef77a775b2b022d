"""The operations on NumPy arrays: the reference of the code that the backends emit.

With it an elementary function runs without a compiler, elementwise, and can be stepped through. Each method is one
NumPy call in the array's own type; only fused multiply-add takes a detour through the next wider type. For float64
that is ``np.longdouble``, which keeps 64 bits of the 106 of the product where it is wider at all: results may differ
from the compiled ones in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zenith.backends.vecmath.formats import FORMATS
from zenith.ir.ops.special_reference import lgamma

Array = Any

_LIBM: dict[str, Callable[..., Array]] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "lgamma": lgamma,
}


def _fma_float64(x: Array, y: Array, z: Array) -> Array:
    """x * y + z with the rounding error of the product, from halves of the factors, whose products are exact."""
    product = x * y
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    total = product + z
    added = total - product
    rest = (product - (total - added)) + (z - added)
    exact = (total.astype(np.longdouble) + (rest + error)).astype(np.float64)
    plain = (x.astype(np.longdouble) * y + z).astype(np.float64)
    return np.where(np.isfinite(exact), exact, plain)


def _halves(x: Array) -> tuple[Array, Array]:
    """The first 26 bits of the numbers and the others, in the widest type, whose products do not overflow."""
    high = (x.view(np.int64) & ~np.int64((1 << 27) - 1)).view(np.float64)
    return high.astype(np.longdouble), (x - high).astype(np.longdouble)


class NumpyOps:
    """:class:`~.ops.Ops` on arrays (or NumPy scalars) of one floating-point type.

    >>> k = NumpyOps("float32")
    >>> k.fma(k.const(2.0), k.const(3.0), k.const(1.0))
    np.float32(7.0)
    """

    def __init__(self, dtype: str) -> None:
        if dtype not in FORMATS:
            raise TypeError(f"no elementary functions for dtype {dtype}; cast to float32 or float64")
        self.dtype = dtype
        self._float = np.dtype(dtype).type
        self._int = np.int32 if dtype == "float32" else np.int64

    @property
    def double(self) -> NumpyOps:
        return self if self.dtype == "float64" else NumpyOps("float64")

    def const(self, value: float) -> Array:
        return self._float(value)

    def int_const(self, value: int) -> Array:
        return self._int(value)

    def add(self, x: Array, y: Array) -> Array:
        return x + y

    def sub(self, x: Array, y: Array) -> Array:
        return x - y

    def mul(self, x: Array, y: Array) -> Array:
        return x * y

    def div(self, x: Array, y: Array) -> Array:
        return x / y

    def fma(self, x: Array, y: Array, z: Array) -> Array:
        if self.dtype == "float64":
            return _fma_float64(np.asarray(x, np.float64), np.asarray(y, np.float64), np.asarray(z, np.float64))[()]
        wide = np.float64
        return self._as_float(np.asarray(x).astype(wide) * np.asarray(y).astype(wide) + np.asarray(z).astype(wide))

    def neg(self, x: Array) -> Array:
        return -x

    def abs(self, x: Array) -> Array:
        return np.abs(x)

    def copysign(self, magnitude: Array, sign: Array) -> Array:
        return np.copysign(magnitude, sign)

    def sqrt(self, x: Array) -> Array:
        return np.sqrt(x)

    def rint(self, x: Array) -> Array:
        return np.rint(x)

    def lt(self, x: Array, y: Array) -> Array:
        return x < y

    def le(self, x: Array, y: Array) -> Array:
        return x <= y

    def eq(self, x: Array, y: Array) -> Array:
        return x == y

    def both(self, p: Array, q: Array) -> Array:
        return p & q

    def either(self, p: Array, q: Array) -> Array:
        return p | q

    def select(self, condition: Array, x: Array, y: Array) -> Array:
        chosen: Array = np.where(condition, x, y)
        return chosen[()]

    def bitcast_int(self, x: Array) -> Array:
        return x.view(self._int)

    def bitcast_float(self, i: Array) -> Array:
        return i.view(self._float)

    def iadd(self, i: Array, j: Array) -> Array:
        return i + j

    def isub(self, i: Array, j: Array) -> Array:
        return i - j

    def shl(self, i: Array, count: int) -> Array:
        return np.left_shift(i, self._int(count))

    def shr(self, i: Array, count: int) -> Array:
        return np.right_shift(i, self._int(count))

    def widen(self, x: Array) -> Array:
        return x.astype(np.float64)

    def narrow(self, x: Array) -> Array:
        return self._as_float(x)

    def libm(self, name: str, *operands: Array) -> Array:
        return _LIBM[name](*operands)[()]

    def rarely(self, condition: Array, name: str, x: Array, usual: Array) -> Array:
        return self.select(condition, self.libm(name, x), usual)

    def _as_float(self, x: Array) -> Array:
        return np.asarray(x).astype(self._float)[()]
