"""Constructors in brackets (``r_``, ``mgrid``) against NumPy: grids, and concatenated arrays."""

import numpy as np
import pytest

import zenith.numpy as znp
from tests.numpy.comparison import assert_same, run_traced, values
from zenith.errors import ArgumentError, ShapeError

F4, I4 = np.dtype("f4"), np.dtype("i4")


def same_joined(function, *arrays):
    """At once and traced as with NumPy, whose own brackets ask arrays for values."""
    expected = function(np, *arrays)
    assert_same(function(znp, *arrays), expected)
    for symbolic in (False, True):
        assert_same(run_traced(lambda *xs: function(znp, *xs), *arrays, symbolic=symbolic)[0], expected)


def test_grids():
    x = values(F4, (3, 4))
    assert_same(znp.mgrid[0:3, 1:2:3j], np.mgrid[0:3, 1:2:3j])
    assert_same(znp.mgrid[-1:3:0.5], np.mgrid[-1:3:0.5])
    assert all(map(np.array_equal, znp.ogrid[0:3, 1:9:2], np.ogrid[0:3, 1:9:2]))
    assert_same(run_traced(lambda a: znp.mgrid[0 : a.shape[0], 0 : a.shape[1]], x)[0], np.mgrid[0:3, 0:4])


def test_arrays_numbers_and_slices_in_a_row():
    x = values(F4, (5,))
    same_joined(lambda xp, a: xp.r_[a, 1, 2.5, a[:2]], x)
    same_joined(lambda xp, a: xp.r_[0:3, a, 0:1:4j, :2], x)
    same_joined(lambda xp, a: xp.r_[a], x)
    same_joined(lambda xp, a: xp.r_[a, [1, 2], np.float64(3)], values(I4, (3,)))
    assert_same(run_traced(lambda a: znp.r_[a, a.shape[0]], values(I4, (3,)))[0], np.r_[values(I4, (3,)), 3])


def test_columns():
    x, m = values(F4, (3,)), values(F4, (3, 2), 1)
    same_joined(lambda xp, a, b: xp.c_[a, a, b, b[:, :1]], x, m)
    same_joined(lambda xp, a, b: xp.c_[b, 0:3], x, m)
    same_joined(lambda xp, a: xp.c_[a, 0], x[None, :1])


@pytest.mark.parametrize("text", ["-1", "0,2", "1,2", "0,2,0", "1,2,0", "1,3,0", "-1,3,1", "0,3,-2"])
def test_a_text_says_axis_rank_and_position(text):
    same_joined(lambda xp, a: xp.r_[text, a, a], values(F4, (3,)))
    same_joined(lambda xp, a: xp.r_[text, a, a], values(F4, (2, 3)))
    same_joined(lambda xp, a: xp.r_[text, a, 0:3], values(F4, (3,)))


def test_what_is_no_array_is_refused():
    for text in ("r", "c", "1;2", "0,1,2,3"):
        with pytest.raises(ArgumentError, match="says nothing of arrays"):
            znp.r_[text, [1, 2]]
    with pytest.raises(ShapeError, match="needs at least one array"):
        znp.r_[()]


def test_indices_are_preserved():
    assert znp.s_[1:2, ...] == np.s_[1:2, ...]
    assert znp.index_exp[0] == (0,)
