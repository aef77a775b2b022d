"""Grids, coordinates, triangles, and arrays with slices put in or taken out, against NumPy."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import DTYPES, assert_same, check, run_traced, values
from zenith.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError, TraceError

F8 = np.dtype("f8")


@pytest.mark.parametrize("order", ["C", "F"])
def test_positions_and_coordinates(order):
    x = np.random.default_rng(0).integers(0, 24, (3, 5))
    check(lambda xp, i: xp.unravel_index(i, (2, 3, 4), order=order), x)
    check(lambda xp, i: xp.unravel_index(i, (24,), order), x.astype(np.int32))
    check(lambda xp, i, j: xp.ravel_multi_index((i, j), (24, 30), order=order), x, x[0])
    check(lambda xp, i, j: xp.ravel_multi_index((i, j), (4, 5), ("wrap", "clip"), order), x - 9, x - 3)


def test_coordinates_in_an_array_of_symbolic_sizes():
    x = values(F8, (3, 4), 1)
    check(lambda xp, a: xp.unravel_index(xp.argmax(a), a.shape), x)
    check(lambda xp, a: xp.ravel_multi_index(xp.unravel_index(xp.argmin(a), a.shape), a.shape), x)


def test_grids():
    assert_same(znp.indices((2, 3)), np.indices((2, 3)))
    assert all(map(np.array_equal, znp.indices((2, 3), sparse=True), np.indices((2, 3), sparse=True)))
    assert_same(znp.fromfunction(lambda i, j: i * 2 + j, (3, 2)), np.fromfunction(lambda i, j: i * 2 + j, (3, 2)))


def test_grids_of_symbolic_sizes():
    x = values(F8, (3, 4), 2)
    sizes = lambda a: (a.shape[0], a.shape[1])  # noqa: E731
    assert_same(run_traced(lambda a: znp.indices(sizes(a)), x)[0], np.indices((3, 4)))
    assert_same(
        run_traced(lambda a: a[: a.shape[0], : a.shape[0]][znp.diag_indices(a.shape[0])], x)[0], x[:, :3].diagonal()
    )


def test_index_grids_of_arguments():
    i, x = np.array([2, 0]), values(F8, (3, 4), 3)
    check(lambda xp, a, k: a[xp.ix_(k, [0, 3, 3])], x, i)
    check(lambda xp, a, k: a[xp.ix_(k, np.array([True, False, True, True]))], x, i)
    computed = zenith.jit(lambda a: a[np.ix_(a[:, 0] > 0, [1])])(x)
    np.testing.assert_array_equal(computed, x[np.ix_(x[:, 0] > 0, [1])])
    with pytest.raises(ShapeError, match="ix_ needs rows of indices"):
        znp.ix_(x)


def test_triangles_and_diagonals():
    x = values(F8, (4, 4), 4)
    check(lambda xp, a: a[xp.tril_indices_from(a)], x)
    check(lambda xp, a: (a[xp.triu_indices_from(a, 1)], a[xp.tril_indices_from(a, -1)], a[xp.diag_indices_from(a)]), x)
    for name in ("tril_indices", "triu_indices"):
        assert all(map(np.array_equal, getattr(znp, name)(3, 1, 4), getattr(np, name)(3, 1, 4)))
    assert all(map(np.array_equal, znp.mask_indices(3, np.triu, 1), np.mask_indices(3, np.triu, 1)))
    with pytest.raises(ShapeError, match="tril_indices_from needs an array of two axes"):
        znp.tril_indices_from(np.zeros(3))


def test_indices_out_of_bounds():
    with pytest.raises(ArgumentError, match="unravel_index: a position lies outside of 6 elements"):
        znp.unravel_index([6], (2, 3))
    with pytest.raises(ArgumentError, match="a coordinate lies outside of an axis of size 2"):
        znp.ravel_multi_index(([2], [0]), (2, 3))
    with pytest.raises(ArgumentError, match="'bounce' is no mode"):
        znp.ravel_multi_index(([1], [0]), (2, 3), mode="bounce")
    with pytest.raises(ArgumentError, match="'K' is no order"):
        znp.unravel_index([1], (2, 3), order="K")
    with pytest.raises(DTypeError, match="unravel_index needs integers"):
        run_traced(lambda a: np.unravel_index(a, (2, 3)), np.zeros(2))
    with pytest.raises(ShapeError, match="coordinates for each of 2 axes"):
        znp.ravel_multi_index(([1],), (2, 3))


# --- slices put in and taken out -------------------------------------------------------------------------------


INDICES = (0, 2, -1, np.int64(1), [0], [1, 1, 3], [-1, 0], [], slice(1, 3), slice(None, None, 2), slice(3, 0, -1))


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_deletions(index):
    for axis in (None, 0, 1):
        check(lambda xp, a, axis=axis: xp.delete(a, index, axis=axis), values(F8, (4, 5), 1))


def test_deletions_by_masks_and_of_every_type():
    mask = np.array([True, False, True, False])
    for dtype in DTYPES:
        check(lambda xp, a: (xp.delete(a, mask, 0), xp.delete(a, 1)), values(dtype, (4, 3), 2))


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_insertions(index):
    x = values(np.dtype("i4"), (4, 5), 3)
    for axis in (None, 0, 1):
        check(lambda xp, a, axis=axis: xp.insert(a, index, 7.6, axis=axis), x)
    if isinstance(index, (int, np.integer)):
        check(lambda xp, a: (xp.insert(a, index, a[0], axis=0), xp.insert(a, index, a[:, 0], axis=1)), x)


def test_insertions_of_several_slices():
    x = values(F8, (4, 5), 4)
    check(lambda xp, a: xp.insert(a, [1, 3], a[:2], axis=0), x)
    check(lambda xp, a: xp.insert(a, 4, [1, 2, 3]), x)
    check(lambda xp, a: (xp.append(a, [1, 2]), xp.append(a, a[:1], axis=0)), x)


def test_one_index_that_the_program_computes():
    x = values(F8, (4, 5), 5)
    for at in (0, 2, -1, 4):
        index = np.array(at)
        assert_same(run_traced(lambda a, i: np.insert(a, i, 9.0, axis=1), x, index)[0], np.insert(x, at, 9.0, axis=1))
        if at < 4:
            assert_same(run_traced(lambda a, i: np.delete(a, i, axis=0), x, index)[0], np.delete(x, at, axis=0))


def test_repeating_to_a_shape():
    x = values(np.dtype("i8"), (2, 3), 6)
    check(lambda xp, a: (xp.resize(a, (4, 4)), xp.resize(a, 2), xp.resize(a[:0], (2, 2))), x)


def test_what_is_refused():
    x = np.arange(4.0)
    for function in (np.delete, lambda a, i: np.insert(a, i, 0)):
        with pytest.raises(TraceError, match="at several indices needs them to be known"):
            run_traced(lambda a, f=function: f(a, a[:2].astype(int)), x)
        with pytest.raises(OutOfBoundsError, match="out of bounds for an axis of size"):
            run_traced(lambda a, f=function: f(a, 5), x)
        with pytest.raises(OutOfBoundsError, match="out of bounds for an axis of size 4"):
            run_traced(lambda a, f=function: f(a, [0, -5]), x)
    with pytest.raises(DTypeError, match="delete needs integers"):
        znp.delete(x, [0.5])
