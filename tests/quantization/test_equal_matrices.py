"""Several products by equal matrices: told apart in one program, and found again in others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import zenith
from tests.generation.models import model_of
from zenith import nn
from zenith.errors import UnsupportedError

RNG = np.random.default_rng(0)
W = (RNG.standard_normal((32, 32)) * 0.2).astype(np.float32)
X = [RNG.standard_normal((16, 32)).astype(np.float32) for _ in range(6)]


def relative(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def test_equal_operations_with_other_parameters_have_ranges_of_their_own() -> None:
    """The largest of rows and those of columns are computed alike, and a range for one would clip the other."""
    x = [a[:, :, None] * np.linspace(0.1, 30, 32, dtype=np.float32) for a in X]

    def both(x: Any) -> Any:
        return np.max(x, axis=1) @ W, np.max(x, axis=2) @ W

    small = zenith.quantize(both, x, smooth=0)
    assert len({product.range for product in small.report.products}) == 2
    for found, exact in zip(small(x[0]), both(x[0]), strict=True):
        assert relative(found, exact) < 0.02


def test_convolutions_of_one_array_are_counted_each() -> None:
    kernel = (RNG.standard_normal((8, 8, 3, 3)) * 0.1).astype(np.float32)
    images = [RNG.standard_normal((2, 8, 9, 9)).astype(np.float32) for _ in range(4)]

    def network(x: Any) -> Any:
        return nn.conv(x, kernel, padding=1)[:, :, ::2, ::2] + nn.conv(x, kernel, padding=1, stride=2)

    small = zenith.quantize(network, images)
    assert len(small.report.products) == 2 and len({product.range for product in small.report.products}) == 1
    assert relative(small(images[0]), network(images[0])) < 0.02


@pytest.mark.parametrize(
    "options", [{"scheme": "weight_only"}, {"scheme": "weight_only", "bits": 4, "granularity": "group:32"},
                {"scheme": "dynamic"}]
)  # fmt: skip
def test_a_generator_finds_the_choices_of_equal_layers(options: dict[str, Any]) -> None:
    """Its step computes operands otherwise than the program of the calibration."""
    model = model_of(hidden_size=32, intermediate_size=64)
    first, second = (layer.self_attn.q_proj.weight for layer in model.model.layers)
    second.data = first.data.clone()
    small = zenith.quantize(model, [{"input_ids": torch.tensor([[1, 2, 3]]), "use_cache": False}], **options)
    assert len(small.report.products) == 15
    step = zenith.Generator(small)._step()
    found = step.logits(step.cache(3, 1), np.array([[1, 2, 3]]), np.ones((1, 3), np.int64))
    with torch.no_grad():
        exact = model(torch.tensor([[1, 2, 3]])).logits[:, -1].numpy()
    assert relative(found, exact) < (0.4 if "bits" in options else 0.05)


def test_ranges_are_not_those_of_another_operand() -> None:
    """In a call of another kind; without ranges it is computed."""

    @zenith.jit(static_argnames=["often"])
    def function(x: Any, often: bool) -> Any:
        return np.tanh(np.tanh(x @ W) @ W) @ W if often else np.tanh(x @ W) @ W

    for scheme, fails in (("static", True), ("weight_only", False), ("dynamic", False)):
        small = zenith.quantize(function, [(x, False) for x in X], scheme=scheme, smooth=0)
        assert relative(small(X[0], False), function(X[0], False)) < 0.03
        if fails:
            with pytest.raises(UnsupportedError, match="several are by one matrix, and have ranges of their own"):
                small(X[0], True)
        else:
            assert relative(small(X[0], True), function(X[0], True)) < 0.04
