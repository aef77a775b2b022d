"""Selections: the elements that an index selects of an array, to be read or written.

An index has *basic* items (ints, slices, None, Ellipsis), which give a view, and *advanced* ones, which are arrays: of
integers, or one mask of bools. Basic items are applied first; the arrays then select elements of that view. As in NumPy
the axes of the index arrays replace those that they index, or come first where basic items separate the arrays. Where
sizes are not fixed, an index outside of an axis is the user's error (a requirement), and whether a slice is clipped is
a branch (an assumption).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith.errors import DTypeError, OutOfBoundsError, ShapeError, TraceError, user_line
from zenith.ir.dims import Dim, dim, maximum, minimum
from zenith.numpy.broadcasting import align
from zenith.numpy.operands import (
    INT64,
    UINT64,
    as_array,
    ask,
    asked_recorder,
    convert,
    dims_of,
    lift,
    require,
    static_int,
    strong,
)
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b, graph_value
from zenith.trace.data_dependent import data_dependent_size
from zenith.trace.dispatch import Unsized
from zenith.trace.numbers import formula_of
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.size_relations import VaryingSize
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
    """What an index selects: all of ``view``, or the elements that ``arrays`` select along its axes ``axes``.

    ``arrays`` are integers counted from 0, of one shape, whose axes are those from axis ``at`` of the result on.
    """

    view: Any
    axes: tuple[int, ...] = ()
    arrays: tuple[Array, ...] = ()
    at: int = 0

    @property
    def lead(self) -> tuple[Dim, ...]:
        """The sizes of the index arrays."""
        return dims_of(self.arrays[0]) if self.arrays else ()

    @property
    def others(self) -> tuple[int, ...]:
        """The axes of the view that no array selects from."""
        return tuple(a for a in range(self.view.ndim) if a not in self.axes)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of what is selected."""
        if not self.arrays:
            return dims_of(self.view)
        rest = tuple(dims_of(self.view)[a] for a in self.others)
        return (*rest[: self.at], *self.lead, *rest[self.at :])


@dataclass(frozen=True, slots=True)
class Masked:
    """What a mask selects: elements of ``view`` where ``mask`` is true; its first axis is the view's ``axis``."""

    view: Any
    mask: Any
    axis: int


def select(x: Array, index: ArrayLike) -> Selection | Masked:
    """What an index selects of an array."""
    given = index if isinstance(index, tuple) else (index,)
    items = _items(x, tuple(map(_number, given)))
    x, items = _with_computed_slices(x, _with_turns(x, items))
    items = _with_checked_integers(x, items)
    masks = [p for p, item in enumerate(items) if isinstance(item, _Mask)]
    if masks:
        return _masked(x, items, masks)
    return _selection(x, items)


def _number(item: Any) -> Any:
    """An index, or a slice, in which the numbers are that values of other kinds are."""
    if isinstance(item, slice):
        return slice(_number(item.start), _number(item.stop), _number(item.step))
    return item.array() if isinstance(item, Unsized) and item.is_carried else item


class _Mask:
    """A traced mask among the items of an index, followed by an empty one for each further axis that it covers."""

    def __init__(self, array: Array | None = None) -> None:
        self.array = array


# --- items ---------------------------------------------------------------------------------------------------------


def is_array(item: ArrayLike) -> bool:
    """Whether an index item selects by an array; NumPy's integers and sizes are plain integers."""
    if isinstance(item, (list, np.ndarray, Tracer)):
        return True
    return (isinstance(item, np.generic) and not isinstance(item, np.integer)) or (
        hasattr(item, "__array__") and not isinstance(item, np.generic)
    )


def _items(x: Array, index: tuple[Any, ...]) -> list[Any]:
    """One item for each axis, None for new ones; known masks as the indices of their true elements."""
    items = [expanded for item in index for expanded in _expand_mask(item)]
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
    for item, axis in zip(found, _axes_of(found), strict=True):
        _require_sizes(item, dims_of(x), axis)
    return [item.indices if isinstance(item, _Known) else item for item in found]


class _Known:
    """The indices that a known mask selects along one axis; that of its first axis has the mask's shape."""

    def __init__(self, indices: Array, shape: tuple[int, ...]) -> None:
        self.indices, self.shape = indices, shape


class _Flag:
    """One known bool: a new axis, of size 1 if true and 0 if false."""

    def __init__(self, flag: Any) -> None:
        self.indices = np.zeros(int(bool(flag)), INT64)


