"""Random order: permutations, and draws from a given array."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from zenith.errors import ShapeError, user_line
from zenith.ir.dims import Dim, product
from zenith.ir.types import int64
from zenith.numpy import elementwise as ew
from zenith.numpy.cumulative import cumsum
from zenith.numpy.indexing import take, take_along_axis
from zenith.numpy.operands import as_array, ask, dims_of, lift, normal_axis, require, shape_text
from zenith.numpy.searching import searchsorted
from zenith.numpy.sorting import argsort
from zenith.numpy.typing import Array, ArrayLike, Shape
from zenith.random.discrete import randint
from zenith.random.keys import checked_shape, mixed, subkey, word_of, words_of
from zenith.random.real import floats, gumbel_of, unit_interval
from zenith.trace.bind import b
from zenith.trace.sizes import size_dim, user_size
from zenith.trace.tracer import Tracer

# Up to so many elements take 1, 2, 3 sorts by 32 random bits each. That many bits are three times those of the size:
# then two elements have equal bits, and so no random order, in one of as many samples.
ROUNDS = tuple(int((2**32 - 1) ** (rounds / 3)) for rounds in (1, 2, 3))


def permutation(key: Array, x: ArrayLike, axis: int = 0, independent: bool = False) -> Array:
    """The numbers below ``x``, or the slices of an array, in random order.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    x: a size, which may be traced, or an array.
    axis: the axis whose slices are permuted.
    independent: whether each line of elements along the axis has a permutation of its own.

    Returns
    -------
    int64 array of shape (x,), or an array like ``x``; equal to ``jax.random``'s. Sizes up to 1625, up to 2642245 and
    beyond are different programs under ``zenith.jit``: they take 1, 2 and 3 sorts.

    >>> from zenith.random import key
    >>> permutation(key(0), 5)
    array([0, 1, 4, 3, 2])
    """
    word = word_of("permutation", key)
    count = _count("permutation", x)
    if count is not None:
        return _order(word, (count,), 0)
    x = lift(as_array(x))
    at = normal_axis("permutation", axis, x.ndim)
    if independent:
        return take_along_axis(x, _order(word, dims_of(x), at), at)
    return take(x, _order(word, dims_of(x)[at : at + 1], 0), at)


def choice(
    key: Array, a: ArrayLike, shape: Shape = (), replace: bool = True, p: ArrayLike | None = None, axis: int = 0
) -> Array:
    """Draws from the numbers below ``a``, or from the slices of an array.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    a: a size, which may be traced, or an array.
    shape: how many draws, as a size or a tuple of sizes, which may be traced.
    replace: whether a slice may be drawn more than once.
    p: array of float16, bfloat16, float32 or float64 probabilities, in proportion; all are equally likely without it.
    axis: the axis of slices.

    Returns
    -------
    int64 array of ``shape``, or ``a`` with ``shape`` instead of the axis. It is equal to ``jax.random``'s, with ``p``
    except for draws next to a bound between two slices. With ``p`` a draw is a bisection of cumulative sums.

    Raises
    ------
    ShapeError: there is nothing to draw from, or too little without replacement.

    >>> from zenith.random import key
    >>> choice(key(0), 10, (4,), replace=False)
    array([0, 1, 8, 5])
    """
    word = word_of("choice", key)
    draws = checked_shape("choice", shape)
    count = _count("choice", a)
    slices = None if count is not None else lift(as_array(a))
    at = 0 if slices is None else normal_axis("choice", axis, slices.ndim)
    total: Dim = dims_of(cast(Any, slices))[at] if count is None else count
    if product(draws) != 0:
        require(total, ">=", 1, "choice: there is nothing to draw from")
    if not replace:
        require(product(draws), "<=", total, "choice without replacement: there are not as many")
    chances = None if p is None else _chances(p, total)
    indices = (_with_replacement if replace else _without_replacement)(key, word, chances, total, draws)
    return indices if slices is None else take(slices, indices, at)


def _with_replacement(key: Array, word: Array, chances: Any, total: Dim, draws: tuple[Dim, ...]) -> Array:
    if chances is None:
        dtype = np.int32 if ask(total, "<", 2**31) else np.int64
        return b.cast(lift(randint(key, draws, 0, user_size(total), dtype)), dtype=int64)
    sums = cumsum(chances)
    point = ew.multiply(ew.subtract(1.0, unit_interval(words_of(word, draws), chances.dtype)), sums[-1])
    return searchsorted(sums, point)


def _without_replacement(key: Array, word: Array, chances: Any, total: Dim, draws: tuple[Dim, ...]) -> Array:
    if chances is None:
        order = _order(word, (total,), 0)
    else:
        order = argsort(ew.negative(ew.add(gumbel_of(words_of(word, (total,)), chances.dtype), ew.log(chances))))
    return b.reshape(order[: user_size(product(draws))], shape=draws)


def _order(word: Array, shape: tuple[Dim, ...], axis: int) -> Any:
    """Indices along an axis in random order: one to three times sorted by random bits."""
    size = product(shape)
    indices = None
    for limit in (0, *ROUNDS[:2]):
        if indices is not None and ask(size, "<=", limit):
            break
        word, fresh = (subkey(word, i) for i in range(2))
        order = argsort(mixed(words_of(fresh, shape)), axis)
        indices = order if indices is None else take_along_axis(indices, order, axis)
    return indices


def _chances(p: ArrayLike, total: Dim) -> Array:
    """Probabilities as an array of the trace; DTypeError and ShapeError when they are not one for each slice."""
    x = floats("choice: probabilities are", p)
    if x.ndim != 1:
        what = f"choice: probabilities have one axis, not the shape {shape_text(dims_of(x))}"
        raise ShapeError(what, where=user_line(), fix="give one for each slice that may be drawn")
    require(dims_of(x)[0], "==", total, "choice: there must be a probability for each slice")
    return lift(x)


def _count(name: str, x: ArrayLike) -> Dim | None:
    """The size that ``x`` is, None when it is an array with axes."""
    if isinstance(x, (Tracer, np.ndarray)) and x.ndim:
        return None
    if isinstance(x, (list, tuple)):
        return None
    count = size_dim(x, f"{name}: a number of elements")
    if count.static is not None and count.static < 0:
        raise ShapeError(f"{name}: the number of elements {count} is negative", where=user_line(), fix="use 0 or more")
    return count
