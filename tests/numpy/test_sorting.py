"""Sorting against NumPy's stable sort: element types, axes, sizes around powers of two, ties, nan, zeros."""

import numpy as np
import pytest

import zenith
from tests.numpy.comparison import DTYPES, check, run_traced, values
from tests.sampling import leave
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


@pytest.mark.parametrize("dtype", leave(DTYPES[1::2], DTYPES), ids=str)
def test_descending_is_stable_and_has_nan_first(dtype):
    x = values(dtype, (3, 40), 7)
    if x.dtype.kind in "fc":
        x[:, ::9], x[:, 1::9], x[:, 2::9] = np.nan, 0.0, -0.0
    indices = zenith.jit(lambda a: zenith.numpy.argsort(a, descending=True))(x)
    mirrored = np.argsort(np.asarray(x, np.result_type(x, np.float64))[:, ::-1], axis=1, kind="stable")[:, ::-1]
    assert np.array_equal(indices, 39 - mirrored)
    found = zenith.jit(lambda a: zenith.numpy.sort(a, descending=True))(x)
    assert found.tobytes() == np.take_along_axis(x, indices, 1).tobytes()


def test_long_rows_of_every_pattern():
    """Rows whose sort is split, on any number of threads: the bits are those of NumPy's stable sort."""
    rng = np.random.default_rng(3)
    rows = [rng.standard_normal(70_001), np.round(rng.standard_normal(70_001)), np.arange(70_001.0)[::-1]]
    rows[0][::1000], rows[0][1::1000], rows[0][2::1000] = np.nan, -np.nan, -np.inf
    rows[1][::50] = -0.0
    x = np.stack([*rows, np.zeros(70_001)])
    both = zenith.jit(lambda a: (np.sort(a, axis=1), np.argsort(a, axis=1)))
    values, indices = both(x)
    assert values.tobytes() == np.sort(x, axis=1, kind="stable").tobytes()
    assert np.array_equal(indices, np.argsort(x, axis=1, kind="stable"))


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


def test_chosen_by_order():
    x = values(np.dtype(np.float32), (3, 4, 5), 7)
    for axis in (None, 0, 1, -1):
        check(lambda xp, a, axis=axis: np.take(xp.partition(a, 2, axis=axis), 2, axis=axis or 0), x)
        indices = zenith.jit(lambda a, axis=axis: np.argpartition(a, (1, -1), axis=axis))(x)
        assert np.array_equal(indices, np.argsort(x, axis=axis, kind="stable"))
    keys = np.random.default_rng(0).integers(0, 3, (3, 2, 9))
    for axis in (0, 1, -1):
        check(lambda xp, a, axis=axis: xp.lexsort((a[0], a[1], a[2]), axis=axis), keys)


@pytest.mark.parametrize("largest", [True, False])
def test_top_k(largest):
    x = values(np.dtype(np.float64), (6, 5), 7)
    x[::2, 1], x[1, 1] = np.nan, x[3, 1]
    for axis in (0, 1):
        order = zenith.numpy.argsort(x, axis=axis, descending=largest)
        for k in (0, 1, 3, 5):
            found, indices = zenith.jit(lambda a, axis=axis, k=k: zenith.numpy.top_k(a, k, axis, largest))(x)
            assert np.array_equal(indices, np.take(order, range(k), axis))
            assert np.array_equal(found, np.take_along_axis(x, indices, axis), equal_nan=True)
    half = zenith.jit(lambda a: zenith.numpy.top_k(a, a.shape[0] // 2, 0, largest)[0])
    assert half(x).shape == (3, 5) and half(x[:5]).shape == (2, 5) and half.cache_info().misses == 1


def test_gradients_go_where_the_elements_came_from():
    x = np.array([3.0, 1.0, 2.0, 1.0])
    weights = np.array([1.0, 10.0, 100.0, 1000.0])
    assert zenith.grad(lambda a: (np.sort(a) * weights).sum())(x).tolist() == [1000.0, 1.0, 100.0, 10.0]
    assert zenith.grad(lambda a: zenith.numpy.top_k(a, 2)[0].sum())(x).tolist() == [1.0, 0.0, 1.0, 0.0]
    assert zenith.grad(lambda a: (np.argsort(a) * 2.0).sum() + a.sum())(x).tolist() == [1.0] * 4


def test_what_is_refused():
    with pytest.raises(ShapeError, match=r"partition: the index 3 must be on an axis of size s0_0"):
        run_traced(lambda a: np.partition(a, 3), np.zeros(3))
    with pytest.raises(ShapeError, match=r"argpartition: the index -4 must be on an axis of size s0_0"):
        run_traced(lambda a: np.argpartition(a, -4), np.zeros(3))
    with pytest.raises(ShapeError, match="top_k: 4 elements must be on an axis of size s0_0"):
        run_traced(lambda a: zenith.numpy.top_k(a, 4), np.zeros(3))
    with pytest.raises(ShapeError, match="top_k: k -1 is negative"):
        run_traced(lambda a: zenith.numpy.top_k(a, -1), np.zeros(3))
    with pytest.raises(ShapeError, match="lexsort needs at least one key"):
        run_traced(lambda a: zenith.numpy.lexsort(()) + a, np.zeros(3))
    with pytest.raises(ShapeError, match="lexsort: keys have one shape"):
        run_traced(lambda a: np.lexsort((a, a[:2])), np.zeros(3))
    with pytest.raises(ShapeError, match="sort: axis 1 is out of bounds for an array of 1 axes"):
        run_traced(lambda a: np.sort(a, axis=1), np.zeros(3))
    with pytest.raises(ShapeError, match="out of bounds for an array of 0 axes"):
        run_traced(np.argsort, np.float64(1.0))
    with pytest.raises(UnsupportedError, match="sort: order= is for arrays with fields"):
        run_traced(lambda a: np.sort(a, order="x"), np.zeros(3))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint16, np.int32, np.float32, np.complex64, np.complex128])
def test_sorted_as_complex_numbers(dtype):
    parts = np.random.default_rng(0).integers(0, 3, (2, 3, 9))
    x = parts[0] + (1j * parts[1] if np.dtype(dtype).kind == "c" else 0)
    check(lambda xp, x: xp.sort_complex(x), x.astype(dtype))
