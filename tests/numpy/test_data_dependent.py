"""Indices of true elements and sets of values: with ``size=`` in a trace, at once without, against NumPy's answers."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import DTYPES, assert_same, run_traced, values
from zenith.errors import ShapeError, TraceError, UnsupportedError

SIZES = (0, 1, 4, 40)


def filled(found, size, fill):
    """NumPy's answer, cut or filled to a size along its first axis."""
    found = np.asarray(found)[:size]
    rest = np.full((size - len(found), *found.shape[1:]), fill)
    return np.concatenate([found, rest.astype(found.dtype)])


def sparse(dtype, shape, seed=0):
    x = values(dtype, shape, seed)
    x[np.random.default_rng(seed).uniform(size=shape) < 0.5] = 0
    return x


def check_sized(function, expected, *arrays):
    """With ``size=``, recorded and at once, as the ``expected`` arrays with their fills."""
    for size in SIZES:
        wanted = [filled(e, size, fill) for e, fill in expected]
        for found in (run_traced(lambda *xs, n=size: function(*xs, size=n), *arrays), function(*arrays, size=size)):
            for actual, e in zip(found if isinstance(found, (list, tuple)) else [found], wanted, strict=True):
                assert_same(actual, e)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nonzero(dtype):
    for shape in ((7,), (3, 4), (2, 3, 2), (0, 2)):
        x = sparse(dtype, shape, 1)
        check_sized(lambda a, size: znp.nonzero(a, size=size, fill_value=-1), [(p, -1) for p in np.nonzero(x)], x)
        assert all(map(np.array_equal, znp.nonzero(x), np.nonzero(x)))


def test_indices_in_other_forms():
    x = sparse(np.dtype("f4"), (4, 3), 2)
    check_sized(lambda a, size: znp.flatnonzero(a, size=size), [(np.flatnonzero(x), 0)], x)
    check_sized(lambda a, size: znp.argwhere(a, size=size, fill_value=7), [(np.argwhere(x), 7)], x)
    check_sized(lambda a, size: znp.where(a > 0, size=size), [(p, 0) for p in np.where(x > 0)], x)
    rows, columns = np.nonzero(x)
    check_sized(lambda a, size: znp.nonzero(a, size=size, fill_value=(1, 2)), [(rows, 1), (columns, 2)], x)
    assert np.array_equal(znp.argwhere(np.float64(3.0)), np.argwhere(np.float64(3.0)))


def test_elements_where_a_condition_holds():
    x, flags = values(np.dtype("f8"), (4, 5), 3), np.array([True, False, True, True])
    picked = [(np.compress(flags, x, 0), 9)]
    check_sized(lambda c, a, size: znp.compress(c, a, axis=0, size=size, fill_value=9), picked, flags, x)
    check_sized(lambda a, size: znp.extract(a > 0, a, size=size), [(np.extract(x > 0, x), 0)], x)
    check_sized(lambda a, size: znp.compress(a[0] > 0, a, size=size), [(np.compress(x[0] > 0, x), 0)], x)
    assert np.array_equal(run_traced(lambda a: np.compress(flags, a, axis=0), x)[0], x[flags])
    assert np.array_equal(run_traced(lambda a: np.extract(x > 0, a), x)[0], x[x > 0])


def test_counts_for_each_element():
    x, counts = values(np.dtype("f8"), (3, 4), 3), np.array([2, 0, 3, 1])
    assert_same(run_traced(lambda a: np.repeat(a, counts, axis=1), x)[0], np.repeat(x, counts, axis=1))
    assert_same(run_traced(lambda a: np.repeat(a, [2]), x)[0], np.repeat(x, [2]))
    repeated = [(np.repeat(x.T, counts, axis=0), 7)]
    check_sized(lambda a, c, size: znp.repeat(a.T, c, axis=0, size=size, fill_value=7), repeated, x, counts)
    check_sized(lambda a, c, size: znp.repeat(a, c, size=size), [(np.repeat(x, 2), 0)], x, counts[0])
    with pytest.raises(TraceError, match=r"zenith.numpy.repeat\(x, counts, size=n\)"):
        run_traced(lambda a, c: np.repeat(a, c, axis=1), x, counts)


def test_a_size_may_be_one_of_an_argument():
    x = sparse(np.dtype("i4"), (6,), 4)
    (found,) = run_traced(lambda a: znp.flatnonzero(a, size=a.shape[0], fill_value=-1), x)
    assert_same(found, filled(np.flatnonzero(x), 6, -1))


# --- sets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_unique(dtype):
    x = np.concatenate([values(dtype, (9,), 1), values(dtype, (9,), 1)[:4]]).reshape(1, 13)
    found = np.unique(x, return_index=True, return_counts=True)
    expected = [(found[0], found[0][0]), (found[1], 0), (found[2], 0)]
    check_sized(lambda a, size: znp.unique(a, return_index=True, return_counts=True, size=size), expected, x)
    inverse = run_traced(lambda a: znp.unique(a, return_inverse=True, size=20)[1], x)[0]
    assert_same(inverse, np.unique(x, return_inverse=True)[1])


