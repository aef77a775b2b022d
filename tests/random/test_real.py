"""Distributions of real numbers: jax's values, moments and distribution functions, parameters and what is refused."""

import numpy as np
import pytest

import zenith
from tests.random.compare import jax_random, kolmogorov_distance, ulps_apart, under_jit
from zenith import random
from zenith.errors import DTypeError, ShapeError

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


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda key: random.uniform(key, 3, np.int32), DTypeError, "uniform gives float32 or float64, not int32"),
        (lambda key: random.uniform(key, 3, np.float16), DTypeError, "not float16"),
        (lambda key: random.uniform(key, (3,), minval=np.zeros((2, 3))), ShapeError, r"shape \(2, 3\) does not broad"),
        (lambda key: random.uniform(key, (3,), maxval=np.zeros(2)), ShapeError, "do not fit together"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(random.key(0))
