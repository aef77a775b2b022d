"""Arrays with slices taken out or put in between: delete, insert, append, resize.

Where elements go in or out is known when the program is compiled, or one place that the program computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.errors import DTypeError, OutOfBoundsError, TraceError, user_line
from zenith.ir.dims import Dim, dim, product
from zenith.ir.types import int64
from zenith.numpy import elementwise as ew
from zenith.numpy.conditionals import where
from zenith.numpy.creation import full
from zenith.numpy.index_expressions import find_range
from zenith.numpy.joining import concatenate, cut
from zenith.numpy.operands import INT64, as_array, ask, convert, dims_of, normal_axis, require, sizes_of, user_shape
from zenith.numpy.shaping import broadcast_to, moveaxis, ravel, reshape
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import TracedSize, size_dim, user_size
from zenith.trace.tracer import Tracer

__all__ = ["append", "delete", "insert", "resize"]


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """``values`` behind the elements along an axis; both flattened without one.

    >>> append([1, 2], [[3], [4]])
    array([1, 2, 3, 4])
    """
    return concatenate([arr, values], axis)


@implements(np.resize, gives="boxed")
def resize(a: Any, new_shape: Any) -> Any:
    """The elements in row-major order, again and again from the start, until a shape is filled; zeros of nothing.

    >>> resize([1, 2, 3], (2, 4))
    array([[1, 2, 3, 1],
           [2, 3, 1, 2]])
    """
    row, shape = ravel(a), sizes_of(new_shape)
    (count,) = dims_of(row)
    if count == 0:
        return full(user_shape(shape), 0, row.dtype)
    require(count, ">=", 1, "resize needs an element to repeat")
    place = ew.remainder(b.iota(size=product(shape), dtype=int64), user_size(count))
    return b.reshape(b.take(row, place, axis=0), shape=shape)


def _one_place(obj: Any) -> bool:
    """Whether an argument is one integer, fixed or computed."""
    if isinstance(obj, (bool, np.bool_, slice, list, tuple)):
        return False
    return isinstance(obj, (int, np.integer, TracedSize)) or as_array(obj).ndim == 0


def _known_places(name: str, obj: Any, size: Dim) -> np.ndarray[Any, Any]:
    """Places that are known when the program is compiled, counted from 0; they fix the size of the axis."""
    count = _number(size)
    if isinstance(obj, slice):
        return np.arange(*obj.indices(count))
    places = as_array(obj)
    if isinstance(places, Tracer):
        raise TraceError(
            f"{name} at several places needs them to be known before the program runs", where=user_line(),
            types=(places.type,), fix="use zenith.numpy.compress(mask, x, size=n) or numpy.where(mask, x, 0)",
        )  # fmt: skip
    if places.dtype.kind == "b":
        require(size, "==", len(places), f"{name}: a mask must have the size of the axis")
        return np.flatnonzero(places)
    if places.dtype.kind not in "iu" and places.size:
        raise DTypeError(f"{name} needs integers, not {places.dtype}", where=user_line(), fix="cast: i.astype(int)")
    places = places.astype(np.int64).reshape(-1)
    last = count if name == "insert" else count - 1
    if places.size and not (places.min() >= -count and places.max() <= last):
        raise OutOfBoundsError(f"{name}: a place is out of bounds for an axis of size {count}", where=user_line(),
                               fix="check the places")  # fmt: skip
    return np.where(places < 0, places + count, places)


def _number(size: Dim) -> int:
    recorder = current_recorder()
    return recorder.specialize(size) if recorder is not None else int(size.evaluate({}))


def _inside(name: str, obj: Any, size: Dim, last: Dim) -> Dim:
    """One known place, counted from 0; demands that it is inside."""
    place = size_dim(obj, f"{name}: the place")
    place = size + place if ask(place, "<", 0) else place
    text = f"{name}: place {obj} is out of bounds for an axis of size {size}"
    require(place, ">=", 0, text, OutOfBoundsError)
    require(last, ">=", place, text, OutOfBoundsError)
    return place


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """The array without slices along an axis, or without elements of the flattened array.

    Parameters
    ----------
    arr: an array of any element type.
    obj: an integer (a computed one, too), a slice, or integers or a mask that are known; negative ones count from the
        end. Several places other than a slice fix the size of the axis.
    axis: the axis, or None for the flattened array.

    Raises OutOfBoundsError for a known place outside, TraceError for several computed places.

    >>> delete([1, 2, 3, 4], 1), delete([1, 2, 3, 4], [0, -1])
    (array([1, 3, 4]), array([2, 3]))
    """
    x = ravel(arr) if axis is None else as_array(arr)
    at = normal_axis("delete", 0 if axis is None else axis, x.ndim)
    size = dims_of(x)[at]
    if _one_place(obj):
        if isinstance(obj, Tracer):
            place = b.iota(size=size - 1, dtype=int64)
            return b.take(x, ew.add(place, convert(ew.greater_equal(place, _from_zero(obj, size)), INT64)), axis=at)
        start = _inside("delete", obj, size, size - 1)
        return _without(x, at, start, start + 1)
    if isinstance(obj, slice) and obj.step in (None, 1):
        found = find_range(obj, size)
        return _without(x, at, found.start, found.stop)
    gone = _known_places("delete", obj, size)
    return b.take(x, np.delete(np.arange(_number(size)), gone), axis=at)


def _without(x: Any, axis: int, start: Dim, stop: Dim) -> Any:
    return b.concat(cut(x, axis, 0, start), cut(x, axis, stop, dims_of(x)[axis]), axis=axis)


def _from_zero(place: Any, size: Dim) -> Any:
    """A computed place, counted from 0."""
    place = convert(place, INT64)
    return where(ew.less(place, 0), ew.add(place, user_size(size)), place)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """The array with slices put in before places of an axis, or with elements of the flattened array.

    Parameters
    ----------
    arr: an array of any element type, in which ``values`` are converted.
    obj: as for :func:`delete`; the place before which to insert, as it is counted in ``arr``.
    values: what is inserted, broadcast against the slices of ``arr``.
    axis: the axis, or None for the flattened array.

    Raises OutOfBoundsError for a known place outside, TraceError for several computed places, ShapeError.

    >>> insert([1, 2, 3], 1, 9), insert([[1, 2], [3, 4]], [0, 2], 9, axis=1)
    (array([1, 9, 2, 3]), array([[9, 1, 2, 9],
           [9, 3, 4, 9]]))
    """
    x = ravel(arr) if axis is None else as_array(arr)
    at = normal_axis("insert", 0 if axis is None else axis, x.ndim)
    size, one = dims_of(x)[at], _one_place(obj)
    places = None if one else _known_places("insert", obj, size)
    new = convert(values, x.dtype)
    new = reshape(new, (*[1] * (x.ndim - new.ndim), *user_shape(dims_of(new))))
    new = moveaxis(new, 0, at) if one else new
    count = dims_of(new)[at] if places is None or len(places) == 1 else dim(len(places))
    new = broadcast_to(new, user_shape(count if a == at else n for a, n in enumerate(dims_of(x))))
    if places is not None and len(places) != 1:
        own = _number(size)
        return b.take(
            b.concat(x, new, axis=at), np.insert(np.arange(own), places, np.arange(own, own + len(places))), axis=at
        )
    if isinstance(obj, Tracer):
        return _insert_computed(x, new, at, _from_zero(obj, size))
    start = _inside("insert", int(places[0]) if places is not None else obj, size, size)
    return b.concat(cut(x, at, 0, start), new, cut(x, at, start, size), axis=at)


def _insert_computed(x: Any, new: Any, axis: int, start: Any) -> Any:
    """Slices put in before a place that the program computes."""
    own, count = dims_of(x)[axis], dims_of(new)[axis]
    place = b.iota(size=own + count, dtype=int64)
    behind = ew.greater_equal(place, ew.add(start, user_size(count)))
    inside = ew.logical_and(ew.greater_equal(place, start), ew.logical_not(behind))
    source = where(behind, ew.subtract(place, user_size(count)), place)
    source = where(inside, ew.add(ew.subtract(place, start), user_size(own)), source)
    return b.take(b.concat(x, new, axis=axis), source, axis=axis)
