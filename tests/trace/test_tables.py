"""Arrays that a function reads from elsewhere: a copy is the program's own to index and to write."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from zenith.errors import TraceError

TABLE = np.arange(24.0).reshape(2, 3, 4)
INDICES = np.array([0, 2])


def reference(function):
    return zenith.jit(function, backend="reference")


@pytest.mark.parametrize("make", [znp.asarray, znp.array, znp.copy, znp.asanyarray, lambda t: znp.asarray(t.tolist())])
@pytest.mark.parametrize(
    ("pick", "given"),
    [
        (lambda t, i: t[i], (1,)),
        (lambda t, i: t[:, i], (1,)),
        (lambda t, i, j: t[i, j], (1, 2)),
        (lambda t, i, j: t[i, j, i + 1], (1, np.array([[2, 0], [1, 1]]))),
        (lambda t, i: t[[0, 1], i], (INDICES,)),
        (lambda t, i: t[..., i], (INDICES,)),
    ],
)
def test_a_table_is_indexed_by_what_is_traced(make, pick, given):
    found = reference(lambda *indices: pick(make(TABLE), *indices))(*given)
    np.testing.assert_array_equal(found, pick(TABLE, *given), strict=True)


def test_a_copy_is_written_and_the_table_is_not():
    before = TABLE.copy()

    @reference
    def f(i, x):
        first, second, third = znp.array(TABLE), znp.copy(TABLE), znp.array([1.0, 2.0, 3.0])
        first[i] = x
        second[0] += first[1]
        third[0] = x
        total = znp.array(0.0)
        total += x
        total += x
        return first, second, third, total

    first, second, third, total = f(1, 9.0)
    assert (first[1] == 9).all() and (first[0] == TABLE[0]).all() and (second[0] == TABLE[0] + 9).all()
    assert third.tolist() == [9, 2, 3] and total == 18
    np.testing.assert_array_equal(before, TABLE)


def test_what_is_the_table_itself_cannot_be_written():
    def f(x):
        t = znp.asarray(TABLE)
        t[0] = x
        return t

    with pytest.raises(TraceError, match="read-only"):
        reference(f)(1.0)
    assert TABLE[0, 0, 0] == 0


def test_a_list_makes_an_array_of_its_own():
    def f(x):
        t = znp.asarray([1.0, 2.0])
        t[0] = x
        return t

    assert reference(f)(5.0).tolist() == [5, 2]


def test_tables_have_derivatives_in_bodies_and_outside_of_traces():
    def f(i, x):
        t = znp.array(TABLE)
        t[0, 0, 0] = x
        return zenith.fori_loop(0, 2, lambda k, c: c + znp.asarray(TABLE)[i, k, k] * t[0, 0, 0], x * 0)

    assert reference(zenith.grad(f, argnums=1))(1, 2.0) == TABLE[1, 0, 0] + TABLE[1, 1, 1]
    assert zenith.grad(f, argnums=1)(1, 2.0) == TABLE[1, 0, 0] + TABLE[1, 1, 1]
    made = znp.array(TABLE)
    made[0] = 5
    assert TABLE[0, 0, 0] == 0 and znp.asarray(TABLE) is TABLE
