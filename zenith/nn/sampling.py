"""Sampling of images at computed coordinates: grid_sample, and the grids of affine maps.

A point has a coordinate for each axis, -1 and 1 at its ends, the last axis first (x, y, z), as in PyTorch.
"""

from __future__ import annotations

from itertools import product as every
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith.errors import ArgumentError, DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim, dims
from zenith.ir.types import NumPyType, int64
from zenith.nn.resizing import cubic_weights
from zenith.nn.rounding import rounded_once
from zenith.nn.windows import per_axis
from zenith.numpy.operands import as_array, convert, dims_of, element_type, require
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b

__all__ = ["affine_grid", "grid_sample"]

MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@rounded_once
def grid_sample(
    x: ArrayLike, grid: ArrayLike, mode: str = "bilinear", padding_mode: str = "zeros", *, align_corners: bool = False
) -> Array:
    """Images sampled at the points of a grid.

    Parameters
    ----------
    x: ``(N, C, H, W)`` or ``(N, C, D, H, W)``, floating-point.
    grid: ``(N, *points, axes)``, of the same type: as many axes of points, and coordinates, as there are spatial axes.
    mode: "bilinear" (in all axes, also of volumes), "nearest", or "bicubic" for images.
    padding_mode: what is outside: "zeros", the nearest element of the "border", or the image by "reflection".
    align_corners: -1 and 1 are the centres of the first and last elements, or else their outer edges.

    Returns ``(N, C, *points)``. Raises ShapeError, DTypeError, and ArgumentError for a mode that does not exist.

    >>> import numpy as np
    >>> image = np.array([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> grid_sample(image, np.array([[[[0.0, 0.0], [1.0, -1.0]]]]), align_corners=True)
    array([[[[2.5, 2. ]]]])
    """
    x, grid = as_array(x), as_array(grid)
    axes = x.ndim - 2
    _check(x, grid, axes, mode, padding_mode)
    size, points = dims_of(x)[2:], dims_of(grid)[1:-1]
    real = grid.dtype
    taps = [
        _taps(grid[..., axes - 1 - axis], size[axis], real, mode, padding_mode, align_corners) for axis in range(axes)
    ]
    shape = (*dims_of(x)[:2], *points)
    front = [b.broadcast(b.iota(size=n, dtype=int64), shape=shape, axes=(a,)) for a, n in enumerate(shape[:2])]
    total: Any = None
    for corner in every(*taps):
        found = b.gather(x, *front, *(_over_channels(at, shape) for at, _, _ in corner))
        weight: Any = None
        inside: Any = None
        for _, own, within in corner:
            weight = own if weight is None or own is None else weight * own
            inside = within if inside is None else inside & within
        found = znp.where(inside[:, None], found, real.type(0))
        term = found if weight is None else found * weight[:, None]
        total = term if total is None else total + term
    return total


def _over_channels(indices: Array, shape: tuple[Dim, ...]) -> Array:
    """Indices (N, \\*points), the same for every channel."""
    return b.broadcast(indices, shape=shape, axes=(0, *range(2, len(shape))))


def _taps(
    at: Array, size: Dim, real: NumPyType, mode: str, padding: str, align: bool
) -> list[tuple[Array, Array, Array]]:
    """The elements along one axis that a sample combines: index, weight (None is 1), and whether it is inside."""
    n, one = convert(b.size(value=size), real), real.type(1)
    at = (at + one) / real.type(2) * (n - one) if align else ((at + one) * n - one) / real.type(2)
    if mode == "bicubic":
        low = znp.floor(at)
        weights = cubic_weights(at - low, real)
        taps = [(low + real.type(i), w) for i, w in zip((-1, 0, 1, 2), weights, strict=True)]
        return [_tap(_padded(tap, n, padding, align), w, n) for tap, w in taps]
    at = _padded(at, n, padding, align)
    if mode == "nearest":
        return [_tap(znp.rint(at), None, n)]
    low = znp.floor(at)
    fraction = at - low
    return [_tap(low, one - fraction, n), _tap(low + one, fraction, n)]


def _tap(at: Array, weight: ArrayLike | None, n: Any) -> tuple[Any, Any, Any]:
    """The element at an integral coordinate, by index 0 where that is outside."""
    inside = (at >= 0) & (at <= n - 1)
    index = convert(znp.where(inside, at, n - n), np.dtype(np.int64))
    return index, weight, inside


