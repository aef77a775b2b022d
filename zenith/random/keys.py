"""Keys, and the words that follow from them: the word of element ``i`` is Threefry-2x32 of ``i`` under the key.

Inside this package a key is one int64 *word*, its first half high, and so is the result of the block function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.errors import DTypeError, NumberError, ShapeError, user_line
from zenith.ir.dims import Dim
from zenith.ir.primitive import get
from zenith.ir.types import int64, uint32
from zenith.numpy.joining import stack
from zenith.numpy.operands import as_array, convert, dims_of, lift, require, sizes_of
from zenith.numpy.typing import Array, ArrayLike, DTypeLike, Shape
from zenith.trace.bind import b
from zenith.trace.recorder import current_recorder
from zenith.trace.tracer import Tracer

HALF = 32  # bits of a half of a word


def key(seed: ArrayLike) -> Array:
    """The key of a seed.

    Parameters
    ----------
    seed: a Python integer of at most 64 bits, or a 0-d array of integers, traced or not.

    Returns
    -------
    uint32 array of shape (2,): the high and the low 32 bits of the seed.

    Raises
    ------
    NumberError: an integer of more than 64 bits. DTypeError: no integer. ShapeError: an array with axes (``split``
    derives many keys from one).

    >>> key(7)
    array([0, 7], dtype=uint32)
    """
    if isinstance(seed, int) and not isinstance(seed, bool):
        if not -(2**63) <= seed < 2**64:
            raise NumberError("key: the seed has more than 64 bits", where=user_line(), fix="take seed % 2**64")
        return np.array([seed >> HALF & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
    return _as_key(_integer("key: the seed", seed))


def split(key: Array, num: Shape = 2) -> Array:
    """New keys, each independent of the others and of the numbers of the old key.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    num: how many, or the shape of an array of keys; sizes may be traced.

    Returns
    -------
    uint32 array of shape (num, 2), or (*shape, 2).

    >>> split(key(0))
    array([[1797259609, 2579123966],
           [ 928981903, 3453687069]], dtype=uint32)
    """
    return _as_key(words("split", key, num))


def fold_in(key: Array, data: ArrayLike) -> Array:
    """The key derived from a key and a number, such as the number of a step or of a layer.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    data: a Python integer below 2**32, or a 0-d array of integers, traced or not, of which the low 32 bits are used.

    Returns
    -------
    uint32 array of shape (2,).

    >>> fold_in(key(0), 1)
    array([ 928981903, 3453687069], dtype=uint32)
    """
    if isinstance(data, int) and not 0 <= data < 2**HALF:
        raise NumberError(f"fold_in: {data} is no unsigned number of 32 bits", where=user_line(), fix="data % 2**32")
    number = _integer("fold_in: data", data)
    return _as_key(b.threefry2x32(word_of("fold_in", key), b.cast(b.cast(number, dtype=uint32), dtype=int64)))


def bits(key: Array, shape: Shape = (), dtype: DTypeLike = np.uint32) -> Array:
    """Random bits.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    shape: a size or a tuple of sizes, which may be traced.
    dtype: uint8, uint16, uint32 or uint64.

    Returns
    -------
    Array of ``shape``, every value equally likely; equal to ``jax.random``'s.

    >>> bits(key(0), (2,))
    array([4070199207, 4202968722], dtype=uint32)
    """
    target = np.dtype(dtype)
    if target.kind != "u":
        raise DTypeError(f"bits gives unsigned integers, not {target}", where=user_line(), fix="leave dtype out")
    found = words("bits", key, shape)
    return convert(found if target == np.uint64 else mixed(found), target)


# --- words -----------------------------------------------------------------------------------------------------


def word_of(name: str, key: Array) -> Array:
    """A key as a 0-d word of the trace in progress; DTypeError or ShapeError, naming a function, when it is none."""
    if isinstance(key, (np.random.Generator, np.random.BitGenerator, np.random.RandomState)):
        raise DTypeError(f"{name}: a key is a uint32 array, not NumPy's {type(key).__name__}", where=user_line(),
                         fix=_FIX)  # fmt: skip
    x = as_array(key)
    types = (x.type,) if isinstance(x, Tracer) else (f"{x.dtype}{list(x.shape)}",)
    if x.dtype != np.uint32:
        raise DTypeError(f"{name}: a key is a uint32 array", where=user_line(), types=types, fix=_FIX)
    if x.ndim != 1:
        several = x.ndim > 1
        fix = "take one of the keys, key[i]" if several else _FIX
        raise ShapeError(f"{name} takes one key, of shape (2,)", where=user_line(), types=types, fix=fix)
    require(dims_of(x)[0], "==", 2, f"{name}: a key has two words")
    x = lift(x)
    high, low = (b.slice(x, start=(i,), stop=(i + 1,), step=(1,)) for i in range(2))
    return b.reshape(_word(high, low), shape=())


_FIX = "make keys with zenith.random.key(seed) and split"


def words(name: str, key: Array, shape: Shape) -> Array:
    """One random word for each element of ``shape``."""
    return words_of(word_of(name, key), checked_shape(name, shape))


def words_of(word: Array, shape: tuple[Dim, ...]) -> Array:
    """One random word for each element of ``shape``, from a key that is a word already."""
    return b.threefry2x32(b.broadcast(word, shape=shape, axes=()), _counter(shape))


def _counter(shape: tuple[Dim, ...]) -> Array:
    """The position of each element; recorded when a trace is in progress, even if its sizes are fixed."""
    recorder = current_recorder()
    if recorder is None:
        return b.counter(shape=shape)
    return Tracer(recorder, recorder.add(get("counter"), (), {"shape": shape})[0])


def subkey(word: Array, number: Any) -> Array:
    """The word of key ``number`` of those that ``split`` returns; a number, or an int64 array without axes."""
    return b.threefry2x32(word, np.asarray(number, np.int64) if isinstance(number, int) else number)


def high_half(word: Array) -> Array:
    """The first 32 bits of words."""
    return b.cast(b.shift_right(word, HALF), dtype=uint32)


def low_half(word: Array) -> Array:
    """The last 32 bits of words."""
    return b.cast(word, dtype=uint32)


def mixed(word: Array) -> Array:
    """Both halves of words combined to 32 bits."""
    return b.bit_xor(high_half(word), low_half(word))


def checked_shape(name: str, shape: Shape) -> tuple[Dim, ...]:
    """A user's shape as sizes; ShapeError when one is negative."""
    return sizes_of(shape, f"{name}: a size")


def _word(high: Array, low: Array) -> Array:
    return b.bit_or(b.shift_left(b.cast(high, dtype=int64), HALF), b.cast(low, dtype=int64))


def _as_key(word: Array) -> Array:
    return stack([high_half(word), low_half(word)], axis=-1)


def _integer(what: str, value: ArrayLike) -> Array:
    """A 0-d array of integers as int64; 32 bits and fewer have no sign."""
    x = as_array(value)
    if x.dtype.kind not in "iu":
        raise DTypeError(f"{what} must be an integer, not {x.dtype}", where=user_line(), fix="give an int")
    if x.ndim:
        raise ShapeError(f"{what} must be one number", where=user_line(), fix="take one element: x[i]")
    return convert(x if x.dtype.itemsize == 8 else b.cast(x, dtype=uint32), np.dtype(np.int64))
