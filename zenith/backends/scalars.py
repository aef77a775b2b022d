"""The names that kernel sources use, as ordinary functions of NumPy scalars and arrays.

Undecorated kernels run on them; a target registers each with its compiler (``cpu/scalars.py``). Semantics are
NumPy's unless stated otherwise. Each element type converts by its name (``f32(x)``), has ``f32_buffer(args, slot,
count)``, buffer ``slot`` of ``count`` in an argument block, and ``f32_scratch(length)``, uninitialised memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from zenith.backends.vecmath import numpy_functions as vm
from zenith.ir.types import DTYPES, DType, NDArray

inf, nan = float("inf"), float("nan")


def _converter(dtype: DType) -> Callable[[NDArray], NDArray]:
    def convert(x: NDArray) -> NDArray:
        with np.errstate(all="ignore"):
            return np.asarray(x).astype(dtype.numpy)[()]

    convert.__name__ = dtype.name
    convert.__doc__ = f"Convert to {dtype} as NumPy does; see the primitive ``cast`` for nan and what is out of range."
    return convert


def _buffer(dtype: DType) -> Callable[..., NDArray]:
    def buffer(args: Sequence[NDArray], slot: int, count: int) -> NDArray:
        return args[slot]

    buffer.__name__ = f"{dtype}_buffer"
    buffer.__doc__ = f"Buffer ``slot`` of ``count``, of {dtype} elements."
    return buffer


def _scratch(dtype: DType) -> Callable[..., NDArray]:
    def scratch(length: int) -> NDArray:
        return np.empty(length, dtype.numpy)

    scratch.__name__ = f"{dtype}_scratch"
    scratch.__doc__ = f"Uninitialised memory for ``length`` {dtype} elements."
    return scratch


TYPES = tuple(t for t in DTYPES if not t.is_complex)  # in kernels: a complex array has that of its real part
CONVERT = {t.name: _converter(t) for t in TYPES}
BUFFER = {f"{t}_buffer": _buffer(t) for t in TYPES}
SCRATCH = {f"{t}_scratch": _scratch(t) for t in TYPES}


def _quiet(function: Callable[..., NDArray]) -> Callable[..., NDArray]:
    def call(*args: NDArray) -> NDArray:
        with np.errstate(all="ignore"):
            return function(*args)

    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    return call


def where(condition: NDArray, x: NDArray, y: NDArray) -> NDArray:
    """``x`` where the condition holds, else ``y``; both are computed."""
    return np.where(condition, x, y)[()]


def maximum(x: NDArray, y: NDArray) -> NDArray:
    """The larger; nan if either is."""
    return np.maximum(x, y)


def minimum(x: NDArray, y: NDArray) -> NDArray:
    """The smaller; nan if either is."""
    return np.minimum(x, y)


@_quiet
def wrapping_add(x: NDArray, y: NDArray) -> NDArray:
    """The sum of int64 numbers modulo 2**64."""
    return np.add(x, y, dtype=np.int64)


@_quiet
def wrapping_sub(x: NDArray, y: NDArray) -> NDArray:
    """The difference of int64 numbers modulo 2**64."""
    return np.subtract(x, y, dtype=np.int64)


@_quiet
def wrapping_mul(x: NDArray, y: NDArray) -> NDArray:
    """The product of int64 numbers modulo 2**64."""
    return np.multiply(x, y, dtype=np.int64)


def fold_add(x: NDArray, y: NDArray) -> NDArray:
    """A sum that a fold may reassociate."""
    return x + y


def fold_mul(x: NDArray, y: NDArray) -> NDArray:
    """A product that a fold may reassociate."""
    return x * y


def fold_max(x: NDArray, y: NDArray) -> NDArray:
    """The larger, in a fold: nan if either is; of two zeros it may be either."""
    return np.maximum(x, y)


def fold_min(x: NDArray, y: NDArray) -> NDArray:
    """The smaller, in a fold: nan if either is; of two zeros it may be either."""
    return np.minimum(x, y)


@_quiet
def floor_divide(x: NDArray, y: NDArray) -> NDArray:
    """The quotient rounded down; an integer divided by 0 is 0."""
    return np.floor_divide(x, y)


@_quiet
def remainder(x: NDArray, y: NDArray) -> NDArray:
    """The remainder with the divisor's sign; an integer modulo 0 is 0."""
    return np.remainder(x, y)


