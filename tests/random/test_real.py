"""Distributions of real numbers: jax's values, moments and distribution functions, parameters and what is refused."""

import math

import ml_dtypes
import numpy as np
import pytest

import zenith
from tests.random.compare import jax_random, kolmogorov_distance, ulps_apart, under_jit
from zenith import random
from zenith.errors import DTypeError, ShapeError
from zenith.random.real import gumbel_of, unit_interval

COUNT = 50_000
SHAPES = [(), (5,), (3, 4), (2, 3, 7), (0, 3), (10_000,)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_uniform_has_the_bits_of_jax(shape):
    for seed in (0, 1, 987654321):
        key = random.key(seed)
        found = random.uniform(key, shape)
        assert found.dtype == np.float32 and np.array_equal(found, jax_random("uniform", key, shape))
        assert np.array_equal(under_jit(lambda k: random.uniform(k, shape), key), found)


def test_uniform_of_float64_has_the_bits_of_jax():
    jax = pytest.importorskip("jax")
    key = random.key(8)
    found = random.uniform(key, (3, 500), np.float64)
    with jax.enable_x64(True):
        expected = jax_random("uniform", key, (3, 500), np.float64)
    assert found.dtype == np.float64 and np.array_equal(found, expected)
    assert np.array_equal(under_jit(lambda k: random.uniform(k, (3, 500), np.float64), key), found)


@pytest.mark.parametrize(("low", "high"), [(-3.7, 11.3), (0.0, 2.0), (5.0, 5.0), (1e10, 1e11)])
def test_uniform_between_other_bounds(low, high):
    key = random.key(2)
    found = random.uniform(key, (5000,), minval=low, maxval=high)
    assert ulps_apart(found, jax_random("uniform", key, (5000,), minval=low, maxval=high)) <= 1
    assert np.array_equal(under_jit(lambda k: random.uniform(k, (5000,), minval=low, maxval=high), key), found)
    assert found.min() >= np.float32(low) and found.max() <= np.float32(high)


def test_bounds_of_uniform_are_arrays():
    key, low = random.key(2), np.array([[0.0], [10.0]])
    found = zenith.jit(lambda k, a: random.uniform(k, (2, 1000), minval=a, maxval=a + 1))(key, low)
    assert np.array_equal(found, random.uniform(key, (2, 1000), minval=low, maxval=low + 1))
    assert np.all(found.astype(int) == low)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_uniform_is_uniform(dtype):
    found = random.uniform(random.key(3), (100_000,), dtype)
    assert found.min() >= 0 and found.max() < 1
    assert kolmogorov_distance(found, lambda x: x) < 1.95
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 4 / np.sqrt(100_000)


# --- what follows from uniform numbers -------------------------------------------------------------------------

PHI = np.vectorize(lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2))), otypes=[np.float64])


def truncated_cdf(x):
    return (PHI(x) - PHI(-0.5)) / (PHI(2.0) - PHI(-0.5))


