"""Membership by bisection: what NumPy answers, of many elements among many."""

import numpy as np

import zenith
import zenith.numpy as znp


def test_membership_takes_no_table_of_all_pairs():
    among = np.arange(0, 600_000, 3)
    assert znp.isin(np.arange(300_000), among).sum() == 100_000
    x = np.array([0.0, -0.0, np.nan, 2.0, np.inf])
    for tests in (np.array([np.nan, 5.0, -0.0, np.inf] * 9), np.zeros(0), x[:2]):
        expected = np.isin(x, tests)
        np.testing.assert_array_equal(znp.isin(x, tests), expected)
        for g in (lambda a, t: np.isin(a, t), lambda a, t: ~np.isin(a, t, invert=True)):
            np.testing.assert_array_equal(zenith.jit(g)(x, tests), expected)
