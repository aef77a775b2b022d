"""Options of embeddings and their bags in training, and slopes that a module draws."""

import pytest
import torch
from torch import nn

import zenith
from zenith.errors import UnsupportedError


def both(module, *args):
    """The module with and without Zenith, on the same weights."""
    return zenith.from_torch(module, args, backend="reference"), module


def test_rows_that_are_named_often():
    indices = torch.tensor([1, 2, 2, 2, 0])
    for make in (
        lambda: nn.Embedding(6, 2, padding_idx=0, scale_grad_by_freq=True),
        lambda: nn.EmbeddingBag(6, 2, mode="sum", scale_grad_by_freq=True),
    ):
        args = (indices,) if isinstance(make(), nn.Embedding) else (indices, torch.tensor([0, 2]))
        module, gradients = make(), []
        for call in both(module, *args):
            module.zero_grad()
            (call(*args) * torch.tensor([1.0, 3.0])).sum().backward()
            gradients.append(module.weight.grad)
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("make", [nn.Embedding, nn.EmbeddingBag])
def test_sparse_gradients_are_refused(make):
    module, indices = make(6, 2, sparse=True), torch.tensor([[1, 2], [2, 0]])
    fast = zenith.from_torch(module, (indices,), backend="reference")
    with torch.no_grad():
        torch.testing.assert_close(fast(indices), module(indices))
    with pytest.raises(UnsupportedError, match=r"asked for a sparse gradient(.|\n)*leave out sparse=True"):
        fast(indices)
    module.requires_grad_(False)
    torch.testing.assert_close(fast(indices), module(indices))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_are_rows(mode):
    module, gradients = nn.EmbeddingBag(5, 3, mode=mode), []
    fast, _ = both(module, torch.zeros(4, 3, dtype=torch.int64))
    for indices in (torch.arange(12).reshape(4, 3) % 5, torch.arange(4).reshape(2, 2)):
        gradients = []
        for call in (fast, module):
            module.zero_grad()
            (call(indices) ** 2).sum().backward()
            gradients.append(module.weight.grad)
        torch.testing.assert_close(*gradients)
    assert len(fast._programs.mode.exports) == 1


def test_drawn_slopes():
    x = torch.linspace(-2, 2, 12).reshape(3, 4)
    module, gradients = nn.RReLU(), []
    fast, _ = both(module, x)
    for training in (True, False):
        module.train(training)
        seen = []
        for call in (fast, module):
            given = x.clone().requires_grad_()
            torch.manual_seed(3)
            found = call(given)
            found.backward(x.cos())
            seen.append((found.detach(), given.grad))
        torch.testing.assert_close(*seen)
        gradients.append(seen[0][1])
    assert not torch.equal(*gradients)
