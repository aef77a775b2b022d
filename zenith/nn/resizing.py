"""Resizing: an array sampled at the points of a grid of another size, axis by axis.

The coordinate of a result's point in the array, and the elements around it, are PyTorch's arithmetic, in the array's
precision: results are PyTorch's to rounding, and nearest neighbours are the same ones. Each axis is a kernel that takes
one, two or four elements (none, linear or cubic) and weighs them; antialiased, it is a product with all weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith.errors import ArgumentError, DTypeError, user_line
from zenith.ir.dims import Dim, dim
from zenith.ir.types import NumPyType, int64
from zenith.nn.adaptive import adaptive_avg_pool
from zenith.nn.rounding import rounded_once
from zenith.nn.windows import per_axis, spatial
from zenith.numpy.operands import as_array, convert, dims_of, element_type, require
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace import current_recorder
from zenith.trace.bind import b
from zenith.trace.sizes import user_size

__all__ = ["interpolate"]

NEAREST, SMOOTH = ("nearest", "nearest-exact"), {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
_EXACT = 2**16  # factors with smaller denominators: a size times such a one is exact in double precision


def interpolate(
    x: ArrayLike, size: Any = None, scale_factor: Any = None, mode: str = "nearest", *, align_corners: bool = False,
    recompute_scale_factor: bool = False, antialias: bool = False,
) -> Array:  # fmt: skip
    """An array resized to other numbers of points along its spatial axes (``torch.nn.functional.interpolate``).

    Parameters
    ----------
    x: ``(N, C, *spatial)``: floating-point, of any element type for the nearest neighbours; where ``size`` or
        ``scale_factor`` is a tuple, it has a number for each of the last axes.
    size: the new sizes, an int or one for each spatial axis.
    scale_factor: instead of ``size``, a factor of the sizes; they are rounded down.
    mode: "nearest", "nearest-exact", "area", "linear" and "bilinear", "trilinear", "bicubic" for 1, 2, 3 and 2 axes.
    align_corners: whether the first and last points are aligned with those of ``x``, or else the outer edges.
    recompute_scale_factor: coordinates follow from the sizes alone, not from the given factor.
    antialias: where an axis gets smaller, weigh all elements around a point rather than the nearest ones
        ("bilinear" and "bicubic"), as image libraries do.

    Returns ``(N, C, *size)``. A factor without short binary form, such as 1.7, fixes the sizes that it multiplies.
    Raises ArgumentError for a mode that does not exist or fit, or not exactly one of size and factor; DTypeError for
    types that a mode cannot average; ShapeError for an axis without elements.

    >>> import numpy as np
    >>> interpolate(np.array([[[1.0, 3.0]]]), scale_factor=2, mode="linear")
    array([[[1. , 1.5, 2.5, 3. ]]])
    >>> interpolate(np.array([[[1.0, 3.0]]]), 4)
    array([[[1., 1., 3., 3.]]])
    """
    x = as_array(x)
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate needs a size or a scale_factor, and not both", where=user_line(),
                            fix="give one of them")  # fmt: skip
    old = spatial("interpolate", x, scale_factor if size is None else size)
    _check(x, mode, len(old), align_corners, antialias)
    for n in old:
        require(n, ">=", 1, "interpolate: a spatial axis has no elements")
    if size is not None:
        new, factors = per_axis("interpolate", "size", size, len(old), 1), [None] * len(old)
    else:
        given = tuple(scale_factor) if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * len(old)
        new = tuple(scaled(n, f) for n, f in zip(old, given, strict=True))
        factors = [None if recompute_scale_factor else f for f in given]
    if mode == "area":
        return adaptive_avg_pool(x, tuple(map(user_size, new)))
    resize = resized if mode in NEAREST else _rounded
    result: Array = resize(x, new, factors, mode, align_corners, antialias)
    return result


def resized(
    x: Array, new: Sequence[Dim], factors: Sequence[float | None], mode: str, align_corners: bool,
    antialias: bool = False,
) -> Array:  # fmt: skip
    """The last axes with new sizes, one after another, the last one first; factors override the ratios of sizes."""
    first, along = x.ndim - len(new), _averaged if antialias else _along
    for axis in range(len(new) - 1, -1, -1):
        x = along(x, first + axis, new[axis], factors[axis], mode, align_corners)
    return x


_rounded = rounded_once(resized)


def scaled(size: Dim, factor: float) -> Dim:
    """A size times a factor, rounded down; Python computes it where the factor has no short binary form."""
    if not (math.isfinite(factor) and factor > 0):
        raise ArgumentError(f"interpolate: a scale_factor of {factor} is no size", where=user_line(),
                            fix="use a positive number")  # fmt: skip
    exact = Fraction(factor)
    if size.static is None and exact.denominator < _EXACT:
        return size * exact.numerator // exact.denominator
    recorder = current_recorder()
    if size.static is not None or recorder is None:
        return dim(int(int(user_size(size)) * float(factor)))
    return recorder.computed(f"int(({recorder.canonical(size)}) * {float(factor)!r})")


def _check(x: Array, mode: str, axes: int, align_corners: bool, antialias: bool) -> None:
    if mode not in (*NEAREST, "area", *SMOOTH) or SMOOTH.get(mode, axes) != axes:
        fitting = [*NEAREST, "area", *(m for m, count in SMOOTH.items() if count == axes)]
        raise ArgumentError(f"interpolate: {mode!r} is no mode for {axes} spatial axes", where=user_line(),
                            fix=f"use one of {', '.join(fitting)}")  # fmt: skip
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f"interpolate: mode {mode!r} has no antialias", where=user_line(),
                            fix="use mode='bilinear' or 'bicubic', or leave it out")  # fmt: skip
    if align_corners and mode not in SMOOTH:
        raise ArgumentError(f"interpolate: mode {mode!r} has no align_corners", where=user_line(), fix="leave it out")
    if mode not in NEAREST and not element_type(x).is_float:
        raise DTypeError(f"interpolate: mode {mode!r} takes floating-point numbers, not {x.dtype}", where=user_line(),
                         fix="cast the array first: x.astype(numpy.float32)")  # fmt: skip


def _along(x: Array, axis: int, size: Dim, factor: float | None, mode: str, align_corners: bool) -> Any:
    """One axis resized."""
    old, real = dims_of(x)[axis], np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    if mode in NEAREST:
        if size == old and factor is None:
            return x
        return b.take(x, _nearest(old, size, factor, real, mode == "nearest-exact"), axis=axis)
    step, points = _step(old, size, factor, real, align_corners), _points(size, real)
    at = points * step if align_corners else (points + real.type(0.5)) * step - real.type(0.5)
    taps = _cubic(at, old, real) if mode == "bicubic" else _linear(at, old, real)
    total = None
    for index, weight in taps:
        shaped = znp.reshape(znp.astype(weight, x.dtype), (-1,) + (1,) * (x.ndim - 1 - axis))
        term = b.take(x, index, axis=axis) * shaped
        total = term if total is None else total + term
    return total


def _points(size: Dim, real: NumPyType) -> Array:
    """0, 1, 2 ... as floating-point numbers."""
    return convert(b.iota(size=size, dtype=int64), real)


def _step(old: Dim, new: Dim, factor: float | None, real: np.dtype[Any], align_corners: bool) -> ArrayLike:
    """The distance of the result's points in the array: a 0-d array, or a number."""
    if align_corners:
        last, intervals = (convert(b.size(value=n - 1), real) for n in (old, new))
        return znp.where(intervals > 0, last / znp.maximum(intervals, real.type(1)), real.type(0))
    if factor is not None:
        return real.type(1.0 / factor)
    return convert(b.size(value=old), real) / convert(b.size(value=new), real)


