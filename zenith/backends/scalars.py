"""The names that kernel sources use, as ordinary functions of NumPy scalars and arrays.

Undecorated kernels run on them; a target teaches its compiler what each means there (``cpu/scalars.py``). Semantics are
NumPy's where not said otherwise. Each element type converts by its name (``f32(x)``), has ``f32_buffer(args, slot,
count)``, buffer ``slot`` of ``count`` in an argument block, and ``f32_scratch(length)``, uninitialised memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zenith.backends.vecmath import numpy_functions as vm
from zenith.ir.types import DTYPES, DType

inf, nan = float("inf"), float("nan")


def _converter(dtype: DType) -> Callable[[Any], Any]:
    def convert(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(x).astype(dtype.numpy)[()]

    convert.__name__ = dtype.name
    convert.__doc__ = f"Convert to {dtype}; nan and what is out of range become the smallest int32 or int64."
    return convert


def _buffer(dtype: DType) -> Callable[..., Any]:
    def buffer(args: Any, slot: int, count: int) -> Any:
        return args[slot]

    buffer.__name__ = f"{dtype}_buffer"
    buffer.__doc__ = f"Buffer ``slot`` of ``count``, of {dtype} elements."
    return buffer


def _scratch(dtype: DType) -> Callable[..., Any]:
    def scratch(length: int) -> Any:
        return np.empty(length, dtype.numpy)

    scratch.__name__ = f"{dtype}_scratch"
    scratch.__doc__ = f"Uninitialised memory for ``length`` {dtype} elements."
    return scratch


CONVERT = {t.name: _converter(t) for t in DTYPES}
BUFFER = {f"{t}_buffer": _buffer(t) for t in DTYPES}
SCRATCH = {f"{t}_scratch": _scratch(t) for t in DTYPES}


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    return call


def where(condition: Any, x: Any, y: Any) -> Any:
    """``x`` where the condition holds, else ``y``; both are computed."""
    return np.where(condition, x, y)[()]


def maximum(x: Any, y: Any) -> Any:
    """The larger; nan if either is."""
    return np.maximum(x, y)


def minimum(x: Any, y: Any) -> Any:
    """The smaller; nan if either is."""
    return np.minimum(x, y)


def fold_add(x: Any, y: Any) -> Any:
    """A sum that a fold may group as its tree wants."""
    return x + y


def fold_mul(x: Any, y: Any) -> Any:
    """A product that a fold may group as its tree wants."""
    return x * y


@_quiet
def floor_divide(x: Any, y: Any) -> Any:
    """The quotient rounded down; an integer divided by 0 is 0."""
    return np.floor_divide(x, y)


@_quiet
def remainder(x: Any, y: Any) -> Any:
    """The remainder with the divisor's sign; an integer modulo 0 is 0."""
    return np.remainder(x, y)


def shift_left(x: Any, y: Any) -> Any:
    """``x * 2**y``; 0 when y is not below the width."""
    return np.left_shift(x, y)


def shift_right(x: Any, y: Any) -> Any:
    """``x // 2**y``; the sign when y is not below the width."""
    return np.right_shift(x, y)


@_quiet
def int_power(x: Any, y: Any) -> Any:
    """Integer powers by wrapping multiplication; a negative exponent gives the truncated reciprocal."""
    from zenith.ir.ops.reference import power as reference

    return reference(np.asarray(x), np.asarray(y))[()]


def threefry2x32(key: Any, word: Any) -> Any:
    """Threefry-2x32-20 of a word under a key; see the reference."""
    from zenith.ir.ops.reference import threefry2x32 as reference

    return reference(np.asarray(key), np.asarray(word))[()]


def sign(x: Any) -> Any:
    """-1, 0 or 1; nan for nan."""
    return np.sign(x)


def floor(x: Any) -> Any:
    """Rounded down."""
    return np.floor(x)


def ceil(x: Any) -> Any:
    """Rounded up."""
    return np.ceil(x)


def trunc(x: Any) -> Any:
    """Rounded towards zero."""
    return np.trunc(x)


def rint(x: Any) -> Any:
    """Rounded to the nearest integer, ties to even."""
    return np.rint(x)


def magnitude(x: Any) -> Any:
    """The absolute value."""
    return np.abs(x)


@_quiet
def sqrt(x: Any) -> Any:
    """The square root."""
    return np.sqrt(x)


@_quiet
def divide(x: Any, y: Any) -> Any:
    """The quotient of floating-point numbers."""
    return np.divide(x, y)


@_quiet
def divide_same(x: Any, y: Any) -> Any:
    """The quotient of floating-point numbers, for a ``y`` that many ``x`` share."""
    return np.divide(x, y)


def copysign(x: Any, y: Any) -> Any:
    """The magnitude of x with the sign of y."""
    return np.copysign(x, y)


def checked(place: Any, size: int, args: Any) -> Any:
    """``place`` moved into ``[0, size)``; where it had to be, the status word ``args[0]`` becomes 1."""
    place = np.asarray(place)
    if ((place < 0) | (place >= size)).any():
        args[0][0] = 1
    return np.clip(place, 0, max(size - 1, 0))[()]


def atomic_add(buffer: Any, at: Any, value: Any) -> None:
    """Add to the element at a place; of lanes, each to its own, as often as a place is named."""
    with np.errstate(all="ignore"):
        np.add.at(buffer, *np.broadcast_arrays(at, value))


def lanes(start: int, stop: int) -> Any:
    """The lanes of a loop, as one array."""
    return np.arange(start, stop)


_JOINS: dict[str, Any] = {
    "x + y": np.add,
    "x * y": np.multiply,
    "maximum(x, y)": np.maximum,
    "minimum(x, y)": np.minimum,
    "x & y": np.bitwise_and,
    "x | y": np.bitwise_or,
}


def join(combine: str, initial: Any, values: Any, over: Any) -> Any:
    """All lanes' values joined by a fold's operation; ``over`` says how many there are."""
    with np.errstate(all="ignore"):
        total = _JOINS[combine].reduce(np.broadcast_to(values, over.shape), initial=initial)
    return np.asarray(initial).dtype.type(total)


_OWN = (
    where, maximum, minimum, fold_add, fold_mul, floor_divide, remainder, shift_left, shift_right, int_power,
    threefry2x32, sign, floor, ceil, trunc, rint, magnitude, sqrt, divide, divide_same, copysign, checked,
    atomic_add,
)  # fmt: skip
ELEMENTARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
    "arctan2", "sinh", "cosh", "tanh", "sigmoid", "erf",
    "erfinv",
)  # fmt: skip

NAMESPACE: dict[str, Any] = {
    **CONVERT, **BUFFER, **SCRATCH, **{f.__name__: f for f in _OWN}, **{n: getattr(vm, n) for n in ELEMENTARY},
    "power": vm.pow, "inf": inf, "nan": nan,
}  # fmt: skip
LANES_NAMESPACE: dict[str, Any] = {**NAMESPACE, "lanes": lanes, "join": join, "max": np.maximum, "min": np.minimum}
