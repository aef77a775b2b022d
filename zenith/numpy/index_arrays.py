"""Positions, coordinates and grids: conversions between them, and index arrays of grids, diagonals and triangles.

Sizes may be traced, except those of triangles, whose number of elements is known for fixed sizes only: they fix the
sizes that they are given.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zenith.errors import ArgumentError, DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim, dim, maximum
from zenith.numpy import elementwise as ew
from zenith.numpy.broadcasting import align
from zenith.numpy.conditionals import clip
from zenith.numpy.creation import arange
from zenith.numpy.cumulative import cumsum
from zenith.numpy.data_dependent import flatnonzero
from zenith.numpy.indexing import take
from zenith.numpy.joining import stack
from zenith.numpy.operands import INT64, as_array, compute_dtype, convert, dims_of, lift, require, sizes_of, user_shape
from zenith.numpy.searching import searchsorted
from zenith.numpy.shaping import reshape
from zenith.numpy.typing import Array, ArrayLike, DTypeLike, Shape, Size
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import UserSize, size_dim, user_size

__all__ = [
    "diag_indices", "diag_indices_from", "fromfunction", "indices", "ix_", "mask_indices",
    "ravel_multi_index", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from", "unravel_index",
]  # fmt: skip


# --- positions and coordinates ---------------------------------------------------------------------------------


def _integers(name: str, value: ArrayLike) -> Array:
    x = as_array(value)
    if x.dtype.kind not in "iu":
        raise DTypeError(f"{name} needs integers, not {x.dtype}", where=user_line(), fix="cast: i.astype(numpy.int64)")
    return convert(x, INT64)


def _order(name: str, order: str) -> bool:
    """Whether the first coordinate moves fastest."""
    if order not in ("C", "F"):
        raise ArgumentError(f"{name}: {order!r} is no order", where=user_line(), fix="use 'C' or 'F'")
    return order == "F"


@implements(np.unravel_index)
def unravel_index(indices: ArrayLike, shape: Shape, order: str = "C") -> tuple[Array, ...]:
    """The coordinates of positions in the flattened array of a shape: one array of int64 for each axis.

    A position that lies outside is an ArgumentError, a computed one a CheckError when the program runs.

    >>> unravel_index([1, 5], (2, 3))
    (array([0, 1]), array([1, 2]))
    """
    position, sizes = _integers("unravel_index", indices), user_shape(sizes_of(shape))
    total = math.prod(sizes)
    if isinstance(position, np.ndarray) and isinstance(total, int) and not ((position >= 0) & (position < total)).all():
        raise ArgumentError(f"unravel_index: a position lies outside of {total} elements", where=user_line(),
                            fix="give positions from 0 on")  # fmt: skip
    position = _inside("unravel_index", position, total)
    fastest_first = sizes if _order("unravel_index", order) else sizes[::-1]
    found = []
    for size in fastest_first[:-1]:
        found.append(ew.remainder(position, size))
        position = ew.floor_divide(position, size)
    found = [*found, position][: len(sizes)]
    return tuple(found if order == "F" else found[::-1])


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Sequence[ArrayLike], dims: Shape, mode: str = "raise", order: str = "C") -> Array:
    """The positions in the flattened array of elements at coordinates, as int64: the inverse of :func:`unravel_index`.

    ``mode``, one or one for each axis, says what happens to coordinates outside: "wrap" and "clip" move them inside;
    with "raise" a concrete one is an ArgumentError, and a computed one a CheckError when the program runs.

    >>> ravel_multi_index(([0, 1], [1, 2]), (2, 3))
    array([1, 5])
    """
    sizes = user_shape(sizes_of(dims))
    modes = list(mode) if isinstance(mode, (list, tuple)) else [mode] * len(sizes)
    if len(multi_index) != len(sizes) or len(modes) != len(sizes):
        raise ShapeError(
            f"ravel_multi_index needs coordinates for each of {len(sizes)} axes",
            where=user_line(),
            fix="give an array of coordinates for each axis",
        )
    coordinates = [_coordinate(*triple) for triple in zip(multi_index, sizes, modes, strict=True)]
    pairs = list(zip(coordinates, sizes, strict=True))
    total: Array = np.asarray(0)
    for coordinate, size in reversed(pairs) if _order("ravel_multi_index", order) else pairs:
        total = ew.add(ew.multiply(total, size), coordinate)
    return total


def _coordinate(value: ArrayLike, size: UserSize, mode: str) -> Array:
    index = _integers("ravel_multi_index", value)
    if mode == "wrap":
        return ew.remainder(index, size)
    if mode == "clip":
        return ew.maximum(ew.minimum(index, size - 1), 0)
    if mode != "raise":
        raise ArgumentError(f"ravel_multi_index: {mode!r} is no mode", where=user_line(), fix="raise, wrap or clip")
    if isinstance(index, np.ndarray) and isinstance(size, int) and not ((index >= 0) & (index < size)).all():
        raise ArgumentError(f"ravel_multi_index: a coordinate lies outside of an axis of size {size}",
                            where=user_line(), fix="use mode='wrap' or 'clip'")  # fmt: skip
    return _inside("ravel_multi_index", index, size)


def _inside(name: str, index: Array, size: UserSize) -> Array:
    """An integer, which is checked to be below a size when the program runs."""
    if isinstance(index, np.ndarray) and isinstance(size, int):
        return index
    wrong = ew.logical_or(ew.less(index, 0), ew.greater_equal(index, size))
    return b.error_if(lift(index), lift(wrong), why=f"{name}: an index is outside of the shape")


# --- grids -----------------------------------------------------------------------------------------------------


def indices(dimensions: Shape, dtype: DTypeLike = int, sparse: bool = False) -> Any:
    """The coordinates of all elements of a shape: one array for each axis, stacked unless ``sparse``.

    >>> indices((2, 3))[1]
    array([[0, 1, 2],
           [0, 1, 2]])
    """
    sizes = user_shape(sizes_of(dimensions))
    target = compute_dtype("indices", np.dtype(dtype))
    rows = [along_one_axis(convert(arange(n), target), i, len(sizes)) for i, n in enumerate(sizes)]
    if sparse:
        return tuple(rows)
    return stack(align("indices", rows)) if rows else np.empty((0,), target)


def along_one_axis(row: ArrayLike, axis: int, rank: int) -> Array:
    """A row as an array that varies along one axis only."""
    return reshape(row, tuple(-1 if a == axis else 1 for a in range(rank)))


def fromfunction(
    function: Callable[..., Array], shape: Shape, *, dtype: DTypeLike = float, like: object = None, **options: object
) -> Array:
    """What a function gives for the coordinates of all elements of a shape, passed as arrays.

    >>> fromfunction(lambda i, j: 10 * i + j, (2, 2))
    array([[ 0.,  1.],
           [10., 11.]])
    """
    return function(*indices(shape, dtype=dtype), **options)


@implements(np.ix_, gives="view")
def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index arrays that select a grid: the i-th one runs along axis i; masks select where they are true.

    >>> x = np.arange(6).reshape(2, 3)
    >>> x[ix_([0, 1], [False, True, True])]
    array([[1, 2],
           [4, 5]])
    """
    rows = []
    for i, arg in enumerate(args):
        row = as_array(arg)
        if row.ndim != 1:
            raise ShapeError("ix_ needs rows of indices", where=user_line(), fix="flatten them: numpy.ravel(i)")
        row = convert(row, INT64) if dims_of(row) == (dim(0),) and isinstance(arg, (list, tuple)) else row
        rows.append(along_one_axis(flatnonzero(row) if row.dtype.kind == "b" else row, i, len(args)))
    return tuple(rows)


