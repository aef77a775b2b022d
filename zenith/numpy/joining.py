"""Functions that move elements: flip, roll, join, split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from zenith.errors import ArgumentError, DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim, DimLike, dim, divide_exactly, minimum
from zenith.ir.types import int64
from zenith.numpy import elementwise as ew
from zenith.numpy.casts import require_cast
from zenith.numpy.operands import (
    INT64,
    as_array,
    ask,
    convert,
    dims_of,
    normal_axes,
    normal_axis,
    number,
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
    moveaxis,
    ravel,
    reshape,
    squeeze,
    swapaxes,
)
from zenith.numpy.typing import Array, ArrayLike, Axes, Axis, DTypeLike, Out
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import size_dim, user_size
from zenith.trace.tracer import Tracer

__all__ = [
    "array_split", "block", "column_stack", "concat", "concatenate", "dsplit", "dstack", "flip", "fliplr", "flipud",
    "hsplit", "hstack", "roll", "rot90", "split", "stack", "unstack", "vsplit", "vstack",
]  # fmt: skip

# --- order -----------------------------------------------------------------------------------------------------


@implements(np.flip, gives="same")
def flip(x: ArrayLike, axis: Axes = None) -> Array:
    """The elements in reversed order along axes (all of them without ``axis``)."""
    x = as_array(x)
    axes = normal_axes("flip", axis, x.ndim)
    return b.reverse(x, axes=axes) if axes else x


@implements(np.fliplr, gives="view")
def fliplr(x: ArrayLike) -> Array:
    """The second axis reversed."""
    return flip(x, 1)


@implements(np.flipud, gives="view")
def flipud(x: ArrayLike) -> Array:
    """The first axis reversed."""
    return flip(x, 0)


@implements(np.rot90, gives="view")
def rot90(x: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """The array rotated by 90 degrees ``k`` times, from the first towards the second axis."""
    first, second = axes
    match k % 4:
        case 0:
            return as_array(x)
        case 1:
            return swapaxes(flip(x, second), first, second)
        case 2:
            return flip(x, (first, second))
    return flip(swapaxes(x, first, second), second)


def cut(x: Array, axis: int, start: DimLike, stop: DimLike) -> Array:
    """``start:stop`` of one axis; sizes inside the array."""
    own = dims_of(x)
    low = tuple(dim(start) if a == axis else dim(0) for a in range(len(own)))
    high = tuple(dim(stop) if a == axis else n for a, n in enumerate(own))
    return b.slice(x, start=low, stop=high, step=(1,) * len(own))


@implements(np.roll, gives="boxed")
def roll(x: ArrayLike, shift: ArrayLike, axis: Axes = None) -> Array:
    """Elements moved along axes; what leaves at the end comes in at the start.

    ``shift`` is an integer, a size, or an integer that the program computes; or one for each of several axes. Several
    along one axis are added. ShapeError where there are not as many as axes.

    >>> roll([1, 2, 3, 4], 1), roll([1, 2, 3, 4], (1, 2), axis=0)
    (array([4, 1, 2, 3]), array([2, 3, 4, 1]))
    """
    x = as_array(x)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), user_shape(dims_of(x)))
    shifts, axes = _listed(shift), list(axis) if isinstance(axis, (tuple, list)) else [axis]
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes", where=user_line(),
                         fix="give a shift for each axis, or one for all")  # fmt: skip
    shifts, axes = (each * len(other) if len(each) == 1 else each for each, other in ((shifts, axes), (axes, shifts)))
    total: dict[int, Any] = {}
    for moved, a in zip(shifts, axes, strict=True):
        at = normal_axis("roll", a, x.ndim)
        total[at] = total[at] + moved if at in total else moved
    for at, moved in total.items():
        x = _moved_by_a_value(x, moved, at) if isinstance(moved, Tracer) else _moved(x, moved, at)
    return x


def _listed(shift: Any) -> list[Any]:
    """One shift, or a row of them, as a list."""
    return list(shift) if isinstance(shift, (tuple, list)) or getattr(shift, "ndim", None) else [shift]


def _moved(x: Array, shift: ArrayLike, at: int) -> Array:
    """An array rolled along an axis by a shift that is known when the program is compiled: two slices, exchanged."""
    moved, size = size_dim(shift, "roll: the shift"), dims_of(x)[at]
    if not ask(size, ">", 0):
        return x
    inside = ask(moved, ">=", 0) and ask(moved, "<", size)
    first = size - (moved if inside else moved % size)
    return b.concat(cut(x, at, first, size), cut(x, at, 0, first), axis=at)


def _moved_by_a_value(x: Array, shift: Tracer, at: int) -> Array:
    """An array rolled along an axis by a computed shift: each element is read from the index that it had."""
    if shift.dtype.kind not in "iu" or shift.ndim:
        raise DTypeError("roll: a shift is an integer", where=user_line(), types=(shift.type,),
                         fix="cast it: shift.astype(numpy.int64), and give several axes as many shifts")  # fmt: skip
    size = user_size(dims_of(x)[at])
    source = ew.subtract(b.iota(size=dims_of(x)[at], dtype=int64), convert(shift, INT64))
    return b.take(x, ew.remainder(source, size), axis=at)


# --- join and split --------------------------------------------------------------------------------------------


@implements(np.concatenate, np.concat)
def concatenate(
    arrays: Sequence[ArrayLike], axis: Axis = 0, out: Out = None, *, dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Array:  # fmt: skip
    """Arrays one after another along an axis; the other sizes must be equal.

    The arrays are in a sequence, or are the slices of one array along its first axis, of which there may be any number.
    They become ``dtype``, or what they have in common, by the rule ``casting`` (DTypeError where it forbids that).

    >>> concatenate(np.ones((2, 3, 1)), axis=1)
    array([[1., 1.],
           [1., 1.],
           [1., 1.]])
    """
    if isinstance(arrays, Tracer):
        return _slices_joined(_cast("concatenate", arrays, dtype, casting), axis)
    operands = [as_array(x) for x in arrays]
    if not operands:
        raise ShapeError(
            "concatenate needs at least one array", where=user_line(), fix="give a list with an array in it"
        )
    if axis is None:
        operands, axis = [ravel(p) for p in operands], 0
    target = np.dtype(dtype) if dtype is not None else result_dtype("concatenate", operands)
    operands = [_cast("concatenate", operand, target, casting) for operand in operands]
    at = normal_axis("concatenate", axis, operands[0].ndim)
    first = dims_of(operands[0])
    for operand in operands[1:]:
        _require_like(first, dims_of(operand), at)
    return b.concat(*operands, axis=at)


concat = concatenate


def _cast(name: str, array: Array, dtype: DTypeLike | None, casting: str) -> Array:
    """An array with the element type that is asked for, None for its own; DTypeError where a rule forbids that."""
    x = as_array(array)
    target = x.dtype if dtype is None else np.dtype(dtype)
    require_cast(name, x.dtype, target, casting)
    return convert(x, target)


def _slices_joined(x: Array, axis: Axis) -> Array:
    """The slices of an array along its first axis, one after another."""
    if axis is None:
        return ravel(x)
    at = normal_axis("concatenate", axis, x.ndim - 1)
    moved = moveaxis(x, 0, at)
    sizes = dims_of(moved)
    return b.reshape(moved, shape=(*sizes[:at], sizes[at] * sizes[at + 1], *sizes[at + 2 :]))


def _require_like(first: Sequence[Dim], other: Sequence[Dim], axis: int) -> None:
    text = f"concatenate along axis {axis}: shapes {shape_text(first)} and {shape_text(other)} do not fit"
    if len(first) != len(other):
        raise ShapeError(text, where=user_line(), fix="give arrays with the same number of axes")
    for a, (n, m) in enumerate(zip(first, other, strict=True)):
        if a != axis:
            require(n, "==", m, text)


@implements(np.stack)
def stack(
    arrays: Sequence[ArrayLike], axis: int = 0, out: Out = None, *, dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> Array:  # fmt: skip
    """Arrays of one shape joined along a new axis."""
    if isinstance(arrays, Tracer):
        x = _cast("stack", arrays, dtype, casting)
        return moveaxis(x, 0, normal_axis("stack", axis, x.ndim))
    return concatenate([expand_dims(x, axis) for x in arrays], axis, dtype=dtype, casting=casting)


@implements(np.vstack)
def vstack(arrays: Sequence[ArrayLike], *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Array:
    """Arrays joined along the first axis, rows from 1-d ones."""
    return concatenate([atleast_2d(x) for x in arrays], 0, dtype=dtype, casting=casting)


@implements(np.hstack)
def hstack(arrays: Sequence[ArrayLike], *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Array:
    """Arrays joined along the second axis (the first for 1-d ones)."""
    operands = [atleast_1d(x) for x in arrays]
    return concatenate(operands, 0 if operands[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(arrays: Sequence[ArrayLike]) -> Array:
    """Arrays joined along the third axis."""
    return concatenate([atleast_3d(x) for x in arrays], 2)


@implements(np.column_stack)
def column_stack(arrays: Sequence[ArrayLike]) -> Array:
    """1-d arrays as columns, and 2-d arrays, joined along the second axis."""
    operands = [as_array(x) for x in arrays]
    return concatenate([expand_dims(p, 1) if p.ndim < 2 else p for p in operands], 1)


@implements(np.unstack, gives="view")
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis of fixed size."""
    x = as_array(x)
    at = normal_axis("unstack", axis, x.ndim)
    size = static_int(x.shape[at], "unstack: the size")
    slices = [squeeze(section, at) for section in split(x, size, at)] if size else []
    return tuple(slices if x.ndim > 1 else map(number, slices))


