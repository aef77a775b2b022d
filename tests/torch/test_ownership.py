"""The backward graphs of torch.compile overwrite residuals that nobody else has, and only these."""

import copy

import pytest
import torch
from torch import nn

import zenith  # noqa: F401  registers the backend
from zenith.torch.dynamo import graphs
from zenith.torch.dynamo.ownership import own, owned


def convolutions():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4),
                         nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 2))  # fmt: skip


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 2))


def same_gradients(one, other):
    for (name, p), q in zip(one.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=2e-4, atol=2e-5, msg=lambda m, name=name: f"{name}: {m}")


@pytest.fixture
def overwritten(monkeypatch):
    """How many arguments each backward graph overwrites."""
    found = []

    def counting(leaves, positions):
        found.append(len(result := owned(leaves, positions)))
        return result

    monkeypatch.setattr(graphs, "owned", counting)
    return found


@pytest.mark.parametrize(
    ("made", "shape"), [(convolutions, (5, 3, 10, 10)), (perceptron, (6, 8))], ids=["convolutions", "perceptron"]
)
def test_steps_and_retained_graphs(made, shape, overwritten):
    ours, theirs = made(), made()
    fast = torch.compile(ours, backend="zenith")
    for step in range(3):
        x = torch.randn(shape[0] + step, *shape[1:])
        for module in (fast, theirs):
            module(x).square().mean().backward()
        same_gradients(ours, theirs)
    assert sum(overwritten) >= 3
    for module in (fast, theirs):  # the second pass reads what the first one must have left alone
        loss = module(x).square().mean()
        loss.backward(retain_graph=True)
        loss.backward()
    same_gradients(ours, theirs)


def test_what_a_user_has_is_not_overwritten(overwritten):
    def function(x, w):
        hidden = torch.tanh(x @ w)
        return hidden, (hidden * hidden).sum()

    x, w = torch.randn(7, 5), torch.randn(5, 6, requires_grad=True)
    fast = torch.compile(function, backend="zenith")
    for _ in range(2):
        hidden, loss = fast(x, w)
        before, weights = hidden.detach().clone(), w.detach().clone()
        loss.backward()
        assert torch.equal(hidden, before) and torch.equal(w, weights)
    reference = copy.deepcopy(w.detach()).requires_grad_()
    (2 * function(x, reference)[1]).backward()
    torch.testing.assert_close(w.grad, reference.grad, rtol=1e-4, atol=1e-5)


def test_owners():
    alone, shared, viewed, held = (torch.ones(4) for _ in range(4))
    other, view = shared.view(2, 2), viewed[:2]
    leaves = [alone, shared, view, held, torch.ones(0), 3.0]
    del alone, shared, view
    assert owned(leaves, range(6)) == [0]
    own(leaves, [0, 1, 3])
    leaves[1].zero_()
    leaves[3].zero_()
    assert other.sum() == 4 and held.sum() == 4 and viewed.sum() == 4
