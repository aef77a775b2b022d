"""Reading parts of arrays: NumPy's indexing, take and take_along_axis.

Basic indices (ints, slices, None, Ellipsis) become one slice, reversals and a reshape; integer arrays become a take
or a gather. Bounds that depend on sizes ask: an index outside is the user's error (a requirement), a slice that is
clipped or not is a branch (an assumption).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith.errors import DTypeError, OutOfBoundsError, ShapeError, TraceError, user_line
from zenith.ir.dims import Dim, dim, product
from zenith.ir.types import int64
from zenith.numpy import elementwise as ew
from zenith.numpy.operands import (
    INT64,
    align,
    as_array,
    ask,
    convert,
    dims_of,
    normal_axis,
    require,
    shape_text,
    spread,
    static_int,
)
from zenith.numpy.shaping import transpose
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import TracedSize, size_dim, user_size
from zenith.trace.tracer import Tracer

__all__ = ["take", "take_along_axis"]


@dataclass(frozen=True, slots=True)
class Range:
    """A slice with its bounds found: ``start:stop`` of the axis, reversed or not, every ``step``-th."""

    start: Dim
    stop: Dim
    step: int
    reverse: bool


@implements()
def _getitem(x: Any, index: Any) -> Any:
    """``x[index]``."""
    items = _expand_ellipsis(x, index if isinstance(index, tuple) else (index,))
    if any(_is_array(i) for i in items):
        return _advanced(x, items)
    return _basic(x, items)


def _is_array(item: Any) -> bool:
    """Whether an index item picks by an array; NumPy's integers and sizes are plain integers."""
    if isinstance(item, (list, np.ndarray, Tracer)):
        return True
    return (isinstance(item, np.generic) and not isinstance(item, np.integer)) or (
        hasattr(item, "__array__") and not isinstance(item, np.generic)
    )


def _expand_ellipsis(x: Any, items: tuple[Any, ...]) -> list[Any]:
    """One item for each axis, None for new ones; boolean masks are refused here."""
    for item in items:
        _refuse_mask(item)
    used = sum(i is not None and i is not Ellipsis for i in items)
    if used > x.ndim:
        raise OutOfBoundsError(
            f"too many indices: {used} for an array of {x.ndim} axes", where=user_line(), types=_types(x)
        )
    if sum(i is Ellipsis for i in items) > 1:
        raise OutOfBoundsError("an index can have one ellipsis (...) only", where=user_line())
    if not any(i is Ellipsis for i in items):
        items = (*items, Ellipsis)
    at = next(p for p, i in enumerate(items) if i is Ellipsis)
    return [*items[:at], *[slice(None)] * (x.ndim - used), *items[at + 1 :]]


def _types(x: Any) -> tuple[Any, ...]:
    return (x.type,) if isinstance(x, Tracer) else ()


def _refuse_mask(item: Any) -> None:
    boolean = isinstance(item, (bool, np.bool_)) or getattr(getattr(item, "dtype", None), "kind", "") == "b"
    if boolean or (isinstance(item, list) and any(isinstance(i, bool) for i in item)):
        raise TraceError(
            "indexing with a boolean mask gives a result whose size depends on values",
            where=user_line(),
            types=_types(item),
            fix="keep the shape: numpy.where(mask, x, 0), or sums of numpy.where(mask, x, 0)",
        )


# --- basic indices ---------------------------------------------------------------------------------------------


def _basic(x: Any, items: Sequence[Any]) -> Any:
    sizes = iter(dims_of(x))
    ranges: list[Range] = []
    shape: list[Dim] = []
    for item in items:
        if item is None:
            shape.append(dim(1))
            continue
        size = next(sizes)
        if isinstance(item, slice):
            ranges.append(find_range(item, size))
            shape.append(_length(ranges[-1]))
        else:
            place = _place(item, size)
            ranges.append(Range(place, place + 1, 1, False))
    result = _apply_ranges(x, ranges)
    return result if dims_of(result) == tuple(shape) else b.reshape(result, shape=tuple(shape))


def _length(r: Range) -> Dim:
    return (r.stop - r.start + (r.step - 1)) // r.step


def _apply_ranges(x: Any, ranges: Sequence[Range]) -> Any:
    """Slice, turn round, and step: a reversed axis is cut first and stepped after it was turned."""
    sizes = dims_of(x)
    step = tuple(1 if r.reverse else r.step for r in ranges)
    whole = all(r.start == 0 and r.stop == n and s == 1 for r, n, s in zip(ranges, sizes, step, strict=True))
    if not whole:
        x = b.slice(x, start=tuple(r.start for r in ranges), stop=tuple(r.stop for r in ranges), step=step)
    turned = tuple(a for a, r in enumerate(ranges) if r.reverse)
    if turned:
        x = b.reverse(x, axes=turned)
    if any(r.reverse and r.step > 1 for r in ranges):
        sizes = dims_of(x)
        late = tuple(r.step if r.reverse else 1 for r in ranges)
        x = b.slice(x, start=(0,) * len(sizes), stop=sizes, step=late)
    return x


def _place(index: Any, size: Dim) -> Dim:
    """The place of an index from the start of an axis; demands that it is inside."""
    if isinstance(index, float):
        raise TraceError("an index must be an integer or a slice, not a float", where=user_line(), fix="use int or //")
    place = size_dim(index, "an index")
    if (place.static is None and ask(place, "<", 0)) or (place.static or 0) < 0:
        place = size + place
    text = f"index {index} is out of bounds for an axis of size {size}"
    require(place, ">=", 0, text, OutOfBoundsError)
    require(size, ">", place, text, OutOfBoundsError)
    return place