@implements(np.array_split, gives="view")
def array_split(x: ArrayLike, indices_or_sections: ArrayLike, axis: int = 0) -> list[Array]:
    """Slices along an axis: between the given indices, or a number of them whose sizes differ by at most 1."""
    x = as_array(x)
    at = normal_axis("split", axis, x.ndim)
    size = dims_of(x)[at]
    if isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        inner = [_inside(size_dim(i, "split: an index"), size) for i in indices_or_sections]
        pairs = pairwise([dim(0), *inner, size])
        return [cut(x, at, lo, hi if ask(lo, "<=", hi) else lo) for lo, hi in pairs]
    count = static_int(indices_or_sections, "split: the number of sections")
    if count < 1:
        raise ArgumentError(f"split: {count} sections", where=user_line(), fix="use one or more")
    inner = [size // count * i + minimum(i, size % count) for i in range(1, count)]
    bounds = [dim(0), *inner, size]
    return [cut(x, at, lo, hi) for lo, hi in pairwise(bounds)]


def _inside(index: Dim, size: Dim) -> Dim:
    """An index counted from 0, clipped to the axis as a slice's bound is."""
    if ask(index, "<", 0):
        index = size + index if ask(size + index, ">=", 0) else dim(0)
    return size if ask(index, ">", size) else index


@implements(np.split, gives="view")
def split(x: ArrayLike, indices_or_sections: ArrayLike, axis: int = 0) -> list[Array]:
    """Slices of equal size along an axis, or slices between given indices."""
    x = as_array(x)
    if not isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        count = static_int(indices_or_sections, "split: the number of sections")
        at = normal_axis("split", axis, x.ndim)
        n = dims_of(x)[at]
        if divide_exactly(n, dim(count)) is None:
            require(n % count, "==", 0, f"split into {count} equal parts of an axis of size {n}")
        bounds = [n // count * i for i in range(count + 1)]
        return [cut(x, at, lo, hi) for lo, hi in pairwise(bounds)]
    return array_split(x, indices_or_sections, axis)


@implements(np.hsplit, gives="view")
def hsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Array]:
    """Slices along the second axis (the first for 1-d arrays), as :func:`split`.

    >>> hsplit([[1, 2]], 2)
    [array([[1]]), array([[2]])]
    """
    x = as_array(ary)
    return split(x, indices_or_sections, 0 if _axes_at_least("hsplit", x, 1) == 1 else 1)


@implements(np.vsplit, gives="view")
def vsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Array]:
    """Slices along the first axis of an array of two or more, as :func:`split`.

    >>> vsplit([[1], [2]], 2)
    [array([[1]]), array([[2]])]
    """
    x = as_array(ary)
    _axes_at_least("vsplit", x, 2)
    return split(x, indices_or_sections, 0)


