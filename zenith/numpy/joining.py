"""Functions that move elements: flip, roll, join, split, pad."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from zenith.errors import ShapeError, UnsupportedError, user_line
from zenith.ir.dims import Dim, dim, divide_exactly, minimum
from zenith.numpy.operands import (
    as_array,
    ask,
    convert,
    dims_of,
    normal_axes,
    normal_axis,
    require,
    result_dtype,
    shape_text,
    static_int,
    user_shape,
)
from zenith.numpy.shaping import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    expand_dims,
    ravel,
    reshape,
    squeeze,
    swapaxes,
)
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import size_dim

__all__ = [
    "array_split", "column_stack", "concat", "concatenate", "dstack", "flip", "fliplr", "flipud", "hstack", "pad",
    "roll", "rot90", "split", "stack", "unstack", "vstack",
]  # fmt: skip

# --- order -----------------------------------------------------------------------------------------------------


@implements(np.flip)
def flip(x: Any, axis: Any = None) -> Any:
    """The order of elements turned round along axes (all of them without ``axis``)."""
    x = as_array(x)
    axes = normal_axes("flip", axis, x.ndim)
    return b.reverse(x, axes=axes) if axes else x


@implements(np.fliplr)
def fliplr(x: Any) -> Any:
    """The second axis turned round."""
    return flip(x, 1)


@implements(np.flipud)
def flipud(x: Any) -> Any:
    """The first axis turned round."""
    return flip(x, 0)


@implements(np.rot90)
def rot90(x: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """The array turned by 90 degrees ``k`` times, from the first towards the second axis."""
    first, second = axes
    match k % 4:
        case 0:
            return as_array(x)
        case 1:
            return swapaxes(flip(x, second), first, second)
        case 2:
            return flip(x, (first, second))
    return flip(swapaxes(x, first, second), second)


def cut(x: Any, axis: int, start: Any, stop: Any) -> Any:
    """``start:stop`` of one axis; sizes inside the array."""
    own = dims_of(x)
    low = tuple(dim(start) if a == axis else dim(0) for a in range(len(own)))
    high = tuple(dim(stop) if a == axis else n for a, n in enumerate(own))
    return b.slice(x, start=low, stop=high, step=(1,) * len(own))


@implements(np.roll)
def roll(x: Any, shift: Any, axis: Any = None) -> Any:
    """Elements moved along axes; what leaves at the end comes in at the start."""
    x = as_array(x)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), user_shape(dims_of(x)))
    if isinstance(axis, (tuple, list)):
        shifts = shift if isinstance(shift, (tuple, list)) else (shift,) * len(axis)
        for s, a in zip(shifts, axis, strict=True):
            x = roll(x, s, a)
        return x
    at, moved = normal_axis("roll", axis, x.ndim), size_dim(shift, "roll: the shift")
    size = dims_of(x)[at]
    if not ask(size, ">", 0):
        return x
    inside = ask(moved, ">=", 0) and ask(moved, "<", size)
    first = size - (moved if inside else moved % size)
    return b.concat(cut(x, at, first, size), cut(x, at, 0, first), axis=at)


# --- join and split --------------------------------------------------------------------------------------------


@implements(np.concatenate, np.concat)
def concatenate(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays one after another along an axis; the other sizes must be equal."""
    parts = [as_array(x) for x in arrays]
    if not parts:
        raise ShapeError("concatenate needs at least one array", where=user_line())
    if axis is None:
        parts, axis = [ravel(p) for p in parts], 0
    target = np.dtype(dtype) if dtype is not None else result_dtype("concatenate", parts)
    at = normal_axis("concatenate", axis, parts[0].ndim)
    first = dims_of(parts[0])
    for part in parts[1:]:
        _require_like(first, dims_of(part), at)
    return b.concat(*[convert(p, target) for p in parts], axis=at)


concat = concatenate


def _require_like(first: Sequence[Dim], other: Sequence[Dim], axis: int) -> None:
    text = f"concatenate along axis {axis}: shapes {shape_text(first)} and {shape_text(other)} do not fit"
    if len(first) != len(other):
        raise ShapeError(text, where=user_line(), fix="give arrays with the same number of axes")
    for a, (n, m) in enumerate(zip(first, other, strict=True)):
        if a != axis:
            require(n, "==", m, text)


