"""Numbers of the families of distributions, and counts: their distributions are SciPy's."""

import numpy as np
import pytest
import scipy.stats as stats

import zenith
from tests.random.compare import jax_random, kolmogorov_distance
from zenith import random
from zenith.errors import DTypeError, ShapeError

COUNT = 20_000
KEY = random.key(3)
REAL = {
    "laplace": (random.laplace, (), stats.laplace),
    "t of few": (random.t, (0.5,), stats.t(0.5)),
    "t": (random.t, (3.0,), stats.t(3.0)),
    "t of many": (random.t, (50.0,), stats.t(50.0)),
    "beta of little": (random.beta, (0.1, 0.2), stats.beta(0.1, 0.2)),
    "beta": (random.beta, (2.0, 3.0), stats.beta(2.0, 3.0)),
    "beta aside": (random.beta, (50.0, 0.5), stats.beta(50.0, 0.5)),
}
COUNTS = {
    "poisson of little": (random.poisson, (0.3,), stats.poisson(0.3)),
    "poisson, added": (random.poisson, (9.9,), stats.poisson(9.9)),
    "poisson, attempted": (random.poisson, (10.1,), stats.poisson(10.1)),
    "poisson of many": (random.poisson, (200.0,), stats.poisson(200.0)),
    "binomial of few": (random.binomial, (10, 0.3), stats.binom(10, 0.3)),
    "binomial, added": (random.binomial, (100, 0.05), stats.binom(100, 0.05)),
    "binomial, attempted": (random.binomial, (100, 0.2), stats.binom(100, 0.2)),
    "binomial of failures": (random.binomial, (1000, 0.99), stats.binom(1000, 0.99)),
    "binomial of many": (random.binomial, (1000, 0.5), stats.binom(1000, 0.5)),
}


def excess(found, distribution):
    """Pearson's statistic of counts, less its mean, in its standard deviations; rare counts are taken together."""
    low, high = int(found.min()), int(found.max())
    expected = distribution.pmf(np.arange(low, high + 1)) * found.size
    counts = np.bincount(found - low, minlength=expected.size)
    often = expected >= 10
    expected = np.append(expected[often], found.size - expected[often].sum())
    counts = np.append(counts[often], found.size - counts[often].sum())
    counted = expected > 1
    freedom = counted.sum() - 1
    return (((counts - expected) ** 2 / expected)[counted].sum() - freedom) / np.sqrt(2 * freedom)


@pytest.mark.parametrize("name", REAL)
def test_real_numbers_have_scipys_distribution(name):
    function, parameters, distribution = REAL[name]
    found = function(KEY, *parameters, (COUNT,), np.float64)
    assert found.dtype == np.float64 and kolmogorov_distance(found, distribution.cdf) < 1.95
    assert function(KEY, *parameters, (2, 3)).dtype == np.float32


@pytest.mark.parametrize("name", COUNTS)
def test_counts_have_scipys_distribution(name):
    function, parameters, distribution = COUNTS[name]
    found = function(KEY, *parameters, (COUNT,))
    assert found.dtype == np.int64 and abs(excess(found, distribution)) < 4
    assert abs(found.mean() - distribution.mean()) < 4 * distribution.std() / np.sqrt(COUNT)


def test_large_counts_have_the_moments():
    for found, mean, variance in (
        (random.poisson(KEY, 1e6, (COUNT,)), 1e6, 1e6),
        (random.binomial(KEY, 10**6, 0.3, (COUNT,)), 3e5, 2.1e5),
        (random.binomial(KEY, 10**12, 1e-9, (COUNT,)), 1e3, 1e3),
    ):
        assert abs(found.mean() - mean) < 4 * np.sqrt(variance / COUNT)
        assert abs(found.var() / variance - 1) < 4 * np.sqrt(2 / COUNT)


def test_laplace_numbers_and_normal_vectors_are_those_of_jax():
    np.testing.assert_allclose(random.laplace(KEY, (9,)), jax_random("laplace", KEY, (9,)), rtol=1e-5)
    mean, cov = np.array([1.0, -1.0], np.float32), np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)
    theirs = jax_random("multivariate_normal", KEY, mean, cov, (9,))
    np.testing.assert_allclose(random.multivariate_normal(KEY, mean, cov, (9,)), theirs, rtol=1e-4, atol=1e-5)


