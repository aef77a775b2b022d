"""Loops whose turns are independent: a task for each turn, where that is proven, and the results of Python's loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zenith


def scaled(x, y):
    for i in range(len(x)):
        y[i] = 2 * x[i] + 1


def backwards(x, y):
    for i in range(len(x) - 1, -1, -1):
        y[i] = x[i] * i


def every_other(x, y):
    for i in range(1, len(x), 2):
        y[i] += x[i - 1]


def rows(x, y):
    for i in range(x.shape[0]):
        total = 0.0
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * 0.5 + y[i, j]
            total += y[i, j]
        y[i, 0] = total


def columns(x, y):
    for j in range(x.shape[1]):
        for i in range(1, x.shape[0]):
            y[i, j] = y[i - 1, j] + x[i, j]


def until(x, y):
    for i in range(len(x)):
        z, n = 0.0, 0
        while z * z < 4 and n < 50:
            z = z * z + x[i]
            n += 1
        y[i] = n


def last(x, y):
    i = -1
    for i in range(3, len(x)):
        y[i] = x[i] - x[i - 3]
    return i


def own_numbers(x, y):
    i, s, k = 7, 5.0, 2
    for i in range(len(x)):
        s = x[i] * 2
        k = i * i
        y[i] = s + k
    return i, s, k


PARALLEL = (scaled, backwards, every_other, rows, columns, until, last, own_numbers)


def previous(x, y):
    for i in range(1, len(x)):
        y[i] = y[i - 1] + x[i]


def mirrored(x, y):
    for i in range(len(x)):
        y[i] = y[len(x) - 1 - i] + x[i]


def total(x, y):
    s = 0.0
    for i in range(len(x)):
        s += x[i]
        y[i] = s


def one_place(x, y):
    for i in range(len(x)):
        y[0] += x[i]


def halves(x, y):
    for i in range(len(x)):
        y[i // 2] = y[i // 2] * 0.5 + x[i]


def chosen(x, y):
    for i in range(len(x)):
        y[int(x[i] * len(x))] += 1


def diagonals(x, y):
    for i in range(1, x.shape[0]):
        for j in range(1, x.shape[1]):
            y[i, j] = y[i - 1, j - 1] + x[i, j]


SEQUENTIAL = (previous, mirrored, total, one_place, halves, chosen, diagonals)


def arguments(function, n):
    shape = (n, n + 2) if function in (rows, columns, diagonals) else (n,)
    x, y = np.random.default_rng(n).random((2, *shape))
    return x, y


@pytest.mark.parametrize("backend", ["cpu", "lanes"])
@pytest.mark.parametrize("function", PARALLEL + SEQUENTIAL, ids=lambda f: f.__name__)
def test_results_are_those_of_python(function, backend):
    jitted = zenith.jit(function, backend=backend)
    for n in (5, 0, 1, 4, 300):
        x, y = arguments(function, n)
        plain = y.copy()
        expected = function(x, plain)
        assert jitted(x, y) == expected
        np.testing.assert_allclose(y, plain, rtol=1e-12)
    plan = jitted.lower(x, y).compile().as_text("plan")
    assert ("launch parallel_loop" in plan) == (function in PARALLEL), plan


def test_threads_share_the_turns():
    """As many as there are: the work is large enough for several chunks."""
    x, y = arguments(until, 30_000)
    plain = y.copy()
    until(x[:300], plain[:300])
    zenith.jit(until)(x, y)
    np.testing.assert_array_equal(y[:300], plain[:300])
    again = arguments(until, 30_000)[1]
    zenith.jit(until)(x, again)
    np.testing.assert_array_equal(y, again)


def test_an_index_outside_of_an_array_is_an_error():
    def shifted(x, y):
        for i in range(len(x)):
            y[i] = x[i + 1]

    with pytest.raises(zenith.errors.OutOfBoundsError, match="test_parallel_loops"):
        zenith.jit(shifted)(np.ones(5), np.ones(5))


SUBSCRIPTS = st.tuples(st.integers(-1, 2), st.integers(0, 3))


@settings(max_examples=40, deadline=None)
@given(SUBSCRIPTS, SUBSCRIPTS, st.booleans())
def test_random_subscripts(write, read, adds):
    (a, b), (c, d) = write, read
    b, d = b + 12 * (a < 0), d + 12 * (c < 0)

    def turns(y, n):
        for i in range(n):
            value = y[c * i + d] * 0.5 + i
            if adds:
                y[a * i + b] += value
            else:
                y[a * i + b] = value

    found, plain = np.arange(40.0), np.arange(40.0)
    zenith.jit(turns)(found, 12)
    turns(plain, 12)
    np.testing.assert_allclose(found, plain, rtol=1e-14)
