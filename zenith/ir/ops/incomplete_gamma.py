"""The regularized incomplete gamma functions, by SciPy, and their derivative along the first argument.

The lower one, P(a, x), has the power series x**a exp(-x) / gamma(a + 1) (1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) +
...), whose terms are positive, and the upper one, 1 - P(a, x), Legendre's continued fraction (W. Gautschi, "A
computational procedure for incomplete gamma functions", ACM Transactions on Mathematical Software 5, 1979). Each is
differentiated term by term where it converges best, the series up to x = a + 1 and the fraction behind it: there both
parts of the derivative have one sign, and small ones keep their digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

LARGEST = 1e8
"""Of first arguments that have a derivative: the steps to it grow with the root of the argument."""


def lower(a: Any, x: Any) -> Any:
    """P(a, x), in the arguments' own type."""
    return scipy.special.gammainc(a, x)


def upper(a: Any, x: Any) -> Any:
    """1 - P(a, x), in the arguments' own type."""
    return scipy.special.gammaincc(a, x)


def slope(a: Any, x: Any) -> Any:
    """The derivative of P(a, x) along a: 0 at x = 0 and infinity; nan for negative arguments and a beyond 1e8.

    >>> round(float(slope(np.array(1.0), np.array(1.0))), 6)
    -0.431718
    """
    shape, dtype = a.shape, a.dtype
    a, x = a.astype(np.float64).ravel(), x.astype(np.float64).ravel()
    found = np.full(a.shape, np.nan)
    known = (a > 0) & (a <= LARGEST) & (x >= 0)
    found[known & ((x == 0) | np.isinf(x))] = 0.0
    inside = known & (x > 0) & np.isfinite(x)
    for where, part in ((inside & (x <= a + 1), _by_series), (inside & (x > a + 1), _by_fraction)):
        found[where] = part(a[where], x[where])
    return found.reshape(shape).astype(dtype)


def _steps(a: Any) -> range:
    """Enough of them for the largest a: near x = a, where both converge slowest, terms decay over its root."""
    return range(1, 200 + int(10 * np.sqrt(np.max(a, initial=0.0))))


def _by_series(a: Any, x: Any) -> Any:
    """The factor's derivative times the sum, and the factor times the sum's."""
    term, slope = np.ones_like(a), np.zeros_like(a)
    total, total_slope = term.copy(), slope.copy()
    for n in _steps(a):
        ratio = x / (a + n)
        term, slope = term * ratio, (slope - term / (a + n)) * ratio
        total, total_slope = total + term, total_slope + slope
        if np.all(np.abs(slope) <= 1e-17 * np.abs(total_slope)):
            break
    factor = np.exp(a * np.log(x) - x - scipy.special.gammaln(a + 1))
    return factor * (total * (np.log(x) - scipy.special.psi(a + 1)) + total_slope)


def _by_fraction(a: Any, x: Any) -> Any:
    """The fraction is 1 / (x + 1 - a - (1 - a) / (x + 3 - a - ...)); from its end on no intermediate overflows."""
    value, slope = np.zeros_like(a), np.zeros_like(a)
    for n in reversed(_steps(a)):
        below, below_slope = x + 2 * n + 1 - a - value, -1 - slope
        value, slope = n * (n - a) / below, (-n - n * (n - a) * below_slope / below) / below
    below, below_slope = x + 1 - a - value, -1 - slope
    factor = np.exp(a * np.log(x) - x - scipy.special.gammaln(a))
    return -factor * ((np.log(x) - scipy.special.psi(a)) / below - below_slope / below**2)