def _expand_mask(item: ArrayLike) -> list[Any]:
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
        raise TraceError("an index that is one traced bool selects all or nothing", where=user_line(),
                         types=types_of(mask), fix="choose with numpy.where(flag, x, y)")  # fmt: skip
    if isinstance(mask, Tracer):
        return [_Mask(mask), *(_Mask() for _ in range(mask.ndim - 1))]
    found = np.nonzero(mask)
    return [_Known(indices, mask.shape if k == 0 else ()) for k, indices in enumerate(found)]


def _holds_bools(items: Sequence[object]) -> bool:
    return any(_holds_bools(i) if isinstance(i, list) else isinstance(i, (bool, np.bool_)) for i in items)


def _require_sizes(item: ArrayLike, sizes: Sequence[Dim], axis: int) -> None:
    """Demand that a mask has the sizes of the axes that it selects from."""
    if isinstance(item, _Known):
        own: Sequence[Any] = item.shape
    elif isinstance(item, _Mask) and item.array is not None:
        own = dims_of(item.array)
    else:
        return
    for k, n in enumerate(own):
        text = "a mask must have the sizes of the axes that it selects from"
        require(sizes[axis + k], "==", n, text, OutOfBoundsError)


def types_of(x: Array) -> tuple[object, ...]:
    """The type of a traced array, for a message."""
    return (x.type,) if isinstance(x, Tracer) else ()


# --- basic indices -------------------------------------------------------------------------------------------------


def basic(x: Array, items: Sequence[Any]) -> Array:
    """The view that ints, slices and None select, one for each axis or new axis."""
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
            number = _normal_index(item, size)
            ranges.append(Range(number, number + 1, 1, False))
    result = _apply_ranges(x, ranges)
    return result if dims_of(result) == tuple(shape) else b.reshape(result, shape=tuple(shape))


def _with_turns(x: Array, items: Sequence[Any]) -> list[Any]:
    """The items, where a slice depends on the turn of a loop, with integers that do as sizes.

    ``a[i + 1 :, i]`` is then one slice of the array, which can be written in place.
    """
    bounds = [at for item in items if isinstance(item, slice) for at in (item.start, item.stop)]
    if not any(map(_is_of_turn, bounds)):
        return list(items)
    sizes = dims_of(x)
    return [
        user_size(size_dim(i)) if isinstance(i, Tracer) and _is_of_turn(i) and _is_inside(i, sizes[axis]) else i
        for i, axis in zip(items, _axes_of(items), strict=True)
    ]


def _axes_of(items: Sequence[Any]) -> list[int]:
    """The axis of an array from which each item selects; of an item for a new axis the one that follows."""
    uses = [not (i is None or isinstance(i, _Flag)) for i in items]
    return [sum(uses[:position]) for position in range(len(items))]


def _with_checked_integers(x: Array, items: Sequence[Any]) -> list[Any]:
    """The items, with integers of which only the program knows whether they lie inside of an axis as index arrays."""
    found, recorder = list(items), asked_recorder()
    for position, (item, axis) in enumerate(zip(items, _axes_of(items), strict=True)):
        size = item.dim if isinstance(item, TracedSize) else dim(0)
        if isinstance(item, (int, np.integer, TracedSize)) and recorder.varies(dims_of(x)[axis] - size):
            try:
                _normal_index(item, dims_of(x)[axis])
            except VaryingSize:
                found[position] = lift(as_array(item))
    return found


def _is_of_turn(at: object) -> bool:
    """Whether an integer is a formula with the turn of a loop in it."""
    size = formula_of(at) if isinstance(at, Tracer) and not at.ndim else at.dim if isinstance(at, TracedSize) else None
    return size is not None and asked_recorder().varies(size)


def _is_inside(index: Tracer, size: Dim) -> bool:
    """Whether an index lies inside of an axis in all turns."""
    number, recorder = formula_of(index), asked_recorder()
    assert number is not None, "it is a formula with a turn in it"
    try:
        return recorder.holds(number, ">=", 0) and recorder.holds(size, ">", number)
    except VaryingSize:
        return False


def _with_computed_slices(x: Array, items: Sequence[Any]) -> tuple[Array, list[Any]]:
    """The array and items, with slices between bounds that the program computes taken already."""
    found = list(items)
    for position, (item, axis) in enumerate(zip(items, _axes_of(items), strict=True)):
        if isinstance(item, slice) and any(map(_is_computed, (item.start, item.stop))):
            x = _computed_slice(x, axis, item)
            found[position] = slice(None, None, item.step)
    return x, found


