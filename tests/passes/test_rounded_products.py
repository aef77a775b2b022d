"""``precision="bf16"`` and ``"fp16"``: what is rounded, and what is not."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zenith
from zenith import numpy as znp
from zenith.backends.cpu.target import cpu_target
from zenith.errors import ArgumentError, UnsupportedError
from zenith.passes.pipeline import PIPELINE, passes_for

GENERATOR = np.random.default_rng(0)
W = GENERATOR.standard_normal((48, 40)).astype(np.float32)
X = GENERATOR.standard_normal((9, 48)).astype(np.float32)


TYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "fp16": np.dtype(np.float16)}
PRECISIONS = pytest.mark.parametrize("precision", TYPES)


def rounded(x: np.ndarray, precision: str) -> np.ndarray:
    return x.astype(TYPES[precision]).astype(np.float64)


def short(function: Any, precision: str) -> Any:
    return zenith.jit(function, precision=precision)


@PRECISIONS
@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (lambda x: x @ W, lambda x, r: r(x) @ r(W)),
        (lambda x: x @ W.T.T, lambda x, r: r(x) @ r(W)),
        (lambda x: np.stack([x, x]) @ W, lambda x, r: r(np.stack([x, x])) @ r(W)),
        (lambda x: x @ x.T, lambda x, r: r(x) @ r(x).T),
        (lambda x: np.exp(x) @ W + 1, lambda x, r: r(np.exp(x)) @ r(W) + 1),
    ],
)
def test_operands_are_rounded_and_nothing_else(function: Any, exact: Any, precision: str) -> None:
    compiled = short(function, precision)
    result = compiled(X)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact(X, lambda x: rounded(x, precision)), rtol=2e-5, atol=2e-5)
    assert {"bf16": "bf16", "fp16": "f16"}[precision] in str(compiled.show("optimized"))
    explained = " ".join(str(compiled.explain()).split())
    assert f"rounded to {TYPES[precision].name}, and summed in float32; what is beyond" in explained


@PRECISIONS
def test_a_value_with_other_readers_stays_exact_for_them(precision: str) -> None:
    def layer(x: Any) -> Any:
        h = np.tanh(x)
        return h @ W, h

    product, value = short(layer, precision)(X)
    np.testing.assert_array_equal(value, zenith.jit(layer)(X)[1])
    np.testing.assert_allclose(product, rounded(value, precision) @ rounded(W, precision), rtol=2e-5, atol=2e-5)


@PRECISIONS
def test_float64_and_integers_stay(precision: str) -> None:
    for x in (X.astype(np.float64), X.astype(np.int32)):
        compiled = short(lambda x: x @ x.T, precision)
        np.testing.assert_allclose(compiled(x), x @ x.T, rtol=1e-14)


@PRECISIONS
def test_queries_keys_and_values_are_rounded(precision: str) -> None:
    q = GENERATOR.standard_normal((2, 3, 8, 16)).astype(np.float32)

    def attention(q: Any) -> Any:
        scores = q @ znp.swapaxes(q, -1, -2) / 4
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)) @ q

    compiled, seen = short(attention, precision), rounded(q, precision)
    error = {"bf16": 2**-8, "fp16": 1e-5}[precision]  # weights are bfloat16, too, where the processor multiplies that
    np.testing.assert_allclose(compiled(q), attention(seen), rtol=0, atol=error * np.abs(q).max())
    assert "attention(" in str(compiled.show("optimized"))

    gradient = zenith.grad(lambda q: (attention(q) ** 2).sum())  # whose products have rounded weights
    found, of_seen = zenith.jit(gradient, precision=precision)(q), gradient(seen)
    assert np.linalg.norm(found - of_seen) < {"bf16": 2**-6, "fp16": 2**-9}[precision] * np.linalg.norm(of_seen)


@PRECISIONS
def test_products_in_loops_are_rounded(precision: str) -> None:
    def steps(x: Any) -> Any:
        return zenith.fori_loop(0, 3, lambda i, h: znp.tanh(h @ W[:, :1] @ W[:, :1].T), x)

    h = X.astype(np.float64)
    for _ in range(3):
        h = rounded(h.astype(np.float32), precision) @ rounded(W[:, :1], precision)
        h = np.tanh(rounded(h.astype(np.float32), precision) @ rounded(W[:, :1].T, precision))
    np.testing.assert_allclose(short(steps, precision)(X), h, rtol=0.02, atol=0.02)
    assert not np.array_equal(short(steps, precision)(X), zenith.jit(steps)(X))


@PRECISIONS
def test_derivatives_are_rounded_products_too(precision: str) -> None:
    gradient = zenith.jit(zenith.grad(lambda x: (np.tanh(x @ W) ** 2).sum()), precision=precision)(X)
    exact = zenith.grad(lambda x: (np.tanh(x @ W) ** 2).sum())(X)
    error = np.linalg.norm(gradient - exact) / np.linalg.norm(exact)
    assert {"bf16": 1e-3, "fp16": 1e-4}[precision] < error < {"bf16": 0.05, "fp16": 0.005}[precision]


def test_programs_of_all_precisions_are_stored_apart() -> None:
    def product(x: Any) -> Any:
        return x @ W

    first = {p: short(product, p)(X) for p in ("exact", *TYPES)}
    assert len({found.tobytes() for found in first.values()}) == 3
    for precision, found in first.items():
        np.testing.assert_array_equal(short(product, precision)(X), found)


@PRECISIONS
def test_modules(precision: str) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(48, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).eval()
    x = torch.from_numpy(X)
    options = {"precision": precision}
    with torch.no_grad():
        exact = module(x)
        for fast in (
            zenith.from_torch(module, (x,), **options),
            torch.compile(module, backend="zenith", options=options),
        ):
            error = float((fast(x) - exact).norm() / exact.norm())
            assert {"bf16": 1e-3, "fp16": 1e-4}[precision] < error < {"bf16": 0.02, "fp16": 0.002}[precision]


def test_other_precisions_are_refused_and_the_pass_is_no_default() -> None:
    with pytest.raises(ArgumentError, match="precision='int8'"):
        zenith.jit(lambda x: x, precision="int8")
    names = {p.__name__ for p in PIPELINE}
    assert {p.__name__ for p in passes_for(cpu_target(precision="fp16"))} - names == {
        "rounded_products", "rounded_convolutions"
    }  # fmt: skip
    assert "f16" not in str(zenith.jit(lambda x: x @ W).lower(X).graph)


def test_matrices_beyond_the_range_are_refused_and_activations_become_infinite() -> None:
    large = W * np.float32(1e5)
    for function in (lambda x: x @ large, lambda x: x @ np.swapaxes(large.reshape(40, 48), 0, 1)):
        with pytest.raises(UnsupportedError, match="float16 ends at 65504") as caught:
            short(function, "fp16")(X)
        assert "test_rounded_products.py" in str(caught.value) and "leave out precision=" in str(caught.value)
        assert np.isfinite(short(function, "bf16")(X)).all()
    ends = np.full((4, 48), 65519, np.float32)  # the last number that is not rounded to infinity
    near, beyond = short(lambda x: x @ np.abs(W), "fp16"), np.nextafter(ends, np.float32(np.inf)) + np.float32(1)
    assert np.isfinite(near(ends)).all() and np.isposinf(near(beyond)).all()
    assert np.isinf(zenith.verify(near, [beyond]).outputs[0].maximum)
    infinite = np.where(W > 2, np.float32(np.inf), W)  # what was infinite before is not lost
    assert np.isinf(short(lambda x: x @ infinite, "fp16")(np.abs(X))).any()


def test_small_numbers_are_lost_below_the_smallest_of_float16() -> None:
    tiny = np.full((4, 48), 2.0**-26, np.float32)
    assert not short(lambda x: x @ W, "fp16")(tiny).any() and short(lambda x: x @ W, "bf16")(tiny).any()