# Name, further arguments, distribution function, mean, variance.
DISTRIBUTIONS = {
    "normal": ((), PHI, 0.0, 1.0),
    "exponential": ((), lambda x: -np.expm1(-x), 1.0, 1.0),
    "gumbel": ((), lambda x: np.exp(-np.exp(-x)), np.euler_gamma, math.pi**2 / 6),
    "truncated_normal": ((-0.5, 2.0), truncated_cdf, None, None),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name, dtype):
    arguments, cdf, mean, variance = DISTRIBUTIONS[name]
    found = getattr(random, name)(random.key(4), *arguments, (COUNT,), dtype)
    assert found.dtype == dtype and np.isfinite(found).all()
    assert kolmogorov_distance(found, cdf) < 1.95
    if mean is not None:
        assert abs(found.mean() - mean) < 4 * math.sqrt(variance / COUNT)
        assert abs(found.var() / variance - 1) < 0.05


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_are_those_of_jax(name):
    arguments, key = DISTRIBUTIONS[name][0], random.key(17)
    found = getattr(random, name)(key, *arguments, (2, COUNT))
    expected = jax_random(name, key, *arguments, (2, COUNT))
    if name == "exponential":
        assert ulps_apart(found, expected) <= 4
    else:
        declared = {"gumbel": 1e-6}.get(name, 1e-5)
        assert np.all(np.abs(found - expected) <= declared * (1 + np.abs(expected)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_compiled_distributions_follow_from_the_same_bits(name, dtype):
    """Elementary functions of NumPy and of kernels may differ in the last digits, and nothing else may."""
    arguments, key = DISTRIBUTIONS[name][0], random.key(5)

    def draw(k):
        return getattr(random, name)(k, *arguments, (3, 700), dtype)

    unit = np.finfo(dtype).eps
    np.testing.assert_allclose(under_jit(draw, key), draw(key), rtol=8 * unit, atol=8 * unit)


@pytest.mark.parametrize("name", ["normal", "exponential", "gumbel", "uniform"])
def test_one_program_for_all_sizes(name):
    draw = zenith.jit(lambda k, x: x + getattr(random, name)(k, x.shape))
    for n, m in ((3, 4), (1, 1), (0, 3), (50, 2)):
        x = np.zeros((n, m), np.float32)
        np.testing.assert_allclose(draw(random.key(n), x), getattr(random, name)(random.key(n), (n, m)), rtol=1e-5)
    assert draw.cache_info().misses == 1


def test_the_ends_of_the_uniform_numbers():
    """What a word of zero bits and one of one bits become: the elements that a sample hardly meets."""
    words = np.array([0, 2**32 - 1, -(2**32)])
    units = unit_interval(words, np.dtype(np.float32))
    assert units.tolist() == [0.0, 1 - 2.0**-23, 1 - 2.0**-23]
    assert np.isfinite(gumbel_of(words, np.dtype(np.float32))).all()


def test_truncated_normal_stays_inside_and_takes_arrays():
    low, high = np.array([[-3.0], [2.0]]), np.array([[-2.9], [2.5]])
    found = random.truncated_normal(random.key(1), low, high, (2, 5000))
    assert (found >= low.astype(np.float32)).all() and (found <= high.astype(np.float32)).all()
    assert random.truncated_normal(random.key(1), low, high).shape == (2, 1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda key: random.uniform(key, 3, np.int32), DTypeError, "uniform gives .* or float64, not int32"),
        (lambda key: random.uniform(key, 3, np.longdouble), DTypeError, "not float128"),
        (lambda key: random.normal(key, 3, np.int32), DTypeError, "normal gives .* or float64, not int32"),
        (lambda key: random.exponential(key, -3), ShapeError, r"negative size: \(-3,\)"),
        (lambda key: random.truncated_normal(key, 0, [1, 2], (3,)), ShapeError, "do not fit together"),
        (lambda key: random.uniform(key, (3,), minval=np.zeros((2, 3))), ShapeError, r"shape \(2, 3\) does not broad"),
        (lambda key: random.uniform(key, (3,), maxval=np.zeros(2)), ShapeError, "do not fit together"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(random.key(0))


# --- 16-bit floats ---------------------------------------------------------------------------------------------

SHORT = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_numbers_of_16_bits_are_those_of_float32_rounded(dtype):
    key, shape = random.key(11), (3, 400)

    def draw(k, dtype):
        others = [getattr(random, name)(k, *given[0], shape, dtype) for name, given in DISTRIBUTIONS.items()]
        between = random.uniform(k, shape, dtype, minval=-3, maxval=np.ones(400, SHORT[0]))
        return [*others, between, random.gamma(k, 2.5, shape, dtype)]

    compiled = under_jit(lambda k: draw(k, dtype), key)
    for found, jitted, single in zip(draw(key, dtype), compiled, draw(key, np.float32), strict=True):
        assert found.dtype == jitted.dtype == dtype
        np.testing.assert_array_equal(found, single.astype(dtype))
        unit = ml_dtypes.finfo(dtype).eps * np.abs(single) + 1e-6  # an ulp of float32 may move what is rounded
        assert np.all(np.abs(jitted.astype(np.float32) - single) <= unit)


@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_uniform_numbers_of_16_bits_stay_below_one(dtype):
    key = random.key(3)
    found, single = (random.uniform(key, (100_000,), t) for t in (dtype, np.float32))
    assert found.dtype == dtype and single.astype(dtype).max() == 1 > found.max()
    assert np.mean(found != single.astype(dtype)) < 0.005
    assert np.array_equal(under_jit(lambda k: random.uniform(k, (100_000,), dtype), key), found)


def test_chances_of_16_bits_are_taken_as_float32():
    key, half = random.key(3), np.float16([0.25, 0.5, 0.125])
    for draw in (
        lambda p: random.bernoulli(key, p, (50, 3)),
        lambda p: random.categorical(key, p, shape=(50,)),
        lambda p: random.choice(key, 3, (50,), p=p),
    ):
        np.testing.assert_array_equal(draw(half), draw(half.astype(np.float32)))


def test_truncated_normal_without_bounds_is_finite(monkeypatch):
    from zenith.random import real

    for dtype in (np.float32, np.float64):
        monkeypatch.setattr(real, "unit_interval", lambda words, wide: np.array([0.0, 0.5, 1.0], wide))
        found = random.truncated_normal(random.key(0), -np.inf, np.inf, (3,), dtype)
        assert np.isfinite(found).all() and found[0] < -5 and found[2] > 5 and found[1] == 0
