"""Truth values, integers and categories."""

from __future__ import annotations

import numpy as np

from zenith.errors import DTypeError, NumberError, ShapeError, user_line
from zenith.ir.dims import Dim
from zenith.ir.types import uint32
from zenith.numpy import elementwise as ew
from zenith.numpy.conditionals import where
from zenith.numpy.operands import UINT64, as_array, convert, dims_of, normal_axis, shape_text, weak_kind
from zenith.numpy.typing import Array, ArrayLike, DTypeLike, Shape
from zenith.random.keys import checked_shape, mixed, subkey, word_of, words_of
from zenith.random.real import fitted, floats, gumbel_of, shape_or, unit_interval
from zenith.trace.bind import b
from zenith.trace.tracer import Tracer


def bernoulli(key: Array, p: ArrayLike = 0.5, shape: Shape | None = None) -> Array:
    """Truth values that are true with probability ``p``: where a uniform number is below it.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    p: a number, or an array of float16, bfloat16, float32 or float64; 16 bits are taken as float32.
    shape: a size or a tuple of sizes, which may be traced; by default that of ``p``.

    Returns
    -------
    bool array of ``shape``, equal to ``jax.random``'s.

    >>> from zenith.random import key
    >>> bernoulli(key(0), 0.9, (4,))
    array([False, False,  True,  True])
    """
    chance = floats("bernoulli: a probability is", p)
    sizes = shape_or("bernoulli", shape, (chance,))
    unit = unit_interval(words_of(word_of("bernoulli", key), sizes), chance.dtype)
    return b.lt(unit, fitted("bernoulli", chance, chance.dtype, sizes))


def randint(key: Array, shape: Shape, minval: ArrayLike, maxval: ArrayLike, dtype: DTypeLike = np.int32) -> Array:
    """Integers of ``minval <= n < maxval``, equally likely; ``minval`` where ``maxval`` is not above it.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    shape: a size or a tuple of sizes, which may be traced.
    minval, maxval: integers or arrays of them that broadcast to ``shape``; clipped to the range of ``dtype``.
    dtype: any integer type. Between int64 bounds there must be fewer than 2**63 numbers.

    Returns
    -------
    Array of ``shape``, for 32 bits equal to ``jax.random``'s. A number comes from 64 random bits (for int64 from 63)
    modulo the count of numbers, so that none is more likely than another by more than ``count / 2**63``. Numbers of 8
    and 16 bits are those of 32 (``jax.random``'s own come from 16 and 32 bits, and are less even).

    >>> from zenith.random import key
    >>> randint(key(0), (5,), 0, 10)
    array([9, 0, 2, 3, 1], dtype=int32)
    """
    target = np.dtype(dtype)
    if target.kind not in "iu":
        raise DTypeError(f"randint gives integers, not {target}", where=user_line(), fix="cast it")
    sizes, limits = checked_shape("randint", shape), np.iinfo(target)
    if target == UINT64:
        return _unsigned_64(word_of("randint", key), sizes, minval, maxval)
    low, high = (ew.maximum(_whole(bound), limits.min) for bound in (minval, maxval))
    low, high = ew.minimum(low, limits.max), ew.minimum(high, min(limits.max + 1, np.iinfo(np.int64).max))
    count = ew.maximum(_difference(high, low), 1)
    offset = (_offset_64 if target == np.int64 else _offset_32)(word_of("randint", key), count, sizes)
    return b.add(convert(offset, target), fitted("randint", convert(low, target), target, sizes))


