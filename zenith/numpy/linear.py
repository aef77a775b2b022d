"""Products of matrices and vectors: all of them become one primitive, the batched matrix product.

Operands are promoted as NumPy's ``matmul`` is, leading axes are broadcast, and inner sizes that are not fixed are
required to be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zenith.errors import DTypeError, ShapeError, UnsupportedError, user_line
from zenith.ir.dims import Dim, dim, product
from zenith.ir.types import kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.broadcasting import broadcast_dims, spread
from zenith.numpy.casts import require_cast
from zenith.numpy.operands import (
    as_array,
    ask,
    compute_dtype,
    convert,
    dims_of,
    normal_axis,
    require,
    result_dtype,
    shape_text,
    static_int,
    strong,
)
from zenith.numpy.shaping import moveaxis, reshape, transpose
from zenith.numpy.typing import Array, ArrayLike, Axes, DTypeLike, Out
from zenith.trace.bind import b
from zenith.trace.dispatch import implements

__all__ = [
    "diag", "diagflat", "diagonal", "dot", "inner", "matmul", "matvec", "outer", "tensordot", "trace", "vdot",
    "vecdot", "vecmat",
]  # fmt: skip


FLOAT32 = np.dtype(np.float32)


def _wanted(dtype: DTypeLike | None, preferred: DTypeLike | None) -> Any:
    """The one element type that a product is asked for, None where it follows from the operands."""
    if dtype is not None and preferred is not None and np.dtype(dtype) != np.dtype(preferred):
        raise DTypeError(f"matmul is asked for {np.dtype(dtype)} by dtype= and for {np.dtype(preferred)} by "
                         "preferred_element_type=", where=user_line(), fix="leave one of them out")  # fmt: skip
    return preferred if dtype is None else dtype


def _pair(name: str, x: ArrayLike, y: ArrayLike, wanted: Any = None) -> tuple[Array, Array]:
    dtype = result_dtype(name, (x, y))
    if wanted is not None:
        asked = compute_dtype(name, np.dtype(wanted))
        require_cast(name, dtype, asked)
        dtype = asked
    return convert(x, dtype), convert(y, dtype)


def _inner(name: str, x: Array, y: Array, left: int, right: int) -> None:
    text = f"{name}: the inner sizes of {shape_text(dims_of(x))} and {shape_text(dims_of(y))} must be equal"
    require(dims_of(x)[left], "==", dims_of(y)[right], text)


@implements(np.matmul, np.linalg.matmul)
def matmul(
    x: ArrayLike,
    y: ArrayLike,
    *,
    dtype: DTypeLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    **options: object,
) -> Array:
    """The matrix product of the last two axes, as ``numpy.matmul``; 1-d operands are a row and a column.

    ``dtype``, or ``preferred_element_type`` as in JAX, is the type of the result, in which terms are multiplied and
    summed. Products of float16 or bfloat16 are exact in float32, and a GPU's tensor cores give them so.

    Raises DTypeError when the operands are not of the same kind as that type, and when both name different types.

    >>> half = np.full((2, 2), 300, np.float16)
    >>> matmul(half, half, preferred_element_type=np.float32)
    array([[180000., 180000.],
           [180000., 180000.]], dtype=float32)
    """
    if options:
        raise UnsupportedError(f"matmul: the options {', '.join(sorted(options))} are not supported",
                               where=user_line(), fix="move axes with numpy.transpose")  # fmt: skip
    x, y = _pair("matmul", x, y, _wanted(dtype, preferred_element_type))
    if not x.ndim or not y.ndim:
        raise ShapeError("matmul needs arrays with axes, not numbers", where=user_line(), fix="use * for numbers")
    row, column = x.ndim == 1, y.ndim == 1
    x = reshape(x, (1, -1)) if row else x
    y = reshape(y, (-1, 1)) if column else y
    _inner("matmul", x, y, -1, -2)
    result = _product(x, y)
    shape = dims_of(result)
    wanted = shape[:-2] + (() if row else shape[-2:-1]) + (() if column else shape[-1:])
    return b.reshape(result, shape=wanted) if row or column else result


def _product(x: Array, y: Array) -> Array:
    """Two arrays of two axes or more; one matrix on the right serves all rows of the left at once.

    Of bools: whether any pair of factors is true, by counting such pairs in float32.
    """
    if x.dtype.kind == "b":
        return ew.not_equal(_product(convert(x, FLOAT32), convert(y, FLOAT32)), 0)
    left, right = dims_of(x), dims_of(y)
    if len(right) == 2 and len(left) > 2:
        rows = b.reshape(x, shape=(product(left[:-1]), left[-1]))
        return b.reshape(b.matmul(rows, y), shape=(*left[:-1], right[-1]))
    batch = broadcast_dims("matmul", [left[:-2], right[:-2]])
    return b.matmul(spread(x, (*batch, *left[-2:])), spread(y, (*batch, *right[-2:])))


@implements(np.dot)
def dot(a: ArrayLike, b: ArrayLike, out: Out = None) -> Array:
    """As ``numpy.dot``: over the last axis of ``a`` and the last but one of ``b``; a product for numbers."""
    x, y = as_array(a), as_array(b)
    if not x.ndim or not y.ndim:
        return ew.multiply(strong(x), strong(y))
    return tensordot(x, y, ((x.ndim - 1,), (max(y.ndim - 2, 0),)))


@implements(np.vdot)
def vdot(a: ArrayLike, b: ArrayLike) -> Array:
    """The inner product of two arrays, flattened; the first one is conjugated."""
    return tensordot(reshape(_conjugated(a), (-1,)), reshape(as_array(b), (-1,)), 1)


def _conjugated(value: ArrayLike) -> Array:
    """The array, conjugated where it is complex (and as it is where NumPy's ``conjugate`` makes integers of bools)."""
    x = as_array(value)
    return ew.conjugate(x) if kind_of(x.dtype) == "c" else x


@implements(np.inner)
def inner(a: ArrayLike, b: ArrayLike) -> Array:
    """The product over the last axes of both."""
    x, y = as_array(a), as_array(b)
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,))) if x.ndim and y.ndim else ew.multiply(strong(x), strong(y))


