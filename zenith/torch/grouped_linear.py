"""Linear layers whose weights are levels of few bits, with scales for groups of terms: as checkpoints store them.

The product is an operator of its own, so that an export has it whole. A program computes it by
:func:`zenith.ir.ops.scaled_product.grouped_product`; PyTorch itself, by the numbers that the levels stand for, which it
makes anew in each call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zenith.ir.ops.scaled_product import TOGETHER, middle, packed, unpacked
from zenith.ir.types import NDArray
from zenith.torch.recurrent import LIBRARY, NAMESPACE

LONGEST = 128  # terms of a group: an activation is rounded in the same groups, and long ones lose more


@dataclass(frozen=True, slots=True)
class LevelMatrix:
    """A matrix [terms, columns] in levels: ``(levels - zeros) * scales``, of whose terms each so many have one scale.

    Attributes
    ----------
    bits: of a level, 4 or 8.
    levels: u8 [terms, columns], from 0 on.
    scales: float32 [groups, columns].
    shifts: float32 [groups, columns], what is added to ``(levels - middle) * scales``; None for zeros.
    """

    bits: int
    levels: NDArray
    scales: NDArray
    shifts: NDArray | None

    @classmethod
    def with_zeros(cls, bits: int, levels: NDArray, scales: NDArray, zeros: NDArray) -> LevelMatrix:
        """The matrix whose levels ``zeros`` [groups, columns] stand for zero. No number is rounded.

        A scale in 16 bits times a difference of levels is a float32.
        """
        wide, apart = scales.astype(np.float32), middle(bits) - zeros.astype(np.float32)
        return cls(bits, levels, wide, apart * wide if apart.any() else None)

    def numbers(self) -> NDArray:
        """The numbers [terms, columns], float32."""
        plain = self.levels.astype(np.float32) - middle(self.bits)
        groups = plain.reshape(len(self.scales), -1, plain.shape[-1]) * self.scales[:, None]
        found: NDArray = (groups if self.shifts is None else groups + self.shifts[:, None]).reshape(plain.shape)
        return found

    def in_short_groups(self) -> LevelMatrix:
        """The same matrix in groups of at most :data:`LONGEST` terms, several of which then have equal scales."""
        size = len(self.levels) // len(self.scales)
        parts = size // next(n for n in (size, *range(LONGEST, 0, -TOGETHER)) if n <= LONGEST and size % n == 0)
        shifts = None if self.shifts is None else self.shifts.repeat(parts, 0)
        return LevelMatrix(self.bits, self.levels, self.scales.repeat(parts, 0), shifts)


class GroupedLinear(torch.nn.Module):
    """A linear layer by a matrix in levels, for inference: x [..., terms] to [..., columns], in x's element type.

    Of the terms of ``x`` the matrix has those that ``order`` says, one after the other; None for all as they are.
    """

    levels: Tensor
    scales: Tensor
    shifts: Tensor | None
    order: Tensor | None
    bias: Tensor | None

    def __init__(self, matrix: LevelMatrix, order: NDArray | None = None, bias: Tensor | None = None) -> None:
        super().__init__()
        short = matrix.in_short_groups()
        self.bits = matrix.bits
        self.in_features, self.out_features = matrix.levels.shape
        self.register_buffer("levels", torch.from_numpy(np.ascontiguousarray(packed(short.levels, short.bits))))
        self.register_buffer("scales", torch.from_numpy(np.ascontiguousarray(short.scales)))
        self.register_buffer("shifts", None if short.shifts is None else torch.from_numpy(short.shifts))
        self.register_buffer("order", None if order is None else torch.from_numpy(order))
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        """The product, with the bias where there is one."""
        x = x if self.order is None else x.index_select(-1, self.order)
        found: Tensor = torch.ops.zenith.grouped_linear(x, self.levels, self.scales, self.shifts, self.bits)
        return found if self.bias is None else found + self.bias

    def extra_repr(self) -> str:
        """The sizes."""
        group = self.in_features // len(self.scales)
        return f"in_features={self.in_features}, out_features={self.out_features}, bits={self.bits}, group={group}"


def numbers(levels: Tensor, scales: Tensor, shifts: Tensor | None, bits: int) -> Tensor:
    """The matrix [terms, columns] that stored levels stand for, float32."""
    shift = None if shifts is None else shifts.numpy()
    return torch.from_numpy(LevelMatrix(bits, unpacked(levels.numpy(), bits), scales.numpy(), shift).numbers())


def _by_torch(x: Tensor, levels: Tensor, scales: Tensor, shifts: Tensor | None, bits: int) -> Tensor:
    return (x.to(torch.float32) @ numbers(levels, scales, shifts, bits)).to(x.dtype)


def _sizes(x: Tensor, levels: Tensor, scales: Tensor, shifts: Tensor | None, bits: int) -> Tensor:
    return x.new_empty((*x.shape[:-1], levels.shape[-1]))


LIBRARY.define("grouped_linear(Tensor x, Tensor levels, Tensor scales, Tensor? shifts, int bits) -> Tensor")
LIBRARY.impl("grouped_linear", _by_torch, "CompositeExplicitAutograd")
torch.library.register_fake(f"{NAMESPACE}::grouped_linear", _sizes, lib=LIBRARY)
