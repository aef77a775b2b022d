"""Counts and histograms against NumPy: even and given bins, borders, weights, density, given sizes."""

import numpy as np
import pytest

import zenith.numpy as znp
from tests.numpy.comparison import as_list, assert_same, check, run_traced, values
from zenith.errors import ArgumentError, TraceError, UnsupportedError

X = values(np.dtype(float), (4, 25), 3)
WHOLE = np.array([3, 1, 4, 1, 5, 9, 2, 6])


def test_bincount():
    expected = np.bincount(WHOLE, minlength=12)
    for dtype in (np.int64, np.uint8):
        (found,) = run_traced(lambda a: znp.bincount(a, length=12), WHOLE.astype(dtype))
        assert_same(found, expected)
    (found,) = run_traced(lambda a: np.bincount(a, minlength=12), WHOLE)
    assert_same(found, expected)
    (found,) = run_traced(lambda a, w: znp.bincount(a, w, length=10), WHOLE, WHOLE * 0.5)
    assert_same(found, np.bincount(WHOLE, WHOLE * 0.5))
    assert_same(znp.bincount(WHOLE, minlength=12), expected)
    assert_same(znp.bincount(WHOLE, length=12), expected)


def test_a_bincount_of_no_known_size():
    for call in (lambda a: np.bincount(a), lambda a: znp.bincount(a, minlength=0)):
        with pytest.raises(TraceError, match=r"(?s)size of its result depends on values.*length=n"):
            run_traced(call, WHOLE)
    with pytest.raises(ArgumentError, match="counts integers, not float64"):
        run_traced(lambda a: znp.bincount(a, length=3), X[0])


@pytest.mark.parametrize("x", [X, X.astype(np.float32), WHOLE, WHOLE.astype(np.uint8), np.ones(3)], ids=range(5))
def test_even_bins(x):
    check(lambda xp, a: xp.histogram(a), x)
    check(lambda xp, a: xp.histogram(a, bins=4, range=(-1, 2)), x)
    check(lambda xp, a: xp.histogram_bin_edges(a, bins=3), x)


def test_numbers_at_the_borders_of_even_bins():
    x = np.arange(101) / 100
    check(lambda xp, a: xp.histogram(a, bins=10), x)
    check(lambda xp, a: xp.histogram(a, bins=7, range=(0.1, 0.9)), x)


def test_given_bins_and_what_is_outside():
    edges, x = np.array([-2.0, -1.0, 0.5, 0.5, 2.0]), np.append(X, [np.nan, 2.0, -2.0, 0.5, 7.0])
    check(lambda xp, a, b: xp.histogram(a, bins=b), x, edges)
    check(lambda xp, a: xp.histogram(a, bins=[0, 3, 5]), WHOLE)


def test_weights_and_density():
    weights = np.linspace(0, 1, X.size).reshape(X.shape)
    check(lambda xp, a, w: xp.histogram(a, bins=5, weights=w), X, weights, ulps=64)
    check(lambda xp, a: xp.histogram(a, bins=5, density=True), X)
    check(lambda xp, a, w: xp.histogram(a, bins=[-2, 0, 1], density=True, weights=w), X, weights, ulps=64)
    assert len(as_list(znp.histogram(np.zeros(0)))) == 2


def test_bins_that_make_no_sense():
    with pytest.raises(ArgumentError, match="ascending order"):
        run_traced(lambda a: np.histogram(a, bins=[1, 0]), X)
    with pytest.raises(ArgumentError, match="0 bins"):
        run_traced(lambda a: np.histogram(a, bins=0), X)
    with pytest.raises(UnsupportedError, match="by the rule 'auto' depends on values"):
        run_traced(lambda a: np.histogram(a, bins="auto"), X)


@pytest.mark.parametrize("elements", [[1, np.nan], [1, np.inf]], ids=str)
def test_bins_of_elements_that_are_not_finite(elements):
    """What NumPy refuses a program cannot see: its borders say it."""
    x = np.array(elements)
    for function in (znp.histogram, znp.histogram_bin_edges):
        with pytest.raises(ArgumentError, match="the elements must be finite"):
            function(x, 4)
    counts, borders = run_traced(lambda a: np.histogram(a, 4), x)
    assert not counts.any() and not np.isfinite(borders).any()
    check(lambda xp, a: (*xp.histogram(a, 2, range=(0, 2)), *xp.histogram(a, [0, 1, 3])), x)


def _of_grid(found):
    counts, *borders = found
    return [counts, *(borders[0] if isinstance(borders[0], (tuple, list)) else borders)]


def test_histograms_of_points():
    rng = np.random.default_rng(1)
    x, y, w = rng.uniform(-1, 1, (3, 30))
    x[:3], y[:3] = [-1.0, 1.0, np.nan], [1.0, 0.5, 0.0]
    borders = np.array([-1, -0.5, 0, 1.0])
    check(lambda xp, x, y: _of_grid(xp.histogram2d(x, y, bins=4, range=[(-1, 1), (-0.5, 0.5)])), x, y)
    check(lambda xp, y, w: _of_grid(xp.histogram2d(y, w, bins=[3, 4])), y, w)
    check(lambda xp, x, y, e: _of_grid(xp.histogram2d(x, y, bins=[e, 3], density=True)), x[3:], y[3:], borders)
    check(lambda xp, x, y, w: _of_grid(xp.histogram2d(x, y, borders, weights=w)), x, y, w, ulps=64)
    check(lambda xp, p: _of_grid(xp.histogramdd(p, bins=3)), rng.integers(0, 5, (20, 3)))
    check(lambda xp, p: _of_grid(xp.histogramdd(p, 3, density=True)), rng.uniform(0, 5, (20, 2)).astype(np.float32))
    with pytest.raises(ArgumentError, match="there are 2 bins for 3 axes"):
        znp.histogramdd((x, y, w), bins=(2, 3))
