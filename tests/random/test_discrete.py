"""Truth values, integers and categories: jax's values, frequencies, and what is refused."""

import numpy as np
import pytest

import zenith
from tests.random.compare import chi_squared, jax_random, under_jit
from zenith import random
from zenith.errors import DTypeError, NumberError, ShapeError

COUNT = 20_000


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
def test_bernoulli_is_that_of_jax(p):
    key = random.key(5)
    found = random.bernoulli(key, p, (COUNT,))
    assert found.dtype == bool and np.array_equal(found, jax_random("bernoulli", key, p, (COUNT,)))
    assert np.array_equal(under_jit(lambda k: random.bernoulli(k, p, (COUNT,)), key), found)
    assert abs(found.sum() - p * COUNT) <= 4 * np.sqrt(COUNT * p * (1 - p))


def test_bernoulli_takes_the_shape_of_its_probabilities():
    chances = np.array([[0.0, 1.0, 0.5]])
    assert random.bernoulli(random.key(1), chances).shape == (1, 3)
    found = zenith.jit(lambda k, p: random.bernoulli(k, p, (400, 3)))(random.key(1), chances)
    assert np.array_equal(found, random.bernoulli(random.key(1), chances, (400, 3)))
    assert not found[:, 0].any() and found[:, 1].all() and 150 < found[:, 2].sum() < 250


@pytest.mark.parametrize(
    ("low", "high"), [(0, 10), (-5, 1000), (0, 2**31 - 1), (-(2**31), 2**31 - 1), (-(2**31), 2**31), (7, 7), (9, 3)]
)
def test_randint_is_that_of_jax(low, high):
    key = random.key(6)
    found = random.randint(key, (3, 500), low, high)
    assert found.dtype == np.int32 and found.min() >= low and (found.max() < high or high <= low)
    assert np.array_equal(under_jit(lambda k: random.randint(k, (3, 500), low, high), key), found)
    if high < 2**31:  # jax refuses the other bound unless it is an int64 array
        assert np.array_equal(found, jax_random("randint", key, (3, 500), low, high))


def test_randint_of_all_unsigned_numbers_is_that_of_jax():
    jax = pytest.importorskip("jax")
    key = random.key(6)
    found = random.randint(key, (500,), 0, 2**32, np.uint32)
    with jax.enable_x64(True):
        assert np.array_equal(found, jax_random("randint", key, (500,), 0, np.int64(2**32), np.uint32))
    compiled = zenith.jit(lambda k, end: random.randint(k, (500,), 0, end, np.uint32))
    assert np.array_equal(compiled(key, np.int64(2**32)), found)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
@pytest.mark.parametrize(("low", "high"), [(0, 7), (3, 67)])
def test_integers_are_equally_likely(dtype, low, high):
    found = random.randint(random.key(8), (COUNT,), low, high, dtype)
    counts = np.bincount(found.astype(np.int64) - low, minlength=high - low)
    assert found.dtype == dtype and counts.size == high - low
    assert abs(chi_squared(counts, np.full(high - low, COUNT / (high - low)))) < 4


def test_small_integers_are_those_of_32_bits():
    key = random.key(9)
    for low, high in ((0, 7), (-3, 100), (5, 5)):
        wide = random.randint(key, (500,), low, high)
        for dtype in (np.int8, np.int16):
            found = random.randint(key, (500,), low, high, dtype)
            assert found.dtype == dtype and np.array_equal(found, wide)
    kinds = (np.int8, np.uint8, np.int16, np.uint16)
    compiled = under_jit(lambda k: [random.randint(k, (5000,), -(2**40), 2**40, t) for t in kinds], key)
    for dtype, found in zip(kinds, compiled, strict=True):
        assert np.array_equal(random.randint(key, (5000,), -(2**40), 2**40, dtype), found)
        limits = np.iinfo(dtype)
        counts = np.bincount((found.astype(np.int64) - limits.min) >> (limits.bits - 4), minlength=16)
        assert found.dtype == dtype and abs(chi_squared(counts, np.full(16, 5000 / 16))) < 4


