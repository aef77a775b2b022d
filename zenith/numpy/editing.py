"""Arrays with slices removed or inserted: delete, insert, append, resize.

The indices at which that happens are known when the program is compiled, or are one index that the program computes.
"""

from __future__ import annotations

import numpy as np

from zenith.errors import DTypeError, OutOfBoundsError, TraceError, user_line
from zenith.ir.dims import Dim, dim, product
from zenith.ir.types import NDArray, int64
from zenith.numpy import elementwise as ew
from zenith.numpy.basic_indices import find_range
from zenith.numpy.casts import stored
from zenith.numpy.conditionals import where
from zenith.numpy.creation import full
from zenith.numpy.joining import concatenate, cut
from zenith.numpy.operands import INT64, as_array, ask, convert, dims_of, normal_axis, require, sizes_of, user_shape
from zenith.numpy.shaping import broadcast_to, moveaxis, ravel, reshape
from zenith.numpy.typing import Array, ArrayLike, Axis, Shape
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import TracedSize, size_dim, user_size
from zenith.trace.tracer import Tracer

__all__ = ["append", "delete", "insert", "resize"]


@implements(np.append)
def append(arr: ArrayLike, values: ArrayLike, axis: Axis = None) -> Array:
    """``values`` after the elements along an axis; both flattened without one.

    >>> append([1, 2], [[3], [4]])
    array([1, 2, 3, 4])
    """
    return concatenate([arr, values], axis)


@implements(np.resize, gives="boxed")
def resize(a: ArrayLike, new_shape: Shape) -> Array:
    """The elements in row-major order, repeated until a shape is filled; zeros where there are none.

    >>> resize([1, 2, 3], (2, 4))
    array([[1, 2, 3, 1],
           [2, 3, 1, 2]])
    """
    row, shape = ravel(a), sizes_of(new_shape)
    (count,) = dims_of(row)
    if count == 0:
        return full(user_shape(shape), 0, row.dtype)
    require(count, ">=", 1, "resize needs an element to repeat")
    source = ew.remainder(b.iota(size=product(shape), dtype=int64), user_size(count))
    return b.reshape(b.take(row, source, axis=0), shape=shape)


def _is_one_index(obj: ArrayLike) -> bool:
    """Whether an argument is one integer, fixed or computed."""
    if isinstance(obj, (bool, np.bool_, slice, list, tuple)):
        return False
    return isinstance(obj, (int, np.integer, TracedSize)) or as_array(obj).ndim == 0


def _known_indices(name: str, obj: ArrayLike, size: Dim) -> NDArray:
    """Indices that are known when the program is compiled, counted from 0; they fix the size of the axis."""
    count = _number(size)
    if isinstance(obj, slice):
        return np.arange(*obj.indices(count))
    indices = as_array(obj)
    if isinstance(indices, Tracer):
        raise TraceError(
            f"{name} at several indices needs them to be known before the program runs", where=user_line(),
            types=(indices.type,), fix="use zenith.numpy.compress(mask, x, size=n) or numpy.where(mask, x, 0)",
        )  # fmt: skip
    if indices.dtype.kind == "b":
        require(size, "==", len(indices), f"{name}: a mask must have the size of the axis")
        return np.flatnonzero(indices)
    if indices.dtype.kind not in "iu" and indices.size:
        raise DTypeError(f"{name} needs integers, not {indices.dtype}", where=user_line(), fix="cast: i.astype(int)")
    indices = indices.astype(np.int64).reshape(-1)
    last = count if name == "insert" else count - 1
    if indices.size and not (indices.min() >= -count and indices.max() <= last):
        raise OutOfBoundsError(f"{name}: an index is out of bounds for an axis of size {count}", where=user_line(),
                               fix="check the indices")  # fmt: skip
    return np.where(indices < 0, indices + count, indices)


def _number(size: Dim) -> int:
    recorder = current_recorder()
    return recorder.specialize(size) if recorder is not None else int(size.evaluate({}))


def _inside(name: str, obj: ArrayLike, size: Dim, last: Dim) -> Dim:
    """One known index, counted from 0; demands that it is inside."""
    index = size_dim(obj, f"{name}: the index")
    index = size + index if ask(index, "<", 0) else index
    text = f"{name}: index {obj} is out of bounds for an axis of size {size}"
    require(index, ">=", 0, text, OutOfBoundsError)
    require(last, ">=", index, text, OutOfBoundsError)
    return index