@implements(np.outer)
def outer(a: ArrayLike, b: ArrayLike, out: Out = None) -> Array:
    """Every product of an element of ``a`` and one of ``b``, both flattened."""
    return ew.multiply(reshape(as_array(a), (-1, 1)), reshape(as_array(b), (1, -1)))


@implements(np.vecdot, np.linalg.vecdot)
def vecdot(x1: ArrayLike, x2: ArrayLike, *, axis: int = -1) -> Array:
    """Inner products along an axis of two arrays that are broadcast against each other; the first one is conjugated."""
    x, y = _pair("vecdot", x1, x2)
    left, right = moveaxis(_conjugated(x), axis, -1), moveaxis(y, axis, -1)
    require(dims_of(left)[-1], "==", dims_of(right)[-1], "vecdot: the axes must have one length")
    if x.dtype.kind == "b":
        return reductions.any(ew.logical_and(left, right), -1)
    return reductions.sum(ew.multiply(left, right), -1, dtype=x.dtype)


@implements(np.matvec)
def matvec(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The product of matrices with vectors along the last axis."""
    column = as_array(x2)
    return matmul(x1, b.reshape(column, shape=(*dims_of(column), dim(1))))[..., 0]


@implements(np.vecmat)
def vecmat(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The product of vectors along the last axis, which are conjugated, with matrices."""
    row = _conjugated(x1)
    sizes = dims_of(row)
    return matmul(b.reshape(row, shape=(*sizes[:-1], dim(1), sizes[-1])), x2)[..., 0, :]


@implements(np.tensordot, np.linalg.tensordot, gives="boxed")
def tensordot(a: ArrayLike, b: ArrayLike, axes: Axes = 2) -> Array:
    """Products summed over several axes of both arrays at once, as ``numpy.tensordot``."""
    x, y = _pair("tensordot", a, b)
    left, right = _contracted(x, y, axes)
    for i, j in zip(left, right, strict=True):
        _inner("tensordot", x, y, i, j)
    free_x = [i for i in range(x.ndim) if i not in left]
    free_y = [i for i in range(y.ndim) if i not in right]
    rows, columns = [dims_of(x)[i] for i in free_x], [dims_of(y)[i] for i in free_y]
    count = product(dims_of(x)[i] for i in left)
    first = _matrix(transpose(x, [*free_x, *left]), product(rows), count)
    second = _matrix(transpose(y, [*right, *free_y]), count, product(columns))
    return _matrix_to(_product(first, second), (*rows, *columns))


def _matrix(x: Array, rows: Dim, columns: Dim) -> Array:
    return _matrix_to(x, (rows, columns))


def _matrix_to(x: Array, shape: tuple[Dim, ...]) -> Array:
    return x if dims_of(x) == shape else b.reshape(x, shape=shape)


def _contracted(x: Array, y: Array, axes: Any) -> tuple[list[int], list[int]]:
    if isinstance(axes, (tuple, list)):
        first, second = (list(a) if isinstance(a, (tuple, list)) else [a] for a in axes)
    else:
        count = static_int(axes, "tensordot: axes")
        first, second = list(range(x.ndim - count, x.ndim)), list(range(count))
    if len(first) != len(second):
        raise ShapeError(
            "tensordot needs as many axes of one array as of the other",
            where=user_line(),
            fix="name as many axes of both, in pairs",
        )
    left = [normal_axis("tensordot", i, x.ndim) for i in first]
    return left, [normal_axis("tensordot", i, y.ndim) for i in second]


@implements(np.trace)
def trace(
    x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: Out = None
) -> Array:
    """The sum of a diagonal."""
    return reductions.sum(diagonal(x, offset, axis1, axis2), -1, dtype=dtype)


@implements(np.diagonal, gives="shown")
def diagonal(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements of a diagonal of two axes, along a new last axis."""
    from zenith.ir.types import int64

    x = moveaxis(as_array(x), (axis1, axis2), (0, 1))
    rows, columns = dims_of(x)[:2]
    down, across = max(-offset, 0), max(offset, 0)
    height, width = rows - down, columns - across
    count = height if ask(height, "<=", width) else width
    index = b.iota(size=count if ask(count, ">=", 0) else 0, dtype=int64)
    return moveaxis(b.gather(x, ew.add(index, down), ew.add(index, across)), 0, -1)


@implements(np.diag, gives="view")
def diag(v: ArrayLike, k: int = 0) -> Array:
    """The diagonal of a matrix, or the matrix with a given diagonal."""
    from zenith.numpy.conditionals import where
    from zenith.numpy.creation import eye

    x = as_array(v)
    if x.ndim == 2:
        return diagonal(x, k)
    size = dims_of(x)[0] + abs(k)
    padded = b.pad(x, np.zeros((), x.dtype), low=(max(k, 0),), high=(max(-k, 0),), interior=(0,))
    return where(eye(size, k=k, dtype=bool), reshape(padded, (1, -1)), np.zeros((), x.dtype))


@implements(np.diagflat)
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix with the flattened array on diagonal ``k``.

    >>> diagflat([[1], [2]])
    array([[1, 0],
           [0, 2]])
    """
    return diag(reshape(as_array(v), (-1,)), k)


def sizes_by_letter(name: str, terms: Sequence[Sequence[str]], shapes: Sequence[tuple[Dim, ...]]) -> dict[str, Dim]:
    """The size that each letter of an einsum stands for; ShapeError unless they agree, as is assumed of other calls."""
    found: dict[str, Dim] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            known = found.setdefault(letter, size)
            if not ask(known, "==", size):
                raise ShapeError(f"{name}: the sizes of axis {letter!r} must be equal, not {known} and {size}",
                                 where=user_line(), fix="make them equal, or 1")  # fmt: skip
    return found
