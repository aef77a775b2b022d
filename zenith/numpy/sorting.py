"""Sorting along an axis, stable and with nan last, as NumPy's stable sorts are; and selection by order."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.errors import ShapeError, UnsupportedError, user_line
from zenith.ir.dims import product
from zenith.numpy.indexing import take_along_axis
from zenith.numpy.operands import compute_array, convert, dims_of, normal_axis, require, shape_text
from zenith.numpy.shaping import moveaxis
from zenith.numpy.typing import Array, ArrayLike, Axis, Size
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import size_dim
from zenith.trace.tracer import Tracer

__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex", "top_k"]


@implements(np.sort)
def sort(
    a: ArrayLike, axis: Axis = -1, kind: str | None = None, order: str | None = None, *, stable: bool | None = None,
    descending: bool = False,
) -> Array:  # fmt: skip
    """The elements in ascending or descending order along an axis, or all of them for ``axis=None``.

    Every kind is stable; nan is the largest.

    >>> sort([3, 1, 2])
    array([1, 2, 3])
    """
    return _sorted("sort", a, axis, order, descending)[0]


@implements(np.argsort)
def argsort(
    a: ArrayLike, axis: Axis = -1, kind: str | None = None, order: str | None = None, *, stable: bool | None = None,
    descending: bool = False,
) -> Array:  # fmt: skip
    """The indices that sort the elements in ascending or descending order along an axis, stably, as int64.

    >>> argsort([3, 1, 2], descending=True)
    array([0, 2, 1])
    """
    return _sorted("argsort", a, axis, order, descending)[1]


@implements(np.partition)
def partition(
    a: ArrayLike, kth: ArrayLike, axis: Axis = -1, kind: str | None = None, order: str | None = None
) -> Array:
    """The elements along an axis, those at the indices ``kth`` as if sorted: smaller ones before, larger ones after.

    The whole axis is sorted, which is one of the orders that NumPy allows, unless a few elements are read alone: these
    are selected. ShapeError for indices outside.

    >>> partition([3, 1, 2], 1)
    array([1, 2, 3])
    """
    _require_indices("partition", a, kth, axis)
    return _sorted("partition", a, axis, order, False)[0]


@implements(np.argpartition)
def argpartition(
    a: ArrayLike, kth: ArrayLike, axis: Axis = -1, kind: str | None = None, order: str | None = None
) -> Array:
    """The indices of the elements along an axis in the order of :func:`partition`, as int64.

    >>> argpartition([3, 1, 2], 1)
    array([1, 2, 0])
    """
    _require_indices("argpartition", a, kth, axis)
    return _sorted("argpartition", a, axis, order, False)[1]


@implements(np.sort_complex)
def sort_complex(a: ArrayLike) -> Array:
    """The elements in ascending order along the last axis, by real parts and then imaginary ones, as complex numbers.

    They are complex64 for integers of 8 and 16 bits and complex64 itself, else complex128.

    >>> sort_complex([2 - 1j, 1 + 0j, 2 - 3j])
    array([1.+0.j, 2.-3.j, 2.-1.j])
    """
    x = compute_array("sort_complex", a)
    if x.dtype.kind == "c":
        return sort(x)
    return convert(sort(x), np.dtype(np.complex64 if x.dtype.char in "bhBH" else np.complex128))


def _require_indices(name: str, a: ArrayLike, kth: ArrayLike, axis: Axis) -> None:
    """ShapeError unless all of ``kth`` are indices of the axis."""
    x = compute_array(name, a)
    size = product(dims_of(x)) if axis is None else dims_of(x)[normal_axis(name, axis, x.ndim)]
    for k in kth if isinstance(kth, (tuple, list, np.ndarray)) and np.ndim(kth) else (kth,):
        at = size_dim(k, f"{name}: kth")
        reason = f"{name}: the index {at} must be on an axis of size {size}"
        outside = (at.static or 0) < 0
        require(size, ">=" if outside else ">", -at if outside else at, reason)


@implements(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> Any:
    """The indices along an axis in the order of several keys, arrays of one shape: the last one counts most.

    >>> lexsort(([3, 1, 2, 0], [1, 1, 0, 0]))
    array([3, 2, 1, 0])
    """
    if isinstance(keys, Tracer):
        keys = [keys[i] for i in range(int(keys.shape[0]))]
    found = [compute_array("lexsort", key) for key in keys]
    if not found:
        raise ShapeError("lexsort needs at least one key", where=user_line(), fix="pass a sequence of arrays")
    shape = dims_of(found[0])
    for key in found[1:]:
        if key.ndim != found[0].ndim:
            raise ShapeError(f"lexsort: keys have one shape, not {shape_text(shape)} and {shape_text(dims_of(key))}",
                             where=user_line(), fix="broadcast them first: numpy.broadcast_arrays(*keys)")  # fmt: skip
        for size, own in zip(dims_of(key), shape, strict=True):
            require(size, "==", own, "lexsort: keys have one shape")
    at, indices = normal_axis("lexsort", axis, found[0].ndim), None
    for key in found:
        order = argsort(key if indices is None else take_along_axis(key, indices, at), at)
        indices = order if indices is None else take_along_axis(indices, order, at)
    return indices


def top_k(x: ArrayLike, k: Size, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    """The ``k`` largest elements along an axis, or the smallest, best first; and their indices, as int64.

    Of equal elements the first are taken; nan is the largest. ``k`` is an integer or a size, ShapeError
    where the axis is shorter.

    >>> top_k([3, 1, 4, 1, 5], 2)
    (array([5, 4]), array([4, 2]))
    """
    array = compute_array("top_k", x)
    at, count = normal_axis("top_k", axis, array.ndim), size_dim(k, "top_k: k")
    if (count.static or 0) < 0:
        raise ShapeError(f"top_k: k {count} is negative", where=user_line(), fix="use 0 or more")
    size = dims_of(array)[at]
    require(size, ">=", count, f"top_k: {count} elements must be on an axis of size {size}")
    values, indices = b.top_k(moveaxis(array, at, -1), k=count, largest=bool(largest))
    return moveaxis(values, -1, at), moveaxis(indices, -1, at)


def _sorted(name: str, a: ArrayLike, axis: Axis, order: str | None, descending: bool) -> tuple[Array, Array]:
    """The elements in order, and their indices."""
    if order is not None:
        raise UnsupportedError(f"{name}: order= is for arrays with fields", where=user_line(), fix="leave it out")
    x = compute_array(name, a)
    if axis is None:
        return b.sort(b.reshape(x, shape=(product(dims_of(x)),)), descending=bool(descending))
    at = normal_axis(name, axis, x.ndim)
    values, indices = b.sort(moveaxis(x, at, -1), descending=bool(descending))
    return moveaxis(values, -1, at), moveaxis(indices, -1, at)
