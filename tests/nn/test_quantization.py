"""Fake quantisation against PyTorch's, its derivative, and training with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zenith
from zenith import nn
from zenith import numpy as znp
from zenith.errors import ArgumentError

RNG = np.random.default_rng(0)
X = (RNG.standard_normal((6, 5)) * 2).astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_and_derivatives(dtype: Any) -> None:
    x = X.astype(dtype)
    level = np.round(x * dtype(1 / 0.05)) + 7
    wanted = (np.clip(level, -20, 30) - 7) * dtype(0.05)
    found = zenith.jit(lambda x: nn.fake_quantize(x, 0.05, 7, -20, 30))(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    assert found.dtype == dtype
    gradient = zenith.jit(zenith.grad(lambda x: (nn.fake_quantize(x, 0.05, 7, -20, 30) * x).sum()))(x)
    inside = (level >= -20) & (level <= 30)
    np.testing.assert_allclose(gradient, wanted + inside * x, rtol=1e-5, atol=1e-6)


def test_corners() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    found = nn.fake_quantize(x, 1.0, lowest=-2, largest=3)
    np.testing.assert_array_equal(found, [np.nan, 3, -2, 0, 0])
    with pytest.raises(ArgumentError, match="levels from 3 to 3"):
        nn.fake_quantize(x, 1.0, lowest=3, largest=3)


def test_a_scale_for_each_channel_and_batches() -> None:
    scales, zeros = np.array([0.1, 0.2, 0.3, 0.4, 0.5], np.float32), np.arange(5)
    found = nn.fake_quantize(X, scales, zeros, axis=-1)
    for i in range(5):
        np.testing.assert_array_equal(found[:, i], nn.fake_quantize(X[:, i], scales[i], zeros[i]))
    np.testing.assert_array_equal(zenith.vmap(lambda x: nn.fake_quantize(x, scales, zeros, axis=0))(X), found)


def test_pytorchs_functions() -> None:
    torch = pytest.importorskip("torch")

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.from_numpy(X))
            self.register_buffer("scales", torch.linspace(0.02, 0.06, 6))
            self.register_buffer("zeros", torch.zeros(6, dtype=torch.int32))

        def forward(self, x: Any) -> Any:
            w = torch.fake_quantize_per_channel_affine(self.weight, self.scales, self.zeros, 0, -127, 127)
            return torch.fake_quantize_per_tensor_affine(x, 0.02, 100, 0, 255) @ w.T

    x = torch.randn(4, 5, requires_grad=True)
    module = Layer()
    compiled = zenith.from_torch(module, (x,))
    results, gradients = [], []
    for call in (module, compiled):
        result = call(x)
        results.append(result)
        gradients.append(torch.autograd.grad(result.square().sum(), [x, module.weight]))
    torch.testing.assert_close(*results)
    torch.testing.assert_close(*gradients)


def test_products_of_bytes_in_pytorch() -> None:
    torch = pytest.importorskip("torch")

    class Product(torch.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return torch._int_mm(a, b)

    a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((32, 64), (64, 16)))
    compiled = zenith.from_torch(Product(), (a, b))
    assert torch.equal(compiled(a, b), a.long() @ b.long())
    assert "matmul_integer" in str(compiled.show("optimized"))


def test_a_network_learns_weights_that_few_levels_hold() -> None:
    """Trained with fake quantisation, a network loses less when its weights are rounded than one trained without."""
    from zenith import optim

    x = RNG.standard_normal((256, 8)).astype(np.float32)
    y = np.tanh(x @ RNG.standard_normal((8, 4)).astype(np.float32))
    start = [RNG.standard_normal(s).astype(np.float32) / 3 for s in ((8, 32), (32, 4))]

    def loss(weights: Any, rounds: bool) -> Any:
        a, b = (nn.fake_quantize(w, 0.5, lowest=-2, largest=2) if rounds else w for w in weights)
        return znp.mean((znp.tanh(x @ a) @ b - y) ** 2)

    def trained(rounds: bool) -> Any:
        rule = optim.adam(5e-3)
        step = zenith.jit(zenith.value_and_grad(lambda weights: loss(weights, rounds)))
        weights, state = start, rule.init(start)
        for _ in range(300):
            updates, state = rule.update(step(weights)[1], state, weights)
            weights = optim.apply_updates(weights, updates)
        return weights

    assert loss(trained(True), True) < 0.6 * loss(trained(False), True)


def test_graphs_that_pytorch_quantised() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.ao.quantization.fx._decomposed")  # which registers the operators
    ops = torch.ops.quantized_decomposed

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scales", torch.linspace(0.01, 0.03, 6))
            self.register_buffer("zeros", torch.zeros(6, dtype=torch.int64))
            w = ops.quantize_per_channel(torch.from_numpy(X), self.scales, self.zeros, 0, -127, 127, torch.int8)
            self.register_buffer("weight", w)

        def forward(self, x: Any) -> Any:
            q = ops.quantize_per_tensor(x, 0.02, 128, 0, 255, torch.uint8)
            w = ops.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
            return ops.dequantize_per_tensor(q, 0.02, 128, 0, 255, torch.uint8) @ w.T, q

    module, x = Layer(), torch.randn(7, 5)
    with torch.no_grad():
        compiled = zenith.from_torch(module, (x,))
        for found, wanted in zip(compiled(x), module(x), strict=True):
            torch.testing.assert_close(found, wanted)
