"""Selections: what an index picks of an array, to be read or written.

An index has items that are *basic* (ints, slices, None, Ellipsis), which give a view, and items that are arrays: of
integers, or one mask of bools. The basic ones are applied first; what is left is a view of which the arrays pick
elements. The axes of these stand where NumPy puts them: where the arrays were, or in front where basic items separate
them. Bounds that depend on sizes ask: an index outside is the user's error (a requirement), a slice that is clipped or
not is a branch (an assumption).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith.errors import DTypeError, OutOfBoundsError, ShapeError, TraceError, user_line
from zenith.ir.dims import Dim, dim
from zenith.numpy.operands import INT64, UINT64, align, as_array, ask, convert, dims_of, require, static_int
from zenith.trace.bind import b
from zenith.trace.sizes import TracedSize, size_dim, user_size
from zenith.trace.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Range:
    """A slice with its bounds found: ``start:stop`` of the axis, reversed or not, every ``step``-th."""

    start: Dim
    stop: Dim
    step: int
    reverse: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """What an index picks: of the view ``part`` everything, or what ``arrays`` pick of its axes ``axes``.

    ``arrays`` are integers counted from 0, of one shape. Their axes stand from axis ``at`` of the result on.
    """

    part: Any
    axes: tuple[int, ...] = ()
    arrays: tuple[Any, ...] = ()
    at: int = 0

    @property
    def lead(self) -> tuple[Dim, ...]:
        """The sizes of the index arrays."""
        return dims_of(self.arrays[0]) if self.arrays else ()

    @property
    def others(self) -> tuple[int, ...]:
        """The axes of the view that no array picks from."""
        return tuple(a for a in range(self.part.ndim) if a not in self.axes)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of what is picked."""
        if not self.arrays:
            return dims_of(self.part)
        rest = tuple(dims_of(self.part)[a] for a in self.others)
        return (*rest[: self.at], *self.lead, *rest[self.at :])


@dataclass(frozen=True, slots=True)
class Masked:
    """What a mask picks: elements of the view ``part`` where ``mask`` is true, whose first axis is ``axis`` there."""

    part: Any
    mask: Any
    axis: int


def select(x: Any, index: Any) -> Selection | Masked:
    """What an index picks of an array."""
    items = _items(x, index if isinstance(index, tuple) else (index,))
    masks = [p for p, item in enumerate(items) if isinstance(item, _Mask)]
    if masks:
        return _masked(x, items, masks)
    return _picked(x, items)


class _Mask:
    """A traced mask among the items of an index; behind it stands an empty one for each further axis that it takes."""

    def __init__(self, array: Any = None) -> None:
        self.array = array


# --- items ---------------------------------------------------------------------------------------------------------


def is_array(item: Any) -> bool:
    """Whether an index item picks by an array; NumPy's integers and sizes are plain integers."""
    if isinstance(item, (list, np.ndarray, Tracer)):
        return True
    return (isinstance(item, np.generic) and not isinstance(item, np.integer)) or (
        hasattr(item, "__array__") and not isinstance(item, np.generic)
    )


def _items(x: Any, index: tuple[Any, ...]) -> list[Any]:
    """One item for each axis, None for new ones; known masks as the places that they pick."""
    items = [part for item in index for part in _expand_mask(item)]
    used = sum(not (i is None or i is Ellipsis or isinstance(i, _Flag)) for i in items)
    if used > x.ndim:
        raise OutOfBoundsError(
            f"too many indices: {used} for an array of {x.ndim} axes",
            where=user_line(),
            types=types_of(x),
            fix="use as many indices as there are axes, or fewer",
        )
    if sum(i is Ellipsis for i in items) > 1:
        raise OutOfBoundsError(
            "an index can have one ellipsis (...) only",
            where=user_line(),
            fix="leave the others out, or write : for an axis",
        )
    if not any(i is Ellipsis for i in items):
        items = [*items, Ellipsis]
    at = next(p for p, i in enumerate(items) if i is Ellipsis)
    found = [*items[:at], *[slice(None)] * (x.ndim - used), *items[at + 1 :]]
    axis = 0
    for item in found:
        _require_sizes(item, dims_of(x), axis)
        axis += not (item is None or isinstance(item, _Flag))
    return [item.places if isinstance(item, _Known) else item for item in found]


