"""What a mask selects and is then written, slices that are written with their own elements, and what sizes answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zenith
from zenith.errors import CheckError, OutOfBoundsError
from zenith.trace.size_relations import VaryingSize

X, Y = np.array([1.0, -2, 3, 4, -5, 6, 13]), np.array([1.0, 2, -2, -3, 5, 1, 7])


def an_element(x):
    y = x[x > 0]
    y[0] = 50.0
    return y.sum(), y.max(), np.sqrt(y), y + 1, np.sum(y)


def all_of_them_after_a_count(x):
    y = x[x > 0]
    n = len(y)
    y *= 2
    return y, n


def sorted_in_place(x):
    y = x[x > 0]
    y.sort()
    return y * 2, y.copy(), y.astype(int)


def under_a_view(x):
    y = x[x > 0]
    z = y[1:]
    y *= 2
    z += 1
    return z, y.mean()


def a_slice(x):
    y = x[x > 0]
    y[1:] += 3
    return y.sum()


def of_what_was_picked(x):
    y = x[x > 0]
    z = y[y > 0.5]
    z[...] = 1
    return z.sum(), y.sum()


def in_a_loop(x):
    y = x[x > 0]
    for i in range(3):
        y[i] = y[i] * 2
    return y.sum()


def back(x):
    mask = x > 0
    y = x[mask]
    y.sort()
    x = x * 1
    x[mask] = y
    return x


def back_after_a_count(x):
    mask = x > 0
    y = x[mask]
    n = len(y)
    x = x * 1
    x[mask] = y - y.sum() / n
    return x


def back_in_rows(x):
    rows = x * np.ones((3, 1))
    mask = rows[0] > 0
    y = rows[:, mask]
    y[0, 0] = 4
    rows[:, mask] = y
    return rows, y.sum()


def beside_another(x):
    y = x[x > 0]
    z = x[x > 0]
    y[0] = 4.0
    return y + z, z - y


def with_numbers(x):
    y = x[x > 0]
    y += np.arange(len(y))
    return y.mean(), y


def reversed_prefix(x):
    a = np.cumsum(x)
    a[:4] = a[:4][::-1]
    return a


def permuted_prefix(x):
    a = np.cumsum(x)
    a[:4] = a[:4][np.array([3, 1, 0, 2])]
    return a


def transposed_corner(x):
    a = np.cumsum(np.outer(x, x), 0)
    a[:4, :4] = a[:4, :4].T
    return a


def reversed_prefixes(x):
    a = x * 2.0
    for i in range(1, len(a)):
        a[:i] = a[:i][::-1]
    return a


def copied_prefixes(x):
    a = x * 2.0
    for i in range(1, len(a)):
        a[:i] = a[:i][::-1].copy() + 1
    return a


def unsigned_bounds(x):
    t = 0.0
    for i in range(len(x)):
        j = np.asarray(i).astype(np.uint32)
        t = t + x[j - np.uint32(3) :].sum() + x[: np.asarray(i * 40).astype(np.uint8)].sum()
    return t


def many_loops(x):
    t = 0.0
    for r in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10):
        for i in range(len(x)):
            t += x[:i].sum() * r
    return t


def sorted_back(x):
    x = x.copy()
    x[x > 0] = np.sort(x[x > 0])[::-1]
    return x


def sorted_back_in_a_table(x):
    a = np.outer(x, x + 1)
    mask = a > 0
    a[mask] = np.sort(a[mask])
    rows = x > 0
    a[rows] = a[rows][::-1]
    a[:, rows] = a[:, rows] * 2 + np.sort(a[:, rows], 1)
    return a


def the_middle_one(x):
    a = np.sort(x[x > 0])
    n = len(a)
    return a[n // 2] if n else 0.0


def if_there_is_one(x):
    a = x[x > 3]
    if not len(a):
        return -1.0
    return a.sum()


def as_many_as_both(x):
    a, b = x[x > 0], x[x < 3]
    n = min(len(a), len(b))
    return a[:n] + b[:n]


def first_of_a_view(x):
    y = x[x > 0]
    z = y[1:]
    z[0] = 1
    return y


def in_a_branch(x):
    y = x[x > 0]
    y.sort()
    if x[0] > 0:
        y[0] = 9.0
    return y


FUNCTIONS = [
    an_element, all_of_them_after_a_count, sorted_in_place, under_a_view, a_slice, of_what_was_picked, in_a_loop, back,
    back_after_a_count, back_in_rows, beside_another, with_numbers, reversed_prefix, permuted_prefix, transposed_corner,
    reversed_prefixes, copied_prefixes, unsigned_bounds, many_loops, sorted_back, sorted_back_in_a_table,
    the_middle_one, if_there_is_one, as_many_as_both, first_of_a_view, in_a_branch,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_writes_reach_what_is_read(function):
    compiled = zenith.jit(function)
    for x in (X, Y):
        found, expected = compiled(x), function(x.copy())
        pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
        for one, other in pairs:
            assert np.shape(one) == np.shape(other)
            np.testing.assert_allclose(one, other, 1e-12, 1e-12)


def test_a_question_about_two_counts_does_not_make_them_equal():
    def equal(x, y):
        return 1.0 if len(x[x > 0]) == len(y[y > 0]) else 2.0

    def different(x, y):
        return 1.0 if len(x[x > 0]) != len(y[y > 0]) else 2.0

    for function in (equal, different):
        compiled = zenith.jit(function)
        for pair in ((X, Y), (X, -Y), (X, X + 0.5)):
            assert compiled(*pair) == function(*pair)


@pytest.mark.parametrize("loops", range(12))
def test_counts_that_must_be_equal_are_compared(loops):
    """However many sizes the program has: names of two and of three letters do not sort as they are made."""

    def added(x, y):
        t = 0.0
        for _ in (0,) * loops:
            for i in range(len(x)):
                t += x[:i].sum()
        return x[x > 0][::-1] + y[y > 0][::-1] + t

    compiled = zenith.jit(added)
    np.testing.assert_allclose(compiled(X, X + 0.5), added(X, X + 0.5))
    for pair in ((X, -Y), (-Y, X)):
        with pytest.raises(CheckError, match="different sizes"):
            compiled(*pair)


def test_values_written_under_a_mask_are_counted():
    """NumPy writes one value, or as many as the mask selects, in order."""

    def write(x, values):
        x = x.copy()
        x[x > 0] = values
        return x

    compiled = zenith.jit(write)
    for values in (np.arange(5.0), np.arange(1.0), 7.0):
        np.testing.assert_array_equal(compiled(X, values), write(X, values))
    for values in (np.arange(4.0), np.arange(6.0)):
        with pytest.raises(CheckError, match="not as many"):
            compiled(X, values)


def test_many_computed_sizes_are_planned_at_once():
    """The bodies of computed sizes lie in one another; a plan of ten took minutes where each was searched for each."""

    def tenfold(x):
        t = 0.0
        for c in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
            t += x[x > c][::-1][:1].sum()
        return t

    x = np.linspace(0, 1, 50)
    assert zenith.jit(tenfold)(x) == tenfold(x)


@pytest.mark.parametrize("asked", ["abs(len(y) - 2)", "8 // len(y)", "8 % len(y)", "int(len(y) > 2)"])
def test_what_a_branch_demands_of_a_size_holds_within_it(asked, tmp_path):
    """Refused or right: a size that is asked about in a branch that is not taken is no error of the call."""
    path = tmp_path / "asks.py"
    path.write_text(
        "def asks(x, v, k):\n    y = x[x > 0.25]\n    r = 0.25\n"
        f"    if k > 3:\n        r = y[k % 2] + {asked}\n    v -= 0.5\n    return r\n",
        encoding="utf-8",
    )
    scope: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    compiled = zenith.jit(scope["asks"])
    for x, k in ((X, 5), (X, 2), (-X, 2), (0 * X, 2), (np.ones(9), 5)):
        v = Y.copy()
        try:
            found = compiled(x, v, np.int64(k))
        except VaryingSize:
            np.testing.assert_array_equal(v, Y)
            continue
        assert found == scope["asks"](x, Y.copy(), k)
        np.testing.assert_array_equal(v, Y - 0.5)


def test_an_index_that_no_selection_has_is_refused():
    def beyond(x):
        return x[x > 0][len(x)]

    with pytest.raises(OutOfBoundsError, match="does not hold"):
        zenith.jit(beyond)(X)


def test_a_size_that_a_loop_leaves_in_a_name_is_not_read_after_it():
    def left(x, n):
        s = 0.0
        if n > 2:
            for i in range(n):
                if x[i] > 5.0:
                    return s
                m = len(x[x > x[i]]) % 3
                s += m
        m = n + 1
        if s > 1.0:
            s -= m
        return s

    for n in (2, 9):
        assert zenith.jit(left)(X, n) == left(X, n)


def divided_by_their_number(x, v, k):
    y = x[x > 0.25]
    r = y[k % len(y)] if len(y) else 0.25
    if len(y):
        r += v[: 8 // len(y)].sum() + (k % len(y)) + v[3 % len(y)]
    return r


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_branch_that_asks_whether_there_are_elements_knows_that_there_are(backend):
    compiled = zenith.jit(divided_by_their_number, backend=backend)
    for x in (X, 0 * X, -X, np.ones(5)):
        for k in (np.int64(5), 3):
            assert compiled(x, Y, k) == divided_by_their_number(x, Y, k)
    assert compiled.cache_info().misses == 2


def an_element_unless_there_are_three(x):
    y = x[x > 0.25]
    return y[3] if len(y) - 3 else 0.5


def the_last_unless_there_are_three(x):
    y = x[x > 0.25]
    return y[-4:].sum() if len(y) - 3 else 0.5


@pytest.mark.parametrize("function", [an_element_unless_there_are_three, the_last_unless_there_are_three])
def test_a_number_that_is_not_zero_may_be_negative(function):
    compiled = zenith.jit(function)
    for x in (X, np.array([1.0, 2, 3]), np.array([1.0, 0, 0, 0, 0])):
        try:
            expected = function(x)
        except IndexError:
            with pytest.raises(OutOfBoundsError):
                compiled(x)
            continue
        assert compiled(x) == expected
