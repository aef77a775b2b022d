"""Counts: Poisson, binomial and multinomial numbers.

Where few are expected, probabilities are added from 0 on until they exceed a uniform number. Where many are, attempts
are made until one succeeds, by the transformed rejection of W. Hörmann ("The transformed rejection method for
generating Poisson random variables", Insurance: Mathematics and Economics 12, 1993; "The generation of binomial random
variates", Journal of Statistical Computation and Simulation 46, 1993). Both are loops that end with the last element,
computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zenith.control import scan, while_loop
from zenith.errors import DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim
from zenith.ir.types import NumPyType
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.broadcasting import broadcast_dims, spread
from zenith.numpy.conditionals import where
from zenith.numpy.operands import convert, dims_of, lift
from zenith.numpy.shaping import moveaxis
from zenith.numpy.special import gammaln
from zenith.numpy.typing import Array, ArrayLike, DTypeLike, Shape
from zenith.random.keys import checked_shape, subkey, word_of, words_of
from zenith.random.real import fitted, shape_or, unit_interval

FLOAT64 = np.dtype(np.float64)
FEW = 10.0  # where at most so many are expected, probabilities are added
LARGEST = 2.0**52  # beyond, counts are not whole numbers of float64


def poisson(key: Array, lam: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = np.int64) -> Array:
    """Numbers of the Poisson distribution: how often something happens that happens ``lam`` times on average.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    lam: a number from 0 to 2**52 or an array of them; -1 is drawn for any other.
    shape: a size or a tuple of sizes, which may be traced; by default that of ``lam``.
    dtype: a signed integer type, or a floating-point type.

    Returns
    -------
    Array of ``shape``; it has no derivative.
    """
    target, word = _counted_in("poisson", dtype), word_of("poisson", key)
    mean = convert(lam, FLOAT64)
    sizes = shape_or("poisson", shape, (mean,))
    mean = fitted("poisson", mean, FLOAT64, sizes)
    valid = ew.logical_and(ew.greater_equal(mean, 0), ew.less_equal(mean, LARGEST))
    few = ew.less_equal(mean, FEW)
    small, large = where(ew.logical_and(valid, few), mean, 1.0), where(ew.logical_and(valid, ~few), mean, 2 * FEW)
    added = _added(word, ew.exp(ew.negative(small)), lambda k: ew.divide(small, k), ew.logical_and(valid, few))
    attempted = _attempted(word, _poisson_hat(large), _poisson_weight(large), ew.logical_and(valid, ~few))
    return convert(where(valid, where(few, added, attempted), -1.0), target)


def binomial(key: Array, n: ArrayLike, p: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = np.int64) -> Array:
    """Numbers of the binomial distribution: how many of ``n`` attempts succeed, each with probability ``p``.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    n: whole numbers from 0 to 2**52.
    p: probabilities; -1 is drawn where one is outside of 0 to 1, or ``n`` is negative.
    shape: a size or a tuple of sizes, which may be traced; by default that of ``n`` and ``p`` broadcast.
    dtype: a signed integer type, or a floating-point type.

    Returns
    -------
    Array of ``shape``; it has no derivative.
    """
    target = _counted_in("binomial", dtype)
    count, chance = convert(n, FLOAT64), convert(p, FLOAT64)
    sizes = shape_or("binomial", shape, (count, chance))
    count, chance = (fitted("binomial", x, FLOAT64, sizes) for x in (count, chance))
    return convert(_binomial(word_of("binomial", key), count, chance), target)


def multinomial(
    key: Array, n: ArrayLike, p: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = np.int64
) -> Array:
    """How many of ``n`` draws fall on each of several categories, with the probabilities ``p``.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    n: whole numbers from 0 to 2**52.
    p: probabilities in proportion, those of the categories along the last axis.
    shape: how many results, as a size or a tuple of sizes, which may be traced; by default as many as
        ``n`` and ``p`` broadcast to.
    dtype: a signed integer type, or a floating-point type.

    Returns
    -------
    Array of ``(*shape, p.shape[-1])``, whose sums along the last axis are ``n``: each category takes a binomial number
    of those that the ones before have left. It has no derivative.
    """
    target, word = _counted_in("multinomial", dtype), word_of("multinomial", key)
    count, chances = convert(n, FLOAT64), convert(p, FLOAT64)
    if not chances.ndim:
        raise ShapeError("multinomial: p has a probability for each category", where=user_line(),
                         fix="give them along the last axis")  # fmt: skip
    *points, categories = dims_of(chances)
    both = broadcast_dims("multinomial", [dims_of(count), tuple(points)])
    sizes = both if shape is None else checked_shape("multinomial", shape)
    left = fitted("multinomial", count, FLOAT64, sizes)
    chances = fitted("multinomial", chances, FLOAT64, (*sizes, categories))
    # The sum of each category's chance and all later ones, added from the last on: the last one's share is exactly 1.
    rest = ew.add.accumulate(chances[..., ::-1], -1)[..., ::-1]
    shares = where(ew.greater(rest, 0), ew.divide(chances, where(ew.greater(rest, 0), rest, 1.0)), 0.0)

    def draw(carry: Any, share: Array) -> Any:
        remaining, number = carry
        drawn = _binomial(subkey(word, number), remaining, share)
        return (ew.subtract(remaining, drawn), ew.add(number, 1)), drawn

    first = (lift(left), lift(np.asarray(0, np.int64)))
    drawn = scan(draw, first, moveaxis(lift(shares), -1, 0))[1]
    return convert(moveaxis(drawn, 0, -1), target)


def _binomial(word: Array, count: Array, chance: Array) -> Array:
    """Binomial numbers in float64; the rarer of success and failure is counted, and the other follows from it."""
    valid = ew.logical_and(
        ew.greater_equal(count, 0), ew.logical_and(ew.greater_equal(chance, 0), ew.less_equal(chance, 1))
    )
    often = ew.greater(chance, 0.5)
    n, p = where(valid, count, 0.0), where(valid, where(often, ew.subtract(1.0, chance), chance), 0.0)
    few = ew.less_equal(ew.multiply(n, p), FEW)
    odds = ew.divide(p, ew.subtract(1.0, p))
    none = ew.exp(ew.multiply(n, ew.log1p(ew.negative(p))))

    def ratio(k: Array) -> Array:
        return ew.multiply(ew.divide(ew.subtract(ew.add(n, 1.0), k), k), odds)

    added = ew.minimum(_added(word, none, ratio, ew.logical_and(valid, few)), n)
    large, rare = where(few, 4 * FEW, n), where(few, 0.5, p)
    hat, weight = _binomial_hat(large, rare), _binomial_weight(large, rare)
    drawn = where(few, added, _attempted(word, hat, weight, ew.logical_and(valid, ~few)))
    return where(valid, where(often, ew.subtract(n, drawn), drawn), -1.0)


def _added(word: Array, first: Array, ratio: Callable[[Array], Array], wanted: Any) -> Array:
    """The count up to which probabilities have to be added to exceed a uniform number.

    ``first`` is the probability of 0, and ``ratio(k)`` that of k over that of k - 1. The search ends where
    probabilities are too small to be added.
    """
    shape = dims_of(first)
    point = unit_interval(words_of(subkey(word, 0), shape), FLOAT64)

    def open_(state: Any) -> Any:
        _, chance, total = state
        return ew.logical_and(wanted, ew.logical_and(ew.greater_equal(point, total), ew.greater(chance, 1e-20)))

    def step(state: Any) -> Any:
        k, chance, total = state
        goes_on, following = open_(state), ew.add(k, 1.0)
        chance = where(goes_on, ew.multiply(chance, ratio(following)), chance)
        return where(goes_on, following, k), chance, where(goes_on, ew.add(total, chance), total)

    start = (_zeros(shape), lift(first), lift(first))
    return while_loop(lambda state: reductions.any(open_(state)), step, start)[0]


def _attempted(word: Array, hat: tuple[Any, Any, Any, Any], weight: Callable[[Array], Array], wanted: Any) -> Array:
    """The first attempt of each element that succeeds.

    ``hat`` are Hörmann's ``a``, ``b``, centre and the logarithm of ``alpha``; ``weight(k)`` is the logarithm of the
    probability of k, up to a constant that ``alpha`` has, too.
    """
    a, width, center, scale = hat
    shape = dims_of(center)

    def attempt(state: Any) -> Any:
        number, found, open_ = state
        u, v = (unit_interval(words_of(subkey(subkey(word, number), i), shape), FLOAT64) for i in range(2))
        u, v = ew.subtract(u, 0.5), ew.subtract(1.0, v)
        near = ew.maximum(ew.subtract(0.5, ew.absolute(u)), 1e-300)
        slope = ew.divide(a, ew.multiply(near, near))
        k = ew.floor(ew.add(ew.multiply(ew.add(ew.divide(ew.multiply(a, 2.0), near), width), u), center))
        height = ew.subtract(ew.add(ew.log(v), scale), ew.log(ew.add(slope, width)))
        taken = ew.logical_and(open_, ew.less_equal(height, weight(k)))
        return ew.add(number, 1), where(taken, k, found), ew.logical_and(open_, ~taken)

    start = (lift(np.asarray(1, np.int64)), _zeros(shape), lift(wanted))
    return while_loop(lambda state: reductions.any(state[2]), attempt, start)[1]


def _poisson_hat(mean: Array) -> tuple[Array, Array, Array, Array]:
    width = ew.add(ew.multiply(ew.sqrt(mean), 2.53), 0.931)
    a = ew.add(ew.multiply(width, 0.02483), -0.059)
    alpha = ew.add(ew.divide(1.1328, ew.subtract(width, 3.4)), 1.1239)
    return a, width, ew.add(mean, 0.43), ew.log(alpha)


def _poisson_weight(mean: Array) -> Callable[[Array], Array]:
    logarithm = ew.log(mean)

    def weight(k: Array) -> Array:
        inside = ew.greater_equal(k, 0)
        whole = where(inside, k, 0.0)
        found = ew.subtract(ew.subtract(ew.multiply(whole, logarithm), mean), gammaln(ew.add(whole, 1.0)))
        return where(inside, found, float("-inf"))

    return weight


def _binomial_hat(n: Any, p: Array) -> tuple[Array, Array, Array, Array]:
    mean = ew.multiply(n, p)
    deviation = ew.sqrt(ew.multiply(mean, ew.subtract(1.0, p)))
    width = ew.add(ew.multiply(deviation, 2.53), 1.15)
    a = ew.add(ew.add(ew.multiply(width, 0.0248), -0.0873), ew.multiply(p, 0.01))
    alpha = ew.multiply(ew.add(ew.divide(5.1, width), 2.83), deviation)
    return a, width, ew.add(mean, 0.5), ew.log(alpha)


def _binomial_weight(n: Any, p: Array) -> Callable[[Any], Any]:
    """The logarithm of a count's probability over that of the most likely one, as ``alpha`` assumes."""
    logarithm, most = ew.log(ew.divide(p, ew.subtract(1.0, p))), ew.floor(ew.multiply(ew.add(n, 1.0), p))

    def chosen(k: Array) -> Array:
        return ew.add(gammaln(ew.add(k, 1.0)), gammaln(ew.add(ew.subtract(n, k), 1.0)))

    top = chosen(most)

    def weight(k: Array) -> Array:
        inside = ew.logical_and(ew.greater_equal(k, 0), ew.less_equal(k, n))
        whole = where(inside, k, 0.0)
        found = ew.add(ew.subtract(top, chosen(whole)), ew.multiply(ew.subtract(whole, most), logarithm))
        return where(inside, found, float("-inf"))

    return weight


def _zeros(shape: tuple[Dim, ...]) -> Array:
    return lift(spread(np.zeros(()), shape))


def _counted_in(name: str, dtype: DTypeLike | None) -> NumPyType:
    target = np.dtype(dtype)
    if target.kind not in "if":
        raise DTypeError(f"{name} gives signed integers, or floats, not {target}", where=user_line(), fix="cast it")
    return target
