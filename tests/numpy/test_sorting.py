"""Sorting against NumPy's stable sort: element types, axes, sizes around powers of two, ties, nan, zeros."""

import numpy as np
import pytest

import zenith
from tests.numpy.comparison import DTYPES, check, run_traced, values
from zenith.errors import ShapeError, UnsupportedError


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_and_axis(dtype):
    x = values(dtype, (3, 4, 5), 7)
    for axis in (None, 0, 1, -1):
        check(lambda xp, a, axis=axis: xp.sort(a, axis=axis, kind="stable"), x)
        check(lambda xp, a, axis=axis: xp.argsort(a, axis=axis, kind="stable"), x)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 9, 64, 100, 1023, 1025])
def test_sizes(size):
    x = np.random.default_rng(size).integers(0, 50, (2, size))  # many ties
    check(lambda xp, a: xp.argsort(a, kind="stable"), x)


def test_nan_comes_last_and_zeros_keep_their_order():
    x = np.array([np.nan, 0.0, -np.inf, -0.0, np.nan, np.inf, 0.0, -1.0])
    check(lambda xp, a: xp.argsort(a, kind="stable"), x)
    (found,) = run_traced(np.sort, x)
    assert np.signbit(found).tolist() == [True, True, False, True, False, False, False, False]


def test_sorted_rows_of_many_sizes_are_one_program():
    sort = zenith.jit(lambda x: np.sort(x * 2.0, axis=0))
    for n, m in ((5, 3), (1, 1), (100, 2), (0, 4)):
        x = np.random.default_rng(n).standard_normal((n, m))
        assert np.array_equal(sort(x), np.sort(2.0 * x, axis=0))
    assert sort.cache_info().misses == 1


def test_the_method_and_what_reads_it():
    x = np.array([[3.0, 1.0, 2.0], [1.0, 5.0, 0.0]])
    assert zenith.jit(lambda a: a.argsort(axis=1)[:, ::-1] + 1)(x).tolist() == [[1, 3, 2], [2, 1, 3]]


def test_a_size_may_have_the_name_of_a_variable_of_the_kernel():
    struct = zenith.ShapeDtypeStruct(("width", "count"), np.float32)
    compiled = zenith.jit(np.argsort).lower(struct).compile()
    x = np.array([[2, 1, 3], [3, 2, 1]], np.float32)
    assert compiled(x).tolist() == [[1, 0, 2], [2, 1, 0]]


def test_what_is_refused():
    with pytest.raises(ShapeError, match="sort: axis 1 is out of bounds for an array of 1 axes"):
        run_traced(lambda a: np.sort(a, axis=1), np.zeros(3))
    with pytest.raises(ShapeError, match="out of bounds for an array of 0 axes"):
        run_traced(np.argsort, np.float64(1.0))
    with pytest.raises(UnsupportedError, match="sort: order= is for arrays with fields"):
        run_traced(lambda a: np.sort(a, order="x"), np.zeros(3))
