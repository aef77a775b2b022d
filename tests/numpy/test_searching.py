"""Positions in sorted arrays, bins and interpolation against NumPy: both sides, orders, ends, nan, periods."""

import numpy as np
import pytest

from tests.numpy.comparison import check, run_traced
from zenith.errors import ArgumentError, DTypeError, ShapeError

SORTED = np.array([-2.0, 0.0, 0.0, 1.5, 4.0, np.nan])
VALUES = np.array([[-3.0, 0.0, 1.5], [9.0, np.nan, -0.0]])
POINTS = np.array([-1.0, 0.0, 2.0, 2.5])
HEIGHTS = np.array([3.0, -1.0, 0.5, 7.0])


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(side):
    check(lambda xp, a, v: xp.searchsorted(a, v, side=side), SORTED, VALUES)
    check(lambda xp, a, v: xp.searchsorted(a, v, side=side), np.array([1, 2, 2, 5]), np.array([0.5, 2, 5, 6]))
    check(lambda xp, a: xp.searchsorted(a, 2, side=side), np.array([1, 2, 2, 5], np.int16))
    check(lambda xp, a, v: xp.searchsorted(a, v, side=side), np.array([False, True]), np.array([True, False]))


def test_a_sorter_and_nothing_to_search():
    unsorted = np.array([5.0, 1.0, 3.0])
    check(lambda xp, a, v: xp.searchsorted(a, v, sorter=xp.argsort(a)), unsorted, np.array([0.0, 3.0, 6.0]))
    check(lambda xp, a, v: xp.searchsorted(a, v), np.zeros(0), np.ones(3))
    with pytest.raises(ArgumentError, match="'middle' is no side"):
        run_traced(lambda a: np.searchsorted(a, 1, side="middle"), SORTED)
    with pytest.raises(ShapeError, match="as an array of one axis, not of 2"):
        run_traced(lambda a: np.searchsorted(a, 1), VALUES)


@pytest.mark.parametrize("right", [False, True])
def test_bins(right):
    x = np.array([[0.2, 6.4], [1.0, 2.5], [-7.0, 4.0]])
    for bins in (np.array([0.0, 1.0, 2.5, 4.0]), np.array([4.0, 2.5, 1.0, 0.0])):
        check(lambda xp, a, edges: xp.digitize(a, edges, right=right), x, bins)
        check(lambda xp, a, edges=bins: xp.digitize(a, edges, right=right), x)
    with pytest.raises(ArgumentError, match="ascending or descending"):
        run_traced(lambda a: np.digitize(a, [0, 2, 1]), x)


def test_interpolation():
    x = np.array([[-4.0, -1.0, -0.3], [1.0, 2.2, 2.5], [9.0, np.nan, 0.0]])
    check(lambda xp, *a: xp.interp(*a), x, POINTS, HEIGHTS)
    check(lambda xp, *a: xp.interp(*a, left=-9.0, right=np.nan), x, POINTS, HEIGHTS)
    check(lambda xp, *a: xp.interp(*a), x, POINTS[:1], HEIGHTS[:1])
    check(lambda xp, a, p, h: xp.interp(a, p, h * (1 - 2j), right=3j), x, POINTS, HEIGHTS)
    check(lambda xp, a, p, h: xp.interp(a, p, h * (1 - 2j), period=7), x, POINTS, HEIGHTS)
    check(lambda xp, *a: xp.interp(*a), x, np.array([0.0, 1.0, 1.0, 2.0]), np.array([1.0, np.inf, 3.0, np.inf]))
    check(lambda xp, *a: xp.interp(*a), np.float32([0.5, 3]), np.array([0, 1, 3]), np.array([5, 6, 2]))


def test_interpolation_of_what_repeats():
    x, points = np.array([-180.0, -170, 185, 5, 370]), np.array([190.0, -190, 350, -350])
    check(lambda xp, *a: xp.interp(*a, period=360), x, points, np.array([5.0, 10, 3, 4]))
    for queries, at in ((x * 1j, POINTS), (x, POINTS * 1j)):
        with pytest.raises(DTypeError, match="interp: complex128 cannot be cast to float64 by the rule 'safe'"):
            run_traced(lambda a, p: np.interp(a, p, HEIGHTS), queries, at)
    with pytest.raises(ArgumentError, match="the period is 0"):
        run_traced(lambda *a: np.interp(*a, period=0), x, POINTS, HEIGHTS)
    with pytest.raises(ShapeError, match="as many xp as fp"):
        run_traced(lambda a: np.interp(a, POINTS, HEIGHTS[:2]), x)