def shift_left(x: NDArray, y: NDArray) -> NDArray:
    """``x * 2**y``; 0 when y is not below the width."""
    return np.left_shift(x, y)


def shift_right(x: NDArray, y: NDArray) -> NDArray:
    """``x // 2**y``; the sign when y is not below the width."""
    return np.right_shift(x, y)


@_quiet
def int_power(x: NDArray, y: NDArray) -> NDArray:
    """Integer powers by wrapping multiplication; a negative exponent gives the truncated reciprocal."""
    from zenith.ir.ops.reference import power as reference

    return reference(np.asarray(x), np.asarray(y))[()]


def bit_count(x: NDArray) -> NDArray:
    """The number of ones among the bits of the absolute value."""
    return np.bitwise_count(x)


def threefry2x32(key: NDArray, word: NDArray) -> NDArray:
    """Threefry-2x32-20 of a word under a key; see the reference."""
    from zenith.ir.ops.reference import threefry2x32 as reference

    return reference(np.asarray(key), np.asarray(word))[()]


def ordered(x: NDArray) -> NDArray:
    """An unsigned integer of the width of x, which orders as x does: nan is the largest, zeros are equal.

    The sign bit of a positive number is set, all bits of a negative one are flipped (M. Herf, "Radix Tricks", 2001).
    """
    x = np.asarray(x)
    word = np.dtype(f"u{x.dtype.itemsize}")
    if x.dtype.kind not in "if":
        return x.astype(word)[()]
    top = word.type(1) << word.type(8 * word.itemsize - 1)
    bits = x.view(word)
    if x.dtype.kind == "i":
        return (bits ^ top)[()]
    bits = np.where(x == 0, word.type(0), bits)
    flipped = np.where(bits & top, ~bits, bits | top)
    return np.where(np.isnan(x), ~word.type(0), flipped)[()]


def digit(x: NDArray, number: NDArray) -> NDArray:
    """Byte ``number`` of ``ordered(x)``, 0 is the lowest, as an index."""
    word = ordered(x)
    return np.asarray(word >> word.dtype.type(8 * number)).astype(np.uint8).astype(np.int64)[()]


def sign(x: NDArray) -> NDArray:
    """-1, 0 or 1; nan for nan."""
    return np.sign(x)


def floor(x: NDArray) -> NDArray:
    """Rounded down."""
    return np.floor(x)


def ceil(x: NDArray) -> NDArray:
    """Rounded up."""
    return np.ceil(x)


def trunc(x: NDArray) -> NDArray:
    """Rounded towards zero."""
    return np.trunc(x)


def rint(x: NDArray) -> NDArray:
    """Rounded to the nearest integer, ties to even."""
    return np.rint(x)


def magnitude(x: NDArray) -> NDArray:
    """The absolute value."""
    return np.abs(x)


@_quiet
def sqrt(x: NDArray) -> NDArray:
    """The square root."""
    return np.sqrt(x)


@_quiet
def divide(x: NDArray, y: NDArray) -> NDArray:
    """The quotient of floating-point numbers."""
    return np.divide(x, y)


@_quiet
def divide_same(x: NDArray, y: NDArray) -> NDArray:
    """The quotient of floating-point numbers, for a ``y`` that many ``x`` share."""
    return np.divide(x, y)


def copysign(x: NDArray, y: NDArray) -> NDArray:
    """The magnitude of x with the sign of y."""
    return np.copysign(x, y)


def float_bits(x: NDArray) -> NDArray:
    """The bits of a floating-point number as an integer of the same width."""
    return np.asarray(x).view({4: np.int32, 8: np.int64}[np.asarray(x).itemsize])[()]


def bits_float(x: NDArray) -> NDArray:
    """The floating-point number with the bits of an integer of the same width."""
    return np.asarray(x).view({4: np.float32, 8: np.float64}[np.asarray(x).itemsize])[()]


def gcd(x: NDArray, y: NDArray) -> NDArray:
    """The greatest common divisor of integers."""
    return np.gcd(x, y)


@_quiet
def logaddexp(x: NDArray, y: NDArray) -> NDArray:
    """The logarithm of the sum of two exponentials."""
    return np.logaddexp(x, y)


