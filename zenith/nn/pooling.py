"""Pooling: one number of each window that slides over the last axes, the largest, the mean, or a norm.

Windows are read through index maps, so each function is one kernel, and sizes may be symbols. The layout is PyTorch's,
channels first; any number of axes may be in front of those that are pooled.
"""

from __future__ import annotations

from typing import Any

import zenith.numpy as znp
from zenith.errors import ArgumentError, DTypeError, user_line
from zenith.nn.largest import indices_of_largest, largest, mean_of
from zenith.nn.rounding import rounded_once
from zenith.nn.windows import Sliding, per_axis, sliding, spatial
from zenith.numpy.operands import as_array, element_type
from zenith.numpy.typing import Array, ArrayLike, Shape
from zenith.trace.bind import b
from zenith.trace.sizes import user_size

__all__ = ["avg_pool", "lp_pool", "max_pool"]


def max_pool(
    x: ArrayLike, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, *, ceil_mode: bool = False,
    with_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window.

    Parameters
    ----------
    x: ``(N, C, *spatial)``, integers or floating-point. Where ``kernel_size`` is a tuple, it has a number for each of
        the last axes, and any number of axes is in front of these.
    kernel_size: the elements of a window, an int or one for each spatial axis.
    stride: how many elements windows are apart; ``kernel_size`` when None.
    padding: how many elements, smaller than all, are added on both sides: at most half of a window.
    dilation: how far a window's elements are apart.
    ceil_mode: a last window may extend beyond the end, if it begins before.
    with_indices: also return the index of each largest element in the spatial axes, row-major, int64.

    Returns ``(N, C, *windows)``, or such a pair. As in PyTorch, a window with nan gives nan (and the index of the
    last), and the derivative is that of the first largest element. Raises ShapeError where no window fits,
    ArgumentError for a number that means nothing, DTypeError for bool and complex.

    >>> import numpy as np
    >>> max_pool(np.array([[[1.0, 4.0, 2.0, 3.0]]]), 2)
    array([[[4., 3.]]])
    >>> max_pool(np.array([[[1.0, 4.0, 2.0, 3.0]]]), 3, stride=1, with_indices=True)[1]
    array([[[1, 1]]])
    """
    x = _numbers("max_pool", x, "iuf")
    size = spatial("max_pool", x, kernel_size)
    w = sliding("max_pool", size, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode)
    _check_padding("max_pool", w)
    return (largest(x, w), indices_of_largest(x, w)) if with_indices else largest(x, w)


@rounded_once
def avg_pool(
    x: ArrayLike, kernel_size: Shape, stride: Any = None, padding: Shape = 0, *, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Array:  # fmt: skip
    """The mean of each window.

    Parameters
    ----------
    x: ``(N, C, *spatial)``, floating-point; axes as in :func:`max_pool`.
    kernel_size, stride, ceil_mode: as in :func:`max_pool`.
    padding: how many zeros are added on both sides: at most half of a window.
    count_include_pad: whether these zeros are counted among a window's elements.
    divisor_override: the divisor of sums, instead of the number of elements.

    Returns ``(N, C, *windows)``. Raises ShapeError where no window fits, ArgumentError for a number that means nothing,
    DTypeError for what is not floating-point.

    >>> import numpy as np
    >>> avg_pool(np.array([[[1.0, 4.0, 2.0, 3.0]]]), 2)
    array([[[2.5, 2.5]]])
    >>> avg_pool(np.array([[[1.0, 4.0]]]), 2, stride=1, padding=1, count_include_pad=False)
    array([[[1. , 2.5, 4. ]]])
    """
    x = _numbers("avg_pool", x, "f")
    w = sliding("avg_pool", spatial("avg_pool", x, kernel_size), kernel_size, stride, padding, 1, ceil_mode=ceil_mode)
    _check_padding("avg_pool", w)
    total = _sums(x, w)
    if divisor_override is None:
        return mean_of(total, [_elements(w, axis, count_include_pad) for axis in range(len(w.size))])
    if divisor_override == 0:
        raise ArgumentError("avg_pool: divisor_override is 0", where=user_line(), fix="use another number")
    return total / divisor_override


@rounded_once
def lp_pool(
    x: ArrayLike, norm_type: float, kernel_size: Shape, stride: Any = None, *, ceil_mode: bool = False
) -> Array:
    """The sum of each window's elements to the power of ``norm_type``, and the root of that: a norm for even powers.

    ``x`` is ``(N, C, *spatial)``, floating-point, and gives ``(N, C, *windows)``; windows as in :func:`avg_pool`,
    without padding. As in PyTorch, odd powers keep their sign, and windows that extend beyond the end are scaled up.

    >>> import numpy as np
    >>> lp_pool(np.array([[[3.0, 4.0, 0.0, 1.0]]]), 2.0, 2)
    array([[[5., 1.]]])
    """
    x = _numbers("lp_pool", x, "f")
    size = spatial("lp_pool", x, kernel_size)
    w = sliding("lp_pool", size, kernel_size, stride, 0, 1, ceil_mode=ceil_mode)
    if norm_type == 0:
        raise ArgumentError("lp_pool: norm_type is 0", where=user_line(), fix="use 1, 2 or another number")
    total = _sums(x**norm_type, w)
    if ceil_mode:
        mean = mean_of(total, [_elements(w, axis, True) for axis in range(len(size))])
        for k in per_axis("lp_pool", "kernel_size", kernel_size, len(size), 1):
            mean = mean * user_size(k)
        total = mean
    return total ** (1.0 / norm_type)


def _sums(x: Array, w: Sliding) -> Array:
    found = w.of(x, 0)
    rank = found.ndim
    return b.reduce_sum(found, axes=tuple(range(rank - len(w.size), rank)))


def _elements(w: Sliding, axis: int, with_padding: bool) -> Any:
    """How many elements windows have along an axis: one size for all, or an array (windows,)."""
    low, high, size = w.low[axis], w.high[axis], w.size[axis]
    if low == high and (with_padding or low == 0):
        return w.kernel[axis]
    first, last = (-user_size(low), user_size(size + low)) if with_padding else (0, user_size(size))
    at = w.indices[axis][:, 0]
    return znp.minimum(at + user_size(w.kernel[axis]), last) - znp.maximum(at, first)


def _check_padding(name: str, w: Sliding) -> None:
    for k, d, low in zip(w.kernel, w.dilation, w.low, strict=True):
        span = ((k - 1) * d + 1).static
        if span is not None and low.static is not None and low.static > span // 2:
            raise ArgumentError(f"{name}: a padding of {low} is more than half of a window of {span} elements",
                                where=user_line(), fix="use a smaller padding, or pad the array first")  # fmt: skip


def _numbers(name: str, value: ArrayLike, kinds: str) -> Array:
    x = as_array(value)
    if element_type(x).kind not in kinds:
        raise DTypeError(f"{name} takes {'real' if 'i' in kinds else 'floating-point'} numbers, not {x.dtype}",
                         where=user_line(), fix="cast the array first: x.astype(numpy.float32)")  # fmt: skip
    return x
