"""The regularized incomplete gamma functions, by SciPy, and their derivatives along the first argument.

The lower one, P(a, x), has the power series x**a exp(-x) / gamma(a + 1) (1 + x / (a + 1) + x**2 / ((a + 1) (a + 2)) +
...), whose terms are positive, and the upper one, 1 - P(a, x), Legendre's continued fraction (W. Gautschi, "A
computational procedure for incomplete gamma functions", ACM Transactions on Mathematical Software 5, 1979). Each is
differentiated step by step where it converges best, the series up to x = a + 1 and the fraction above: there both
terms of the first derivative have one sign, and small ones keep their digits.

Every number of both is a polynomial in the distance of the first argument from a, truncated after the wanted power (A.
Griewank, A. Walther, Evaluating Derivatives, 2nd edition, SIAM 2008, chapter 13).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special

from zenith.ir.types import NDArray

LARGEST = 1e8
"""Of first arguments that have derivatives: the steps to them grow with the root of the argument."""


def lower(a: NDArray, x: NDArray) -> Any:
    """P(a, x), in the arguments' own type."""
    return scipy.special.gammainc(a, x)


def upper(a: NDArray, x: NDArray) -> Any:
    """1 - P(a, x), in the arguments' own type."""
    return scipy.special.gammaincc(a, x)


def slope(a: NDArray, x: NDArray, order: int) -> NDArray:
    """The derivative of P(a, x) along a, or one of a higher order: 0 at x = 0 and infinity.

    It is nan for negative arguments and a beyond 1e8.

    >>> round(float(slope(np.array(1.0), np.array(1.0), 1)), 6)
    -0.43173
    """
    shape, dtype = a.shape, a.dtype
    a, x = a.astype(np.float64).ravel(), x.astype(np.float64).ravel()
    found = np.full(a.shape, np.nan)
    known = (a > 0) & (a <= LARGEST) & (x >= 0)
    found[known & ((x == 0) | np.isinf(x))] = 0.0
    inside = known & (x > 0) & np.isfinite(x)
    for where, expand in ((inside & (x <= a + 1), _by_series), (inside & (x > a + 1), _by_fraction)):
        found[where] = expand(a[where], x[where], order)[order] * math.factorial(order)
    return found.reshape(shape).astype(dtype)


Powers = list[Any]
"""The coefficients of a polynomial in the distance from a, that of its power 0 first."""


def _by_series(a: NDArray, x: NDArray, order: int) -> Powers:
    """P(a, x): a factor times a sum."""
    term = [np.ones_like(a), *[np.zeros_like(a)] * order]
    total = list(term)
    for n in _steps(a):
        term = _quotient([x * t for t in term], [a + n, np.ones_like(a)])
        total = [one + other for one, other in zip(total, term, strict=True)]
        if np.all(np.abs(term[order]) <= 1e-17 * np.abs(total[order])):
            break
    return _product(_factor(a, x, a + 1, order), total)


def _by_fraction(a: NDArray, x: NDArray, order: int) -> Powers:
    """P(a, x) but for its power 0: the negative of a factor over x + 1 - a - (1 - a) / (x + 3 - a - ...).

    From its end on no intermediate of the fraction overflows.
    """
    zeros = [np.zeros_like(a)] * (order + 1)
    value = zeros
    for n in reversed(_steps(a)):
        above = [n * (n - a), np.full_like(a, -n), *zeros][: order + 1]
        value = _quotient(above, _below(x + 2 * n + 1 - a, value))
    return [-p for p in _quotient(_factor(a, x, a, order), _below(x + 1 - a, value))]


def _below(first: NDArray, value: Powers) -> Powers:
    """A denominator of the fraction, which falls with a as ``first`` does, less the value of what follows."""
    return [first - value[0], *(-1 - p if power == 1 else -p for power, p in enumerate(value[1:], 1))]


def _steps(a: NDArray) -> range:
    """Enough of them for the largest a: near x = a, where both converge slowest, terms decay over its root."""
    return range(1, 200 + int(10 * np.sqrt(np.max(a, initial=0.0))))


def _factor(a: NDArray, x: NDArray, top: NDArray, order: int) -> Powers:
    """x**a exp(-x) / gamma(top), where ``top`` moves with a: the power series of an exponential."""
    exponent = [np.log(x) - scipy.special.psi(top)]
    exponent += [-scipy.special.polygamma(n, top) / math.factorial(n + 1) for n in range(1, order)]
    found = [np.exp(a * np.log(x) - x - scipy.special.gammaln(top))]
    for power in range(1, order + 1):
        found.append(sum(n * exponent[n - 1] * found[power - n] for n in range(1, power + 1)) / power)
    return found


def _product(one: Powers, other: Powers) -> Powers:
    return [sum(one[n] * other[power - n] for n in range(power + 1)) for power in range(len(one))]


def _quotient(above: Powers, below: Powers) -> Powers:
    """As many powers as ``above`` has; those that ``below`` lacks are 0."""
    found: Powers = []
    for power, p in enumerate(above):
        known = [below[n] * found[power - n] for n in range(1, min(power + 1, len(below)))]
        found.append((p - sum(known)) / below[0])
    return found
