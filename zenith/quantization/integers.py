"""Products in bytes: a matrix as i8 with a scale for each column, the other operand as u8, sums in int32.

With ``x = (q - zero) * scale`` for the left operand and ``w = v * scales`` for the matrix, a product is

    x @ w  =  (q @ v - zero * sums(v)) * scale * scales

where ``q @ v`` is exact and the sums of the matrix' columns are known ahead: nothing is made a float in order to be
multiplied. Where zero is another level of the matrix than 0, too, sums of the rows of ``q`` are subtracted as well.
What reads the product, such as a bias, an activation and the next layer's rounding, becomes part of its kernel. Where
activations stay floats (``weight_product``), bytes are what a product reads, and floats what it multiplies.

The arithmetic is that of Jacob et al., "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference", arXiv:1712.05877.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zenith.ir.builder import Builder
from zenith.ir.dims import DimLike
from zenith.ir.graph import Value
from zenith.ir.types import DType, NDArray, float32, int32, uint8
from zenith.quantization.scales import best_scales, levels_of

LARGEST = 127  # of a byte with a sign
MIDDLE = 128
STEPS = 255  # between the levels of a byte
LIMIT = 2**31  # of sums


@dataclass(frozen=True, slots=True)
class Columns:
    """What is known of the columns of a matrix in bytes: scales, levels of zero, and sums of levels less zero.

    All are float32; the levels of zero are whole numbers.
    """

    scales: NDArray
    zeros: NDArray
    sums: NDArray

    @property
    def nbytes(self) -> int:
        """Their memory."""
        return self.scales.nbytes + self.zeros.nbytes + self.sums.nbytes

    def numbers(self, levels: NDArray) -> NDArray:
        """The numbers that levels [terms, columns] stand for, float32."""
        found: NDArray = (levels - self.zeros) * self.scales
        return found


def fits(levels: NDArray) -> bool:
    """Whether no product of bytes by these levels exceeds int32."""
    return int(np.abs(levels.astype(np.int64)).sum(0).max(initial=0)) * STEPS < LIMIT


def in_bytes(matrix: NDArray, by_column: bool, symmetric: bool) -> tuple[NDArray, Columns]:
    """A matrix [terms, columns] as i8 with the least squared error, with one scale to a column or to all."""
    wide = np.asarray(matrix, np.float32)
    numbers = np.ascontiguousarray(wide.T).reshape(-1 if by_column else 1, 1, wide.shape[0] if by_column else wide.size)
    scales, zeros = best_scales(numbers, -MIDDLE, symmetric)
    levels = levels_of(numbers, scales, zeros, float(-MIDDLE)).reshape(wide.T.shape).T.copy()
    scales, zeros = (np.broadcast_to(v[:, 0], wide.shape[1:]).copy() for v in (scales, zeros))
    return levels, Columns(scales, zeros, (levels - zeros).sum(0, dtype=np.float64).astype(np.float32))


@dataclass(frozen=True, slots=True)
class Levels:
    """A range as 256 levels: the number of level q is ``(q - zero) * scale``."""

    scale: float
    zero: int

    @classmethod
    def of(cls, least: float, largest: float, symmetric: bool) -> Levels:
        """The levels that cover a range with zero in it, at 128 where they are ``symmetric`` and it has both signs."""
        if symmetric and least < 0 < largest:
            return cls(float(np.float32(max(-least, largest) / LARGEST)) or 1.0, MIDDLE)
        scale = float(np.float32((largest - least) / STEPS)) or 1.0
        return cls(scale, min(STEPS, round(-least / scale)))

    @property
    def range(self) -> tuple[float, float]:
        """The numbers of the lowest and the highest level."""
        return -self.zero * self.scale, (STEPS - self.zero) * self.scale


def static_product(
    b: Builder, left: Value, matrix: Value, known: Columns, smoothing: NDArray | None, levels: Levels
) -> Value:
    """The product, with levels that are known ahead."""
    steps = _number(b, 1 / levels.scale, left) if smoothing is None else _row(b, 1 / (levels.scale * smoothing), left)
    q = rounded(b, left, steps, levels)
    sums = _centred(b, q, matrix, known)
    if levels.zero:
        sums = b.sub(sums, _row(b, levels.zero * known.sums, sums))
    return _as(b, b.mul(sums, _row(b, np.float32(levels.scale) * known.scales, sums)), left.dtype)


def rounded(b: Builder, x: Value, steps: Value, levels: Levels) -> Value:
    """An array in bytes; ``steps`` is what it is multiplied by first, element by element."""
    level = b.round(b.mul(_single(b, x), steps))
    level = b.add(level, _number(b, levels.zero, x)) if levels.zero else level
    return b.cast(_clamped(b, level), dtype=uint8)


def dynamic_product(b: Builder, left: Value, matrix: Value, known: Columns, smoothing: NDArray | None) -> Value:
    """The product, with levels of its own for each row (token) of the left operand."""
    x, last = _single(b, left), len(left.shape) - 1
    x = x if smoothing is None else b.mul(x, _row(b, 1 / smoothing, left))
    none = b.full(0.0, float32, left.shape[:-1])
    least = b.minimum(b.reduce_min(x, axes=(last,)), none)
    largest = b.maximum(b.reduce_max(x, axes=(last,)), none)
    width = b.div(b.sub(largest, least), b.full(float(STEPS), float32, left.shape[:-1]))
    scale = b.where(b.eq(width, none), b.full(1.0, float32, left.shape[:-1]), width)
    zero = b.round(b.div(b.neg(least), scale))
    q = b.cast(
        _clamped(b, b.add(b.round(b.div(x, _column(b, scale, x.shape))), _column(b, zero, x.shape))), dtype=uint8
    )
    sums = _centred(b, q, matrix, known)
    shift = b.mul(_column(b, zero, sums.shape), _row(b, known.sums, sums))
    scales = b.mul(_column(b, scale, sums.shape), _row(b, known.scales, sums))
    return _as(b, b.mul(b.sub(sums, shift), scales), left.dtype)


def weight_product(b: Builder, left: Value, matrix: Value, known: Columns, smoothing: NDArray | None) -> Value:
    """The product by a matrix in bytes, which are made floats in registers: a quarter of the memory is read."""
    x, last = _single(b, left), len(left.shape) - 1
    x = x if smoothing is None else b.mul(x, _row(b, 1 / smoothing, left))
    sums = b.matmul(x, b.cast(_repeated(b, matrix, x.shape), dtype=float32))
    if known.zeros.any():
        of_rows = b.reduce_sum(x, axes=(last,))
        sums = b.sub(sums, b.mul(_column(b, of_rows, sums.shape), _row(b, known.zeros, sums)))
    return _as(b, b.mul(sums, _row(b, known.scales, sums)), left.dtype)


def _centred(b: Builder, q: Value, matrix: Value, known: Columns) -> Value:
    """``q @ (levels of the matrix less zero)``, exact as far as float32 is."""
    sums = _sums(b, q, matrix)
    if not known.zeros.any():
        return sums
    of_rows = _single(b, b.reduce_sum(b.cast(q, dtype=int32), axes=(len(q.shape) - 1,)))
    return b.sub(sums, b.mul(_column(b, of_rows, sums.shape), _row(b, known.zeros, sums)))


def _sums(b: Builder, q: Value, matrix: Value) -> Value:
    """The exact sums, rounded to float32."""
    repeated = _repeated(b, matrix, q.shape)
    return _single(b, b.matmul(b.cast(q, dtype=int32), b.cast(repeated, dtype=int32)))


def _repeated(b: Builder, matrix: Value, shape: Sequence[DimLike]) -> Value:
    """A matrix for every index of the leading axes of a left operand's shape."""
    if len(shape) == 2:
        return matrix
    whole = (*shape[:-2], *matrix.shape)
    return b.broadcast(matrix, shape=whole, axes=(len(whole) - 2, len(whole) - 1))


def _clamped(b: Builder, x: Value) -> Value:
    """Levels between 0 and 255; nan becomes 0."""
    zero = _number(b, 0, x)
    return b.minimum(b.where(b.ge(x, zero), x, zero), _number(b, STEPS, x))


def _single(b: Builder, x: Value) -> Value:
    return _as(b, x, float32)


def _as(b: Builder, x: Value, dtype: DType) -> Value:
    return x if x.dtype == dtype else b.cast(x, dtype=dtype)


def _number(b: Builder, number: float, like: Value) -> Value:
    return b.full(float(number), float32, like.shape)


def _row(b: Builder, values: NDArray, like: Value) -> Value:
    """A vector along the last axis of an array like another."""
    constant = b.graph.add_constant(np.asarray(values, np.float32), b.line)
    return b.broadcast(constant, shape=like.shape, axes=(len(like.shape) - 1,))


def _column(b: Builder, values: Value, shape: Sequence[DimLike]) -> Value:
    """A number for each row, along it."""
    return b.broadcast(values, shape=tuple(shape), axes=tuple(range(len(shape) - 1)))
