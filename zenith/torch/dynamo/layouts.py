"""How tensors stand in memory where a graph begins and ends, and how the arrays of its program are turned to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import zenith.numpy as znp
from zenith.ir.dims import Dim, dim

Order = tuple[int, ...]
KEPT = "zenith_layout"  # under which the meta of a node that is kept for the way back has its layout


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes of a tensor in the order of its memory, and the way back; ``natural`` where they are counted so."""

    order: Order
    inverse: Order
    natural: bool

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Layout:
        """By decreasing stride; the natural order where this is no dense tensor's."""
        strides, shape = ([_hint(n) for n in numbers] for numbers in (tensor.stride(), tensor.shape))
        natural = tuple(range(tensor.ndim))
        by_stride = tuple(sorted(natural, key=lambda axis: -strides[axis]))
        order = next((order for order in (natural, by_stride) if _fills(order, strides, shape)), natural)
        return cls(order, tuple(sorted(natural, key=order.__getitem__)), order == natural)

    def in_memory(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor with its axes in the order of memory."""
        return tensor if self.natural else tensor.permute(self.order)

    def counted(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor whose axes are in the order of memory, with its axes as PyTorch counts them."""
        return tensor if self.natural else tensor.permute(self.inverse)

    def shape(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The sizes of the axes in the order of memory."""
        return tuple(sizes[axis] for axis in self.order)

    def turned(self, array: Any) -> Any:
        """A program's array with its axes in the order of memory."""
        return znp.transpose(array, self.order)

    def turned_back(self, array: Any) -> Any:
        """A program's array that has its axes in the order of memory, as PyTorch counts them."""
        return znp.transpose(array, self.inverse)


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

    def turned(self, array: Any) -> Any:
        """A program's array with its channels in blocks."""
        examples, channels, *places = array.shape
        blocks = channels // (self.groups * self.block)
        return znp.moveaxis(znp.reshape(array, (examples, self.groups, blocks, self.block, *places)), 3, -1)

    def turned_back(self, array: Any) -> Any:
        """A program's array in blocks as PyTorch counts its axes."""
        examples, groups, blocks, *places, block = array.shape
        return znp.reshape(znp.moveaxis(array, -1, 3), (examples, groups * blocks * block, *places))


def layout_of(node: torch.fx.Node) -> Layout | Blocked:
    """How the tensor of a node that begins or ends a graph stands in memory."""
    kept: Blocked | None = node.meta.get(KEPT)
    return Layout.of(node.meta["val"]) if kept is None else kept


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements fill their memory, in any order of axes."""
    strides, shape = ([_hint(n) for n in numbers] for numbers in (tensor.stride(), tensor.shape))
    return _fills(tuple(sorted(range(tensor.ndim), key=lambda axis: (-strides[axis], -shape[axis]))), strides, shape)


def _fills(order: Order, strides: Sequence[int], shape: Sequence[int]) -> bool:
    length = 1
    for axis in reversed(order):
        if shape[axis] > 1 and strides[axis] != length:
            return False
        length *= max(shape[axis], 1)
    return True


def _hint(size: Any) -> int:
    return size if isinstance(size, int) else int(size.node.hint)