# --- diagonals and triangles -----------------------------------------------------------------------------------


def diag_indices(n: Size, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array of ``ndim`` axes of size ``n``.

    >>> diag_indices(3)
    (array([0, 1, 2]), array([0, 1, 2]))
    """
    return (arange(user_size(size_dim(n))),) * ndim


@implements(np.diag_indices_from)
def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array of two or more equal axes.

    >>> diag_indices_from(np.zeros((2, 2)))
    (array([0, 1]), array([0, 1]))
    """
    sizes = dims_of(as_array(arr))
    if len(sizes) < 2:
        raise ShapeError(
            "diag_indices_from needs an array of two axes or more",
            where=user_line(),
            fix="give a matrix, or use numpy.diag_indices(n)",
        )
    for n in sizes[1:]:
        require(n, "==", sizes[0], "diag_indices_from needs axes of one size")
    return diag_indices(user_size(sizes[0]), len(sizes))


def tril_indices(n: UserSize, k: UserSize = 0, m: UserSize | None = None) -> tuple[Array, ...]:
    """The indices at and below diagonal ``k`` of an array ``(n, m)``, row by row; all three may be sizes.

    >>> tril_indices(2)
    (array([0, 1, 1]), array([0, 0, 1]))
    """
    rows, diagonal, columns = (size_dim(x, "tril_indices") for x in (n, k, n if m is None else m))
    if rows.static is not None and diagonal.static is not None and columns.static is not None:
        return np.tril_indices(rows.static, diagonal.static, columns.static)
    return _in_rows(rows, _until(rows, diagonal + 1, columns), lambda row: _counted_until(row, diagonal + 1, columns))


def triu_indices(n: UserSize, k: UserSize = 0, m: UserSize | None = None) -> tuple[Array, ...]:
    """The indices at and above diagonal ``k`` of an array ``(n, m)``, row by row; all three may be sizes.

    >>> triu_indices(2)
    (array([0, 0, 1]), array([0, 1, 1]))
    """
    rows, diagonal, columns = (size_dim(x, "triu_indices") for x in (n, k, n if m is None else m))
    if rows.static is not None and diagonal.static is not None and columns.static is not None:
        return np.triu_indices(rows.static, diagonal.static, columns.static)
    begin = functools.partial(_counted_until, diagonal=diagonal, columns=columns)
    count = rows * columns - _until(rows, diagonal, columns)
    row, column = _in_rows(rows, count, lambda row: ew.subtract(user_size(columns), begin(row)))
    return row, ew.add(column, begin(row))


def _until(rows: Dim, diagonal: Dim, columns: Dim) -> Dim:
    """How many elements of a matrix are in front of a diagonal."""

    def triangle(size: Dim) -> Dim:
        return maximum(size, 0) * (maximum(size, 0) + 1) // 2

    whole = triangle(rows + diagonal - 1) - triangle(diagonal - 1)
    return whole - triangle(rows + diagonal - 1 - columns) + triangle(diagonal - 1 - columns)


def _counted_until(row: Array, diagonal: Dim, columns: Dim) -> Array:
    """The same in some rows."""
    return clip(ew.add(row, user_size(diagonal)), 0, user_size(columns))


def _in_rows(rows: Dim, count: Dim, length: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Rows and columns of so many elements, which are at the beginnings of rows that have a length each."""
    lengths = length(arange(user_size(rows)))
    ends = cumsum(lengths)
    position = arange(user_size(count))
    row = searchsorted(ends, position, side="right")
    return row, ew.add(ew.subtract(position, take(ends, row)), take(lengths, row))


def mask_indices(n: UserSize, mask_func: Callable[..., Any], k: Any = 0) -> tuple[Array, ...]:
    """The indices of an array ``(n, n)`` that ``mask_func(array, k)`` retains, such as :func:`numpy.triu`; fixes ``n``.

    >>> mask_indices(2, np.triu)
    (array([0, 0, 1]), array([0, 1, 1]))
    """
    return np.mask_indices(int(n), mask_func, k)


def _matrix_sizes(name: str, arr: ArrayLike) -> Sequence[UserSize]:
    sizes = user_shape(dims_of(as_array(arr)))
    if len(sizes) != 2:
        raise ShapeError(f"{name} needs an array of two axes, not {len(sizes)}", where=user_line(), fix="give a matrix")
    return sizes


@implements(np.tril_indices_from)
def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """The indices at and below diagonal ``k`` of a matrix.

    >>> tril_indices_from(np.zeros((2, 2)))
    (array([0, 1, 1]), array([0, 0, 1]))
    """
    n, m = _matrix_sizes("tril_indices_from", arr)
    return tril_indices(n, k, m)


@implements(np.triu_indices_from)
def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """The indices at and above diagonal ``k`` of a matrix.

    >>> triu_indices_from(np.zeros((2, 2)))
    (array([0, 0, 1]), array([0, 1, 1]))
    """
    n, m = _matrix_sizes("triu_indices_from", arr)
    return triu_indices(n, k, m)
