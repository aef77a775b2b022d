"""Permutations and draws: jax's values, that all orders and slices are equally likely, sizes, and what is refused."""

import itertools
import math

import numpy as np
import pytest

import zenith
from tests.random.compare import chi_squared, jax_random, under_jit
from zenith import random
from zenith.errors import DTypeError, ShapeError, TraceError
from zenith.random.order import ROUNDS

CHANCES = np.array([0.1, 0.2, 0.3, 0.4], np.float32)


def test_rounds_are_those_of_jax():
    for rounds, limit in enumerate(ROUNDS, 1):
        for size in (limit - 1, limit, limit + 1):
            expected = math.ceil(3 * np.log(size) / np.log(2**32 - 1))
            assert expected == rounds + (size > limit)


@pytest.mark.parametrize("size", [0, 1, 2, 5, 100, ROUNDS[0], ROUNDS[0] + 1, 5000])
def test_permutation_is_that_of_jax(size):
    key = random.key(12)
    found = random.permutation(key, size)
    assert found.dtype == np.int64 and np.array_equal(np.sort(found), np.arange(size))
    assert np.array_equal(found, jax_random("permutation", key, size))
    assert np.array_equal(under_jit(lambda k: random.permutation(k, size), key), found)


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_permutation_of_an_array_is_that_of_jax(axis, independent):
    key, x = random.key(3), np.arange(60, dtype=np.int32).reshape(5, 4, 3)
    found = random.permutation(key, x, axis, independent)
    assert np.array_equal(found, jax_random("permutation", key, x, axis, independent))
    compiled = zenith.jit(lambda k, a: random.permutation(k, a, axis, independent))
    assert np.array_equal(compiled(key, x), found)


def test_all_orders_are_equally_likely():
    keys = random.split(random.key(1), 2400)
    shuffle = zenith.jit(lambda k: random.permutation(k, 4))
    counts = dict.fromkeys(itertools.permutations(range(4)), 0)
    for key in keys:
        counts[tuple(shuffle(key).tolist())] += 1
    assert abs(chi_squared(list(counts.values()), np.full(24, 100))) < 4


def test_permutations_of_many_sizes_are_one_program_a_number_of_rounds():
    shuffle = zenith.jit(lambda k, x: random.permutation(k, x.shape[0]) + x)
    for size in (5, 0, 1000, ROUNDS[0], 2000, 3000):
        expected = random.permutation(random.key(size), size)
        assert np.array_equal(shuffle(random.key(size), np.zeros(size, np.int64)), expected)
    assert shuffle.cache_info().misses == 2


@pytest.mark.parametrize("chances", [None, CHANCES], ids=["alike", "given"])
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("shape", [pytest.param((3,), marks=pytest.mark.thorough), (), (2, 2), (0,)], ids=str)
def test_choice_is_that_of_jax(shape, replace, chances):
    key, slices = random.key(4), np.arange(24.0, dtype=np.float32).reshape(2, 4, 3)
    found = random.choice(key, slices, shape, replace, chances, axis=1)
    assert found.shape == (2, *shape, 3)
    indices = random.choice(key, 4, shape, replace, chances)
    assert np.array_equal(found, slices[:, indices])
    compiled = zenith.jit(lambda k, x: random.choice(k, x, shape, replace, chances, axis=1))
    assert np.array_equal(compiled(key, slices), found)
    if 0 not in shape:
        assert np.array_equal(found, jax_random("choice", key, slices, shape, replace, chances, axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_choices_are_as_likely_as_given(dtype):
    count = 20_000
    chances = np.array([0.5, 0.0, 1.5, 2.0], dtype)  # in proportion
    found = random.choice(random.key(5), 4, (count,), p=chances)
    counts = np.bincount(found, minlength=4)
    assert counts[1] == 0
    assert abs(chi_squared(counts[[0, 2, 3]], np.array([0.125, 0.375, 0.5]) * count)) < 4
    alike = np.bincount(random.choice(random.key(6), 10, (count,)), minlength=10)
    assert abs(chi_squared(alike, np.full(10, count / 10))) < 4


def test_first_choices_without_replacement_are_as_likely_as_given():
    draw = zenith.jit(lambda k: random.choice(k, 4, (2,), False, CHANCES))
    pairs = np.array([draw(key) for key in random.split(random.key(7), 2000)])
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert abs(chi_squared(np.bincount(pairs[:, 0], minlength=4), CHANCES * 2000)) < 4


def test_choices_of_many_sizes_are_one_program():
    draw = zenith.jit(lambda k, x: random.choice(k, x, (x.shape[0] // 2, 2), replace=False))
    for size in (4, 10, 200):
        x, key = np.arange(size) * 2, random.key(size)
        assert np.array_equal(draw(key, x), random.choice(key, x, (size // 2, 2), replace=False))
    assert draw.cache_info().misses == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda key: random.permutation(key, -1), ShapeError, "permutation: the number of elements -1 is negative"),
        (lambda key: random.permutation(key, 2.5), TraceError, "a number of elements must be an integer, not float"),
        (lambda key: random.permutation(key, [1, 2], 1), ShapeError, "axis 1 is out of bounds"),
        (lambda key: random.choice(key, 0, (2,)), ShapeError, "choice: there is nothing to draw from"),
        (lambda key: random.choice(key, 3, (4,), False), ShapeError, "there are not as many: 4 <= 3 does not hold"),
        (lambda key: random.choice(key, 3, p=CHANCES), ShapeError, "a probability for each slice: 4 == 3 does not"),
        (lambda key: random.choice(key, 4, p=CHANCES[None]), ShapeError, r"have one axis, not the shape \(1, 4\)"),
        (lambda key: random.choice(key, 2, p=[1, 2]), DTypeError, "float32 or float64, not int64"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(random.key(0))


def test_choices_of_many_take_no_table_of_all_pairs():
    """200 000 draws of 700 000 would be 130 GiB of comparisons."""
    chances = np.arange(700_000.0)
    found = random.choice(random.key(3), 700_000, (200_000,), p=chances)
    assert found.dtype == np.int64 and found.min() >= 1 and found.max() < 700_000
    assert abs(found.mean() / 700_000 - 2 / 3) < 0.003
