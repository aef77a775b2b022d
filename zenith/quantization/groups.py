"""Products by a matrix in few bits with scales for groups of terms, whose other operand is rounded in groups, too.

A group of an activation, in one row, has 127 levels of each sign, with the scale of its largest number. So sums of a
group are integers (:mod:`zenith.ir.ops.scaled_product`), and what rounding the activation loses, about half of a
percent, is little beside what the matrix loses in four bits. Where zero is not in the middle of a group's levels, the
sums of the activation's groups are multiplied by how far it is, and subtracted.

The arithmetic is that of llama.cpp's products of Q4_0 by Q8_0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zenith.ir.builder import Builder
from zenith.ir.dims import product
from zenith.ir.graph import Value
from zenith.ir.ops.scaled_product import middle, packed, unpacked
from zenith.ir.types import NDArray, float32, int8, int32
from zenith.quantization.scales import best_scales, levels_of

LARGEST = 127  # of an activation's levels


@dataclass(frozen=True, slots=True)
class Groups:
    """What is known of a matrix [terms, columns] in levels of ``bits`` bits, with ``size`` terms to a scale.

    ``scales`` are [groups, columns], float32, and ``shifts`` likewise what zero is less than the middle level, times
    the scale; None where it is in the middle.
    """

    bits: int
    size: int
    scales: NDArray
    shifts: NDArray | None

    @property
    def nbytes(self) -> int:
        """Their memory."""
        return int(self.scales.nbytes + (0 if self.shifts is None else self.shifts.nbytes))

    def numbers(self, stored: NDArray) -> NDArray:
        """The numbers that a stored matrix stands for, float32."""
        levels = unpacked(stored, self.bits).astype(np.float32) - middle(self.bits)
        groups = levels.reshape(len(self.scales), self.size, -1) * self.scales[:, None]
        if self.shifts is not None:
            groups += self.shifts[:, None]
        return groups.reshape(levels.shape)


def in_groups(matrix: NDArray, bits: int, size: int, symmetric: bool) -> tuple[NDArray, Groups]:
    """A matrix [terms, columns] as it is stored, u8, with the least squared error."""
    lowest, (terms, columns) = -middle(bits), matrix.shape
    numbers = np.ascontiguousarray(matrix.T, np.float32).reshape(columns, terms // size, size)
    scales, zeros = best_scales(numbers, lowest, symmetric)
    levels = levels_of(numbers, scales, zeros, float(lowest)).view(np.uint8) - np.uint8(lowest & 255)
    shifts = None if symmetric else np.ascontiguousarray((-zeros * scales).T)
    stored = packed(np.ascontiguousarray(levels.reshape(columns, terms).T), bits)
    return stored, Groups(bits, size, np.ascontiguousarray(scales.T), shifts)


def grouped_product(b: Builder, left: Value, matrix: Value, known: Sequence[Value], bits: int) -> Value:
    """The product of floats [..., terms] by a stored matrix, of which are ``known`` the scales, and shifts if any."""
    rows, groups, columns = product(left.shape[:-1]), known[0].shape[0], matrix.shape[-1]
    terms = matrix.shape[-2] * 8 // bits
    size = terms.evaluate({}) // groups.evaluate({})
    x = left if left.dtype == float32 else b.cast(left, dtype=float32)
    grouped = b.reshape(x, shape=(rows, groups, size))
    top = b.reduce_max(b.abs(grouped), axes=(2,))
    scale = b.div(top, b.full(float(LARGEST), float32, top.shape))
    scale = b.where(b.eq(top, 0.0), b.full(1.0, float32, top.shape), scale)
    q = b.cast(b.round(b.div(grouped, b.broadcast(scale, shape=grouped.shape, axes=(0, 1)))), dtype=int8)
    result = b.scaled_matmul(b.reshape(q, shape=(rows, terms)), matrix, scale, known[0], bits=bits, group=size)
    for shifts in known[1:]:
        sums = b.cast(b.reduce_sum(b.cast(q, dtype=int32), axes=(2,)), dtype=float32)
        result = b.add(result, b.matmul(b.mul(sums, scale), shifts))
    result = b.reshape(result, shape=(*left.shape[:-1], columns))
    return result if left.dtype == float32 else b.cast(result, dtype=left.dtype)
