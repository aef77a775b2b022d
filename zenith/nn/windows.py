"""Windows that slide over the last axes of an array: their number, their elements, unfold and fold.

``windows`` and ``overlap_add`` are primitives (:mod:`zenith.ir.ops.windows`): a reduction over windows never has them
in memory. Here are their geometry, with padding and PyTorch's ``ceil_mode``, and the two in the layout of convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import zenith.numpy as znp
from zenith.errors import ArgumentError, ShapeError, user_line
from zenith.ir.dims import Dim, dim, maximum, minimum, product
from zenith.ir.ops.windows import window_count
from zenith.ir.types import int64
from zenith.numpy.operands import as_array, ask, convert, dims_of, require, static_int
from zenith.numpy.typing import Array, ArrayLike, Shape, Size
from zenith.trace.bind import b
from zenith.trace.sizes import size_dim, user_size

__all__ = ["Sliding", "broadcast_axis", "fold", "per_axis", "sliding", "spatial", "unfold"]


@dataclass(frozen=True)
class Sliding:
    """Windows of ``kernel`` elements, ``dilation`` apart, every ``stride`` elements of the last axes, all padded.

    ``size``, ``kernel``, ``stride``, ``low`` and ``high`` (padding) and ``count`` (of windows) have one size an axis.
    """

    size: tuple[Dim, ...]
    kernel: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    dilation: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    count: tuple[Dim, ...]

    def of(self, x: Array, fill: ArrayLike) -> Array:
        """The windows of ``x`` (..., \\*size), padded with ``fill``: (..., \\*count, \\*kernel)."""
        first = x.ndim - len(self.size)
        if self.kernel == self.size and all(n == 1 for n in self.count) and not self.inside:
            return b.reshape(x, shape=(*dims_of(x)[:first], *self.count, *self.kernel))  # one window: the array
        lead = (dim(0),) * first
        if any(n != 0 for n in (*self.low, *self.high)):
            x = b.pad(x, convert(fill, x.dtype), low=(*lead, *self.low), high=(*lead, *self.high),
                      interior=(0,) * x.ndim)  # fmt: skip
        return b.windows(x, window=self.kernel, stride=self.stride, dilation=self.dilation)

    @property
    def indices(self) -> tuple[Array, ...]:
        """For each axis the indices of the windows' elements, int64 (count, kernel), negative in the padding."""
        steps = zip(self.count, self.kernel, self.stride, self.dilation, self.low, strict=True)
        return tuple(
            b.iota(size=n, dtype=int64)[:, None] * user_size(s) + (b.iota(size=k, dtype=int64) * d - user_size(low))
            for n, k, s, d, low in steps
        )

    @property
    def inside(self) -> tuple[Array, ...]:
        """For each axis which of these indices are elements of the array: bool (count, kernel); () without padding."""
        if all(n == 0 for n in (*self.low, *self.high)):
            return ()
        return tuple((at >= 0) & (at < user_size(n)) for at, n in zip(self.indices, self.size, strict=True))


def spatial(name: str, x: Array, given: Any) -> tuple[Dim, ...]:
    """The sizes of the axes that windows slide along: the last ones, as many as ``given`` has; all but two for one."""
    axes = len(given) if isinstance(given, (tuple, list)) else max(x.ndim - 2, 1)
    if not 1 <= axes <= x.ndim:
        raise ShapeError(f"{name}: {axes} sizes for an array of {x.ndim} axes", where=user_line(),
                         fix="give one for each axis that windows slide along")  # fmt: skip
    return dims_of(x)[x.ndim - axes :]


def sliding(
    name: str,
    size: tuple[Dim, ...],
    kernel: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    *,
    ceil_mode: bool = False,
) -> Sliding:
    """The windows over axes of these sizes.

    With ``ceil_mode`` a last window, or the only one, may extend beyond the end, if it begins before it. Raises
    ShapeError where no window fits, ArgumentError for numbers that mean nothing.
    """
    axes = len(size)
    window = per_axis(name, "kernel_size", kernel, axes, 1)
    step = window if stride is None else per_axis(name, "stride", stride, axes, 1)
    dilations = tuple(static_int(d, f"{name}: dilation") for d in _repeated(name, "dilation", dilation, axes))
    low = per_axis(name, "padding", padding, axes, 0)
    if any(d < 1 for d in dilations):
        raise ArgumentError(f"{name}: dilation must be 1 or more", where=user_line(), fix="use 1 for plain windows")
    axis = (*zip(size, window, step, dilations, low, strict=True),)
    kernel, count, high = zip(*(_along(name, *numbers, ceil_mode) for numbers in axis), strict=True)
    return Sliding(size, kernel, step, dilations, low, high, count)


