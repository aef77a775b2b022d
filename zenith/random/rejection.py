"""Gamma numbers, by a rejection method with a fixed number of attempts."""

from __future__ import annotations

import math

import numpy as np

from zenith.ir.dims import Dim, dim
from zenith.ir.types import int32
from zenith.numpy.operands import convert, dims_of, element_type
from zenith.numpy.typing import Array, ArrayLike, DTypeLike, Shape
from zenith.random.keys import subkey, word_of, words_of
from zenith.random.real import computed_in, fitted, float_dtype, normal_of, shape_or, unit_interval
from zenith.trace.bind import b

ATTEMPTS = 8


def gamma(key: Array, a: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = np.float32) -> Array:
    """Numbers of the gamma distribution, with density in proportion to ``x**(a - 1) exp(-x)``.

    The method is that of G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM
    Transactions on Mathematical Software 26, 2000. For ``a >= 1`` let ``d = a - 1/3``, ``c = 1 / sqrt(9 d)``, z normal,
    ``v = (1 + c z)**3`` and u uniform. An attempt gives ``d v`` when ``log(u) < z**2 / 2 + d (1 - v + log(v))``. For
    ``a < 1`` the result for ``a + 1`` is multiplied by ``u**(1 / a)``.

    The probability that an attempt succeeds is the integral of ``exp(d (1 - v + log(v)))`` over z, divided by that of
    its upper bound ``exp(-z**2 / 2)``, which is ``sqrt(2 pi)``. With y = d v this is a gamma integral,

        P(a) = exp(d) d**(1/6 - d) Gamma(a) / sqrt(2 pi),

    which is 0.9516 for a = 1 and grows to 1. All 8 attempts are made at once, for every element, and the first that
    succeeds is used; the probability that none does is at most ``(1 - P(1))**8 < 4e-11``. Then the result is d, about
    the most likely number.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    a: a positive number or an array of them; nan where it is not positive.
    shape: a size or a tuple of sizes, which may be traced; by default that of ``a``.
    dtype: float16, bfloat16, float32 or float64; those of 16 bits are float32's, rounded.

    Returns
    -------
    Array of ``shape``. The distribution is ``jax.random``'s, the numbers are not. The derivative of an element with
    respect to ``a`` is that of the attempt that succeeded, not that of the distribution.

    >>> from zenith.random import key
    >>> gamma(key(0), 2.0, (3,)).round(3)
    array([3.328, 0.749, 0.875], dtype=float32)
    """
    target = float_dtype("gamma", dtype)
    wide = computed_in(target)
    a = convert(a, wide)
    sizes = shape_or("gamma", shape, (a,))
    word, a = word_of("gamma", key), fitted("gamma", a, wide, sizes)
    small = b.lt(a, 1.0)
    result = _at_least_one(word, b.where(small, b.add(a, 1.0), a), sizes)
    u = b.add(b.neg(unit_interval(words_of(subkey(word, 2), sizes), wide)), 1.0)
    lowered = b.mul(result, b.exp(b.div(b.log(u), a)))
    found = b.where(b.gt(a, 0.0), b.where(small, lowered, result), b.full(math.nan, element_type(a), sizes))
    return convert(found, target)


def gamma_logarithms(word: Array, a: Array, shape: tuple[Dim, ...]) -> Array:
    """Logarithms of the gamma numbers of a word, in the element type and of the shape of ``a``; nan for ``a <= 0``."""
    small = b.lt(a, 1.0)
    result = _at_least_one(word, b.where(small, b.add(a, 1.0), a), shape)
    u = b.add(b.neg(unit_interval(words_of(subkey(word, 2), shape), a.dtype)), 1.0)
    lowered = b.where(small, b.div(b.log(u), a), b.zeros_like(a))
    found = b.add(b.log(result), lowered)
    return b.where(b.gt(a, 0.0), found, b.full(math.nan, element_type(a), shape))


def _at_least_one(word: Array, a: Array, shape: tuple[Dim, ...]) -> Array:
    """Gamma numbers for a >= 1: of the first attempt that succeeds. Attempts are a leading axis."""
    d = b.add(a, -1 / 3)
    space = (dim(ATTEMPTS), *shape)
    candidates, succeeds = _attempts(word, fitted("gamma", d, d.dtype, space))
    number = b.broadcast(b.iota(size=ATTEMPTS, dtype=int32), shape=space, axes=(0,))
    first = b.reduce_min(b.where(succeeds, number, b.full(ATTEMPTS, int32, space)), axes=(0,))
    chosen = b.eq(number, fitted("gamma", first, first.dtype, space))
    result = b.reduce_max(b.where(chosen, candidates, b.zeros_like(candidates)), axes=(0,))
    return b.where(b.eq(first, ATTEMPTS), d, result)


def _attempts(word: Array, d: Array) -> tuple[Array, Array]:
    """A candidate for each element of ``d``, and whether it is accepted."""
    z = normal_of(words_of(subkey(word, 0), dims_of(d)), d.dtype)
    u = unit_interval(words_of(subkey(word, 1), dims_of(d)), d.dtype)
    c = b.div(b.full(1 / 3, element_type(d), dims_of(d)), b.sqrt(d))
    root = b.add(b.mul(c, z), 1.0)
    v = b.mul(b.mul(root, root), root)
    exponent = b.mul(d, b.add(b.sub(b.mul(b.log(root), 3.0), v), 1.0))
    below = b.lt(b.log(u), b.add(b.mul(b.mul(z, z), 0.5), exponent))
    return b.mul(d, v), b.bit_and(b.gt(root, 0.0), below)