def _is_computed(bound: object) -> bool:
    """Whether a bound of a slice is a number that the program computes, and no size."""
    return isinstance(bound, Tracer) and bound.size_of() is None


def _computed_slice(x: Array, axis: int, item: slice) -> Array:
    """``x[start:stop]`` along an axis, as a view whose size the program computes."""
    recorder = current_recorder()
    bounds = [at for at in (item.start, item.stop) if isinstance(at, Tracer)]
    if recorder is None or not recorder.sized_loops or any(at.ndim or at.dtype.kind not in "iu" for at in bounds):
        raise TraceError(
            "a bound of a slice must be known before the program runs, not computed by it", where=user_line(),
            types=tuple(at.type for at in bounds), fix="compute it from shapes (x.shape[0]), or pass it as a static "
            "argument; a slice of known size at a computed start is zenith.dynamic_slice_in_dim(x, i, size)",
        )  # fmt: skip
    if item.step is not None and static_int(item.step, "the step of a slice") < 1:
        raise TraceError("a slice between computed bounds goes forward", where=user_line(), types=types_of(x),
                         fix="reverse what it gives: x[start:stop][::-1]")  # fmt: skip
    sizes = dims_of(x)
    start, stop = (
        _within(recorder, default if at is None else at, sizes[axis])
        for at, default in ((item.start, 0), (item.stop, user_size(sizes[axis])))
    )
    count = graph_value(recorder, np.maximum(stop - start, 0))
    given = {"start": item.start, "stop": item.stop}
    origin = {name: graph_value(recorder, as_array(at)) for name, at in given.items() if at is not None}
    size = data_dependent_size(recorder, count, sizes[axis], origin)
    starts = [start if a == axis else np.asarray(0, INT64) for a in range(len(sizes))]
    return b.dynamic_slice(x, *starts, sizes=tuple(size if a == axis else n for a, n in enumerate(sizes)), batch=0)


def _within(recorder: Recorder, bound: Any, size: Dim) -> Array:
    """A bound of a slice as an int64, from the start of the axis and between its ends."""
    at, end = (convert(strong(as_array(v)), INT64) for v in (bound, user_size(size)))
    return np.clip(np.where(at < 0, at + end, at), 0, end)


def _length(r: Range) -> Dim:
    return (r.stop - r.start + (r.step - 1)) // r.step


def _apply_ranges(x: Array, ranges: Sequence[Range]) -> Array:
    """Slice, reverse, and step: a reversed axis is sliced first, and stepped once it is reversed."""
    sizes = dims_of(x)
    step = tuple(1 if r.reverse else r.step for r in ranges)
    whole = all(r.start == 0 and r.stop == n and s == 1 for r, n, s in zip(ranges, sizes, step, strict=True))
    if not whole:
        x = b.slice(x, start=tuple(r.start for r in ranges), stop=tuple(r.stop for r in ranges), step=step)
    reversed_axes = tuple(a for a, r in enumerate(ranges) if r.reverse)
    if reversed_axes:
        x = b.reverse(x, axes=reversed_axes)
    if any(r.reverse and r.step > 1 for r in ranges):
        sizes = dims_of(x)
        last_step = tuple(r.step if r.reverse else 1 for r in ranges)
        x = b.slice(x, start=(0,) * len(sizes), stop=sizes, step=last_step)
    return x


def _normal_index(index: ArrayLike, size: Dim) -> Dim:
    """An index counted from 0; demands that it is inside the axis."""
    if isinstance(index, float):
        raise TraceError("an index must be an integer or a slice, not a float", where=user_line(), fix="use int or //")
    number = size_dim(index, "an index")
    if (number.static is None and ask(number, "<", 0)) or (number.static or 0) < 0:
        number = size + number
    text = f"index {index} is out of bounds for an axis of size {size}"
    require(number, ">=", 0, text, OutOfBoundsError)
    require(size, ">", number, text, OutOfBoundsError)
    return number


