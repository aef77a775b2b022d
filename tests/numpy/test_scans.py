"""Running sums, products, extremes, sums of exponentials against NumPy: element types, axes, sizes, special values."""

import numpy as np
import pytest

from tests.numpy.comparison import DTYPES, check, run_traced, values
from zenith.errors import ShapeError

X = np.array([[1.0, np.nan, 3.0], [-0.0, 2.0, np.nan]])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_running_sums_and_products(dtype):
    x = values(dtype, (2, 3, 4), 5)
    for axis in (None, 0, 1, -1):
        check(lambda xp, a, axis=axis: [xp.cumsum(a, axis=axis), xp.cumprod(a, axis=axis)], x, ulps=32)


@pytest.mark.parametrize("size", [0, 1, 31, 64, 197])
def test_sizes(size):
    check(lambda xp, a: xp.cumsum(a, axis=0), np.arange(2 * size).reshape(size, 2) % 7)


def test_infinities_and_zeros_stay_where_they_are():
    check(lambda xp, a: xp.cumsum(a), np.array([1, np.inf, 2, -np.inf, 3]))
    assert np.signbit(run_traced(lambda a: np.cumsum(a), np.array([-0.0, -0.0]))[0]).all()


def test_element_types():
    check(lambda xp, a: xp.cumsum(a, dtype=np.float32), np.arange(5))
    check(lambda xp, a: xp.cumsum(a), np.arange(5, dtype=np.uint8))


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_the_standards_functions(name):
    for initial in (False, True):
        check(lambda xp, a, i=initial: getattr(xp, name)(a, axis=1, include_initial=i), values(np.dtype(float), (3, 4)))
        check(lambda xp, a, i=initial: getattr(xp, name)(a, include_initial=i), np.arange(1, 5))
        check(lambda xp, a, i=initial: getattr(xp, name)(a, include_initial=i, dtype=np.float64), np.arange(0))
    with pytest.raises(ShapeError, match="needs an axis for an array of 2 axes"):
        run_traced(lambda a: getattr(np, name)(a), np.ones((2, 2)))


def test_without_nan():
    for axis in (None, 0, 1):
        check(lambda xp, a, i=axis: [xp.nancumsum(a, axis=i), xp.nancumprod(a, axis=i)], X)
    check(lambda xp, a: xp.nancumsum(a), np.arange(3))


ACCUMULATED = [np.add, np.multiply, np.maximum, np.minimum, np.logaddexp]


@pytest.mark.parametrize("ufunc", ACCUMULATED, ids=lambda f: f.__name__)
def test_accumulate(ufunc):
    for x in (X, values(np.dtype(np.float32), (3, 5), 2), values(np.dtype(np.int32), (4, 2), 1)):
        for axis in (0, 1):
            with np.errstate(all="ignore"):
                expected = ufunc.accumulate(x, axis=axis)
            (found,) = run_traced(lambda a, i=axis: ufunc.accumulate(a, axis=i), x)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_accumulate_of_bools():
    x = np.array([False, True, False])
    for ufunc in (np.add, np.maximum, np.minimum):
        (found,) = run_traced(lambda a, f=ufunc: f.accumulate(a), x)
        assert found.dtype == ufunc.accumulate(x).dtype and (found == ufunc.accumulate(x)).all()
