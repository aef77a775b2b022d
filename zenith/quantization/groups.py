"""Matrices in few bits with scales for groups of terms, for :func:`zenith.ir.ops.scaled_product.grouped_product`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zenith.ir.ops.scaled_product import middle, packed, unpacked
from zenith.ir.types import NDArray
from zenith.quantization.scales import best_scales, levels_of


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
