"""Ranges from histograms, against the numbers themselves."""

from __future__ import annotations

import numpy as np
import pytest

from zenith.quantization.observers import BINS, Observer


def observed(*batches: np.ndarray) -> Observer:
    found = Observer("x", batches[0].shape[-1])
    for number, batch in enumerate(batches):
        found.observe(batch.astype(np.float32), number)
    return found


def batches(scale: float = 1.0) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal((100, 8)) * scale * growth for growth in (0.1, 1.0, 7.0)]


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_all_that_was_seen(scale: float) -> None:
    data = np.concatenate(batches(scale)).astype(np.float32)
    assert observed(*batches(scale)).range("minmax", 0) == (data.min(), data.max())


@pytest.mark.parametrize("percent", [90.0, 99.0, 99.9])
def test_percentiles_are_those_of_the_numbers(percent: float) -> None:
    """As exact as bins are wide, although these were joined whenever a batch had larger numbers."""
    data = np.sort(np.concatenate(batches()).reshape(-1))
    least, largest = observed(*batches()).range("percentile", percent)
    width, outside = 4 * abs(data).max() / BINS, round((1 - percent / 100) * data.size)
    assert data[outside - 1] - width <= least <= data[outside] + width
    assert data[-outside - 1] - width <= largest <= data[-outside] + width


def test_the_least_squared_error_is_one() -> None:
    data = np.random.default_rng(1).standard_t(3, (2000, 8))

    def lost(least: float, largest: float) -> float:
        step = (largest - least) / 255
        return float(np.mean(np.square(np.clip(np.rint((data - least) / step), 0, 255) * step + least - data)))

    found = observed(data).range("mse", 0)
    others = [lost(share * data.min(), share * data.max()) for share in np.linspace(0.2, 1, 30)]
    assert lost(*found) <= 1.02 * min(others)


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse", "entropy"])
def test_numbers_of_one_sign_and_zeros(method: object) -> None:
    positive = np.maximum(np.random.default_rng(2).standard_normal((500, 8)), 0)
    least, largest = observed(positive).range(method, 99.99)  # type: ignore[arg-type]
    assert least == 0 and 2 < largest <= positive.max()
    assert observed(np.zeros((5, 8))).range(method, 99.99) == (0.0, 0.0)  # type: ignore[arg-type]


def test_many_zeros_before_anything_else() -> None:
    found = observed(np.zeros((5, 8)), np.ones((1, 8)))
    assert found.count == 48 and found.range("percentile", 90.0)[1] == 1.0
