"""Gamma numbers: their distribution, the probability that no attempt succeeds, every way to run, and the edges."""

import math

import numpy as np
import pytest

import zenith
from tests.random.compare import jax_random, kolmogorov_distance
from zenith import random
from zenith.errors import DTypeError, ShapeError
from zenith.random.keys import word_of
from zenith.random.rejection import ATTEMPTS, _attempts

COUNT = 20_000


def incomplete_gamma(a, x):
    """The distribution function by its power series: x**a exp(-x) sum x**n / (a (a + 1) ... (a + n)) / Gamma(a)."""
    term = np.full_like(x, 1 / a)
    total = term.copy()
    for n in range(1, 400):
        term = term * x / (a + n)
        total += term
    with np.errstate(divide="ignore"):
        return total * np.exp(a * np.log(x) - x - math.lgamma(a))


def success(a):
    """The formula of the docstring."""
    d = a - 1 / 3
    return math.exp(d + (1 / 6 - d) * math.log(d) + math.lgamma(a)) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("a", [0.1, 0.7, 1.0, 2.5, 30.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_distribution(a, dtype):
    found = random.gamma(random.key(1), a, (COUNT,), dtype)
    assert found.dtype == dtype and (found >= 0).all()
    assert kolmogorov_distance(found, lambda x: incomplete_gamma(a, x)) < 1.95
    assert abs(found.mean() - a) < 4 * math.sqrt(a / COUNT)
    assert abs(found.var() / a - 1) < 0.15 * max(1, 1 / math.sqrt(a))


def test_the_distribution_is_that_of_jax():
    ours = np.sort(random.gamma(random.key(2), 3.0, (COUNT,)))
    theirs = np.sort(jax_random("gamma", random.key(2), 3.0, (COUNT,)))
    offsets = np.searchsorted(theirs, ours) - np.arange(COUNT)
    assert np.abs(offsets).max() / COUNT * math.sqrt(COUNT / 2) < 1.95


def test_how_often_an_attempt_succeeds():
    values = [success(a) for a in np.geomspace(1, 1e4, 60)]
    assert 0.9515 < values[0] < 0.9517 and values == sorted(values) and values[-1] <= 1
    assert (1 - values[0]) ** ATTEMPTS < 4e-11
    for a in (1.0, 2.0, 8.0):
        d = np.full((COUNT,), a - 1 / 3)
        _, succeeds = _attempts(word_of("gamma", random.key(3)), d)
        assert abs(succeeds.mean() - success(a)) < 4 * math.sqrt(success(a) * (1 - success(a)) / COUNT)


def test_where_no_attempt_succeeds_is_the_most_likely_number(monkeypatch):
    monkeypatch.setattr("zenith.random.rejection._attempts", lambda word, d: (d * 100, np.zeros(d.shape, bool)))
    found = random.gamma(random.key(0), np.float64(4.0), (3,), np.float64)
    np.testing.assert_allclose(found, 4 - 1 / 3, rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_numbers_follow_from_the_same_bits(dtype):
    draw = zenith.jit(lambda k, a: random.gamma(k, a, (a.shape[0], 50), dtype))
    for size in (3, 1, 20):
        key, a = random.key(size), np.linspace(0.2, 9.0, size).reshape(size, 1)
        np.testing.assert_allclose(
            draw(key, a), random.gamma(key, a, (size, 50), dtype), rtol=200 * np.finfo(dtype).eps, atol=1e-30
        )
    assert draw.cache_info().misses == 1


def test_edges_and_shapes():
    a = np.array([0.0, -0.5, -3.0, np.nan])
    assert np.isnan(random.gamma(random.key(0), a)).all()
    assert random.gamma(random.key(0), a[:, None], (4, 5)).shape == (4, 5)
    assert random.gamma(random.key(0), 1.0).shape == ()
    assert random.gamma(random.key(0), 1.0, (0, 3)).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda key: random.gamma(key, 1.0, 3, np.int32), DTypeError, "gamma gives .* or float64, not int32"),
        (lambda key: random.gamma(key, np.ones((2, 3)), (3,)), ShapeError, r"gamma: .*shape \(2, 3\) does not"),
        (lambda key: random.gamma(key, 1.0, (-2,)), ShapeError, "negative size"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(random.key(0))
