"""Reductions without nan against NumPy's: element types, axes, rows of nan only."""

import warnings

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import DTYPES, check, run_traced, values
from zenith.errors import ArgumentError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
REDUCTIONS = ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanmedian")
POSITIONS = ("nanargmax", "nanargmin")


def holed(dtype, shape, seed=0):
    """Numbers of a type, a third of them nan; one row and one column without."""
    x = values(dtype, shape, seed)
    if dtype.kind in "fc":
        x[np.random.default_rng(seed).uniform(size=shape) < 0.33] = np.nan
        x[0], x[:, 0] = 1.5, 2.5
    return x


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, dtype):
    if (dtype.kind == "u" and name in ("nansum", "nanprod")) or (dtype.kind == "c" and name in ("nanmax", "nanmin")):
        return
    x = holed(dtype, (3, 4, 5), 1)
    for axis, keepdims in ((None, False), (1, True), ((0, 2), False)):
        check(lambda xp, a, axis=axis, keep=keepdims: getattr(xp, name)(a, axis=axis, keepdims=keep), x, ulps=32)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind != "c"], ids=str)
@pytest.mark.parametrize("name", POSITIONS)
def test_positions(name, dtype):
    x = holed(dtype, (3, 4, 5), 2)
    for axis in (None, 0, -1):
        check(lambda xp, a, axis=axis: getattr(xp, name)(a, axis=axis), x)
    check(lambda xp, a: getattr(xp, name)(a, axis=1, keepdims=True), x)


def test_sums_so_far():
    x = holed(np.dtype("f8"), (3, 4), 3)
    check(lambda xp, a: (xp.nancumsum(a), xp.nancumsum(a, axis=1)), x)


def test_rows_of_nan_only():
    x = np.array([[np.nan, np.nan], [np.nan, 1.0], [np.inf, -np.inf]])
    for name in (*REDUCTIONS,):
        check(lambda xp, a, name=name: getattr(xp, name)(a, axis=1), x)
    check(lambda xp, a: (xp.nanstd(a, axis=1, ddof=1), xp.nanquantile(a, [0.0, 0.5], axis=1)), x[:2])


def test_positions_where_only_nan_is():
    x = np.array([[np.nan, np.nan], [np.nan, -np.inf]])
    for function in (np.nanargmax, np.nanargmin):
        assert run_traced(lambda a, f=function: f(a, axis=1), x)[0].tolist() == [-1, 1]
    with pytest.raises(ArgumentError, match="nanargmax: all elements are nan"):
        znp.nanargmax(x, axis=1)


@pytest.mark.parametrize("method", ["linear", "hazen", "nearest", "averaged_inverted_cdf"])
def test_quantiles(method):
    for dtype in (np.dtype("f4"), np.dtype("f8"), np.dtype("i4")):
        x = holed(dtype, (4, 5, 3), 4)
        check(lambda xp, a: xp.nanquantile(a, [0.0, 0.3, 0.5, 1.0], axis=1, method=method), x)
        check(lambda xp, a: (xp.nanquantile(a, 0.3, method=method), xp.nanpercentile(a, 30, axis=(0, 2))), x)


def test_weighted_quantiles():
    x, w = holed(np.dtype("f8"), (4, 5), 5), values(np.dtype("f8"), (4, 5), 6, 0.1, 2.0)
    check(lambda xp, a, b: xp.nanquantile(a, [0.2, 0.9], axis=1, weights=b, method="inverted_cdf"), x, w)


def test_nothing_is_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(znp.nanmax([np.nan])) and np.isnan(znp.nanmean([np.nan])) and np.isnan(znp.nanmedian([np.nan]))


def test_derivatives_pass_by_nan():
    x = np.array([1.0, np.nan, 4.0])
    gradient = zenith.grad(lambda a: np.nanmean(a) + np.nanmax(a) + np.nanvar(a))(x)
    np.testing.assert_allclose(gradient[[0, 2]], [0.5 - 1.5, 1.5 + 1.5])
