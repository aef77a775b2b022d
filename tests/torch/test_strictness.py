"""Zenith refuses what PyTorch refuses: negative indices of gathers, products of several element types."""

import pytest
import torch
from torch import nn

import zenith
from tests.torch.function import Function
from zenith.errors import DTypeError, OutOfBoundsError

X = torch.arange(12.0, dtype=torch.float64).reshape(3, 4)


def test_negative_indices_are_refused():
    good, bad = torch.tensor([[1], [2], [0]]), torch.tensor([[1], [-1], [0]])
    for function in (lambda x, i: x.gather(1, i), lambda x, i: x.index_select(0, i[:, 0])):
        fast = zenith.from_torch(Function(function), (X, good), backend="reference")
        torch.testing.assert_close(fast(X, good), function(X, good))
        with pytest.raises(OutOfBoundsError):
            fast(X, bad)


def test_products_are_of_one_type():
    with pytest.raises(DTypeError, match="a product needs operands of one element type"):
        zenith.from_torch(nn.Linear(4, 2), (X,), backend="reference")(X)
