"""Functions that move elements: flip, roll, join, split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from zenith.errors import DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim, dim, divide_exactly, minimum
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
def flip(x: Any, axis: Any = None) -> Any:
    """The order of elements turned round along axes (all of them without ``axis``)."""
    x = as_array(x)
    axes = normal_axes("flip", axis, x.ndim)
    return b.reverse(x, axes=axes) if axes else x


@implements(np.fliplr, gives="view")
def fliplr(x: Any) -> Any:
    """The second axis turned round."""
    return flip(x, 1)


@implements(np.flipud, gives="view")
def flipud(x: Any) -> Any:
    """The first axis turned round."""
    return flip(x, 0)


@implements(np.rot90, gives="view")
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


@implements(np.roll, gives="boxed")
def roll(x: Any, shift: Any, axis: Any = None) -> Any:
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


def _moved(x: Any, shift: Any, at: int) -> Any:
    """An array moved along an axis by what is known when the program is compiled: two parts in the other order."""
    moved, size = size_dim(shift, "roll: the shift"), dims_of(x)[at]
    if not ask(size, ">", 0):
        return x
    inside = ask(moved, ">=", 0) and ask(moved, "<", size)
    first = size - (moved if inside else moved % size)
    return b.concat(cut(x, at, first, size), cut(x, at, 0, first), axis=at)


def _moved_by_a_value(x: Any, shift: Any, at: int) -> Any:
    """An array moved along an axis by what the program computes: each element is read where it stood."""
    if shift.dtype.kind not in "iu" or shift.ndim:
        raise DTypeError("roll: a shift is an integer", where=user_line(), types=(shift.type,),
                         fix="cast it: shift.astype(numpy.int64), and give several axes as many shifts")  # fmt: skip
    size = user_size(dims_of(x)[at])
    place = ew.subtract(b.iota(size=dims_of(x)[at], dtype=int64), convert(shift, INT64))
    return b.take(x, ew.remainder(place, size), axis=at)


# --- join and split --------------------------------------------------------------------------------------------


@implements(np.concatenate, np.concat)
def concatenate(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays one after another along an axis; the other sizes must be equal.

    The arrays are in a sequence, or are the parts of one array along its first axis, of which there may be any number.
    They become ``dtype``, or what they have in common, by the rule ``casting`` (DTypeError where it forbids that).

    >>> concatenate(np.ones((2, 3, 1)), axis=1)
    array([[1., 1.],
           [1., 1.],
           [1., 1.]])
    """
    if isinstance(arrays, Tracer):
        return _parts_joined(_cast("concatenate", arrays, dtype, casting), axis)
    parts = [as_array(x) for x in arrays]
    if not parts:
        raise ShapeError(
            "concatenate needs at least one array", where=user_line(), fix="give a list with an array in it"
        )
    if axis is None:
        parts, axis = [ravel(p) for p in parts], 0
    target = np.dtype(dtype) if dtype is not None else result_dtype("concatenate", parts)
    parts = [_cast("concatenate", part, target, casting) for part in parts]
    at = normal_axis("concatenate", axis, parts[0].ndim)
    first = dims_of(parts[0])
    for part in parts[1:]:
        _require_like(first, dims_of(part), at)
    return b.concat(*parts, axis=at)


concat = concatenate


def _cast(name: str, array: Any, dtype: Any, casting: str) -> Any:
    """An array with the element type that is asked for, None for its own; DTypeError where a rule forbids that."""
    x = as_array(array)
    target = x.dtype if dtype is None else np.dtype(dtype)
    require_cast(name, x.dtype, target, casting)
    return convert(x, target)


def _parts_joined(x: Any, axis: Any) -> Any:
    """The parts of an array along its first axis, one after another."""
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
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays of one shape joined along a new axis."""
    if isinstance(arrays, Tracer):
        x = _cast("stack", arrays, dtype, casting)
        return moveaxis(x, 0, normal_axis("stack", axis, x.ndim))
    return concatenate([expand_dims(x, axis) for x in arrays], axis, dtype=dtype, casting=casting)


@implements(np.vstack)
def vstack(arrays: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays joined along the first axis, rows from 1-d ones."""
    return concatenate([atleast_2d(x) for x in arrays], 0, dtype=dtype, casting=casting)


