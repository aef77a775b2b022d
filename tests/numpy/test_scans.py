"""Running sums, products, extremes, sums of exponentials against NumPy: element types, axes, sizes, special values."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import DTYPES, assert_same, check, run_traced, values
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


EXTREMES = {"cumulative_max": np.maximum, "cumulative_min": np.minimum, "cumulative_logsumexp": np.logaddexp}


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "?"])
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_and_sums_of_exponentials_by_name(name, dtype):
    x = values(np.dtype(dtype), (3, 4), 5)
    for axis in (0, -1):
        expected = EXTREMES[name].accumulate(x, axis=axis)
        for function in (
            getattr(znp, name),
            EXTREMES[name].accumulate,
            getattr(znp, EXTREMES[name].__name__).accumulate,
        ):
            (found,) = run_traced(lambda a, f=function, i=axis: f(a, axis=i), x)
            assert_same(found, expected)
        assert_same(getattr(znp, name)(x, axis=axis), expected)
    (found,) = run_traced(lambda a: getattr(znp, name)(a, axis=1, dtype=np.float32), x)
    assert_same(found, EXTREMES[name].accumulate(x.astype(np.float32), axis=1))


@pytest.mark.parametrize("name", EXTREMES)
def test_what_running_results_begin_with_changes_nothing(name):
    ufunc = EXTREMES[name]
    for dtype in ("f8", "i2", "?") if name != "cumulative_logsumexp" else ("f4", "f8"):
        x = values(np.dtype(dtype), (2, 3), 1)
        (found,) = run_traced(lambda a: getattr(znp, name)(a, axis=1, include_initial=True), x)
        assert_same(found[:, 1:], ufunc.accumulate(x, axis=1))
        assert found.dtype == x.dtype and (ufunc(found[:, :1], x) == x).all()
    with pytest.raises(ShapeError, match=f"{name} needs an axis for an array of 2 axes"):
        getattr(znp, name)(np.ones((2, 2)))


def test_a_running_maximum_has_a_derivative():
    found = zenith.grad(lambda a: np.sum(znp.cumulative_max(a)))(np.array([1.0, 3.0, 2.0]))
    assert found.tolist() == [1.0, 2.0, 0.0]
