"""Reductions against NumPy: every element type, axes, keepdims, sizes 0 and 1."""

import numpy as np
import pytest

from tests.numpy.comparison import DTYPES, check, run_traced, values
from zenith.errors import ArgumentError, DTypeError, ShapeError, TraceError

REDUCTIONS = (
    "sum",
    "prod",
    "max",
    "min",
    "any",
    "all",
    "mean",
    "var",
    "std",
    "count_nonzero",
    "argmax",
    "argmin",
    "ptp",
)
AXES = ((None, False), (0, False), (1, True), (-1, False), ((0, 2), True), ((1, -1), False))


def allowed(name, dtype):
    ordered = name in ("max", "min", "argmax", "argmin", "ptp")  # reductions know no order of complex numbers
    return not (name == "ptp" and dtype.kind == "b") and not (ordered and dtype.kind == "c")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, dtype):
    x = values(dtype, (2, 3, 4), 5)
    for axis, keepdims in AXES:
        if name.startswith("arg") and isinstance(axis, tuple):
            continue
        if not allowed(name, dtype):
            with pytest.raises(DTypeError):
                run_traced(lambda a, axis=axis: getattr(np, name)(a, axis=axis), x)
            continue
        check(lambda xp, a, axis=axis, keep=keepdims: getattr(xp, name)(a, axis=axis, keepdims=keep), x, ulps=32)


@pytest.mark.parametrize("name", ["sum", "prod", "any", "all", "count_nonzero"])
def test_reductions_of_nothing(name):
    for shape, axis in (((0,), None), ((0, 3), 0), ((3, 0), 1), ((0, 3), 1)):
        check(lambda xp, a, axis=axis: getattr(xp, name)(a, axis=axis), np.zeros(shape))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_statistics_of_nothing_and_of_one(name):
    check(lambda xp, a: getattr(xp, name)(a, axis=0), np.zeros((0, 3), np.float32))
    check(lambda xp, a: getattr(xp, name)(a), np.array([4], np.int32))


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extremes_of_nothing_are_refused(name):
    for function in (lambda a: getattr(np, name)(a, axis=0), lambda a: getattr(a, name)()):
        with pytest.raises(ShapeError, match="over an axis without elements has no value"):
            run_traced(function, np.zeros((0, 3)))
    check(lambda xp, a: getattr(xp, name)(a, axis=1), np.zeros((0, 3)))


@pytest.mark.parametrize(
    "name", ["sum", "max", "min", "prod", "any", "all", "mean", "var", "std", "argmax", "argmin", "ptp"]
)
def test_methods(name):
    x = values(np.dtype("f8"), (3, 4), 2)
    assert_method(name, x)


def assert_method(name, x):
    found = run_traced(lambda a: [getattr(a, name)(), getattr(a, name)(1), getattr(a, name)(axis=0)], x)
    for actual, expected in zip(
        found, (getattr(np, name)(x), getattr(np, name)(x, 1), getattr(np, name)(x, axis=0)), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-13)


def test_nan_wins_in_extremes_and_positions():
    x = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, 0.0], [-np.inf, np.inf, 2.0]])
    for name in ("max", "min", "argmax", "argmin"):
        check(lambda xp, a, name=name: getattr(xp, name)(a, axis=1), x)


def test_positions_at_the_ends_of_integer_types():
    for dtype in DTYPES[1:9]:
        limits = np.iinfo(dtype)
        x = np.array([[0, limits.max, limits.min, limits.max, limits.min]], dtype)
        check(lambda xp, a: (xp.argmax(a, axis=1), xp.argmin(a, axis=1), xp.argmin(a)), x)