@implements(np.delete)
def delete(arr: ArrayLike, obj: ArrayLike, axis: Axis = None) -> Array:
    """The array without slices along an axis, or without elements of the flattened array.

    Parameters
    ----------
    arr: an array of any element type.
    obj: an integer (a computed one, too), a slice, or integers or a mask that are known; negative ones count from the
        end. Several indices other than a slice fix the size of the axis.
    axis: the axis, or None for the flattened array.

    Raises OutOfBoundsError for a known index outside, TraceError for several computed indices.

    >>> delete([1, 2, 3, 4], 1), delete([1, 2, 3, 4], [0, -1])
    (array([1, 3, 4]), array([2, 3]))
    """
    x = ravel(arr) if axis is None else as_array(arr)
    at = normal_axis("delete", 0 if axis is None else axis, x.ndim)
    size = dims_of(x)[at]
    if _is_one_index(obj):
        if isinstance(obj, Tracer):
            index = b.iota(size=size - 1, dtype=int64)
            return b.take(x, ew.add(index, convert(ew.greater_equal(index, _from_zero(obj, size)), INT64)), axis=at)
        start = _inside("delete", obj, size, size - 1)
        return _without(x, at, start, start + 1)
    if isinstance(obj, slice) and obj.step in (None, 1):
        found = find_range(obj, size)
        return _without(x, at, found.start, found.stop)
    gone = _known_indices("delete", obj, size)
    return b.take(x, np.delete(np.arange(_number(size)), gone), axis=at)


def _without(x: Array, axis: int, start: Dim, stop: Dim) -> Array:
    return b.concat(cut(x, axis, 0, start), cut(x, axis, stop, dims_of(x)[axis]), axis=axis)


def _from_zero(index: ArrayLike, size: Dim) -> Array:
    """A computed index, counted from 0."""
    index = convert(index, INT64)
    return where(ew.less(index, 0), ew.add(index, user_size(size)), index)


@implements(np.insert)
def insert(arr: ArrayLike, obj: ArrayLike, values: ArrayLike, axis: Axis = None) -> Array:
    """The array with slices inserted before indices of an axis, or with elements of the flattened array.

    Parameters
    ----------
    arr: an array of any element type, in which ``values`` are converted.
    obj: as for :func:`delete`; the index before which to insert, as it is counted in ``arr``.
    values: what is inserted, broadcast against the slices of ``arr``.
    axis: the axis, or None for the flattened array.

    Raises OutOfBoundsError for a known index outside, TraceError for several computed indices, ShapeError.

    >>> insert([1, 2, 3], 1, 9), insert([[1, 2], [3, 4]], [0, 2], 9, axis=1)
    (array([1, 9, 2, 3]), array([[9, 1, 2, 9],
           [9, 3, 4, 9]]))
    """
    x = ravel(arr) if axis is None else as_array(arr)
    at = normal_axis("insert", 0 if axis is None else axis, x.ndim)
    size, one = dims_of(x)[at], _is_one_index(obj)
    indices = None if one else _known_indices("insert", obj, size)
    new = stored(values, x.dtype)
    new = reshape(new, (*[1] * (x.ndim - new.ndim), *user_shape(dims_of(new))))
    new = moveaxis(new, 0, at) if one else new
    count = dims_of(new)[at] if indices is None or len(indices) == 1 else dim(len(indices))
    new = broadcast_to(new, user_shape(count if a == at else n for a, n in enumerate(dims_of(x))))
    if indices is not None and len(indices) != 1:
        own = _number(size)
        return b.take(
            b.concat(x, new, axis=at), np.insert(np.arange(own), indices, np.arange(own, own + len(indices))), axis=at
        )
    if isinstance(obj, Tracer):
        return _insert_computed(x, new, at, _from_zero(obj, size))
    start = _inside("insert", int(indices[0]) if indices is not None else obj, size, size)
    return b.concat(cut(x, at, 0, start), new, cut(x, at, start, size), axis=at)


def _insert_computed(x: Array, new: Array, axis: int, start: ArrayLike) -> Array:
    """Slices inserted before an index that the program computes."""
    own, count = dims_of(x)[axis], dims_of(new)[axis]
    index = b.iota(size=own + count, dtype=int64)
    after = ew.greater_equal(index, ew.add(start, user_size(count)))
    inside = ew.logical_and(ew.greater_equal(index, start), ew.logical_not(after))
    source = where(after, ew.subtract(index, user_size(count)), index)
    source = where(inside, ew.add(ew.subtract(index, start), user_size(own)), source)
    return b.take(b.concat(x, new, axis=axis), source, axis=axis)