def test_edges_of_counts():
    lam = np.array([0.0, np.nan, -1.0, 5.0])
    assert random.poisson(KEY, lam).tolist()[:3] == [0, -1, -1]
    assert random.binomial(KEY, [5, 5, 5, 0, -1], [0.0, 1.0, 1.5, 0.5, 0.5]).tolist() == [0, 5, -1, 0, -1]
    assert random.poisson(KEY, 3.0, (0,)).shape == (0,)
    assert random.binomial(KEY, 5, 0.5, dtype=np.float32).dtype == np.float32
    with pytest.raises(DTypeError):
        random.poisson(KEY, 3.0, dtype=np.uint8)


def test_points_of_the_dirichlet_distribution():
    alpha = np.array([0.01, 0.5, 3.0])
    found = random.dirichlet(KEY, alpha, (COUNT,), np.float64)
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-14)
    np.testing.assert_allclose(found.mean(0), alpha / alpha.sum(), atol=0.005)
    np.testing.assert_allclose(found.var(0), stats.dirichlet(alpha).var(), rtol=0.2, atol=1e-4)
    assert kolmogorov_distance(found[:, 2], stats.beta(3.0, 0.51).cdf) < 1.95  # what one share alone is
    assert random.dirichlet(KEY, np.ones((4, 3))).shape == (4, 3)
    with pytest.raises(ShapeError):
        random.dirichlet(KEY, 1.0)


def test_multinomial_numbers():
    chances = np.array([2.0, 0.0, 3.0, 5.0])
    found = random.multinomial(KEY, 100, chances, (COUNT // 4,))
    assert (found.sum(-1) == 100).all() and (found[:, 1] == 0).all() and found.min() >= 0
    expected = stats.multinomial(100, chances / 10)
    np.testing.assert_allclose(found.mean(0), chances * 10, atol=0.3)
    np.testing.assert_allclose(np.cov(found.T), expected.cov(), atol=1.5)
    assert abs(excess(found[:, 0], stats.binom(100, 0.2))) < 4
    many = random.multinomial(KEY, np.array([3, 50]), np.array([[0.5, 0.5], [0.0, 1.0]]))
    assert many.sum(-1).tolist() == [3, 50] and many[1].tolist() == [0, 50]


def test_normal_vectors_and_their_derivatives():
    mean, cov = np.array([1.0, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    found = random.multivariate_normal(KEY, mean, cov, (COUNT,), np.float64)
    np.testing.assert_allclose(found.mean(0), mean, atol=0.04)
    np.testing.assert_allclose(np.cov(found.T), cov, atol=0.06)
    assert random.multivariate_normal(KEY, mean, np.stack([cov] * 3)).shape == (3, 2)

    def total(mean, cov):
        return random.multivariate_normal(KEY, mean, cov, (7,), np.float64).sum()

    at_mean, at_cov = zenith.grad(total, argnums=(0, 1))(mean, cov)
    np.testing.assert_allclose(at_mean, [7, 7])
    step = np.array([[1e-6, 0], [0, 0]])
    np.testing.assert_allclose(at_cov[0, 0], (total(mean, cov + step) - total(mean, cov - step)) / 2e-6, rtol=1e-6)
    with pytest.raises(ShapeError):
        random.multivariate_normal(KEY, mean, np.eye(3))


def test_numbers_are_the_same_compiled_and_for_many_keys():
    def f(key, lam):
        keys = random.split(key, 6)
        return (
            random.poisson(keys[0], lam), random.binomial(keys[1], lam, 0.4), random.multinomial(keys[2], 20, lam),
            random.beta(keys[3], lam, 2.0, dtype=np.float64), random.t(keys[4], lam, dtype=np.float64),
            random.dirichlet(keys[5], lam, dtype=np.float64),
        )  # fmt: skip

    lam = np.array([0.5, 30.0, 7.0])
    compiled = zenith.jit(f)(KEY, lam)
    (mapped,) = (zenith.vmap(f, in_axes=(0, None))(KEY[None], lam),)
    for found, many, expected in zip(compiled, mapped, f(KEY, lam), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        np.testing.assert_allclose(many[0], expected, rtol=1e-9)