def find_range(item: slice, size: Dim) -> Range:
    """The elements that a slice takes of an axis, clipped as in NumPy."""
    step = 1 if item.step is None else static_int(item.step, "the step of a slice")
    if step == 0:
        raise ShapeError("the step of a slice cannot be zero", where=user_line(), fix="use a step other than zero")
    if step > 0:
        first = dim(0) if item.start is None else _from_start(item.start, size, dim(0))
        start = _extreme(minimum, first, size)
        stop = size if item.stop is None else _extreme(minimum, _from_start(item.stop, size, dim(0)), size)
        # ``first`` may be beyond the end, where nothing is left either: a simpler formula than that of ``start``.
        return Range(start, start + _extreme(maximum, stop - first, dim(0)), step, False)
    stop = size if item.start is None else _extreme(minimum, _from_start(item.start, size, dim(-1)), size - 1) + 1
    start = dim(0) if item.stop is None else _extreme(minimum, _from_start(item.stop, size, dim(-1)), size - 1) + 1
    return Range(start, _extreme(maximum, stop, start), -step, True)


def _extreme(choose: Callable[[Dim, Dim], Dim], a: Dim, b: Dim) -> Dim:
    """The larger or smaller of two sizes; a formula of both where it differs from turn to turn of a loop."""
    try:
        return a if asked_recorder().holds(a, "<=" if choose is minimum else ">=", b) else b
    except VaryingSize:
        return choose(a, b)


def _from_start(bound: ArrayLike, size: Dim, low: Dim) -> Dim:
    """A slice's bound from the start of the axis, ``low`` at least."""
    value = size_dim(bound, "a bound of a slice")
    return _extreme(maximum, size + value, low) if ask(value, "<", 0) else value


# --- index arrays --------------------------------------------------------------------------------------------------


def _selection(x: Array, items: Sequence[Any]) -> Selection:
    """Basic items first; then the index arrays, among which ints are arrays without axes."""
    arrays = any(is_array(i) or isinstance(i, _Flag) for i in items)
    taken = [arrays and not (i is None or isinstance(i, slice)) for i in items]
    whole = [None if isinstance(i, _Flag) else slice(None) if p else i for i, p in zip(items, taken, strict=True)]
    view, axes = basic(x, whole), tuple(a for a, p in enumerate(taken) if p)
    items = [i.indices if isinstance(i, _Flag) else i for i in items]
    if not axes:
        return Selection(view)
    indices = align("indexing", [index_array(items[a], dims_of(view)[a]) for a in axes])
    adjacent = axes == tuple(range(axes[0], axes[-1] + 1))
    return Selection(view, axes, tuple(indices), axes[0] if adjacent else 0)


def _masked(x: Array, items: Sequence[Any], masks: Sequence[int]) -> Masked:
    """One traced mask among basic items."""
    arrays = [items[p].array for p in masks if items[p].array is not None]
    if len(arrays) > 1 or any(is_array(i) or isinstance(i, _Flag) for i in items):
        raise TraceError("a traced mask among other index arrays selects as many elements as its values say",
                         where=user_line(), types=types_of(arrays[0]),
                         fix="write a mask of all axes that are selected: m[:, None] & k")  # fmt: skip
    axis = sum(i is None or isinstance(i, slice) for i in items[: masks[0]])
    view = basic(x, [slice(None) if isinstance(i, _Mask) else i for i in items])
    return Masked(view, arrays[0], axis)


def mask_of(found: Masked) -> Array:
    """The mask, broadcast along the view's other axes."""
    axes = tuple(range(found.axis, found.axis + found.mask.ndim))
    shape = dims_of(found.view)
    return found.mask if len(axes) == len(shape) else b.broadcast(found.mask, shape=shape, axes=axes)


def index_array(item: ArrayLike, size: Dim) -> Array:
    """Indices counted from 0 as int64; concrete ones are checked at once where the size is fixed.

    Arrays of uint64 become int64 first, as NumPy's: 2**64 - 1 is the last element.
    """
    if isinstance(item, TracedSize) or not is_array(item):
        index = _normal_index(item, size)
        return convert(user_size(index), INT64) if index.static is None else np.asarray(index.static, INT64)
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
    if isinstance(array, Tracer) and not array.ndim and _is_of_turn(array):
        _is_inside(array, size)  # what must hold for that is then known where kernels are made
    if not isinstance(array, Tracer):
        if size.static is not None:
            _check_indices(array, size.static)
        if not array.size or array.min() >= 0:
            return convert(array, INT64)
    return b.wrapped(array, size=size)


def _check_indices(array: Array, size: int) -> None:
    if array.size and not (-size <= int(array.min()) and int(array.max()) < size):
        raise OutOfBoundsError(
            f"an index is out of bounds for an axis of size {size}", where=user_line(), fix="check the indices"
        )
