"""Methods of ufuncs that are loops over an axis: reduce, accumulate and reduceat of every ufunc of two operands."""

import warnings

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import check, run_traced
from zenith.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError
from zenith.ir.types import INTEGERS as INTEGER_TYPES

INTEGERS = np.array([[12, -18, 30], [8, 4, -6], [5, 10, 15]])
FLOATS = np.array([[1.5, -2.0, 3.0], [0.25, 4.0, 1.0], [2.0, 0.5, -1.0], [1.0, 3.0, 0.75]])
OF_INTEGERS = [
    np.gcd, np.lcm, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.subtract, np.floor_divide, np.remainder,
]  # fmt: skip
OF_FLOATS = [  # not arctan2 and power, whose vectorized loops of NumPy 2 skip elements when they reduce
    np.subtract, np.divide, np.hypot, np.fmax, np.fmin, np.copysign, np.fmod, np.logaddexp, np.logaddexp2,
    np.logical_xor, np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logical_or,
]  # fmt: skip
CASES = [(f, INTEGERS) for f in OF_INTEGERS] + [(f, FLOATS) for f in OF_FLOATS]


@pytest.fixture(autouse=True)
def _without_warnings():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(("ufunc", "x"), CASES, ids=[f"{f.__name__}-{x.dtype}" for f, x in CASES])
def test_every_ufunc_of_two_operands(ufunc, x):
    check(lambda xp, a: [ufunc.reduce(a), ufunc.reduce(a, axis=1, keepdims=True), ufunc.reduce(a[0])], x, ulps=8)
    check(lambda xp, a: [ufunc.accumulate(a), ufunc.accumulate(a, axis=1)], x, ulps=8)
    check(lambda xp, a: [ufunc.reduceat(a, [0, 2, 1]), ufunc.reduceat(a, [1, 0], axis=1)], x, ulps=8)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.bool_, np.float16, np.float32], ids=lambda d: d.__name__)
def test_element_types(dtype):
    x = (np.arange(6) % 3).astype(dtype)
    check(lambda xp, a: [np.add.reduceat(a, [0, 3]), np.multiply.reduceat(a, [0, 3]), np.maximum.reduceat(a, [1])], x)
    check(lambda xp, a: np.subtract.reduce(a, dtype=np.float64), x)


def test_sums_of_segments_are_one_program_for_all_sizes_and_indices():
    @zenith.jit
    def sums(x, firsts):
        return np.add.reduceat(x, firsts)

    rng = np.random.default_rng(0)
    for n, count in ((20, 4), (1000, 30), (7, 1)):
        x, firsts = rng.standard_normal(n), np.sort(rng.integers(0, n, count))
        np.testing.assert_allclose(sums(x, firsts), np.add.reduceat(x, firsts), rtol=1e-12)
    assert sums.cache_info().misses == 1


def test_masks_initial_values_and_several_axes():
    x, mask = INTEGERS, INTEGERS > 6
    check(lambda xp, a: [np.gcd.reduce(a, axis=None), np.gcd.reduce(a, axis=(0, 1), where=mask)], x)
    check(lambda xp, a: [np.subtract.reduce(a, initial=100), np.hypot.reduce(a[:, 0], initial=3.0)], x, ulps=4)
    check(lambda xp, a: np.fmax.reduce(a, where=mask, initial=-1), x)


@pytest.mark.parametrize("dtype", [t.numpy for t in INTEGER_TYPES], ids=str)
def test_bits_of_every_type(dtype):
    x = np.array([[6, 3], [7, 127]], dtype)
    check(lambda xp, a: [np.bitwise_and.reduce(a), np.bitwise_and.reduce(a, where=a > 3), np.gcd.reduce(a[:, 0])], x)


def test_indices_alone_may_be_traced():
    table = np.arange(10.0)
    sums = zenith.jit(lambda i: np.add.reduceat(table, i))
    np.testing.assert_allclose(sums(np.array([0, 4, 9])), [6, 30, 9])
    check(lambda xp, a: np.add.reduceat(a, np.zeros(0, int)), table)


def test_no_elements():
    check(lambda xp, a: [np.gcd.reduce(a), np.subtract.accumulate(a)], np.zeros(0, np.int64))
    with pytest.raises(ShapeError, match="no elements"):
        run_traced(lambda a: np.subtract.reduce(a), np.zeros(0))


def test_derivatives_go_through():
    x = np.array([2.0, 3.0, 4.0])
    np.testing.assert_allclose(zenith.grad(lambda a: np.divide.reduce(a))(x), [1 / 12, -2 / 36, -2 / 48])
    _, change = zenith.jvp(lambda a: np.add.reduceat(a, [0, 2]) ** 2, (x,), (np.array([1.0, 0.0, 1.0]),))
    np.testing.assert_allclose(change, [10, 8])


def test_what_numpy_refuses_is_refused():
    with pytest.raises(ArgumentError, match="reorderable"):
        run_traced(lambda a: np.subtract.reduce(a, axis=(0, 1)), FLOATS)
    with pytest.raises(ArgumentError, match="mask of where="):
        run_traced(lambda a: np.fmax.reduce(a, where=a > 0), FLOATS)
    with pytest.raises(DTypeError, match="subtract"):
        run_traced(lambda a: np.subtract.reduce(a), np.ones(3, bool))
    with pytest.raises(DTypeError, match="integers along one axis"):
        run_traced(lambda a: np.add.reduceat(a, a), FLOATS[0])
    for index in (4, -1):
        with pytest.raises(OutOfBoundsError, match="out of bounds"):
            run_traced(lambda a, i=index: np.add.reduceat(a, [0, i]), np.ones(4))


def test_known_arrays_are_numpys():
    assert znp.subtract.reduce([5, 1, 1]) == 3
    np.testing.assert_array_equal(znp.add.reduceat(np.arange(6), [0, 4]), [6, 9])