def test_unsigned_integers_of_64_bits():
    key, ends = random.key(8), np.array([[2**64 - 1], [2**63], [5], [3]], np.uint64)
    found = random.randint(key, (4, 5000), 4, ends, np.uint64)
    assert found.dtype == np.uint64 and found.min() >= 4 and np.all(found[:2] < ends[:2])
    assert np.all(found[2:] == 4)
    assert np.array_equal(zenith.jit(lambda k, e: random.randint(k, (4, 5000), 4, e, np.uint64))(key, ends), found)
    everything = random.randint(key, (COUNT,), -1, 2**64, np.uint64)
    for numbers, step in ((everything, 60), (found[0], 60), (found[1], 59)):
        counts = np.bincount((numbers >> np.uint64(step)).astype(np.int64), minlength=16)
        assert abs(chi_squared(counts, np.full(16, numbers.size / 16))) < 4


def test_integers_of_64_bits():
    low, high = -(2**61), 2**61
    found = random.randint(random.key(8), (COUNT,), low, high, np.int64)
    assert np.array_equal(under_jit(lambda k: random.randint(k, (COUNT,), low, high, np.int64), random.key(8)), found)
    assert low <= found.min() and found.max() < high
    counts = np.bincount((found >> 58) + 8, minlength=16)
    assert abs(chi_squared(counts, np.full(16, COUNT / 16))) < 4


def test_bounds_of_integers_are_arrays():
    low, counts = np.array([[0], [100], [5]]), np.array([[10], [1], [0]])
    found = zenith.jit(lambda k, a: random.randint(k, (3, 50), a, a + counts))(random.key(2), low)
    assert np.array_equal(found, random.randint(random.key(2), (3, 50), low, low + counts))
    assert found[0].min() >= 0 and 5 < found[0].max() < 10
    assert (found[1] == 100).all() and (found[2] == 5).all()


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_categorical_is_that_of_jax(axis, dtype, rng):
    key, logits = random.key(9), np.log(rng.uniform(size=(7, 5))).astype(dtype)
    batch = (5,) if axis == 0 else (7,)
    for shape in (None, (100, *batch)):
        found = random.categorical(key, logits, axis, shape)
        assert found.dtype == np.int64 and found.shape == (shape or batch)
        compiled = zenith.jit(lambda k, x, shape=shape: random.categorical(k, x, axis, shape))
        assert np.array_equal(compiled(key, logits), found)
        if dtype == np.float32:
            assert np.array_equal(found, jax_random("categorical", key, logits, axis, shape))


def test_categories_are_as_likely_as_given():
    chances = np.array([0.1, 0.2, 0.0, 0.7])
    with np.errstate(divide="ignore"):
        found = random.categorical(random.key(10), np.log(chances), shape=(COUNT,))
    counts = np.bincount(found, minlength=4)
    assert counts[2] == 0
    assert abs(chi_squared(counts[[0, 1, 3]], chances[[0, 1, 3]] * COUNT)) < 4


def test_categories_of_many_sizes_are_one_program():
    draw = zenith.jit(lambda k, x: random.categorical(k, x, 0, (2 * x.shape[0], x.shape[1])))
    for n, m in ((3, 4), (7, 2), (2, 9)):
        logits = np.zeros((n, m), np.float32)
        assert np.array_equal(draw(random.key(n), logits), random.categorical(random.key(n), logits, 0, (2 * n, m)))
    assert draw.cache_info().misses == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda key: random.bernoulli(key, np.int64(1)), DTypeError, "a probability is .* or float64, not int64"),
        (lambda key: random.bernoulli(key, np.full(3, 0.5), (2, 2)), ShapeError, "do not fit together"),
        (lambda key: random.randint(key, 3, 0, 5, np.float32), DTypeError, "randint gives integers, not float32"),
        (lambda key: random.randint(key, 3, 0.0, 5), DTypeError, "a bound is an integer, not float64"),
        (lambda key: random.randint(key, 3, -(2**63), 2**63 - 1, np.int64), NumberError, r"2\*\*63 or more integers"),
        (lambda key: random.randint(key, 3, 0, 2**64), NumberError, "out of bounds for int64"),
        (lambda key: random.categorical(key, np.arange(3)), DTypeError, "logits are .* or float64, not int64"),
        (lambda key: random.categorical(key, np.zeros((2, 3)), shape=()), ShapeError, r"shape \(\) has fewer axes"),
        (lambda key: random.categorical(key, np.zeros((2, 3)), shape=(5,)), ShapeError, "do not fit together"),
        (lambda key: random.categorical(key, np.zeros((2, 3)), 2), ShapeError, "axis 2 is out of bounds"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(random.key(0))
