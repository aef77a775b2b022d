"""Slices of arrays at starts that the program computes: ``dynamic_slice`` and the like, as ``jax.lax`` has them.

The sizes of a slice are known when the program is compiled (ints, or sizes such as ``x.shape[0]``), its start is not. A
negative start counts from the end; then a slice that would lie outside is clamped to the array, so none can fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zenith.errors import DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim, dim
from zenith.numpy import elementwise as ew
from zenith.numpy.conditionals import where
from zenith.numpy.operands import (
    INT64,
    as_array,
    convert,
    dims_of,
    normal_axis,
    require,
    result_dtype,
    shape_text,
    sizes_of,
    strong,
)
from zenith.numpy.typing import Array, ArrayLike, Shape, Size
from zenith.trace.bind import b
from zenith.trace.operators import is_weak
from zenith.trace.sizes import user_size
from zenith.trace.tracer import Tracer

__all__ = [
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim",
    "dynamic_update_slice", "dynamic_update_slice_in_dim",
]  # fmt: skip


def dynamic_slice(operand: ArrayLike, start_indices: ArrayLike, slice_sizes: Shape) -> Array:
    """The slice of ``operand`` that begins at ``start_indices`` and has ``slice_sizes``.

    Parameters
    ----------
    operand: an array of any element type.
    start_indices: an integer for each axis, as a sequence or an array (rank,); values that the program computes.
        Negative ones count from the end of their axis.
    slice_sizes: a size for each axis: ints or sizes (``x.shape[0]``), at most those of the array.

    Returns
    -------
    An array of those sizes. A slice that would reach over an end is moved to lie inside.

    Raises
    ------
    ShapeError: too few starts or sizes, or a size that exceeds the array's. DTypeError: a start is no integer.

    >>> dynamic_slice(np.arange(6), [4], [3])
    array([3, 4, 5])
    """
    x = as_array(operand)
    sizes = sizes_of(slice_sizes, "a size of a dynamic_slice")
    starts = _starts("dynamic_slice", x, start_indices, sizes)
    return b.dynamic_slice(x, *starts, sizes=sizes, batch=0)


def dynamic_update_slice(operand: ArrayLike, update: ArrayLike, start_indices: ArrayLike) -> Array:
    """``operand`` with ``update`` over the slice that begins at ``start_indices``.

    Where ``operand`` is needed no more, as a carried value of a loop, nothing but the slice is written.

    Parameters
    ----------
    operand: an array of any element type.
    update: an array of the same rank, no larger on any axis, and of an element type that promotes to the operand's.
    start_indices: as for :func:`dynamic_slice`.

    Raises
    ------
    ShapeError: other ranks, an update that is larger than the array, or too few starts. DTypeError: element types.

    >>> dynamic_update_slice(np.zeros(4), [1.0, 2.0], [-2])
    array([0., 0., 1., 2.])
    """
    x, values = as_array(operand), as_array(update)
    if result_dtype("dynamic_update_slice", (x, update)) != x.dtype and not is_weak(update):
        raise DTypeError(f"dynamic_update_slice cannot write {values.dtype} into {x.dtype}", where=user_line(),
                         fix=f"cast the update: .astype(numpy.{x.dtype})")  # fmt: skip
    values, sizes = convert(strong(values), x.dtype), dims_of(values)
    if values.ndim != x.ndim:
        raise ShapeError(f"dynamic_update_slice: the update has {values.ndim} axes, and the array {x.ndim}",
                         where=user_line(), fix="add axes of size 1: update[None]")  # fmt: skip
    return b.dynamic_update_slice(x, values, *_starts("dynamic_update_slice", x, start_indices, sizes), batch=0)


def dynamic_slice_in_dim(operand: ArrayLike, start_index: ArrayLike, slice_size: Size, axis: int = 0) -> Array:
    """The slice along one axis that begins at ``start_index``; whole other axes. Errors as :func:`dynamic_slice`.

    >>> dynamic_slice_in_dim(np.arange(6).reshape(3, 2), 1, 2)
    array([[2, 3],
           [4, 5]])
    """
    x = as_array(operand)
    at = normal_axis("dynamic_slice_in_dim", axis, x.ndim)
    sizes = [slice_size if a == at else user_size(n) for a, n in enumerate(dims_of(x))]
    return dynamic_slice(x, _along(x, at, start_index), sizes)


def dynamic_update_slice_in_dim(operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int) -> Array:
    """``operand`` with ``update`` over the slice along one axis that begins at ``start_index``, at 0 of the others.

    >>> dynamic_update_slice_in_dim(np.zeros((2, 2)), np.ones((1, 2)), 1, 0)
    array([[0., 0.],
           [1., 1.]])
    """
    x = as_array(operand)
    at = normal_axis("dynamic_update_slice_in_dim", axis, x.ndim)
    return dynamic_update_slice(x, update, _along(x, at, start_index))


def dynamic_index_in_dim(operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True) -> Array:
    """The slice at one index of an axis, which stays with size 1 unless ``keepdims`` is false.

    >>> dynamic_index_in_dim(np.arange(6).reshape(3, 2), 2, keepdims=False)
    array([4, 5])
    """
    found = dynamic_slice_in_dim(operand, index, 1, axis)
    if keepdims:
        return found
    at = normal_axis("dynamic_index_in_dim", axis, found.ndim)
    return b.reshape(found, shape=tuple(n for a, n in enumerate(dims_of(found)) if a != at))


def dynamic_update_index_in_dim(operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int) -> Array:
    """``operand`` with ``update`` at one index of an axis, which ``update`` has with size 1 or not at all.

    >>> dynamic_update_index_in_dim(np.zeros((2, 2)), [5.0, 6.0], 0, 0)
    array([[5., 6.],
           [0., 0.]])
    """
    x, values = as_array(operand), update
    at = normal_axis("dynamic_update_index_in_dim", axis, x.ndim)
    if as_array(update).ndim != x.ndim:
        values = as_array(update)
        shape = dims_of(values)
        values = b.reshape(values, shape=(*shape[:at], dim(1), *shape[at:]))
    return dynamic_update_slice_in_dim(x, values, index, at)


def _along(x: Array, axis: int, start: ArrayLike) -> list[ArrayLike]:
    return [start if a == axis else 0 for a in range(x.ndim)]


def _starts(name: str, x: Array, given: Any, sizes: Sequence[Dim]) -> list[Array]:
    """A start for each axis, counted from 0; what can be said about sizes is required."""
    own = dims_of(x)
    starts = list(given) if isinstance(given, (list, tuple)) else _elements(name, given, len(own))
    if not len(starts) == len(sizes) == len(own):
        raise ShapeError(
            f"{name} of an array {shape_text(own)} needs a start and a size for each axis, not {len(starts)} starts "
            f"and {len(sizes)} sizes", where=user_line(), fix="give one of each for every axis",
        )  # fmt: skip
    for size, n in zip(sizes, own, strict=True):
        require(n, ">=", size, f"{name}: a slice of size {size} does not fit into an axis of size {n}")
    return [_start(name, start, n) for start, n in zip(starts, own, strict=True)]


def _elements(name: str, array: Array, count: int) -> list[Array]:
    """The starts in an array, of shape ``(count,)``."""
    starts = as_array(array)
    if starts.ndim != 1:
        raise ShapeError(f"{name} needs the starts in one row, not an array of {starts.ndim} axes", where=user_line(),
                         fix="give a sequence of integers, one for each axis")  # fmt: skip
    require(dims_of(starts)[0], "==", count, f"{name} of an array of {count} axes needs as many starts")
    return [starts[i] for i in range(count)]


def _start(name: str, start: ArrayLike, size: Dim) -> Array:
    """A start as an array without axes, counted from 0."""
    index = as_array(start)
    if index.dtype.kind not in "iu" or index.ndim:
        raise DTypeError(f"{name}: a start must be one integer, not {index.dtype} of {index.ndim} axes",
                         where=user_line(), fix="cast it: .astype(numpy.int64)")  # fmt: skip
    index = convert(strong(index), np.dtype(np.int64) if is_weak(start) else index.dtype)
    if index.dtype.kind == "u" or (not isinstance(index, Tracer) and index >= 0):
        return index
    return where(ew.less(index, 0), ew.add(convert(index, INT64), user_size(size)), convert(index, INT64))
