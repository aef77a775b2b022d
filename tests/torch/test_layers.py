"""Layers as modules: norms, recurrent layers, bags of embeddings, losses; two shapes of input, one compilation.

A result may stray from float64 half as far again as PyTorch's own.
"""

import copy

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import zenith
from zenith.errors import UnsupportedError


def images(batch, size):
    return (torch.randn(batch, 6, size, size + 1) + 1,)


def sequences(length, batch):
    return (torch.randn(length, batch, 6),)


def bags(count, bags):
    return torch.arange(count) % 10, torch.linspace(0, count - 1, bags).long()


class Scored(nn.Module):
    """A loss of a small classifier: its value, whatever the sizes of batches."""

    def __init__(self):
        super().__init__()
        self.layer, self.loss = nn.Linear(6, 4), nn.CrossEntropyLoss(label_smoothing=0.1)

    def forward(self, x):
        return self.loss(self.layer(x).permute(0, 2, 1), (x.argmax(-1) % 4))


MODULES = {
    "batch norm": (nn.BatchNorm2d(6), images),
    "batch norm of batches": (nn.BatchNorm2d(6, track_running_stats=False), images),
    "group norm": (nn.Sequential(nn.GroupNorm(3, 6), nn.ReLU(), nn.InstanceNorm2d(6, affine=True)), images),
    "lstm": (nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True), sequences),
    "gru": (nn.GRU(6, 5, 2), sequences),
    "rnn": (nn.RNN(6, 5, nonlinearity="relu"), sequences),
    "bags": (nn.EmbeddingBag(10, 4, mode="mean", padding_idx=3), bags),
    "loss": (Scored(), sequences),
}


def prepared(module):
    """In evaluation, with statistics and weights that are none of the first ones."""
    torch.manual_seed(0)
    for tensor in (*module.parameters(), *(b for b in module.buffers() if b.is_floating_point())):
        tensor.data.copy_(torch.rand_like(tensor) + 0.2)
    return module.eval()


COMPILED = ("batch norm of batches", "rnn", "loss")  # the others run in the interpreter


def rmse(found, exact):
    return (found.double() - exact).square().mean().sqrt().item()


@pytest.mark.parametrize("name", MODULES)
def test_two_shapes_and_one_compilation(name):
    module, arguments = MODULES[name]
    module = prepared(module)
    double = copy.deepcopy(module).double()
    fast = zenith.from_torch(module, arguments(5, 3), backend="cpu" if name in COMPILED else "reference")
    for sizes in ((4, 3), (7, 5)):
        args = arguments(*sizes)
        with torch.no_grad():
            found, expected = pytree.tree_leaves(fast(*args)), pytree.tree_leaves(module(*args))
            exact = pytree.tree_leaves(double(*(a.double() if a.is_floating_point() else a for a in args)))
        for f, e, x in zip(found, expected, exact, strict=True):
            assert (f.shape, f.dtype) == (e.shape, e.dtype)
            assert rmse(f, x) <= 1.5 * rmse(e, x) + 2**-23 * x.abs().max().item()
    assert fast.cache_info().misses == 1


def test_running_statistics_of_each_example_are_refused():
    module = nn.InstanceNorm2d(6, track_running_stats=True)
    with torch.no_grad(), pytest.raises(UnsupportedError, match=r"writes its running(.|\n)*module.eval\(\)"):
        zenith.from_torch(module.train(), images(4, 3))(*images(4, 3))