@implements(np.stack)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays of one shape joined along a new axis."""
    return concatenate([expand_dims(x, axis) for x in arrays], axis, dtype=dtype)


@implements(np.vstack)
def vstack(arrays: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays joined along the first axis, rows from 1-d ones."""
    return concatenate([atleast_2d(x) for x in arrays], 0, dtype=dtype)


@implements(np.hstack)
def hstack(arrays: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays joined along the second axis (the first for 1-d ones)."""
    parts = [atleast_1d(x) for x in arrays]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype)


@implements(np.dstack)
def dstack(arrays: Any) -> Any:
    """Arrays joined along the third axis."""
    return concatenate([atleast_3d(x) for x in arrays], 2)


@implements(np.column_stack)
def column_stack(arrays: Any) -> Any:
    """1-d arrays as columns, and 2-d arrays, joined along the second axis."""
    parts = [as_array(x) for x in arrays]
    return concatenate([expand_dims(p, 1) if p.ndim < 2 else p for p in parts], 1)


@implements(np.unstack)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis of fixed size."""
    x = as_array(x)
    at = normal_axis("unstack", axis, x.ndim)
    return tuple(squeeze(part, at) for part in split(x, static_int(x.shape[at], "unstack: the size"), at))


@implements(np.array_split)
def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis: at the given places, or into a number of parts whose sizes differ by at most 1."""
    x = as_array(x)
    at = normal_axis("split", axis, x.ndim)
    size = dims_of(x)[at]
    if isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        inner = [_inside(size_dim(i, "split: a place"), size) for i in indices_or_sections]
    else:
        count = static_int(indices_or_sections, "split: the number of parts")
        inner = [size // count * i + minimum(i, size % count) for i in range(1, count)]
    places = [dim(0), *inner, size]
    return [cut(x, at, lo, hi) for lo, hi in pairwise(places)]


def _inside(place: Dim, size: Dim) -> Dim:
    """A place from the start of an axis, clipped to it as slices are."""
    if ask(place, "<", 0):
        place = size + place
    return size if ask(place, ">", size) else place


@implements(np.split)
def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Equal parts along an axis, or parts between given places."""
    x = as_array(x)
    if not isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        count = static_int(indices_or_sections, "split: the number of parts")
        at = normal_axis("split", axis, x.ndim)
        n = dims_of(x)[at]
        if divide_exactly(n, dim(count)) is None:
            require(n % count, "==", 0, f"split into {count} equal parts of an axis of size {n}")
        places = [n // count * i for i in range(count + 1)]
        return [cut(x, at, lo, hi) for lo, hi in pairwise(places)]
    return array_split(x, indices_or_sections, axis)


@implements(np.pad)
def pad(x: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0, **options: Any) -> Any:
    """A constant put before and after the elements of each axis; ``pad_width`` as in NumPy."""
    if mode != "constant" or options or isinstance(constant_values, (tuple, list)):
        raise UnsupportedError(
            "pad with one constant only is supported", where=user_line(), fix="join slices with numpy.concatenate"
        )
    x = as_array(x)
    pairs = _pad_pairs(pad_width, x.ndim)
    low, high = (tuple(size_dim(p[i], "pad: a width") for p in pairs) for i in (0, 1))
    if any((p.static or 0) < 0 for p in (*low, *high)):
        raise ShapeError("pad: a width is negative", where=user_line(), fix="use a slice to remove elements")
    return b.pad(x, convert(constant_values, x.dtype), low=low, high=high, interior=(0,) * x.ndim)


def _pad_pairs(width: Any, rank: int) -> list[tuple[Any, Any]]:
    if isinstance(width, dict):
        return [_pair(width.get(a, width.get(a - rank, 0))) for a in range(rank)]
    items = width.tolist() if isinstance(width, np.ndarray) else width
    if not isinstance(items, (list, tuple)) or not any(isinstance(i, (list, tuple)) for i in items):
        return [_pair(items)] * rank
    return [_pair(i) for i in items] * (rank if len(items) == 1 else 1)


def _pair(width: Any) -> tuple[Any, Any]:
    if isinstance(width, (list, tuple)):
        return (width[0], width[-1])
    return (width, width)
