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
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "lgamma": lgamma,
}


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
        self._wider = np.float64 if dtype == "float32" else np.longdouble

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
        wide = self._wider
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

    def _as_float(self, x: Array) -> Array:
        return np.asarray(x).astype(self._float)[()]
