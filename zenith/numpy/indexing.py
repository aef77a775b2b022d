"""Reading elements and slices of arrays: NumPy's indexing, take and take_along_axis.

Basic indices (ints, slices, None, Ellipsis) become one slice, reversals and a reshape; integer arrays become a take
or a gather.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.errors import ShapeError, user_line
from zenith.ir.dims import dim, product
from zenith.ir.types import int64
from zenith.numpy import elementwise as ew
from zenith.numpy.boolean_indexing import selected
from zenith.numpy.broadcasting import broadcast_dims, is_stretched, spread
from zenith.numpy.index_expressions import Masked, Selection, index_array, select
from zenith.numpy.operands import INT64, UINT64, as_array, convert, dims_of, normal_axis, shape_text
from zenith.numpy.typing import Array, ArrayLike, Axis, Out
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.memory import NUMBER
from zenith.trace.sizes import user_size
from zenith.trace.tracer import Tracer

__all__ = ["take", "take_along_axis"]


@implements(gives="view")
def _getitem(x: Array, index: ArrayLike) -> Array:
    """``x[index]``: a view for basic indices, a number where these leave no axis, else a new array.

    What a traced mask selects is no array, but may be computed with and written back: see
    :mod:`zenith.numpy.boolean_indexing`.
    """
    x = as_array(x)
    found = select(x, index)
    if isinstance(found, Masked):
        return selected(found, user_line())
    result = elements_of(found)
    dotted = any(i is Ellipsis for i in (index if isinstance(index, tuple) else (index,)))
    shown = isinstance(result, Tracer) and result.is_view
    if shown and (result.ndim or dotted) and not any(map(_is_boxed, found.arrays)):
        return result
    return result.renewed(boxed=dotted) if isinstance(result, Tracer) and result is not x else result


def _is_boxed(index: Any) -> bool:
    """Whether NumPy copies what an index selects: where it is an array, with or without axes."""
    return bool(index.ndim) or not isinstance(index, Tracer) or index.memory.access != NUMBER


def elements_of(found: Selection) -> Array:
    """What a selection selects."""
    view = found.view
    if not found.arrays:
        return view
    if len(found.axes) == 1:
        return b.take(view, found.arrays[0], axis=found.axes[0])
    count, order = len(found.lead), [*found.axes, *found.others]
    result = b.gather(view if order == sorted(order) else b.transpose(view, axes=tuple(order)), *found.arrays)
    return _move_axes(result, count, found.at)


def _move_axes(found: Array, count: int, axis: int) -> Array:
    """Move the first ``count`` axes after the next ``axis`` ones."""
    rest = range(count, found.ndim)
    order = (*rest[:axis], *range(count), *rest[axis:])
    return found if order == tuple(range(found.ndim)) else b.transpose(found, axes=order)


@implements(np.take)
def take(x: Any, indices: ArrayLike, axis: Axis = None, out: Out = None, mode: str = "raise") -> Array:
    """Elements (or slices along an axis) at given indices; ``mode`` "clip" and "wrap" bring those outside inside."""
    x = as_array(x)
    if axis is None:
        x, axis = b.reshape(x, shape=(product(dims_of(x)),)), 0
    at = normal_axis("take", axis, x.ndim)
    size = dims_of(x)[at]
    index = as_array(indices)
    index = convert(index, INT64) if index.dtype == UINT64 else index
    if mode == "wrap":
        index = ew.remainder(convert(index, INT64), user_size(size))
    elif mode == "clip":
        index = ew.maximum(ew.minimum(convert(index, INT64), user_size(size - 1)), 0)
    return b.take(x, index_array(index, size), axis=at)


@implements(np.take_along_axis)
def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: Axis = -1) -> Array:
    """The elements of ``arr`` along an axis at ``indices``, each at its own index of the other axes."""
    x = as_array(arr)
    if axis is None:
        x, axis = b.reshape(x, shape=(product(dims_of(x)),)), 0
    return b.gather(x, *grid_along("take_along_axis", x, indices, axis))


def grid_along(name: str, x: Array, indices: ArrayLike, axis: Axis) -> list[Array]:
    """An index array for each axis: along one the given indices, along the others an iota."""
    at = normal_axis(name, axis, x.ndim)
    own, index = dims_of(x), index_array(as_array(indices), dims_of(x)[at])
    if index.ndim != x.ndim:
        raise ShapeError(
            f"{name} needs indices of {x.ndim} axes, not {shape_text(dims_of(index))}",
            where=user_line(),
            fix="add axes of size 1 to the indices: numpy.expand_dims(indices, axis)",
        )
    sizes = dims_of(index)
    others = [tuple(dim(1) if a == at else n for a, n in enumerate(shape)) for shape in (own, sizes)]
    shape = tuple(sizes[at] if a == at else n for a, n in enumerate(broadcast_dims(name, others)))
    own = dims_of(x)  # as far as is known now
    return [
        spread(index, shape) if a == at
        else b.full(0, int64, shape) if is_stretched(n, shape[a])
        else b.broadcast(b.iota(size=shape[a], dtype=int64), shape=shape, axes=(a,))
        for a, n in enumerate(own)
    ]  # fmt: skip