@implements(np.hstack)
def hstack(arrays: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays joined along the second axis (the first for 1-d ones)."""
    parts = [atleast_1d(x) for x in arrays]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(arrays: Any) -> Any:
    """Arrays joined along the third axis."""
    return concatenate([atleast_3d(x) for x in arrays], 2)


@implements(np.column_stack)
def column_stack(arrays: Any) -> Any:
    """1-d arrays as columns, and 2-d arrays, joined along the second axis."""
    parts = [as_array(x) for x in arrays]
    return concatenate([expand_dims(p, 1) if p.ndim < 2 else p for p in parts], 1)


@implements(np.unstack, gives="view")
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis of fixed size."""
    x = as_array(x)
    at = normal_axis("unstack", axis, x.ndim)
    size = static_int(x.shape[at], "unstack: the size")
    parts = [squeeze(part, at) for part in split(x, size, at)] if size else []
    return tuple(parts if x.ndim > 1 else map(number, parts))


@implements(np.array_split, gives="view")
def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis: at the given places, or into a number of parts whose sizes differ by at most 1."""
    x = as_array(x)
    at = normal_axis("split", axis, x.ndim)
    size = dims_of(x)[at]
    if isinstance(indices_or_sections, (list, tuple, np.ndarray)):
        inner = [_inside(size_dim(i, "split: a place"), size) for i in indices_or_sections]
        pairs = pairwise([dim(0), *inner, size])
        return [cut(x, at, lo, hi if ask(lo, "<=", hi) else lo) for lo, hi in pairs]
    count = static_int(indices_or_sections, "split: the number of parts")
    inner = [size // count * i + minimum(i, size % count) for i in range(1, count)]
    places = [dim(0), *inner, size]
    return [cut(x, at, lo, hi) for lo, hi in pairwise(places)]


def _inside(place: Dim, size: Dim) -> Dim:
    """A place from the start of an axis, clipped to it as slices are."""
    if ask(place, "<", 0):
        place = size + place if ask(size + place, ">=", 0) else dim(0)
    return size if ask(place, ">", size) else place


@implements(np.split, gives="view")
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


@implements(np.hsplit, gives="view")
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the second axis (the first for 1-d arrays), as :func:`split`.

    >>> hsplit([[1, 2]], 2)
    [array([[1]]), array([[2]])]
    """
    x = as_array(ary)
    return split(x, indices_or_sections, 0 if _axes_at_least("hsplit", x, 1) == 1 else 1)


@implements(np.vsplit, gives="view")
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the first axis of an array of two or more, as :func:`split`.

    >>> vsplit([[1], [2]], 2)
    [array([[1]]), array([[2]])]
    """
    x = as_array(ary)
    _axes_at_least("vsplit", x, 2)
    return split(x, indices_or_sections, 0)


@implements(np.dsplit, gives="view")
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the third axis of an array of three or more, as :func:`split`.

    >>> dsplit([[[1, 2]]], 2)
    [array([[[1]]]), array([[[2]]])]
    """
    x = as_array(ary)
    _axes_at_least("dsplit", x, 3)
    return split(x, indices_or_sections, 2)


def _axes_at_least(name: str, x: Any, count: int) -> int:
    if x.ndim < count:
        raise ShapeError(
            f"{name} needs an array of {count} axes or more, not {x.ndim}",
            where=user_line(),
            fix="add an axis: numpy.expand_dims(x, 0)",
        )
    return int(x.ndim)


@implements(np.block, gives="boxed")
def block(arrays: Any) -> Any:
    """Nested lists of arrays joined: the innermost along the last axis, the outermost along the first of them.

    >>> block([[np.ones((1, 1)), np.zeros((1, 2))], [5, 6, 7]])
    array([[1., 0., 0.],
           [5., 6., 7.]])
    """
    depth = _depth(arrays)
    rank = max(depth, max(as_array(leaf).ndim for leaf in _leaves(arrays)))
    return _joined(arrays, depth, rank)


def _depth(items: Any) -> int:
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


def _leaves(items: Any) -> list[Any]:
    return [leaf for item in items for leaf in _leaves(item)] if isinstance(items, list) else [items]


def _joined(items: Any, depth: int, rank: int) -> Any:
    if not isinstance(items, list):
        x = as_array(items)
        return reshape(x, (*[1] * (rank - x.ndim), *user_shape(dims_of(x))))
    return concatenate([_joined(item, depth - 1, rank) for item in items], rank - depth)