class _Known:
    """The places that a known mask picks along one axis; the first axis tells the mask's shape."""

    def __init__(self, places: Any, shape: tuple[int, ...]) -> None:
        self.places, self.shape = places, shape


class _Flag:
    """One known bool: a new axis, of one place or of none."""

    def __init__(self, flag: Any) -> None:
        self.places = np.zeros(int(bool(flag)), INT64)


def _expand_mask(item: Any) -> list[Any]:
    if isinstance(item, list) and _holds_bools(item):
        item = as_array(item)
    if isinstance(item, (bool, np.bool_)):
        return [_Flag(item)]
    if getattr(getattr(item, "dtype", None), "kind", "") != "b":
        return [item]
    mask = as_array(item)
    if not mask.ndim:
        if not isinstance(mask, Tracer):
            return [_Flag(mask)]
        raise TraceError("an index that is one traced bool picks all or nothing", where=user_line(),
                         types=types_of(mask), fix="choose with numpy.where(flag, x, y)")  # fmt: skip
    if isinstance(mask, Tracer):
        return [_Mask(mask), *(_Mask() for _ in range(mask.ndim - 1))]
    found = np.nonzero(mask)
    return [_Known(places, mask.shape if k == 0 else ()) for k, places in enumerate(found)]


def _holds_bools(items: list[Any]) -> bool:
    return any(_holds_bools(i) if isinstance(i, list) else isinstance(i, (bool, np.bool_)) for i in items)


def _require_sizes(item: Any, sizes: Sequence[Dim], axis: int) -> None:
    """Demand that a mask has the sizes of the axes that it picks from."""
    if isinstance(item, _Known):
        own: Sequence[Any] = item.shape
    elif isinstance(item, _Mask) and item.array is not None:
        own = dims_of(item.array)
    else:
        return
    for k, n in enumerate(own):
        text = "a mask must have the sizes of the axes that it picks from"
        require(sizes[axis + k], "==", n, text, OutOfBoundsError)


def types_of(x: Any) -> tuple[Any, ...]:
    """The type of a traced array, for a message."""
    return (x.type,) if isinstance(x, Tracer) else ()


# --- basic indices -------------------------------------------------------------------------------------------------


def basic(x: Any, items: Sequence[Any]) -> Any:
    """The view that ints, slices and None pick, one for each axis or new axis."""
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
        raise ShapeError("the step of a slice cannot be zero", where=user_line(), fix="use a step other than zero")
    if step > 0:
        start = dim(0) if item.start is None else _clip(item.start, size, dim(0), size)
        stop = size if item.stop is None else _clip(item.stop, size, dim(0), size)
    else:
        stop = size if item.start is None else _clip(item.start, size, dim(-1), size - 1) + 1
        start = dim(0) if item.stop is None else _clip(item.stop, size, dim(-1), size - 1) + 1
    return Range(start, stop if ask(stop, ">=", start) else start, abs(step), step < 0)


def _clip(bound: Any, size: Dim, low: Dim, high: Dim) -> Dim:
    """A slice's bound from the start of the axis, between ``low`` and ``high``."""
    if isinstance(bound, Tracer):
        raise TraceError(
            "a bound of a slice must be known before the program runs, not computed by it", where=user_line(),
            types=(bound.type,), fix="compute it from shapes (x.shape[0]), or pass it as a static argument; so many "
            "elements from a place that is computed are zenith.dynamic_slice_in_dim(x, i, size)",
        )  # fmt: skip
    place = size_dim(bound, "a bound of a slice")
    if ask(place, "<", 0):
        place = size + place
        if ask(place, "<", low):
            return low
    return high if ask(place, ">", high) else place


# --- index arrays --------------------------------------------------------------------------------------------------