@implements(np.dsplit, gives="view")
def dsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Array]:
    """Slices along the third axis of an array of three or more, as :func:`split`.

    >>> dsplit([[[1, 2]]], 2)
    [array([[[1]]]), array([[[2]]])]
    """
    x = as_array(ary)
    _axes_at_least("dsplit", x, 3)
    return split(x, indices_or_sections, 2)


def _axes_at_least(name: str, x: Array, count: int) -> int:
    if x.ndim < count:
        raise ShapeError(
            f"{name} needs an array of {count} axes or more, not {x.ndim}",
            where=user_line(),
            fix="add an axis: numpy.expand_dims(x, 0)",
        )
    return int(x.ndim)


@implements(np.block, gives="boxed")
def block(arrays: Sequence[ArrayLike]) -> Array:
    """Nested lists of arrays joined: the innermost along the last axis, the outermost along the first of them.

    >>> block([[np.ones((1, 1)), np.zeros((1, 2))], [5, 6, 7]])
    array([[1., 0., 0.],
           [5., 6., 7.]])
    """
    depth = _depth(arrays)
    rank = max(depth, max(as_array(leaf).ndim for leaf in _leaves(arrays)))
    return _joined(arrays, depth, rank)


def _depth(items: object) -> int:
    if not isinstance(items, list):
        return 0
    depths = {_depth(item) for item in items}
    if len(depths) != 1:
        raise ShapeError(
            "block needs lists that are not empty and nested equally deep",
            where=user_line(),
            fix="nest the lists alike, with an array in each",
        )
    return depths.pop() + 1


def _leaves(items: object) -> list[Any]:
    return [leaf for item in items for leaf in _leaves(item)] if isinstance(items, list) else [items]


def _joined(items: Any, depth: int, rank: int) -> Array:
    if not isinstance(items, list):
        x = as_array(items)
        return reshape(x, (*[1] * (rank - x.ndim), *user_shape(dims_of(x))))
    return concatenate([_joined(item, depth - 1, rank) for item in items], rank - depth)
