"""Parts of arrays at places that the program computes: ``dynamic_slice`` and its kin, as ``jax.lax`` has them.

The sizes of a part are known when the program is compiled (ints, or sizes such as ``x.shape[0]``), where it begins is
not. A negative start counts from the end; then a part that would lie outside is moved inside, so none can fail.
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
from zenith.trace.bind import b
from zenith.trace.operators import is_weak
from zenith.trace.sizes import user_size
from zenith.trace.tracer import Tracer

__all__ = [
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim",
    "dynamic_update_slice", "dynamic_update_slice_in_dim",
]  # fmt: skip


def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Any) -> Any:
    """The part of ``operand`` that begins at ``start_indices`` and has ``slice_sizes``.

    Parameters
    ----------
    operand: an array of any element type.
    start_indices: an integer for each axis, as a sequence or an array (rank,); values that the program computes.
        Negative ones count from the end of their axis.
    slice_sizes: a size for each axis: ints or sizes (``x.shape[0]``), at most those of the array.

    Returns
    -------
    An array of those sizes. A part that would reach over an end is moved to lie inside.

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


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Any:
    """``operand`` with ``update`` over the part that begins at ``start_indices``.

    Where ``operand`` is needed no more, as a carried value of a loop, nothing but the part is written.

    Parameters
    ----------
    operand: an array of any element type.
    update: an array of the same rank, no larger on any axis, and of an element type that the operand's can hold.
    start_indices: as for :func:`dynamic_slice`.

    Raises
    ------
    ShapeError: other ranks, an update that is larger than the array, or too few starts. DTypeError: element types.

    >>> dynamic_update_slice(np.zeros(4), [1.0, 2.0], [-2])
    array([0., 0., 1., 2.])
    """
    x, part = as_array(operand), as_array(update)
    if result_dtype("dynamic_update_slice", (x, update)) != x.dtype and not is_weak(update):
        raise DTypeError(f"dynamic_update_slice cannot write {part.dtype} into {x.dtype}", where=user_line(),
                         fix=f"cast the update: .astype(numpy.{x.dtype})")  # fmt: skip
    part, sizes = convert(strong(part), x.dtype), dims_of(part)
    if part.ndim != x.ndim:
        raise ShapeError(f"dynamic_update_slice: the update has {part.ndim} axes, and the array {x.ndim}",
                         where=user_line(), fix="add axes of size 1: update[None]")  # fmt: skip
    return b.dynamic_update_slice(x, part, *_starts("dynamic_update_slice", x, start_indices, sizes), batch=0)


def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: Any, axis: int = 0) -> Any:
    """The part of one axis that begins at ``start_index``; whole other axes. Errors as :func:`dynamic_slice`.

    >>> dynamic_slice_in_dim(np.arange(6).reshape(3, 2), 1, 2)
    array([[2, 3],
           [4, 5]])
    """
    x = as_array(operand)
    at = normal_axis("dynamic_slice_in_dim", axis, x.ndim)
    sizes = [slice_size if a == at else user_size(n) for a, n in enumerate(dims_of(x))]
    return dynamic_slice(x, _along(x, at, start_index), sizes)


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Any:
    """``operand`` with ``update`` over the part of one axis that begins at ``start_index``, at 0 of the others.

    >>> dynamic_update_slice_in_dim(np.zeros((2, 2)), np.ones((1, 2)), 1, 0)
    array([[0., 0.],
           [1., 1.]])
    """
    x = as_array(operand)
    at = normal_axis("dynamic_update_slice_in_dim", axis, x.ndim)
    return dynamic_update_slice(x, update, _along(x, at, start_index))


def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Any:
    """The slice at one place of an axis, which stays with size 1 unless ``keepdims`` is false.

    >>> dynamic_index_in_dim(np.arange(6).reshape(3, 2), 2, keepdims=False)
    array([4, 5])
    """
    found = dynamic_slice_in_dim(operand, index, 1, axis)
    if keepdims:
        return found
    at = normal_axis("dynamic_index_in_dim", axis, found.ndim)
    return b.reshape(found, shape=tuple(n for a, n in enumerate(dims_of(found)) if a != at))


def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Any:
    """``operand`` with ``update`` at one place of an axis, which ``update`` has with size 1 or not at all.

    >>> dynamic_update_index_in_dim(np.zeros((2, 2)), [5.0, 6.0], 0, 0)
    array([[5., 6.],
           [0., 0.]])
    """
    x, part = as_array(operand), update
    at = normal_axis("dynamic_update_index_in_dim", axis, x.ndim)
    if as_array(update).ndim != x.ndim:
        part = as_array(update)
        shape = dims_of(part)
        part = b.reshape(part, shape=(*shape[:at], dim(1), *shape[at:]))
    return dynamic_update_slice_in_dim(x, part, index, at)


def _along(x: Any, axis: int, start: Any) -> list[Any]:
    return [start if a == axis else 0 for a in range(x.ndim)]


def _starts(name: str, x: Any, given: Any, sizes: Sequence[Dim]) -> list[Any]:
    """A start for each axis, counted from 0; what can be said about sizes is required."""
    own = dims_of(x)
    starts = list(given) if isinstance(given, (list, tuple)) else _elements(name, given, len(own))
    if not len(starts) == len(sizes) == len(own):
        raise ShapeError(
            f"{name} of an array {shape_text(own)} needs a start and a size for each axis, not {len(starts)} starts "
            f"and {len(sizes)} sizes", where=user_line(), fix="give one of each for every axis",
        )  # fmt: skip
    for size, n in zip(sizes, own, strict=True):
        require(n, ">=", size, f"{name}: a part of size {size} does not fit into an axis of size {n}")
    return [_start(name, start, n) for start, n in zip(starts, own, strict=True)]


def _elements(name: str, array: Any, count: int) -> list[Any]:
    """The starts that stand in an array."""
    starts = as_array(array)
    if starts.ndim != 1:
        raise ShapeError(f"{name} needs the starts in one row, not an array of {starts.ndim} axes", where=user_line(),
                         fix="give a sequence of integers, one for each axis")  # fmt: skip
    require(dims_of(starts)[0], "==", count, f"{name} of an array of {count} axes needs as many starts")
    return [starts[i] for i in range(count)]


def _start(name: str, start: Any, size: Dim) -> Any:
    """A start as an array without axes, counted from 0."""
    place = as_array(start)
    if place.dtype.kind not in "iu" or place.ndim:
        raise DTypeError(f"{name}: a start must be one integer, not {place.dtype} of {place.ndim} axes",
                         where=user_line(), fix="cast it: .astype(numpy.int64)")  # fmt: skip
    place = convert(strong(place), np.dtype(np.int64) if is_weak(start) else place.dtype)
    if place.dtype.kind == "u" or (not isinstance(place, Tracer) and place >= 0):
        return place
    return where(ew.less(place, 0), ew.add(convert(place, INT64), user_size(size)), convert(place, INT64))
