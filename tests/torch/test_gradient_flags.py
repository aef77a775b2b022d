"""What a step reports to autograd: which results require gradients, which gradients are zeros, and which are None."""

import pytest
import torch
from torch import nn

import zenith


class Mixed(nn.Module):
    """Results of every kind: dependent on weights, detached, made without gradients, rounded, whole numbers."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.unused = (nn.Parameter(torch.tensor([1.3, -0.4])) for _ in range(3))

    @torch.no_grad()
    def unrecorded(self, x):
        return x * self.first

    def forward(self, x):
        y = x * self.first
        return y, y.detach(), self.unrecorded(x), (x * self.second).round(), y.argmax(), x * 2


def both(module, *args):
    """The module with and without Zenith, on the same weights."""
    return zenith.from_torch(module, args, backend="reference"), module


@pytest.mark.parametrize("chosen", [(0,), (3,), (0, 3), (5,)])
def test_results_and_gradients_are_those_of_pytorch(chosen):
    x, seen = torch.tensor([1.0, 2.0]), []
    for call in both(Mixed(), x):
        given = x.clone().requires_grad_()
        results = call(given)
        call.zero_grad()
        sum(results[n].sum() for n in chosen).backward()
        seen.append(([r.requires_grad for r in results], [p.grad for p in call.parameters()], given.grad))
    (flags, gradients, of_x), (own_flags, own_gradients, of_own) = seen
    assert flags == own_flags == [True, False, False, True, False, True]
    for found, expected in zip([*gradients, of_x], [*own_gradients, of_own], strict=True):
        assert (found is None) == (expected is None)
        assert found is None or torch.equal(found, expected)


def test_nothing_moves():
    class Still(nn.Linear):
        def forward(self, x):
            return super().forward(x).detach()

    fast, module = both(Still(2, 2), torch.ones(3, 2))
    found = fast(torch.ones(3, 2))
    assert not found.requires_grad and torch.allclose(found, module(torch.ones(3, 2)))
