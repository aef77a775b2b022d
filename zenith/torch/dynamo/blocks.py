"""Blocks of channels, the layout of residuals that convolutions compute, and the mark of nodes that have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import zenith.numpy as znp
from zenith.ir.dims import Dim, dim
from zenith.numpy.typing import Array
from zenith.torch.layouts import MemoryFormat

LAYOUT = "zenith_layout"  # under which the meta of a residual's node has its layout


@dataclass(frozen=True, slots=True)
class Blocked:
    """An array (n, channels, sizes...) as convolutions have it, (n, groups, blocks, sizes..., block).

    Residuals have this layout: only the program of the backward pass reads them.
    """

    groups: int
    block: int

    def in_memory_order(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor, which has this layout."""
        return tensor

    in_torch_order = in_memory_order

    def shape(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The sizes with the channels cut."""
        examples, channels, *spatial = sizes
        return (examples, dim(self.groups), channels // (self.groups * self.block), *spatial, dim(self.block))

    def packed(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of PyTorch's as programs have it."""
        examples, channels, *spatial = tensor.shape
        cut = (examples, self.groups, channels // (self.groups * self.block), self.block, *spatial)
        return tensor.reshape(cut).movedim(3, -1).contiguous()

    def unpacked(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor that programs have in blocks, with its axes in PyTorch's order."""
        examples, groups, blocks, *spatial, block = tensor.shape
        return tensor.movedim(-1, 3).reshape(examples, groups * blocks * block, *spatial)

    def to_memory_order(self, array: Array) -> Array:
        """A program's array with its channels in blocks."""
        examples, channels, *spatial = array.shape
        blocks = channels // (self.groups * self.block)
        return znp.moveaxis(znp.reshape(array, (examples, self.groups, blocks, self.block, *spatial)), 3, -1)

    def from_memory_order(self, array: Array) -> Array:
        """A program's array in blocks, with its axes in PyTorch's order."""
        examples, groups, blocks, *spatial, block = array.shape
        return znp.reshape(znp.moveaxis(array, -1, 3), (examples, groups * blocks * block, *spatial))


def layout_of(node: torch.fx.Node) -> MemoryFormat | Blocked:
    """The layout of the tensor of a placeholder or a result of a graph."""
    blocked: Blocked | None = node.meta.get(LAYOUT)
    return MemoryFormat.of(node.meta["val"]) if blocked is None else blocked
