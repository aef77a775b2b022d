"""Medians and quantiles against NumPy: every method and element type, axes, weights, quantiles that are computed."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import DTYPES, check, run_traced, traced, values
from zenith.errors import ArgumentError, DTypeError, ShapeError
from zenith.ir.interpret import interpret
from zenith.numpy.quantiles import METHODS

NUMBERS = tuple(d for d in DTYPES if d.kind in "iuf")
SHARES = np.array([0.0, 0.1, 0.25, 0.5, 0.6, 0.9, 1.0])
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_medians(dtype):
    x = values(dtype, (3, 4, 5), 1)
    for axis, keepdims in ((None, False), (0, False), (1, True), ((0, 2), False), ((-1, 0), True)):
        check(lambda xp, a, axis=axis, keep=keepdims: xp.median(a, axis=axis, keepdims=keep), x)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 33])
def test_medians_of_any_size(size):
    x = values(np.dtype("f8"), (size,), size)
    check(lambda xp, a: (xp.median(a), xp.quantile(a, 0.3), xp.percentile(a, [0, 20, 100])), x)


@pytest.mark.parametrize("method", METHODS)
def test_methods_and_types(method):
    for dtype in NUMBERS:
        x = values(dtype, (4, 7), 2)
        check(lambda xp, a: xp.quantile(a, 0.3, axis=-1, method=method), x)
        check(lambda xp, a: xp.quantile(a, SHARES, axis=0, method=method, keepdims=True), x)
    check(lambda xp, a: xp.percentile(a, SHARES.reshape(1, 7) * 100, method=method), values(NUMBERS[-1], (3, 2), 3))


def test_element_types_of_results():
    x = values(np.dtype("f4"), (9,), 3)
    check(lambda xp, a: (xp.quantile(a, 0.5), xp.quantile(a, np.float64(0.5)), xp.quantile(a, np.float32(0.5))), x)
    check(lambda xp, a: (xp.percentile(a, 30), xp.percentile(a, np.array(30)), xp.quantile(a, [0, 1])), x)
    check(lambda xp, a: (xp.quantile(a, 1), xp.quantile(a, 0.5, method="lower")), np.array([3, 1, 2], np.int32))


def test_nan_and_infinities():
    x = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, np.inf], [-np.inf, 0.0, 5.0]], np.float32)
    for method in ("linear", "lower", "midpoint"):
        check(lambda xp, a, m=method: xp.quantile(a, [0.25, 0.5], axis=1, method=m), x)
    check(lambda xp, a: (xp.median(a, axis=1), xp.median(a)), x)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_weights(axis):
    x, w = values(np.dtype("f8"), (5, 6), 4), np.random.default_rng(5).integers(0, 4, (5, 6)).astype(np.float64)
    w[0], w[:, 0] = 1.0, 2.0
    given = {"axis": axis, "method": "inverted_cdf"}
    check(lambda xp, a, b: xp.quantile(a, SHARES, weights=b, **given), x, w)
    if axis is not None:
        check(
            lambda xp, a, b: xp.percentile(a, 40, weights=b, keepdims=True, **given), x, w[0] if axis else w[:, 1] + 1
        )


def test_quantiles_that_the_program_computes():
    x, q = values(np.dtype("f8"), (4, 6), 5), np.array([0.2, 0.5])
    check(lambda xp, a, s: xp.quantile(a, s * 0.5, axis=1), x, q)


def test_the_derivative_moves_the_middle_elements_only():
    x = np.array([5.0, 1.0, 3.0, 2.0])
    assert zenith.grad(lambda a: np.median(a))(x).tolist() == [0.0, 0.0, 0.5, 0.5]
    assert zenith.grad(lambda a: np.quantile(a, 0.25))(x).tolist() == [0.0, 0.25, 0.0, 0.75]


def test_one_program_for_all_sizes():
    x = values(np.dtype("f8"), (5, 3), 6)
    graph = traced(lambda a: [np.median(a, axis=0), np.quantile(a, 0.3, axis=1)], x).graph
    for shape in ((5, 3), (4, 4), (1, 1), (30, 2)):
        x = np.random.default_rng(0).standard_normal(shape)
        found = interpret(graph, x)
        np.testing.assert_allclose(found[0], np.median(x, axis=0), rtol=1e-14)
        np.testing.assert_allclose(found[1], np.quantile(x, 0.3, axis=1), rtol=1e-14)


def test_what_is_refused():
    x = np.arange(4.0)
    with pytest.raises(ArgumentError, match="quantile: 'best' is no method"):
        run_traced(lambda a: np.quantile(a, 0.5, method="best"), x)
    with pytest.raises(ArgumentError, match="percentile: a number lies outside of its range"):
        run_traced(lambda a: np.percentile(a, 101), x)
    with pytest.raises(ArgumentError, match="only the method 'inverted_cdf' knows weights"):
        run_traced(lambda a: np.quantile(a, 0.5, weights=x), x)
    with pytest.raises(ArgumentError, match="a weight is negative"):
        znp.quantile(x, 0.5, weights=-x, method="inverted_cdf")
    with pytest.raises(ShapeError, match="weights of 2 axes fit neither"):
        znp.quantile(x, 0.5, weights=np.ones((2, 2)), method="inverted_cdf")


@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
def test_complex_numbers_have_medians_and_no_quantiles(name):
    x = np.array([1j, 2, 3, 1])
    check(lambda xp, a: (xp.median(a), xp.nanmedian(a)), x)
    with pytest.raises(DTypeError, match=f"{name} is for real numbers, not complex128"):
        run_traced(lambda a: getattr(np, name)(a, 0.5), x)