def checked(index: NDArray, size: int, code: int, args: Sequence[NDArray]) -> NDArray:
    """``index`` clamped into ``[0, size)``; where it was outside, the status word ``args[0]`` becomes ``code``."""
    index = np.asarray(index)
    if ((index < 0) | (index >= size)).any():
        args[0][0] = code
    return np.clip(index, 0, max(size - 1, 0))[()]


def wrapped(index: NDArray, size: int, code: int, args: Sequence[NDArray]) -> NDArray:
    """The same of an index that counts from the end where it is negative."""
    index = np.asarray(index)
    return checked(np.where(index < 0, index + size, index), size, code, args)


def interrupted(args: Sequence[NDArray]) -> bool:
    """Whether the call that the kernel belongs to is interrupted; Python itself raises where it interprets a kernel."""
    return False


def atomic_add(buffer: NDArray, at: NDArray, value: NDArray) -> None:
    """Add to the element at a position; lanes add each to its own, also where several have one position."""
    with np.errstate(all="ignore"):
        np.add.at(buffer, *np.broadcast_arrays(at, value))


def lanes(start: int, stop: int) -> NDArray:
    """The lanes of a loop, as one array."""
    return np.arange(start, stop)


_JOINS: dict[str, np.ufunc] = {
    "x + y": np.add,
    "x * y": np.multiply,
    "maximum(x, y)": np.maximum,
    "minimum(x, y)": np.minimum,
    "x & y": np.bitwise_and,
    "x | y": np.bitwise_or,
    "logaddexp(x, y)": np.logaddexp,
}


def join(combine: str, initial: NDArray, values: NDArray, over: NDArray) -> NDArray:
    """All lanes' values joined by a fold's operation; ``over`` are the lanes."""
    if combine not in _JOINS:
        return run_along(combine, over, initial, values)[-1] if over.size else initial
    with np.errstate(all="ignore"):
        total = _JOINS[combine].reduce(np.broadcast_to(values, over.shape), initial=initial)
        return np.asarray(total).astype(np.asarray(initial).dtype)[()]


def run_along(combine: str, over: NDArray, initial: NDArray, values: NDArray, factors: NDArray | int = 1) -> NDArray:
    """For each lane the prefix of a :class:`~zenith.backends.kernel.Running` over all lanes up to it."""
    values, factors = (np.broadcast_to(v, over.shape) for v in (values, factors))
    with np.errstate(all="ignore"):
        if combine in _JOINS:
            return _JOINS[combine].accumulate(np.append(initial, values), dtype=values.dtype)[1:]
        step, out = compile(combine, "<combine>", "eval"), np.empty_like(values)
        for i in range(over.size):
            initial = out[i] = eval(step, NAMESPACE, {"x": initial, "y": values[i], "z": factors[i]})
    return out


_OWN = (
    where, maximum, minimum, wrapping_add, wrapping_sub, wrapping_mul,
    fold_add, fold_mul, fold_max, fold_min, floor_divide, remainder, shift_left, shift_right,
    int_power, bit_count, threefry2x32, ordered, digit, sign, floor, ceil, trunc, rint, magnitude, sqrt, divide,
    divide_same, copysign, float_bits, bits_float, gcd, logaddexp, checked, wrapped, interrupted, atomic_add,
)  # fmt: skip
ELEMENTARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
    "arctan2", "sinh", "cosh", "tanh", "sigmoid", "erf", "erfc", "erfcx", "erfinv", "erfcinv", "lgamma", "digamma",
    "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "cbrt", "arcsinh", "arccosh", "arctanh",
)  # fmt: skip
IN_LIBRARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
    "arctan2", "sinh", "cosh", "tanh",
)  # fmt: skip
LIBRARY = {f"libm_{name}": vm.on_arrays(name) for name in IN_LIBRARY}
"""Elementary functions that kernels may call in the C library: no powers, whose logarithm is often loop-invariant."""

NAMESPACE: dict[str, object] = {
    **CONVERT, **BUFFER, **SCRATCH, **{f.__name__: f for f in _OWN}, **{n: getattr(vm, n) for n in ELEMENTARY},
    **LIBRARY, "power": vm.pow, "inf": inf, "nan": nan,
}  # fmt: skip
_OF_LANES = {"lanes": lanes, "join": join, "run_along": run_along, "max": np.maximum, "min": np.minimum}
LANES_NAMESPACE: dict[str, object] = {**NAMESPACE, **_OF_LANES}
