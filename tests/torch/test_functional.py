"""A compiled module as a function of its parameters: derivatives by Zenith, and the parameters put back."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import zenith
from zenith import optim
from zenith.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.register_buffer("scale", torch.full((3,), 2.0))

    def forward(self, x, factor=1.0, residual=None):
        y = self.down(F.gelu(self.norm(self.up(x)))) * self.scale * factor
        return y if residual is None else y + residual


@pytest.fixture
def module():
    torch.manual_seed(0)
    return Scaled().eval()


@pytest.fixture
def fast(module):
    return zenith.from_torch(module, (torch.zeros(2, 4),), backend="reference")


def test_values_and_gradients(module, fast):
    fn, params = fast.functional()
    assert params.keys() == dict(module.named_parameters()).keys()
    step = zenith.jit(zenith.value_and_grad(lambda p, x, y: ((fn(p, x, 0.5) - y) ** 2).mean()), backend="reference")
    for rows in (5, 2, 1, 7):
        x, y = torch.randn(rows, 4), torch.randn(rows, 3)
        value, gradient = step(params, x, y)
        loss = (module(x, 0.5) - y).square().mean()
        expected = torch.autograd.grad(loss, list(module.parameters()))
        torch.testing.assert_close(value, loss.detach())
        torch.testing.assert_close(list(gradient.values()), list(expected))
    assert step.cache_info().misses == 1


def test_at_once_and_with_numpy(module, fast):
    fn, params = fast.functional()
    x, residual = torch.randn(3, 4), torch.randn(3, 3)
    with torch.no_grad():
        torch.testing.assert_close(fn(params, x), module(x))
        torch.testing.assert_close(fn(params, x, factor=2.0, residual=residual), module(x, 2.0, residual))
        plain = fn({name: p.numpy() for name, p in params.items()}, x.numpy())
        assert type(plain) is np.ndarray
        np.testing.assert_allclose(plain, module(x).numpy(), rtol=1e-5, atol=1e-6)


def test_a_gradient_for_each_example(module, fast):
    fn, params = fast.functional()
    x = torch.randn(6, 4)
    each = zenith.vmap(zenith.grad(lambda p, x: fn(p, x[None]).sum()), in_axes=(None, 0))(params, x)
    for n in range(6):
        expected = torch.autograd.grad(module(x[n : n + 1]).sum(), module.up.weight)[0]
        torch.testing.assert_close(each["up.weight"][n], expected)


def test_training_by_zeniths_own_optimizer(module, fast):
    fn, params = fast.functional()
    optimizer = optim.adamw(1e-2, weight_decay=0.01)
    x, y = torch.randn(16, 4), torch.randn(16, 3)

    @zenith.jit(backend="reference")
    def step(params, state):
        value, gradient = zenith.value_and_grad(lambda p: ((fn(p, x) - y) ** 2).mean())(params)
        updates, state = optimizer.update(gradient, state, params)
        return optim.apply_updates(params, updates), state, value

    state, found = optimizer.init(params), []
    for _ in range(5):
        params, state, value = step(params, state)
        found.append(float(value))
    theirs, expected = torch.optim.AdamW(module.parameters(), 1e-2, weight_decay=0.01), []
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    for _ in range(5):
        theirs.zero_grad()
        loss = (module(x) - y).square().mean()
        loss.backward()
        theirs.step()
        expected.append(loss.item())
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    trained = {name: p.detach().clone() for name, p in module.named_parameters()}
    fast.load_params(before)
    fast.load_params(params)
    torch.testing.assert_close(dict(module.named_parameters()), trained, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x))


def test_parameters_that_are_not_the_modules(fast):
    fn, params = fast.functional()
    without = {name: p for name, p in params.items() if name != "up.bias"}
    for call in (fast.load_params, lambda p: fn(p, torch.zeros(2, 4))):
        with pytest.raises(ArgumentError, match=r"parameters of Scaled: 1 missing \(up.bias\) and 1 unknown \(other\)"):
            call(without | {"other": params["up.bias"]})
    with pytest.raises(ShapeError, match=r"up.bias has shape \(3,\), and the module's \(8,\)"):
        fast.load_params(params | {"up.bias": torch.zeros(3)})
    with pytest.raises(DTypeError, match=r"up.bias is torch.float64, and the module's torch.float32"):
        fast.load_params(params | {"up.bias": torch.zeros(8, dtype=torch.float64)})
    with pytest.raises(DTypeError, match=r"up.bias is a str"):
        fast.load_params(params | {"up.bias": "zeros"})
    fast.load_params({name: p.numpy() for name, p in params.items()})


def test_state_and_draws(module, fast):
    fn, params = fast.train().functional()
    with pytest.raises(UnsupportedError, match=r"writes to its buffers norm.running_mean(.|\n)*module.eval\(\)"):
        fn(params, torch.zeros(3, 4))
    drop = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    fn, params = zenith.from_torch(drop, (torch.zeros(2, 4),), backend="reference").functional()
    step, x = zenith.jit(zenith.grad(lambda p, x: fn(p, x).sum()), backend="reference"), torch.randn(3, 4)
    for _ in range(2):
        torch.manual_seed(1)
        found = step(params, x)
        torch.manual_seed(1)
        torch.testing.assert_close(list(found.values()), list(torch.autograd.grad(drop(x).sum(), drop.parameters())))