def test_ddof_and_dtype():
    x = values(np.dtype("f4"), (5, 3), 1)
    check(lambda xp, a: xp.var(a, axis=0, ddof=1), x, ulps=32)
    check(lambda xp, a: xp.std(a, axis=1, ddof=1, keepdims=True), x, ulps=32)
    check(lambda xp, a: xp.var(a, axis=0, correction=1), x, ulps=32)
    check(lambda xp, a: xp.sum(a, dtype=np.float64), x)
    check(lambda xp, a: xp.mean(a, axis=0, dtype=np.float64), x)
    check(lambda xp, a: xp.sum(a, axis=0, dtype=np.uint32), values(np.dtype("u4"), (4, 2)))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.uint8])
@pytest.mark.parametrize(
    "x", [np.array([[1.5, 2.5, 3.5], [7.0, 0.2, 4.0]]), np.array([[1, 2, 4], [9, 100, 27]])], ids=str
)
def test_means_in_integers_are_cut(x, dtype):
    check(
        lambda xp, a: [xp.mean(a, dtype=dtype), xp.mean(a, axis=1, dtype=dtype), xp.mean(a, 0, dtype, where=a > 2)], x
    )
    if dtype is not bool:  # NumPy has no difference of bools
        check(lambda xp, a: [xp.var(a, dtype=dtype), xp.var(a, axis=1, ddof=1, dtype=dtype), xp.std(a, dtype=dtype)], x)
    with pytest.raises(DTypeError, match=r"std: float\d\d cannot be cast to u?int|std: float16 cannot be cast to bool"):
        run_traced(lambda a: np.std(a, axis=0, dtype=dtype), x)


def test_sums_of_truths_in_bool():
    x = np.array([[True, False], [True, True], [False, False]])
    check(lambda xp, a: [xp.sum(a, axis=1, dtype=bool), xp.prod(a, axis=1, dtype=bool), xp.sum(a, dtype=bool)], x)


def test_average_and_nan_functions():
    x, w = values(np.dtype("f8"), (4, 3), 1), np.abs(values(np.dtype("f8"), (4, 3), 2)) + 0.1
    check(lambda xp, a, b: xp.average(a, axis=0, weights=b), x, w)
    check(lambda xp, a: xp.average(a, axis=1), x)
    check(lambda xp, a, b: (xp.average(a, axis=0, weights=b[:, 0]), xp.average(a, axis=1, weights=b[0])), x, w)
    x[1, 2] = np.nan
    check(lambda xp, a: (xp.nansum(a, axis=0), xp.nanprod(a), xp.nanmean(a, axis=1)), x)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["?", "i4", "u1", "f4", "f8"])
def test_a_number_to_begin_with_and_a_mask(name, dtype):
    x = values(np.dtype(dtype), (3, 4, 2))

    def reduced(xp, a, mask):
        f = getattr(xp, name)
        return (
            f(a, initial=1), f(a, axis=1, initial=1, keepdims=True), f(a, axis=(0, 2), initial=0, where=mask),
            f(a, axis=0, initial=1, where=mask[0]), f(a[:0], axis=0, initial=1),
        )  # fmt: skip

    check(reduced, x, values(np.dtype("?"), (3, 4, 2), 5))


def test_sums_means_and_truths_under_a_mask():
    x, mask = values(np.dtype("f8"), (3, 4), 1), np.array([True, True, False, True])
    check(lambda xp, a, m: (xp.sum(a, axis=1, where=m), xp.prod(a, where=m), xp.mean(a, where=m)), x, mask)
    check(lambda xp, a, m: (xp.mean(a, axis=1, where=m, keepdims=True), xp.std(a, where=m)), x, mask)
    check(lambda xp, a, m: (xp.var(a, axis=1, where=m, ddof=1), xp.var(a, axis=0, where=a > 0, ddof=0.5)), x, mask)
    check(lambda xp, a, m: (xp.any(a > 1, axis=1, where=m), xp.all(a > -2, where=m)), x, mask)
    check(lambda xp, a, m: xp.mean(a, axis=1, where=m), np.arange(12).reshape(3, 4), mask)
    check(lambda xp, a, m: (xp.nanmean(a, axis=1, where=m), xp.nanvar(a, where=m)), x, mask)
    check(lambda xp, a, m: (xp.nansum(a, where=m), xp.nanmax(a, axis=0, initial=0.0, where=a > 0)), x, mask)
    check(lambda xp, a, m: xp.std(a, axis=0, mean=xp.mean(a, axis=0, keepdims=True)), x, mask)
    traced = run_traced(lambda a: (np.add.reduce(a, initial=4), np.maximum.reduce(a, initial=0, where=a > 1)), x)
    for found, expected in zip(
        traced, (np.add.reduce(x, initial=4), np.maximum.reduce(x, initial=0, where=x > 1)), strict=True
    ):
        np.testing.assert_allclose(found, expected)


