"""Layouts of tensors in memory: element types, and the order of axes to which arrays are permuted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

import zenith.numpy as znp
from zenith.arrays import torch_adapter
from zenith.errors import DTypeError, user_line
from zenith.ir.dims import Dim
from zenith.ir.types import DType

Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemoryFormat:
    """A tensor's axes in the order of its memory, and the inverse; ``natural`` where that is PyTorch's order."""

    order: Order
    inverse: Order
    natural: bool

    @classmethod
    def of(cls, tensor: torch.Tensor) -> MemoryFormat:
        """By decreasing stride; the natural order where this is no dense tensor's."""
        strides, shape = ([_hint(n) for n in numbers] for numbers in (tensor.stride(), tensor.shape))
        natural = tuple(range(tensor.ndim))
        by_stride = tuple(sorted(natural, key=lambda axis: -strides[axis]))
        order = next((order for order in (natural, by_stride) if _fills(order, strides, shape)), natural)
        return cls(order, tuple(sorted(natural, key=order.__getitem__)), order == natural)

    def in_memory_order(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor with its axes in the order of memory."""
        return tensor if self.natural else tensor.permute(self.order)

    def in_torch_order(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor whose axes are in the order of memory, with its axes in PyTorch's order."""
        return tensor if self.natural else tensor.permute(self.inverse)

    def shape(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The sizes of the axes in the order of memory."""
        return tuple(sizes[axis] for axis in self.order)

    def to_memory_order(self, array: object) -> object:
        """A program's array with its axes in the order of memory."""
        return znp.transpose(array, self.order)

    def from_memory_order(self, array: object) -> object:
        """A program's array that has its axes in the order of memory, permuted to PyTorch's order."""
        return znp.transpose(array, self.inverse)


def element_type(example: torch.Tensor, what: str) -> DType:
    """The element type of a tensor; DTypeError when Zenith has none."""
    dtype = torch_adapter().dtype(example)
    if dtype is None or example.layout != torch.strided:
        raise DTypeError(f"{what} is {example.dtype} with layout {example.layout}, which Zenith does not compute with",
                         where=user_line(), fix="leave that part of the model out: torch.compiler.disable")  # fmt: skip
    return dtype


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


def _hint(size: int | torch.SymInt) -> int:
    return size if isinstance(size, int) else int(size.node.hint)
