"""Adaptive pooling: so many windows that the result has a given size, whatever size the array has.

Window i of m over n elements is ``[i * n // m, ceil((i + 1) * n / m))``. Where m divides n, or is 1, these slide;
elsewhere they have two lengths, so elements are taken by their places, and those behind a window's end are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import zenith.numpy as znp
from zenith.errors import DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim, dim, divide_exactly
from zenith.ir.types import int64
from zenith.nn.largest import largest, mean_of, places_of_largest
from zenith.nn.windows import Sliding, per_axis, places_in
from zenith.numpy.operands import as_array, convert, dims_of, element_type, require
from zenith.trace.bind import b
from zenith.trace.sizes import user_size

__all__ = ["adaptive_avg_pool", "adaptive_max_pool"]


@dataclass(frozen=True)
class Adaptive:
    """``count`` windows along each of the last axes, which have ``size`` elements."""

    size: tuple[Dim, ...]
    count: tuple[Dim, ...]

    def _begin(self, axis: int) -> Any:
        return b.iota(size=self.count[axis], dtype=int64) * user_size(self.size[axis]) // user_size(self.count[axis])

    def elements(self, axis: int) -> Any:
        """How many elements each window has along an axis: int64 (count,)."""
        n, m = user_size(self.size[axis]), user_size(self.count[axis])
        end = ((b.iota(size=self.count[axis], dtype=int64) + 1) * n + (m - 1)) // m
        return end - self._begin(axis)

    @property
    def places(self) -> tuple[Any, ...]:
        """For each axis the places of the windows' elements in it: int64 (count, longest window); the last repeats."""
        longest = [_longest(n, m) for n, m in zip(self.size, self.count, strict=True)]
        return tuple(
            znp.minimum(self._begin(axis)[:, None] + b.iota(size=k, dtype=int64), user_size(self.size[axis]) - 1)
            for axis, k in enumerate(longest)
        )

    @property
    def inside(self) -> tuple[Any, ...]:
        """For each axis which of these places belong to the window: bool (count, longest window)."""
        longest = [_longest(n, m) for n, m in zip(self.size, self.count, strict=True)]
        return tuple(b.iota(size=k, dtype=int64) < self.elements(axis)[:, None] for axis, k in enumerate(longest))

    def sums(self, x: Any) -> Any:
        """The sum of each window, one axis after another: the first ones have the last axis for lanes."""
        lead = x.ndim - len(self.size)
        for axis, (place, inside) in enumerate(zip(self.places, self.inside, strict=True), lead):
            found = b.take(x, place, axis=axis)
            counted = znp.reshape(inside, (*inside.shape, *(1,) * (x.ndim - 1 - axis)))
            x = b.reduce_sum(znp.where(counted, found, convert(0, x.dtype)), axes=(axis + 1,))
        return x

    def of(self, x: Any, fill: Any) -> Any:
        """The windows of ``x``, of equal lengths, with ``fill`` behind the ends of the shorter ones."""
        axes, lead = len(self.size), x.ndim - len(self.size)
        for axis, place in enumerate(self.places):
            x = b.take(x, place, axis=lead + 2 * axis)
        order = (*range(lead), *range(lead, lead + 2 * axes, 2), *range(lead + 1, lead + 2 * axes, 2))
        x = b.transpose(x, axes=order)
        inside: Any = True
        for axis in range(axes):
            inside = places_in(self.inside, axis) & inside
        return znp.where(inside, x, convert(fill, x.dtype))


def _longest(size: Dim, count: Dim) -> Dim:
    """The elements of the longest window at most."""
    if size.static is None or count.static is None:
        return (size + count - 1) // count + 1
    n, m = size.static, count.static
    return dim(max((-(-(i + 1) * n // m) - i * n // m for i in range(m)), default=1))


def adaptive_avg_pool(x: Any, output_size: Any) -> Any:
    """The mean of each of so many windows that the result has a given size.

    Parameters
    ----------
    x: ``(N, C, *spatial)``, floating-point; where ``output_size`` is a tuple, it has a number for each of the last
        axes.
    output_size: the sizes of these axes in the result: an int for all spatial axes, or one for each; None keeps a size.

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


def adaptive_max_pool(x: Any, output_size: Any, *, with_indices: bool = False) -> Any:
    """The largest element of each of so many windows that the result has a given size.

    Parameters
    ----------
    x: ``(N, C, *spatial)``, integers or floating-point; axes and ``output_size`` as in :func:`adaptive_avg_pool`.
    with_indices: also give the place of each largest element in the spatial axes, row-major, int64.

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
    return (largest(x, w), places_of_largest(x, w)) if with_indices else largest(x, w)


def _windows(name: str, x: Any, output_size: Any) -> Sliding | Adaptive:
    """The windows: sliding ones where the sizes are known to be multiples."""
    wanted = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * max(x.ndim - 2, 1)
    if not 1 <= len(wanted) <= x.ndim:
        raise ShapeError(f"{name}: {len(wanted)} sizes for an array of {x.ndim} axes", where=user_line(),
                         fix="give one for each axis that windows slide along")  # fmt: skip
    size = dims_of(x)[x.ndim - len(wanted) :]
    kept = [user_size(n) if m is None else m for n, m in zip(size, wanted, strict=True)]
    count = per_axis(name, "output_size", kept, len(kept), 1)
    for n in size:
        require(n, ">=", 1, f"{name}: a spatial axis has no elements")
    lengths = [dim(1) if m == n else divide_exactly(n, m) for n, m in zip(size, count, strict=True)]
    if any(k is None for k in lengths):
        return Adaptive(size, count)
    window, none = tuple(k for k in lengths if k is not None), (dim(0),) * len(size)
    return Sliding(size, window, window, (1,) * len(size), none, none, count)
