"""The backward graphs of torch.compile reuse the memory of residuals that nobody else has, and only that."""

import copy
import threading

import numpy as np
import pytest
import torch
from torch import nn

import zenith  # noqa: F401  registers the backend
from zenith.torch.dynamo.ownership import Donated, is_unshared


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
def reused(monkeypatch):
    """How many arguments backward graphs reuse, in each call."""
    found, take = [], Donated.take

    def counting(self, leaves):
        take(self, leaves)
        found.append(len(self.reusable))

    monkeypatch.setattr(Donated, "take", counting)
    return found


@pytest.mark.parametrize(
    ("made", "shape"), [(convolutions, (5, 3, 10, 10)), (perceptron, (6, 8))], ids=["convolutions", "perceptron"]
)
def test_steps_and_retained_graphs(made, shape, reused):
    ours, theirs = made(), made()
    fast = torch.compile(ours, backend="zenith")
    for step in range(3):
        x = torch.randn(shape[0] + step, *shape[1:])
        for module in (fast, theirs):
            module(x).square().mean().backward()
        same_gradients(ours, theirs)
    assert max(reused) >= 2
    for module in (fast, theirs):  # the second pass reads what the first one must have left alone
        loss = module(x).square().mean()
        loss.backward(retain_graph=True)
        loss.backward()
    same_gradients(ours, theirs)


def test_what_a_user_has_is_left_alone():
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


def test_memory_of_numpy_is_left_alone():
    """A tensor on an array's memory has no other owner that PyTorch counts."""

    def function(x, w):
        return torch.sin(torch.tanh(torch.exp(-w * w) @ torch.cos(w)) @ x) @ (x * 2)

    rows, changes = np.random.default_rng(0).normal(size=(16, 16)).astype("f4"), np.ones((16, 16), "f4")
    before, w = rows.copy(), torch.randn(16, 16, requires_grad=True)
    fast = torch.compile(function, backend="zenith")
    for _ in range(3):
        fast(torch.from_numpy(rows), w).backward(torch.from_numpy(changes))
        assert np.array_equal(rows, before) and np.all(changes == 1)


def test_what_is_unshared():
    alone, shared, viewed, held = (torch.ones(4) for _ in range(4))
    other, view = shared.view(2, 2), viewed[:2]
    leaves = [alone, shared, view, held, torch.ones(0), 3.0]
    del alone, shared, view
    assert [is_unshared(leaves, p) for p in range(6)] == [True, False, False, False, False, False]
    assert other.sum() == 4 and held.sum() == 4 and viewed.sum() == 4


def test_later_owners_keep_what_they_have():
    donated, first = Donated([0, 2]), [torch.ones(4), torch.ones(4), 2.0]
    donated.take(first)
    assert donated.reusable == (0,)
    held = torch.ones(4)
    leaves = [held, held, 2.0]
    donated.take(leaves)
    leaves[0].zero_()
    assert leaves[1] is held and held.sum() == 4


def test_first_calls_in_threads_agree():
    donated, barrier, found = Donated([0, 1]), threading.Barrier(4), []

    def call(number):
        held = torch.ones(4)
        leaves = [torch.ones(4), held if number % 2 else torch.ones(4)]
        barrier.wait()
        donated.take(leaves)
        found.append((donated.reusable, leaves[1] is held))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (reusable,) = {answer for answer, _ in found}
    assert len(found) == 4 and (1 not in reusable or not any(same for _, same in found))
