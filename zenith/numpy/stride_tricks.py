"""``numpy.lib.stride_tricks``: what NumPy does with strides, as far as arrays without memory can have it."""

from __future__ import annotations

import numpy as np

from zenith.errors import ShapeError, UnsupportedError, user_line
from zenith.numpy.operands import as_array, dims_of, normal_axis, require, sizes_of
from zenith.numpy.shaping import broadcast_arrays, broadcast_shapes, broadcast_to, moveaxis
from zenith.numpy.typing import Array, ArrayLike, Axis, Shape
from zenith.trace.bind import b
from zenith.trace.dispatch import implements

__all__ = ["broadcast_arrays", "broadcast_shapes", "broadcast_to", "sliding_window_view"]


@implements(np.lib.stride_tricks.sliding_window_view, gives="shown")
def sliding_window_view(
    x: ArrayLike, window_shape: Shape, axis: Axis = None, *, subok: bool = False, writeable: bool = False
) -> Array:
    """All windows of an array: one for each start along its axes, their elements along new last axes.

    A reduction of the new axes is one kernel in which no window is ever in memory.

    Parameters
    ----------
    x: an array.
    window_shape: a size of 1 or more, or one for each axis that ``axis`` names, which may name one several times.
    axis: the axes along which windows move; all without it.
    writeable: false, as elements of several windows would be written by each: UnsupportedError otherwise.

    Raises ShapeError where a window is larger than the array, or sizes are not as many as axes.

    >>> sliding_window_view([1, 2, 3, 4], 3)
    array([[1, 2, 3],
           [2, 3, 4]])
    """
    if writeable:
        raise UnsupportedError("sliding_window_view gives windows to read, and none to write", where=user_line(),
                               fix="write into the array itself, or into sliding_window_view(x, n).copy()")  # fmt: skip
    x, sizes = as_array(x), sizes_of(window_shape)
    named = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else [axis]
    axes = [normal_axis("sliding_window_view", a, x.ndim) for a in named]
    if len(axes) != len(sizes):
        raise ShapeError(f"sliding_window_view: {len(sizes)} sizes of windows for {len(axes)} axes", where=user_line(),
                         fix="give a size for each axis, or name as many axes: axis=")  # fmt: skip
    if not axes:
        return x
    if axes[-1] in axes[:-1]:
        return sliding_window_view(sliding_window_view(x, sizes[:-1], axes[:-1]), sizes[-1:], axes[-1:])
    for at, size in zip(axes, sizes, strict=True):
        require(size, ">=", 1, "sliding_window_view: a window has an element")
        require(dims_of(x)[at], ">=", size, f"sliding_window_view: a window of {size} in an axis of {dims_of(x)[at]}")
    last, once = list(range(x.ndim - len(axes), x.ndim)), (1,) * len(axes)
    return moveaxis(b.windows(moveaxis(x, axes, last), window=sizes, stride=once, dilation=once), last, axes)