def categorical(key: Array, logits: ArrayLike, axis: int = -1, shape: Shape | None = None) -> Array:
    """Numbers of categories, with probabilities in proportion to ``exp(logits)``.

    The category whose logit plus a Gumbel number is the largest (E. J. Gumbel, "Statistical theory of extreme values
    and some practical applications", 1954): with the Gumbel numbers it fuses into one kernel.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    logits: array of float16, bfloat16, float32 or float64; 16 bits are taken as float32.
    axis: the axis of categories.
    shape: a size or a tuple of sizes, which may be traced: that of ``logits`` without ``axis``, with further axes in
        front for more than one draw.

    Returns
    -------
    int64 array of ``shape``, equal to ``jax.random``'s except where two sums are nearly equal.

    >>> from zenith.random import key
    >>> categorical(key(0), np.log([0.2, 0.8]), shape=(6,))
    array([1, 0, 1, 1, 1, 0])
    """
    x = floats("categorical: logits are", logits)
    at = normal_axis("categorical", axis, x.ndim)
    before, (count, *after) = dims_of(x)[:at], dims_of(x)[at:]
    sizes = (*before, *after) if shape is None else checked_shape("categorical", shape)
    front = len(sizes) - (x.ndim - 1)
    if front < 0:
        what = f"categorical: the shape {shape_text(sizes)} has fewer axes than there are draws"
        raise ShapeError(what, where=user_line(), fix="end it with the shape of logits without the axis of categories")
    space = (*sizes[: front + at], count, *sizes[front + at :])
    noise = gumbel_of(words_of(word_of("categorical", key), space), x.dtype)
    return b.argmax(b.add(noise, fitted("categorical", x, x.dtype, space)), axis=front + at)


# --- remainders of many bits -----------------------------------------------------------------------------------


def _offset_32(word: Array, count: Array, shape: tuple[Dim, ...]) -> Array:
    """``(2**32 high + low) % count`` for two arrays of bits, in 32 bits that wrap as jax's do; count 0 is 2**32."""
    high, low = (mixed(words_of(subkey(word, i), shape)) for i in range(2))
    span = b.cast(count, dtype=uint32)
    scale = b.remainder(b.full(2**16, uint32, dims_of(span)), span)
    scale = b.remainder(b.mul(scale, scale), span)
    span, scale = (fitted("randint", x, np.dtype(np.uint32), shape) for x in (span, scale))
    offset = b.add(b.mul(b.remainder(high, span), scale), _remainder(low, span))
    return _remainder(offset, span)


def _remainder(x: Array, span: Array) -> Array:
    """The remainder by a span, of which 0 means 2**32 (2**64 for uint64)."""
    rest = b.remainder(x, span)
    return rest if not isinstance(span, Tracer) and span.all() else b.where(b.eq(span, 0), x, rest)


def _offset_64(word: Array, count: Array, shape: tuple[Dim, ...]) -> Array:
    """63 random bits modulo ``count``."""
    positive = b.bit_and(words_of(word, shape), np.iinfo(np.int64).max)
    return b.remainder(positive, fitted("randint", count, np.dtype(np.int64), shape))


def _unsigned_64(word: Array, shape: tuple[Dim, ...], minval: ArrayLike, maxval: ArrayLike) -> Array:
    """64 random bits modulo the count of numbers; count 0 is 2**64."""
    low, high = (_unsigned(bound) for bound in (minval, maxval))
    count = ew.subtract(high, low)
    if type(maxval) is int and maxval >= 2**64:
        count = ew.add(count, 1)
    else:
        count = where(ew.less(low, high), count, np.uint64(1))
    span = fitted("randint", count, UINT64, shape)
    return b.add(_remainder(convert(words_of(word, shape), UINT64), span), fitted("randint", low, UINT64, shape))


def _unsigned(bound: ArrayLike) -> Array:
    """A bound clipped to uint64."""
    if weak_kind(bound) is int and type(bound) is int:
        return np.asarray(min(max(bound, 0), 2**64 - 1), np.uint64)
    x = as_array(bound)
    return x if x.dtype == UINT64 else convert(ew.maximum(_whole(bound), 0), UINT64)


def _whole(bound: ArrayLike) -> Array:
    """A bound as int64."""
    x = convert(bound, np.dtype(np.int64)) if weak_kind(bound) is int else as_array(bound)
    if x.dtype.kind not in "iu":
        raise DTypeError(f"randint: a bound is an integer, not {x.dtype}", where=user_line(), fix="give an int")
    x = ew.minimum(x, np.uint64(2**63 - 1)) if x.dtype == UINT64 else x
    return convert(x, np.dtype(np.int64))


def _difference(high: Array, low: Array) -> Array:
    """How many integers there are; NumberError when it is known to overflow int64."""
    count = ew.subtract(high, low)
    if not isinstance(count, Tracer) and np.any((count < 0) & (high > low)):
        raise NumberError("randint: there are 2**63 or more integers", where=user_line(), fix="bring bounds closer")
    return count