@pytest.mark.parametrize("dtype", ["f8", "i4", "u1", "?", "c8"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_different_slices(dtype, axis):
    x = np.random.default_rng(3).integers(0, 2, (5, 4, 2)).astype(dtype)
    options = {"return_index": True, "return_inverse": True, "return_counts": True, "axis": axis}
    values, *others = np.unique(x, **options)
    count = len(others[2])
    for size in (count, count + 2, 2):
        present = min(size, count)
        more = [np.take(values, [0] * (size - present), axis)] if size > present else []
        filled_values = np.concatenate([np.take(values, range(present), axis), *more], axis)
        expected = [filled_values, filled(others[0], size, 0), others[1], filled(others[2], size, 0)]
        for found in (
            znp.unique(x, size=size, **options),
            *[run_traced(lambda a, n=size: znp.unique(a, size=n, **options), x, symbolic=s) for s in (False, True)],
        ):
            for actual, e in zip(found, expected, strict=True):
                assert_same(actual, e)


def test_slices_with_nan_and_without_elements():
    x = np.array([[np.nan, 1.0], [0.0, 2.0], [np.nan, 1.0], [0.0, 2.0]])
    assert_same(znp.unique(x, axis=0, size=3), np.unique(x, axis=0))
    assert_same(run_traced(lambda a: znp.unique(a, axis=0, size=4, fill_value=7), x)[0][3], np.array([7.0, 7.0]))
    assert znp.unique(np.ones((3, 0)), axis=0, size=1, return_counts=True)[1].tolist() == [3]


def test_nan_is_one_value_or_many():
    x = np.array([np.nan, 1.0, np.nan, -np.inf, 1.0])
    for equal in (True, False):
        wanted = filled(np.unique(x, equal_nan=equal), 6, 5.0)
        assert_same(run_traced(lambda a, e=equal: znp.unique(a, equal_nan=e, size=6, fill_value=5), x)[0], wanted)


def test_the_standards_functions():
    x = np.array([[2, 5, 2], [1, 5, 2]])
    for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        expected = getattr(np, name)(x)
        expected = expected if isinstance(expected, tuple) else (np.sort(expected),)
        for found in (run_traced(lambda a, f=name: getattr(znp, f)(a, size=3), x), getattr(znp, name)(x)):
            for actual, e in zip(found if isinstance(found, (list, tuple)) else [found], expected, strict=True):
                assert_same(actual, e)
    assert run_traced(lambda a: znp.unique_counts(a, size=4).counts, x)[0].tolist() == [1, 3, 2, 0]


@pytest.mark.parametrize("name", ["union1d", "intersect1d", "setdiff1d", "setxor1d"])
def test_set_operations(name):
    for dtype in (np.dtype("i8"), np.dtype("f4")):
        x, y = values(dtype, (3, 4), 1).round(), values(np.dtype("i4"), (9,), 2)
        expected = getattr(np, name)(x, y)
        function = getattr(znp, name)
        check_sized(lambda a, b, size, f=function: f(a, b, size=size, fill_value=99), [(expected, 99)], x, y)
        assert np.array_equal(function(x, y), expected)


def test_membership():
    x, y = values(np.dtype("i4"), (3, 4), 1), values(np.dtype("f8"), (5,), 2).round()
    for invert in (False, True):
        assert_same(run_traced(lambda a, b, i=invert: np.isin(a, b, invert=i), x, y)[0], np.isin(x, y, invert=invert))
    assert_same(znp.isin(x, []), np.isin(x, []))


FIRST, SECOND = np.array([4, 4, 1, 2, 1]), np.array([1, 9, 9, 4])
COMPUTED = {
    "nonzero": (np.nonzero, (FIRST.reshape(5, 1) - 1,)),
    "flatnonzero": (np.flatnonzero, (FIRST - 4,)),
    "argwhere": (np.argwhere, (FIRST.reshape(5, 1) - 1,)),
    "where": (lambda a: np.where(a > 1), (FIRST,)),
    "compress": (lambda a: np.compress(a > 1, a), (FIRST,)),
    "extract": (lambda a: np.extract(a > 1, a), (FIRST,)),
    "unique": (np.unique, (np.array([2.0, np.nan, 1.0, 2.0, np.nan]),)),
    "no values": (np.unique, (np.zeros(0),)),
    "unique with all": (lambda a: np.unique(a, True, True, True), (FIRST,)),
    "unique_values": (znp.unique_values, (FIRST,)),
    "unique rows": (lambda a: np.unique(a, axis=0), (np.array([[1, 2], [0, 1], [1, 2]]),)),
    "union1d": (np.union1d, (FIRST, SECOND)),
    "intersect1d": (np.intersect1d, (FIRST, SECOND)),
    "setxor1d": (np.setxor1d, (FIRST, SECOND)),
    "setdiff1d": (np.setdiff1d, (FIRST, SECOND)),
    "in their order": (lambda a, b: np.setdiff1d(a, b, True), (FIRST, SECOND)),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_the_program_computes_how_many_there_are(name):
    function, args = COMPUTED[name]
    found, expected = zenith.jit(function)(*args), function(*args)
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
        assert_same(a, b)


def test_on_a_gpu_the_size_is_given():
    with pytest.raises(TraceError, match=r"nonzero: the size of its result (.|\n)*zenith.numpy.nonzero\(x, size=n\)"):
        run_traced(np.nonzero, FIRST)


def test_what_is_refused():
    x = np.array([1.0, 2.0])
    with pytest.raises(TraceError, match="where needs both choices or none"):
        znp.where(x, x)
    with pytest.raises(ShapeError, match="nonzero needs an array with axes"):
        znp.nonzero(np.float64(1))
    with pytest.raises(ShapeError, match="compress: the condition is longer than the axis"):
        znp.compress([True] * 3, x)
    with pytest.raises(UnsupportedError, match="intersect1d with return_indices="):
        znp.intersect1d(x, x, return_indices=True, size=2)
