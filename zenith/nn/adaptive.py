"""Adaptive pooling: so many windows that the result has a given size, whatever size the array has.

Window i of m over n elements is ``[i * n // m, ceil((i + 1) * n / m))``. Where m divides n, or is 1, these slide;
elsewhere they have two lengths, so elements are gathered by index, and those after a window's end are masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import zenith.numpy as znp
from zenith.errors import DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim, dim, divide_exactly
from zenith.ir.types import int64
from zenith.nn.largest import indices_of_largest, largest, mean_of
from zenith.nn.rounding import rounded_once
from zenith.nn.windows import Sliding, broadcast_axis, per_axis
from zenith.numpy.operands import as_array, convert, dims_of, element_type, require
from zenith.numpy.typing import Array, ArrayLike, Shape
from zenith.trace.bind import b
from zenith.trace.sizes import user_size

__all__ = ["adaptive_avg_pool", "adaptive_max_pool"]


@dataclass(frozen=True)
class Adaptive:
    """``count`` windows along each of the last axes, which have ``size`` elements."""

    size: tuple[Dim, ...]
    count: tuple[Dim, ...]

    def _begin(self, axis: int) -> Array:
        return b.iota(size=self.count[axis], dtype=int64) * user_size(self.size[axis]) // user_size(self.count[axis])

    def elements(self, axis: int) -> Array:
        """How many elements each window has along an axis: int64 (count,)."""
        n, m = user_size(self.size[axis]), user_size(self.count[axis])
        end = ((b.iota(size=self.count[axis], dtype=int64) + 1) * n + (m - 1)) // m
        return end - self._begin(axis)

    @property
    def indices(self) -> tuple[Any, ...]:
        """For each axis the indices of the windows' elements: int64 (count, longest window); the last one repeats."""
        longest = [_longest(n, m) for n, m in zip(self.size, self.count, strict=True)]
        return tuple(
            znp.minimum(self._begin(axis)[:, None] + b.iota(size=k, dtype=int64), user_size(self.size[axis]) - 1)
            for axis, k in enumerate(longest)
        )

    @property
    def inside(self) -> tuple[Array, ...]:
        """For each axis which of these indices belong to the window: bool (count, longest window)."""
        longest = [_longest(n, m) for n, m in zip(self.size, self.count, strict=True)]
        return tuple(b.iota(size=k, dtype=int64) < self.elements(axis)[:, None] for axis, k in enumerate(longest))

    def sums(self, x: Array) -> Array:
        """The sum of each window, one axis after another: while the last axis is not summed, its elements are lanes."""
        lead = x.ndim - len(self.size)
        for axis, (index, inside) in enumerate(zip(self.indices, self.inside, strict=True), lead):
            found = b.take(x, index, axis=axis)
            counted = znp.reshape(inside, (*inside.shape, *(1,) * (x.ndim - 1 - axis)))
            x = b.reduce_sum(znp.where(counted, found, convert(0, x.dtype)), axes=(axis + 1,))
        return x

    def of(self, x: Array, fill: ArrayLike) -> Array:
        """The windows of ``x``, of equal lengths, with ``fill`` after the ends of the shorter ones."""
        axes, lead = len(self.size), x.ndim - len(self.size)
        for axis, index in enumerate(self.indices):
            x = b.take(x, index, axis=lead + 2 * axis)
        order = (*range(lead), *range(lead, lead + 2 * axes, 2), *range(lead + 1, lead + 2 * axes, 2))
        x = b.transpose(x, axes=order)
        inside: Any = True
        for axis in range(axes):
            inside = broadcast_axis(self.inside, axis) & inside
        return znp.where(inside, x, convert(fill, x.dtype))


def _longest(size: Dim, count: Dim) -> Dim:
    """The number of elements of the longest window, or an upper bound."""
    if size.static is None or count.static is None:
        return (size + count - 1) // count + 1
    n, m = size.static, count.static
    return dim(max((-(-(i + 1) * n // m) - i * n // m for i in range(m)), default=1))


@rounded_once
def adaptive_avg_pool(x: ArrayLike, output_size: Shape) -> Array:
    """The mean of each of so many windows that the result has a given size.

    Parameters
    ----------
    x: ``(N, C, *spatial)``, floating-point; where ``output_size`` is a tuple, it has a number for each of the last
        axes.
    output_size: the sizes of these axes in the result: an int for all spatial axes, or one for each; None leaves one.

    Returns ``(N, C, *output_size)``. Raises ShapeError for an axis without elements, DTypeError for what is not
    floating-point.

    >>> import numpy as np
    >>> adaptive_avg_pool(np.array([[[1.0, 2.0, 3.0, 4.0, 5.0]]]), 2)
    array([[[2., 4.]]])
    """
    x = as_array(x)
    if not element_type(x).is_float:
        raise DTypeError(f"adaptive_avg_pool takes floating-point numbers, not {x.dtype}", where=user_line(),
                         fix="cast the array first: x.astype(numpy.float32)")  # fmt: skip
    w = _windows("adaptive_avg_pool", x, output_size)
    if isinstance(w, Sliding):
        found = w.of(x, 0)
        return mean_of(b.reduce_sum(found, axes=tuple(range(found.ndim - len(w.size), found.ndim))), w.kernel)
    return mean_of(w.sums(x), [w.elements(axis) for axis in range(len(w.size))])


def adaptive_max_pool(x: ArrayLike, output_size: Any, *, with_indices: bool = False) -> Any:
    """The largest element of each of so many windows that the result has a given size.

    Parameters
    ----------
    x: ``(N, C, *spatial)``, integers or floating-point; axes and ``output_size`` as in :func:`adaptive_avg_pool`.
    with_indices: also return the index of each largest element in the spatial axes, row-major, int64.

    Returns ``(N, C, *output_size)``, or such a pair; nan and derivatives as in :func:`~zenith.nn.max_pool`. Raises
    ShapeError for an axis without elements, DTypeError for bool and complex.

    >>> import numpy as np
    >>> adaptive_max_pool(np.array([[[1.0, 2.0, 3.0, 4.0, 5.0]]]), 2)
    array([[[3., 5.]]])
    """
    x = as_array(x)
    if element_type(x).kind not in "iuf":
        raise DTypeError(f"adaptive_max_pool takes real numbers, not {x.dtype}", where=user_line(),
                         fix="cast the array first: x.astype(numpy.float32)")  # fmt: skip
    w = _windows("adaptive_max_pool", x, output_size)
    return (largest(x, w), indices_of_largest(x, w)) if with_indices else largest(x, w)


def _windows(name: str, x: Array, output_size: Shape) -> Sliding | Adaptive:
    """The windows: sliding ones where the sizes are known to be multiples."""
    wanted = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * max(x.ndim - 2, 1)
    if not 1 <= len(wanted) <= x.ndim:
        raise ShapeError(f"{name}: {len(wanted)} sizes for an array of {x.ndim} axes", where=user_line(),
                         fix="give one for each axis that windows slide along")  # fmt: skip
    size = dims_of(x)[x.ndim - len(wanted) :]
    sizes = [user_size(n) if m is None else m for n, m in zip(size, wanted, strict=True)]
    count = per_axis(name, "output_size", sizes, len(sizes), 1)
    for n in size:
        require(n, ">=", 1, f"{name}: a spatial axis has no elements")
    lengths = [dim(1) if m == n else divide_exactly(n, m) for n, m in zip(size, count, strict=True)]
    if any(k is None for k in lengths):
        return Adaptive(size, count)
    window, none = tuple(k for k in lengths if k is not None), (dim(0),) * len(size)
    return Sliding(size, window, window, (1,) * len(size), none, none, count)