def _along(name: str, n: Dim, k: Dim, s: Dim, d: int, p: Dim, ceil_mode: bool) -> tuple[Dim, Dim, Dim]:
    """Along one axis: the elements of a window, the number of windows, and the padding after the end."""
    span, whole = (k - 1) * d + 1, n + p + p
    why = f"{name}: a window of {span} elements does not fit in an axis of size {n}"
    if ceil_mode and d == 1 and not ask(whole, ">=", span):
        require(whole + s - 1, ">=", span, why)
        return whole, dim(1), p  # the one window extends beyond the end: it has all elements
    require(whole, ">=", span, why)
    if not ceil_mode:
        return k, window_count(whole, k, s, d), p
    number = minimum((whole - span + s - 1) // s, (n + p - 1) // s) + 1
    return k, number, maximum((number - 1) * s + span - n - p, p)


def per_axis(name: str, what: str, given: Any, axes: int, least: int) -> tuple[Dim, ...]:
    """A size for each axis, from one for all or a sequence; ArgumentError for one below ``least``."""
    found = tuple(size_dim(n, f"{name}: {what}") for n in _repeated(name, what, given, axes))
    if any(n.static is not None and n.static < least for n in found):
        raise ArgumentError(f"{name}: {what} must be {least} or more, not {given}", where=user_line(),
                            fix="use a larger number")  # fmt: skip
    return found


def _repeated(name: str, what: str, given: Any, axes: int) -> tuple[Any, ...]:
    items = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if len(items) not in (1, axes):
        raise ArgumentError(f"{name}: {what} has {len(items)} numbers for {axes} axes", where=user_line(),
                            fix="give one for all axes, or one for each")  # fmt: skip
    return items * axes if len(items) == 1 else items


def broadcast_axis(arrays: Sequence[Array], axis: int) -> Array:
    """An axis' array (count, kernel) of ``arrays``, to be broadcast over (\\*counts, \\*kernels) of all axes."""
    count, kernel = arrays[axis].shape
    shape: list[Any] = [1] * (2 * len(arrays))
    shape[axis], shape[len(arrays) + axis] = count, kernel
    return znp.reshape(arrays[axis], tuple(shape))


def unfold(x: ArrayLike, kernel_size: Shape, dilation: Shape = 1, padding: Shape = 0, stride: Shape = 1) -> Array:
    """Windows as columns, with which a convolution is a matrix product (``torch.nn.functional.unfold``, im2col).

    Parameters
    ----------
    x: ``(N, C, *spatial)``, of any element type and any number of spatial axes; or without N, where ``kernel_size`` has
        a number for each spatial axis.
    kernel_size, dilation, padding, stride: an int, or one for each spatial axis; the padding is zeros on both sides.

    Returns ``(N, C * window elements, windows)``. Raises ShapeError where no window fits, ArgumentError for a number
    that means nothing.

    >>> import numpy as np
    >>> unfold(np.arange(4.0).reshape(1, 1, 4), 2)
    array([[[0., 1., 2.],
            [1., 2., 3.]]])
    """
    x = as_array(x)
    w = sliding("unfold", spatial("unfold", x, kernel_size), kernel_size, stride, padding, dilation)
    axes, lead = len(w.size), dims_of(x)[: -len(w.size)]
    found = w.of(x, 0)
    first = len(lead)
    order = (*range(first), *range(first + axes, first + 2 * axes), *range(first, first + axes))
    shape = (*lead[:-1], product((*lead[-1:], *w.kernel)), product(w.count))
    return b.reshape(b.transpose(found, axes=order), shape=shape)


def fold(
    x: ArrayLike,
    output_size: Sequence[Size],
    kernel_size: Shape,
    dilation: Shape = 1,
    padding: Shape = 0,
    stride: Shape = 1,
) -> Array:
    """The transpose of :func:`unfold`: columns become windows, which are added where they overlap (col2im).

    Parameters
    ----------
    x: ``(N, C * window elements, windows)``, or without N; integers, floating-point or complex.
    output_size: the sizes of the spatial axes of the result.
    kernel_size, dilation, padding, stride: as in :func:`unfold`.

    Returns ``(N, C, *output_size)``. Raises ShapeError where the columns are not those of such an array.

    >>> import numpy as np
    >>> fold(np.ones((1, 2, 3)), (4,), 2)
    array([[[1., 2., 2., 1.]]])
    """
    x = as_array(x)
    size = tuple(size_dim(n, "fold: output_size") for n in output_size)
    axes = len(size)
    w = sliding("fold", size, kernel_size, stride, padding, dilation)
    elements = product(w.kernel)
    lead, rows, columns = dims_of(x)[:-2], dims_of(x)[-2], dims_of(x)[-1]
    require(rows % elements, "==", 0, f"fold: {rows} rows are no whole number of windows of {elements} elements")
    require(columns, "==", product(w.count), f"fold: {columns} columns, but there are {product(w.count)} windows")
    windows = b.reshape(x, shape=(*lead, rows // elements, *w.kernel, *w.count))
    first = len(lead) + 1
    order = (*range(first), *range(first + axes, first + 2 * axes), *range(first, first + axes))
    padded = tuple(n + p + q for n, p, q in zip(size, w.low, w.high, strict=True))
    total = b.overlap_add(b.transpose(windows, axes=order), size=padded, stride=w.stride, dilation=w.dilation)
    if padded == size:
        return total
    front = dims_of(total)[:first]
    return b.slice(total, start=((dim(0),) * first + w.low), step=(1,) * (first + axes),
                   stop=(*front, *(p + n for p, n in zip(w.low, size, strict=True))))  # fmt: skip
