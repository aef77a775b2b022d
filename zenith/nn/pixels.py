"""Channels and pixels exchanged: pixel_shuffle, its inverse, and channel_shuffle."""

from __future__ import annotations

from zenith.errors import ArgumentError, ShapeError, user_line
from zenith.numpy.operands import as_array, dims_of, require, static_int
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


def pixel_shuffle(x: ArrayLike, upscale_factor: int) -> Array:
    """Channels to pixels: ``(..., C * r * r, H, W)`` becomes ``(..., C, H * r, W * r)``, for a factor r.

    For every element type. Raises ShapeError where r * r does not divide the channels, ArgumentError for r below 1.

    >>> import numpy as np
    >>> pixel_shuffle(np.arange(4.0).reshape(4, 1, 1), 2)
    array([[[0., 1.],
            [2., 3.]]])
    """
    x, r = _operands("pixel_shuffle", x, upscale_factor, 3)
    *lead, channels, height, width = dims_of(x)
    require(channels % (r * r), "==", 0, f"pixel_shuffle: {r * r} does not divide the number of channels")
    split = b.reshape(x, shape=(*lead, channels // (r * r), r, r, height, width))
    first = len(lead)
    permuted = b.transpose(split, axes=(*range(first + 1), first + 3, first + 1, first + 4, first + 2))
    return b.reshape(permuted, shape=(*lead, channels // (r * r), height * r, width * r))


def pixel_unshuffle(x: ArrayLike, downscale_factor: int) -> Array:
    """Pixels to channels: ``(..., C, H * r, W * r)`` becomes ``(..., C * r * r, H, W)``, for a factor r.

    For every element type. Raises ShapeError where r does not divide the sizes, ArgumentError for r below 1.

    >>> import numpy as np
    >>> pixel_unshuffle(np.arange(4.0).reshape(1, 2, 2), 2).ravel()
    array([0., 1., 2., 3.])
    """
    x, r = _operands("pixel_unshuffle", x, downscale_factor, 3)
    *lead, channels, height, width = dims_of(x)
    for size in (height, width):
        require(size % r, "==", 0, f"pixel_unshuffle: {r} does not divide the size {size}")
    split = b.reshape(x, shape=(*lead, channels, height // r, r, width // r, r))
    first = len(lead)
    permuted = b.transpose(split, axes=(*range(first + 1), first + 2, first + 4, first + 1, first + 3))
    return b.reshape(permuted, shape=(*lead, channels * (r * r), height // r, width // r))


def channel_shuffle(x: ArrayLike, groups: int) -> Array:
    """The channels of ``(N, C, *spatial)``, in groups one after another, interleaved: one of each group in turn.

    For every element type. Raises ShapeError where the number of groups does not divide the channels.

    >>> import numpy as np
    >>> channel_shuffle(np.arange(6).reshape(1, 6, 1), 2).ravel()
    array([0, 3, 1, 4, 2, 5])
    """
    x, r = _operands("channel_shuffle", x, groups, 2)
    number, channels, *rest = dims_of(x)
    require(channels % r, "==", 0, f"channel_shuffle: {r} groups do not divide the number of channels")
    split = b.reshape(x, shape=(number, r, channels // r, *rest))
    permuted = b.transpose(split, axes=(0, 2, 1, *range(3, x.ndim + 1)))
    return b.reshape(permuted, shape=(number, channels, *rest))


def _operands(name: str, value: ArrayLike, factor: int, axes: int) -> tuple[Array, int]:
    x, r = as_array(value), static_int(factor, f"{name}: the factor")
    if r < 1:
        raise ArgumentError(f"{name}: the factor must be 1 or more, not {r}", where=user_line(), fix="use 2 or 3")
    if x.ndim < axes:
        raise ShapeError(f"{name} needs an array of {axes} axes or more, not {x.ndim}", where=user_line(),
                         fix="put the channels' axis in front")  # fmt: skip
    return x, r
