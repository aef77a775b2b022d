"""What the tests of random numbers share: jax's functions on the same key, and distances between distributions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zenith


def jax_key(key: Any) -> Any:
    """The same key in jax; skips the test where jax is not installed."""
    jax = pytest.importorskip("jax")
    assert jax.config.jax_threefry_partitionable, "jax is compared in its partitionable mode"
    return jax.random.wrap_key_data(key)


def jax_random(name: str, key: Any, *args: Any, **options: Any) -> Any:
    """A function of jax.random as a NumPy array."""
    import jax

    return np.asarray(getattr(jax.random, name)(jax_key(key), *args, **options))


def under_jit(function: Callable[[Any], Any], key: Any) -> Any:
    """A function of a key, compiled."""
    return zenith.jit(function)(key)


def ulps_apart(x: Any, y: Any) -> float:
    """The largest difference of two arrays, in units in the last place of the larger magnitude."""
    assert x.dtype == y.dtype and x.shape == y.shape
    unit = np.spacing(np.maximum(np.abs(x), np.abs(y)))
    return float(np.max(np.abs(x - y) / unit, initial=0))


def kolmogorov_distance(x: Any, cdf: Callable[[Any], Any]) -> float:
    """How far the empirical distribution function is from ``cdf``, times the root of the number of elements.

    Above 1.95 in one of a thousand samples (Kolmogorov, 1933); seeds are fixed, so that a test always sees the same.
    """
    ordered = np.sort(np.asarray(x, np.float64).ravel())
    expected = cdf(ordered)
    count = ordered.size
    above = np.max(np.arange(1, count + 1) / count - expected)
    below = np.max(expected - np.arange(count) / count)
    return float(max(above, below) * np.sqrt(count))


def chi_squared(counts: Any, expected: Any) -> float:
    """The distance of counts from expected ones in standard deviations of their chi-squared statistic."""
    counts, expected = np.asarray(counts, np.float64).ravel(), np.asarray(expected, np.float64).ravel()
    freedom = counts.size - 1
    statistic = np.sum((counts - expected) ** 2 / expected)
    return float((statistic - freedom) / np.sqrt(2 * freedom))
