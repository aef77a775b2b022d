"""Blocks of channels, in which the way back finds what convolutions made, and marks of what is kept so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import zenith.numpy as znp
from zenith.ir.dims import Dim, dim
from zenith.torch.layouts import Layout

KEPT = "zenith_layout"  # under which the meta of a node that is kept for the way back has its layout


@dataclass(frozen=True, slots=True)
class Blocked:
    """An array (n, channels, sizes...) as convolutions have it, (n, groups, blocks, sizes..., block).

    So stands what a way forward keeps for the way back: programs read it, and nobody else.
    """

    groups: int
    block: int

    def in_memory(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor, which stands so."""
        return tensor

    counted = in_memory

    def shape(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The sizes with the channels cut."""
        examples, channels, *places = sizes
        return (examples, dim(self.groups), channels // (self.groups * self.block), *places, dim(self.block))

    def packed(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of PyTorch's as programs have it."""
        examples, channels, *places = tensor.shape
        cut = (examples, self.groups, channels // (self.groups * self.block), self.block, *places)
        return tensor.reshape(cut).movedim(3, -1).contiguous()

    def unpacked(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor that programs have in blocks, as PyTorch counts its axes."""
        examples, groups, blocks, *places, block = tensor.shape
        return tensor.movedim(-1, 3).reshape(examples, groups * blocks * block, *places)

    def to_memory_order(self, array: Any) -> Any:
        """A program's array with its channels in blocks."""
        examples, channels, *places = array.shape
        blocks = channels // (self.groups * self.block)
        return znp.moveaxis(znp.reshape(array, (examples, self.groups, blocks, self.block, *places)), 3, -1)

    def from_memory_order(self, array: Any) -> Any:
        """A program's array in blocks as PyTorch counts its axes."""
        examples, groups, blocks, *places, block = array.shape
        return znp.reshape(znp.moveaxis(array, -1, 3), (examples, groups * blocks * block, *places))


def layout_of(node: torch.fx.Node) -> Layout | Blocked:
    """How the tensor of a node that begins or ends a graph stands in memory."""
    kept: Blocked | None = node.meta.get(KEPT)
    return Layout.of(node.meta["val"]) if kept is None else kept
