"""Conditions of several parts: only their truth counts, and what they say of sizes holds where they hold."""

import numpy as np
import pytest

import zenith


def a_size_and_a_comparison(x):
    y = x[x > 0]
    turns = 0
    while len(y) and turns < 5:
        y = y[y > y.mean()]
        turns += 1
    return turns, y


def guarded_read(x):
    y = x[x > 0]
    if len(y) and y[0] > 0.5:
        return y[0]
    return 0.0


def left_by_break(x):
    y = x[x > 0]
    total = 0.0
    while len(y) > 2:
        total += y[2]
        if total > 3:
            break
        y = y[1:]
    return total


def comparison_behind(x):
    y = x[x > 0]
    total = 0.0
    while len(y) > 2 and total < 4:
        total += y[2] - y[0] * 0.1
        y = y[:-1]
    return total, len(y)


def empty_first(x):
    y = x[x > 0]
    if len(y) == 0:
        return -1.0
    return y[0] + y[-1]


def negated(x):
    y = x[x > 0]
    if not len(y):
        return -1.0
    return y[0]


def chained_and_negated(x):
    y = x[x > 0]
    if 0 < len(y) < 5:
        return y[0]
    if not (len(y) <= 1 or y[1] > 2):
        return y[1]
    return 2.0


def until_either(x):
    y = x[x > 0]
    while not (len(y) < 2 or y[1] > 1.5):
        y = y[1:]
    return y


def of_two_arrays(x):
    y, z = x[x > 0], x[x < 0]
    if y.size != 0 and z.size > 1:
        return y[0] + z[1]
    return 0.0


def stack(x):
    rest = x[x > 0]
    total = 0.0
    while True:
        if len(rest) == 0:
            break
        total += rest[-1]
        rest = rest[:-1]
    return total


def in_an_expression(x):
    y = x[x > 0]
    return y[0] if len(y) and x[0] > -9 else np.nan


def numbers_of_different_types(x):
    n = 0
    while x[n] and n < len(x) - 1 and x.sum():
        n += 1
    return n, bool(n or x[0])


def named_in_the_condition(x):
    y = x
    while (n := len(y)) > 2:
        y = y[y > y.mean()]
    return n, y


def neighbours(x):
    y = x[x > 0]
    return y[1:] - y[:-1], y[2:-1] * y[1:-2], y[1:-1] * (y[2:] + y[:-2])


def pairs(x):
    y = x[x > 0]
    i, j = np.triu_indices(len(y), 1)
    return np.abs(y[i] - y[j]).sum()


PROGRAMS = [
    a_size_and_a_comparison, guarded_read, left_by_break, comparison_behind, empty_first, negated, chained_and_negated,
    until_either, of_two_arrays, stack, in_an_expression, numbers_of_different_types, named_in_the_condition,
    neighbours, pairs,
]  # fmt: skip


@pytest.mark.parametrize("function", PROGRAMS)
def test_one_program_has_all_sizes(function):
    compiled = zenith.jit(function)
    rng = np.random.default_rng(0)
    for n in (8, 5, 12, 20):
        normal = rng.standard_normal(n) * 2
        for x in (normal, np.abs(normal), -np.abs(normal), np.where(normal > 1, normal, 0)):
            found, expected = compiled(x.copy()), function(x.copy())
            rows = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
            for one, other in rows:
                np.testing.assert_allclose(one, other, 1e-12)
    assert compiled.cache_info().misses == 1, str(compiled.cache_info())


def test_values_of_and_and_or_stay_those_of_their_parts():
    def parts(x):
        return x[0] and x[1], x[2] or x[3]

    for x in (np.array([0.0, 1, 2, 3]), np.array([4.0, 5, 0, 7])):
        assert zenith.jit(parts)(x) == parts(x)


def test_a_part_that_is_not_reached_is_not_computed():
    def reached(x, k):
        if k < len(x) and x[k] > 0:
            return x[k]
        return -1.0

    compiled = zenith.jit(reached)
    x = np.array([1.0, -2.0, 3.0])
    for k in (0, 1, 2, 3, 7):
        assert compiled(x, np.int64(k)) == reached(x, k)