def _nearest(old: Dim, new: Dim, factor: float | None, real: NumPyType, exact: bool) -> Array:
    """The indices of the nearest elements: int64. "nearest" has PyTorch's shift by half an element, "exact" not."""
    step, points, half = _step(old, new, factor, real, False), _points(new, real), real.type(0.5)
    at = znp.maximum((points + half) * step - half, real.type(0)) + half if exact else points * step
    index = convert(znp.floor(convert(at, np.dtype(np.float32))), np.dtype(np.int64))
    return znp.minimum(index, user_size(old) - 1)


def _linear(at: Array, size: Dim, real: NumPyType) -> list[tuple[Array, Array]]:
    """The two elements around coordinates, with their weights."""
    at, last = znp.maximum(at, real.type(0)), user_size(size) - 1
    low = znp.minimum(convert(at, np.dtype(np.int64)), last)
    fraction = znp.minimum(znp.maximum(at - convert(low, real), real.type(0)), real.type(1))
    return [(low, real.type(1) - fraction), (znp.minimum(low + 1, last), fraction)]


def _cubic(at: Array, size: Dim, real: NumPyType) -> list[tuple[Array, Array]]:
    """The four elements around coordinates, with their weights; beyond the ends the last ones are repeated."""
    whole = znp.floor(at)
    index, last = convert(whole, np.dtype(np.int64)), user_size(size) - 1
    weights = cubic_weights(at - whole, real)
    return [(znp.minimum(znp.maximum(index + i, 0), last), w) for i, w in zip((-1, 0, 1, 2), weights, strict=True)]


def cubic_weights(t: Array, real: np.dtype[Any]) -> list[Array]:
    """The weights of elements at -1, 0, 1 and 2 for a coordinate ``t`` in [0, 1): Keys' kernel with a = -0.75."""
    near, far = _keys(-0.75, real)
    return [far(t + real.type(1)), near(t), near(real.type(1) - t), far(real.type(2) - t)]


def _keys(slope: float, real: np.dtype[Any]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The cubic kernel at distances below 1, and at those between 1 and 2.

    Robert G. Keys, "Cubic convolution interpolation for digital image processing", 1981.
    """
    a, n = real.type(slope), real.type
    return (
        lambda d: ((a + n(2)) * d - (a + n(3))) * d * d + n(1),
        lambda d: ((a * d - n(5) * a) * d + n(8) * a) * d - n(4) * a,
    )


def _averaged(x: Array, axis: int, size: Dim, factor: float | None, mode: str, align_corners: bool) -> Array:
    """One axis resized by a product with the weights of all elements, which are 0 outside of the kernel's support.

    The support depends on the sizes, so a program for any sizes cannot gather a fixed number of elements.
    """
    old, real = dims_of(x)[axis], np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    step = _step(old, size, factor, real, align_corners)
    centre = (_points(size, real) + real.type(0.5)) * step
    away = _points(old, real) + real.type(0.5) - znp.expand_dims(centre, 1)
    away = znp.abs(away) / znp.maximum(step, real.type(1))
    near, far = (lambda d: real.type(1) - d, None) if mode == "bilinear" else _keys(-0.5, real)
    beyond = real.type(0) if far is None else znp.where(away < 2, far(away), real.type(0))
    weights = znp.where(away < 1, near(away), beyond)
    weights = znp.astype(weights / znp.sum(weights, axis=1, keepdims=True), x.dtype)
    return znp.moveaxis(znp.matmul(znp.moveaxis(x, axis, -1), weights.T), -1, axis)