def find_range(item: slice, size: Dim) -> Range:
    """The elements that a slice takes of an axis, clipped as in NumPy."""
    step = 1 if item.step is None else static_int(item.step, "the step of a slice")
    if step == 0:
        raise ShapeError("the step of a slice cannot be zero", where=user_line())
    if step > 0:
        start = dim(0) if item.start is None else _clip(item.start, size, dim(0), size)
        stop = size if item.stop is None else _clip(item.stop, size, dim(0), size)
    else:
        stop = size if item.start is None else _clip(item.start, size, dim(-1), size - 1) + 1
        start = dim(0) if item.stop is None else _clip(item.stop, size, dim(-1), size - 1) + 1
    return Range(start, stop if ask(stop, ">=", start) else start, abs(step), step < 0)


def _clip(bound: Any, size: Dim, low: Dim, high: Dim) -> Dim:
    """A slice's bound from the start of the axis, between ``low`` and ``high``."""
    place = size_dim(bound, "a bound of a slice")
    if ask(place, "<", 0):
        place = size + place
        if ask(place, "<", low):
            return low
    return high if ask(place, ">", high) else place


# --- index arrays ----------------------------------------------------------------------------------------------


def _advanced(x: Any, items: Sequence[Any]) -> Any:
    """Index arrays (ints beside them count as such) after the basic items of the other axes."""
    picks = [not (i is None or isinstance(i, slice)) for i in items]
    x = _basic(x, [slice(None) if p else i for i, p in zip(items, picks, strict=True)])
    places = [a for a, p in enumerate(picks) if p]
    indices = [index_array(items[a], dims_of(x)[a]) for a in places]
    if len(places) == 1:
        return b.take(x, indices[0], axis=places[0])
    indices = align("indexing", indices)
    others = [a for a in range(x.ndim) if a not in places]
    found = b.gather(transpose(x, [*places, *others]), *indices)
    adjacent = places == list(range(places[0], places[-1] + 1))
    return _to_place(found, indices[0].ndim, places[0]) if adjacent else found


def _to_place(found: Any, count: int, axis: int) -> Any:
    """Move the first ``count`` axes behind the next ``axis`` ones."""
    rest = range(count, found.ndim)
    return transpose(found, [*rest[:axis], *range(count), *rest[axis:]])


def index_array(item: Any, size: Dim) -> Any:
    """Indices counted from 0 as int64; concrete ones are checked at once where the size is fixed."""
    if isinstance(item, TracedSize) or not _is_array(item):
        place = _place(item, size)
        return convert(user_size(place), INT64) if place.static is None else np.asarray(place.static, INT64)
    array = as_array(item)
    if isinstance(item, list) and not item:
        array = array.astype(INT64)
    if array.dtype.kind not in "iu":
        raise DTypeError(
            f"an index array must hold integers, not {array.dtype}",
            where=user_line(),
            types=_types(array),
            fix="cast it: i.astype(numpy.int64)",
        )
    return _counted_from_zero(convert(array, INT64), size)


def _counted_from_zero(array: Any, size: Dim) -> Any:
    if not isinstance(array, Tracer):
        if size.static is not None:
            _check_indices(array, size.static)
        if not array.size or array.min() >= 0:
            return array
    return _where(ew.less(array, 0), ew.add(array, user_size(size)), array)


def _where(condition: Any, x: Any, y: Any) -> Any:
    """``where`` of aligned operands of one element type."""
    return b.where(*align("indexing", [condition, x, y]))


def _check_indices(array: np.ndarray[Any, Any], size: int) -> None:
    if array.size and not (-size <= int(array.min()) and int(array.max()) < size):
        raise OutOfBoundsError(
            f"an index is out of bounds for an axis of size {size}", where=user_line(), fix="check the indices"
        )


@implements(np.take)
def take(x: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """Elements (or slices along an axis) at given places; ``mode`` "clip" and "wrap" move places inside."""
    x = as_array(x)
    if axis is None:
        x, axis = b.reshape(x, shape=(product(dims_of(x)),)), 0
    at = normal_axis("take", axis, x.ndim)
    size = dims_of(x)[at]
    places = as_array(indices)
    if mode == "wrap":
        places = ew.remainder(convert(places, INT64), user_size(size))
    elif mode == "clip":
        places = ew.maximum(ew.minimum(convert(places, INT64), user_size(size - 1)), 0)
    return b.take(x, index_array(places, size), axis=at)


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """For each place of ``indices`` the element of ``arr`` at that index along an axis."""
    x = as_array(arr)
    if axis is None:
        x, axis = b.reshape(x, shape=(product(dims_of(x)),)), 0
    at = normal_axis("take_along_axis", axis, x.ndim)
    own, places = dims_of(x), index_array(as_array(indices), dims_of(x)[at])
    if places.ndim != x.ndim:
        raise ShapeError(
            f"take_along_axis needs indices of {x.ndim} axes, not {shape_text(dims_of(places))}", where=user_line()
        )
    shape = tuple(dims_of(places)[a] if a == at else n for a, n in enumerate(own))
    places = spread(places, shape)
    grid = [
        places if a == at else b.broadcast(b.iota(size=n, dtype=int64), shape=shape, axes=(a,))
        for a, n in enumerate(shape)
    ]
    return b.gather(x, *grid)
