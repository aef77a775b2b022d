"""``precision="bf16"``: what is rounded, and what is not."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zenith
from zenith import numpy as znp
from zenith.errors import ArgumentError
from zenith.passes.bfloat16_products import bfloat16_products
from zenith.passes.pipeline import PIPELINE

GENERATOR = np.random.default_rng(0)
W = GENERATOR.standard_normal((48, 40)).astype(np.float32)
X = GENERATOR.standard_normal((9, 48)).astype(np.float32)


def rounded(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


def bf16(function: Any) -> Any:
    return zenith.jit(function, precision="bf16")


@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (lambda x: x @ W, lambda x: rounded(x) @ rounded(W)),
        (lambda x: x @ W.T.T, lambda x: rounded(x) @ rounded(W)),
        (lambda x: np.stack([x, x]) @ W, lambda x: rounded(np.stack([x, x])) @ rounded(W)),
        (lambda x: x @ x.T, lambda x: rounded(x) @ rounded(x).T),
        (lambda x: np.exp(x) @ W + 1, lambda x: rounded(np.exp(x)) @ rounded(W) + 1),
    ],
)
def test_operands_are_rounded_and_nothing_else(function: Any, exact: Any) -> None:
    compiled = bf16(function)
    result = compiled(X)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact(X), rtol=2e-5, atol=2e-5)
    assert "bf16" in str(compiled.show("optimized"))
    assert "rounded to bfloat16, and summed in float32" in str(compiled.explain())


def test_a_value_with_other_readers_stays_exact_for_them() -> None:
    def layer(x: Any) -> Any:
        h = np.tanh(x)
        return h @ W, h

    product, value = bf16(layer)(X)
    np.testing.assert_array_equal(value, zenith.jit(layer)(X)[1])
    np.testing.assert_allclose(product, rounded(value) @ rounded(W), rtol=2e-5, atol=2e-5)


def test_float64_integers_and_attention_stay() -> None:
    for x in (X.astype(np.float64), X.astype(np.int32)):
        compiled = bf16(lambda x: x @ x.T)
        np.testing.assert_allclose(compiled(x), x @ x.T, rtol=1e-14)
    q = GENERATOR.standard_normal((2, 3, 8, 16)).astype(np.float32)

    def attention(q: Any) -> Any:
        scores = q @ znp.swapaxes(q, -1, -2) / 4
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)) @ q

    np.testing.assert_array_equal(bf16(attention)(q), zenith.jit(attention)(q))


def test_products_in_loops_are_rounded() -> None:
    def steps(x: Any) -> Any:
        return zenith.fori_loop(0, 3, lambda i, h: znp.tanh(h @ W[:, :1] @ W[:, :1].T), x)

    h = X.astype(np.float64)
    for _ in range(3):
        h = rounded(h.astype(np.float32)) @ rounded(W[:, :1])
        h = np.tanh(rounded(h.astype(np.float32)) @ rounded(W[:, :1].T))
    np.testing.assert_allclose(bf16(steps)(X), h, rtol=0.02, atol=0.02)
    assert not np.array_equal(bf16(steps)(X), zenith.jit(steps)(X))


def test_derivatives_are_rounded_products_too() -> None:
    gradient = zenith.jit(zenith.grad(lambda x: (np.tanh(x @ W) ** 2).sum()), precision="bf16")(X)
    exact = zenith.grad(lambda x: (np.tanh(x @ W) ** 2).sum())(X)
    error = np.linalg.norm(gradient - exact) / np.linalg.norm(exact)
    assert 1e-4 < error < 0.05


def test_programs_of_both_precisions_are_stored_apart() -> None:
    def product(x: Any) -> Any:
        return x @ W

    exact, short = zenith.jit(product), bf16(product)
    assert not np.array_equal(exact(X), short(X))
    np.testing.assert_array_equal(zenith.jit(product)(X), exact(X))
    np.testing.assert_array_equal(bf16(product)(X), short(X))


def test_modules() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(48, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).eval()
    x = torch.from_numpy(X)
    options = {"precision": "bf16"}
    with torch.no_grad():
        exact = module(x)
        for fast in (
            zenith.from_torch(module, (x,), **options),
            torch.compile(module, backend="zenith", options=options),
        ):
            error = float((fast(x) - exact).norm() / exact.norm())
            assert 1e-4 < error < 0.02


def test_other_precisions_are_refused_and_the_pass_is_no_default() -> None:
    with pytest.raises(ArgumentError, match="precision='int8'"):
        zenith.jit(lambda x: x, precision="int8")
    assert bfloat16_products not in PIPELINE
    assert "bf16" not in str(zenith.jit(lambda x: x @ W).lower(X).graph)