def _padded(at: Array, n: Any, padding: str, align: bool) -> Array:
    """Coordinates after padding: clamped to the border, or reflected; unchanged for zeros."""
    if padding == "zeros":
        return at
    if padding == "reflection":
        at = _reflected(at, n, align)
    return znp.minimum(znp.maximum(at, n - n), n - 1)


def _reflected(at: Array, n: Any, align: bool) -> Array:
    """Coordinates reflected at the ends: at the centres of the first and last elements, or at their outer edges."""
    half = at.dtype.type(0.0 if align else 0.5)
    span = n - 1 if align else n
    distance = znp.abs(at + half)
    reflections = znp.floor(distance / znp.where(span > 0, span, n))
    rest = distance - reflections * span
    reflected = znp.where(reflections % 2 == 0, rest, span - rest) - half
    return znp.where(span > 0, reflected, at - at)


def _check(x: Array, grid: Array, axes: int, mode: str, padding: str) -> None:
    if mode not in MODES or (mode == "bicubic" and axes != 2) or padding not in PADDINGS:
        raise ArgumentError(f"grid_sample: no mode {mode!r} with padding {padding!r} for {axes} axes",
                            where=user_line(),
                            fix=f"modes are {', '.join(MODES)}, paddings {', '.join(PADDINGS)}")  # fmt: skip
    if not element_type(x).is_float or x.dtype != grid.dtype:
        raise DTypeError(f"grid_sample takes floating-point numbers of one type, not {x.dtype} and {grid.dtype}",
                         where=user_line(), fix="cast one of the arrays")  # fmt: skip
    if axes not in (2, 3) or grid.ndim != axes + 2:
        raise ShapeError(f"grid_sample: arrays of {x.ndim} and {grid.ndim} axes are no images and sampling grids",
                         where=user_line(), fix="pass (N, C, H, W) and (N, *points, 2), or both with one axis more",
                         )  # fmt: skip
    require(dims_of(grid)[-1], "==", axes, "grid_sample: a point has a coordinate for each spatial axis")
    require(dims_of(grid)[0], "==", dims_of(x)[0], "grid_sample: one grid for each image")
    for n in dims_of(x)[2:]:
        require(n, ">=", 1, "grid_sample: a spatial axis has no elements")


@rounded_once
def affine_grid(theta: ArrayLike, size: Any, *, align_corners: bool = False) -> Array:
    """The coordinates to which affine maps take the elements of an image, for :func:`grid_sample`.

    Parameters
    ----------
    theta: ``(N, 2, 3)`` for images or ``(N, 3, 4)`` for volumes, floating-point: a matrix, then a column of shifts.
    size: ``(N, C, H, W)`` or ``(N, C, D, H, W)``, the sizes of the result of :func:`grid_sample`.
    align_corners: as in :func:`grid_sample`.

    Returns ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``. Raises ShapeError and DTypeError.

    >>> import numpy as np
    >>> affine_grid(np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]]]), (1, 1, 1, 2))
    array([[[[-0.5,  0.5],
             [ 0.5,  0.5]]]])
    """
    theta, axes = as_array(theta), len(size) - 2
    if not element_type(theta).is_float:
        raise DTypeError(f"affine_grid takes floating-point numbers, not {theta.dtype}", where=user_line(),
                         fix="cast the array first: theta.astype(numpy.float32)")  # fmt: skip
    if axes not in (2, 3) or theta.ndim != 3 or dims_of(theta)[1:] != dims((axes, axes + 1)):
        raise ShapeError(f"affine_grid: maps {theta.shape} are none for a result of {len(size)} axes",
                         where=user_line(), fix="pass (N, 2, 3) for images, (N, 3, 4) for volumes")  # fmt: skip
    number, _, *sizes = per_axis("affine_grid", "size", size, len(size), 0)
    require(dims_of(theta)[0], "==", number, "affine_grid: one map for each image")
    total = theta[:, :, axes]
    total = znp.reshape(total, (-1, *(1,) * axes, axes))
    for axis, n in enumerate(sizes):
        along = znp.reshape(_centres(n, theta.dtype, align_corners), (-1,) + (1,) * (axes - axis))
        total = total + along * znp.reshape(theta[:, :, axes - 1 - axis], (-1, *(1,) * axes, axes))
    return total


def _centres(size: Dim, real: NumPyType, align: bool) -> Array:
    """The coordinates of the elements of an axis."""
    points, n, one = convert(b.iota(size=size, dtype=int64), real), convert(b.size(value=size), real), real.type(1)
    if not align:
        return (points * real.type(2) + one) / n - one
    ends = znp.maximum(n - one, one)
    return znp.where(n > 1, points * real.type(2) / ends - one, n - n)
