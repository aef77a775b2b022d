"""Selections: the elements that an index selects of an array, to be read or written.

An index has *basic* items (ints, slices, None, Ellipsis), which give a view (:mod:`zenith.numpy.basic_indices`), and
*advanced* ones, which are arrays: of integers, or one mask of bools. Basic items are applied first; the arrays then
select elements of that view. As in NumPy the axes of the index arrays replace those that they index, or come first
where basic items separate the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith.errors import DTypeError, OutOfBoundsError, TraceError, user_line
from zenith.ir.dims import Dim
from zenith.numpy.basic_indices import basic, normal_index
from zenith.numpy.broadcasting import align
from zenith.numpy.computed_indices import (
    is_inside,
    is_of_turn,
    with_checked_integers,
    with_computed_slices,
    with_turns,
)
from zenith.numpy.operands import INT64, UINT64, as_array, convert, dims_of, require, types_of
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b
from zenith.trace.dispatch import Unsized
from zenith.trace.sizes import TracedSize, user_size
from zenith.trace.tracer import Tracer


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
    axes = _axes_of(items)
    x, items = with_computed_slices(x, with_turns(x, items, axes), axes)
    items = with_checked_integers(x, items, axes)
    masks = [p for p, item in enumerate(items) if isinstance(item, _Mask)]
    if masks:
        return _masked(x, items, masks)
    return _selection(x, items)


def _number(item: Any) -> Any:
    """An index, or a slice, in which the numbers are that values of other kinds are."""
    if isinstance(item, slice):
        return slice(_number(item.start), _number(item.stop), _number(item.step))
    return item.array() if isinstance(item, Unsized) and item.is_carried else item


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


class _Mask:
    """A traced mask among the items of an index, followed by an empty one for each further axis that it covers."""

    def __init__(self, array: Array | None = None) -> None:
        self.array = array


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


def _axes_of(items: Sequence[Any]) -> list[int]:
    """The axis of an array from which each item selects; of an item for a new axis the one that follows."""
    uses = [not (i is None or isinstance(i, _Flag)) for i in items]
    return [sum(uses[:position]) for position in range(len(items))]


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
        index = normal_index(item, size)
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
    if isinstance(array, Tracer) and not array.ndim and is_of_turn(array):
        is_inside(array, size)  # what must hold for that is then known where kernels are made
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