def test_masks_that_do_not_do():
    with pytest.raises(ArgumentError, match=r"max: the mask of where= may be false everywhere"):
        run_traced(lambda a: np.max(a, where=a > 0), np.zeros(3))
    with pytest.raises(ShapeError, match=r"sum: where= \(s0_0, s0_1\) does not fit an array \(s0_1,\)"):
        run_traced(lambda a: np.sum(a[0], where=a > 0), np.zeros((2, 3)))


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i4", "f4", "c8"])
def test_averages(dtype):
    x, w = values(np.dtype(dtype), (2, 3, 4), 1), np.arange(1, 25).reshape(2, 3, 4)
    check(lambda xp, a, b: xp.average(a, weights=b, returned=True), x, w, ulps=64)
    check(lambda xp, a, b: xp.average(a, axis=(0, 2), weights=b[:, 0]), x, w, ulps=64)
    check(lambda xp, a, b: xp.average(a, axis=(2, 0), weights=b[:, 0].T, returned=True), x, w, ulps=64)
    check(lambda xp, a, b: xp.average(a, axis=1, returned=True), x, w, ulps=64)
    big = np.array([200, 100], "u1")
    check(lambda xp, a, b: xp.average(a, weights=b), big, np.array([2, 3], "u1"))
    with pytest.raises(ShapeError, match="average: weights"):
        run_traced(lambda a: np.average(a, weights=a[0]), np.zeros((2, 3)))


def test_nan_functions_of_integers():
    check(lambda xp, a: (xp.nansum(a), xp.nanmean(a)), np.arange(3))
    check(lambda xp, a: (xp.nanmean(a, dtype=int), xp.nanvar(a, dtype=int), xp.nanstd(a, dtype=int)), np.arange(7))
    check(lambda xp, a: (xp.nanvar(a, axis=0), xp.nanstd(a, axis=1, ddof=1)), np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd", "cov"])
def test_means_of_floats_that_may_be_nan_are_no_integers(name):
    with pytest.raises(DTypeError, match=f"{name.replace('std', 'var')}.* int64"):
        run_traced(lambda a: getattr(np, name)(a, dtype=int), np.array([1.5, np.nan]))


def test_axes_outside():
    with pytest.raises(ShapeError, match="sum: axis 2 is out of bounds for an array of 2 axes"):
        run_traced(lambda a: a.sum(2), np.zeros((2, 2)))
    with pytest.raises(TraceError, match="sum: axis must be an integer, not str"):
        run_traced(lambda a: a.sum("x"), np.zeros((2, 2)))
    with pytest.raises(TraceError, match="sum: axis must be known before the program runs"):
        run_traced(lambda a: a.sum(a[0, 0].astype(int)), np.zeros((2, 2)))
    with pytest.raises(ShapeError, match="an axis is named twice"):
        run_traced(lambda a: a.sum((0, -2)), np.zeros((2, 2)))


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.complex64), np.dtype(np.int32)], ids=str)
def test_corrections_that_are_not_whole(dtype):
    x = values(dtype, (3, 4))
    check(lambda xp, a: [xp.std(a, axis=0, correction=0.5), xp.var(a, ddof=1.0), xp.var(a, correction=2.5)], x)