def _picked(x: Any, items: Sequence[Any]) -> Selection:
    """Basic items first; then the arrays, and the ints beside arrays that have axes, which count as such."""
    arrays = any(is_array(i) or isinstance(i, _Flag) for i in items)
    picks = [arrays and not (i is None or isinstance(i, slice)) for i in items]
    whole = [None if isinstance(i, _Flag) else slice(None) if p else i for i, p in zip(items, picks, strict=True)]
    part, axes = basic(x, whole), tuple(a for a, p in enumerate(picks) if p)
    items = [i.places if isinstance(i, _Flag) else i for i in items]
    if not axes:
        return Selection(part)
    indices = align("indexing", [index_array(items[a], dims_of(part)[a]) for a in axes])
    adjacent = axes == tuple(range(axes[0], axes[-1] + 1))
    return Selection(part, axes, tuple(indices), axes[0] if adjacent else 0)


def _masked(x: Any, items: Sequence[Any], masks: Sequence[int]) -> Masked:
    """One mask beside basic items."""
    arrays = [items[p].array for p in masks if items[p].array is not None]
    if len(arrays) > 1 or any(is_array(i) or isinstance(i, _Flag) for i in items):
        raise TraceError("a traced mask beside other index arrays picks as many elements as its values say",
                         where=user_line(), types=types_of(arrays[0]),
                         fix="write a mask of all axes that are picked: m[:, None] & k")  # fmt: skip
    axis = sum(i is None or isinstance(i, slice) for i in items[: masks[0]])
    part = basic(x, [slice(None) if isinstance(i, _Mask) else i for i in items])
    return Masked(part, arrays[0], axis)


def mask_of(found: Masked) -> Any:
    """The mask, repeated along the view's other axes."""
    axes = tuple(range(found.axis, found.axis + found.mask.ndim))
    shape = dims_of(found.part)
    return found.mask if len(axes) == len(shape) else b.broadcast(found.mask, shape=shape, axes=axes)


def beside(found: Masked, value: Any) -> Any:
    """A value that belongs beside what a mask picks, as one that is repeated to the view.

    TraceError where it has an axis that counts what the mask picks.
    """
    x = as_array(value)
    rank, own = found.mask.ndim, dims_of(x)
    behind = found.part.ndim - found.axis - rank
    if len(own) <= behind:
        return x
    at = len(own) - behind - 1
    if not ask(own[at], "==", 1):
        raise TraceError(
            "how many elements the mask picks depends on its values, so beside them stand one value for all, rows "
            "behind the mask's axes, or elements of the same mask",
            where=user_line(), types=(*types_of(x), *types_of(found.mask)),
            fix="choose from whole arrays, x[...] = numpy.where(mask, y, x), or write values in order with "
            "numpy.place(x, mask, values)",
        )  # fmt: skip
    return b.reshape(x, shape=(*own[:at], *[dim(1)] * rank, *own[at + 1 :]))


def index_array(item: Any, size: Dim) -> Any:
    """Indices counted from 0 as int64; concrete ones are checked at once where the size is fixed.

    Arrays of uint64 become int64 first, as NumPy's: 2**64 - 1 is the last element.
    """
    if isinstance(item, TracedSize) or not is_array(item):
        place = _place(item, size)
        return convert(user_size(place), INT64) if place.static is None else np.asarray(place.static, INT64)
    array = as_array(item)
    if isinstance(item, list) and not item:
        array = array.astype(INT64)
    if array.dtype.kind not in "iu":
        raise DTypeError(
            f"an index array must hold integers, not {array.dtype}",
            where=user_line(),
            types=types_of(array),
            fix="cast it: i.astype(numpy.int64)",
        )
    if array.ndim and array.dtype == UINT64:
        array = convert(array, INT64)
    if not isinstance(array, Tracer):
        if size.static is not None:
            _check_indices(array, size.static)
        if not array.size or array.min() >= 0:
            return convert(array, INT64)
    return b.wrapped(array, size=size)


def _check_indices(array: np.ndarray[Any, Any], size: int) -> None:
    if array.size and not (-size <= int(array.min()) and int(array.max()) < size):
        raise OutOfBoundsError(
            f"an index is out of bounds for an axis of size {size}", where=user_line(), fix="check the indices"
        )
