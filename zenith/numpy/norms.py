"""Norms of vectors and matrices, and functions that compare singular values with a tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from zenith.errors import ArgumentError, ShapeError, user_line
from zenith.ir.dims import maximum
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.conditionals import tril, where
from zenith.numpy.equations import inv
from zenith.numpy.factors import SVDResult, adjoint, eigvalsh, inexact, matrices, square_matrices, svd, svdvals
from zenith.numpy.linear import matmul
from zenith.numpy.operands import as_array, ask, convert, dims_of, normal_axes, require, result_dtype, user_shape
from zenith.numpy.shaping import expand_dims, moveaxis, reshape
from zenith.numpy.typing import Array, ArrayLike, Axes
from zenith.trace.dispatch import implements

__all__ = ["cond", "lstsq", "matrix_norm", "matrix_rank", "norm", "pinv", "vector_norm"]

SINGULAR = {2: "max", -2: "min", "nuc": "sum"}


@implements(np.linalg.norm, module="linalg")
def norm(x: ArrayLike, ord: float | str | None = None, axis: Axes = None, keepdims: bool = False) -> Array:
    """A norm over one axis (of vectors) or two (of matrices); by default the Euclidean one over all axes.

    Orders of vectors: any number, infinities, 0 (how many elements are not zero). Orders of matrices: ``"fro"``,
    ``"nuc"``, 1, -1, 2, -2 and infinities.

    >>> norm([3.0, 4.0])
    np.float64(5.0)
    """
    x = inexact("norm", x)
    if axis is None and ord is not None and x.ndim not in (1, 2):
        raise ShapeError(
            f"norm of order {ord!r} needs axis= for an array of {x.ndim} axes",
            where=user_line(),
            fix="say axis=, one for vectors and two for matrices",
        )
    axes = _axes(axis, x.ndim)
    if ord is None and (axis is None or len(axes) <= 2):
        return _euclidean(x, axes, keepdims)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes, keepdims)
    if len(axes) != 2:
        raise ShapeError(
            f"norm: {len(axes)} axes are neither a vector's nor a matrix's",
            where=user_line(),
            fix="say one axis for vectors, two for matrices",
        )
    return _matrix_norm(x, ord, axes, keepdims)


@implements(np.linalg.vector_norm, module="linalg")
def vector_norm(x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: float | str | None = 2) -> Array:
    """The norm of the elements along axes, by default all, taken as one vector.

    >>> vector_norm([[3.0], [4.0]])
    np.float64(5.0)
    """
    x = inexact("vector_norm", x)
    return _vector_norm(x, ord, _axes(axis, x.ndim), keepdims)


@implements(np.linalg.matrix_norm, module="linalg")
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Array:
    """The norm of matrices in the last two axes; see :func:`norm` for the orders.

    >>> matrix_norm([[3.0, 0.0], [0.0, 4.0]], ord=1)
    np.float64(4.0)
    """
    x = matrices("matrix_norm", x)
    axes = (x.ndim - 2, x.ndim - 1)
    return _euclidean(x, axes, keepdims) if ord is None else _matrix_norm(x, ord, axes, keepdims)


def _axes(axis: Axes, rank: int) -> tuple[int, ...]:
    """The axes in the caller's order: of a matrix's the first one counts rows."""
    found = normal_axes("norm", axis, rank)
    return tuple(a % rank for a in axis) if isinstance(axis, (tuple, list)) and len(found) == 2 else found


def _euclidean(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return ew.sqrt(reductions.sum(ew.squared_distance(x), axes, keepdims=keepdims))


def _vector_norm(x: Array, ord: float | str | None, axes: tuple[int, ...], keepdims: bool) -> Array:
    if isinstance(ord, str) or ord is None:
        raise ArgumentError(f"norm: vectors have no norm of order {ord!r}", where=user_line(), fix="give a number")
    if ord == 2:
        return _euclidean(x, axes, keepdims)
    size = ew.absolute(x)
    if math.isinf(ord):
        return (reductions.max if ord > 0 else reductions.min)(size, axes, keepdims=keepdims)
    if ord == 0:
        return reductions.sum(convert(ew.not_equal(x, 0), size.dtype), axes, keepdims=keepdims)
    if ord == 1:
        return reductions.sum(size, axes, keepdims=keepdims)
    return ew.power(reductions.sum(ew.power(size, ord), axes, keepdims=keepdims), 1.0 / ord)


def _matrix_norm(x: Array, ord: float | str | None, axes: tuple[int, ...], keepdims: bool) -> Array:
    row, column = axes
    if ord in ("fro", "f"):
        return _euclidean(x, axes, keepdims)
    if ord in SINGULAR:
        found = getattr(reductions, SINGULAR[ord])(svdvals(moveaxis(x, axes, (-2, -1))), -1)
    elif ord in (1, -1, math.inf, -math.inf):
        summed, other = (row, column) if abs(ord) == 1 else (column, row)
        sums = reductions.sum(ew.absolute(x), summed)
        found = (reductions.max if ord > 0 else reductions.min)(sums, other - (other > summed))
    else:
        raise ArgumentError(f"norm: matrices have no norm of order {ord!r}", where=user_line(),
                            fix="use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")  # fmt: skip
    return expand_dims(found, tuple(sorted(axes))) if keepdims else found


@implements(np.linalg.cond, module="linalg")
def cond(x: ArrayLike, p: float | str | None = None) -> Array:
    """The condition of matrices: the norm of order ``p`` times that of the inverse; by default the order 2.

    >>> cond([[1.0, 0.0], [0.0, 4.0]])
    np.float64(4.0)
    """
    a = matrices("cond", x)
    if p in (None, 2, -2):
        values = svdvals(a)
        largest, smallest = values[..., 0], values[..., -1]
        found = ew.divide(smallest, largest) if p == -2 else ew.divide(largest, smallest)
    else:
        found = ew.multiply(matrix_norm(a, ord=p), matrix_norm(inv(a), ord=p))
    undefined = reductions.any(ew.isnan(a), (-2, -1))
    return where(ew.logical_and(ew.isnan(found), ew.logical_not(undefined)), math.inf, found)


# --- by the size of singular values -----------------------------------------------------------------------------------


def _relative(x: Array) -> Array:
    """The standard's relative tolerance: the larger side times the distance of 1 and the next number."""
    (larger,) = user_shape((maximum(*dims_of(x)[-2:]),))
    return larger * float(np.finfo(x.dtype).eps)


@implements(np.linalg.matrix_rank, module="linalg")
def matrix_rank(
    A: ArrayLike, tol: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> Array:
    """How many singular values are larger than ``tol``, or ``rtol`` times the largest; int64.

    >>> matrix_rank([[1.0, 1.0], [1.0, 1.0]])
    np.int64(1)
    """
    x = inexact("matrix_rank", A)
    if x.ndim < 2:
        return convert(reductions.any(ew.not_equal(x, 0)), np.dtype(np.int64))
    _one_of("matrix_rank", tol=tol, rtol=rtol)
    values = ew.absolute(eigvalsh(x)) if hermitian else svdvals(x)
    if tol is not None:
        return _rank(values, _column(tol))
    largest = ew.maximum(values[..., :1], values[..., -1:])
    return _rank(values, ew.multiply(largest, _relative(x) if rtol is None else _column(rtol)))


def _rank(values: Array, limit: Array) -> Array:
    return reductions.sum(convert(ew.greater(values, limit), np.dtype(np.int64)), -1)


def _column(tolerance: ArrayLike) -> Any:
    """A tolerance for each matrix, with an axis to compare it with its singular values."""
    given = as_array(tolerance)
    return reshape(given, (*given.shape, 1)) if given.ndim else tolerance


@implements(np.linalg.pinv, module="linalg")
def pinv(
    a: ArrayLike, rcond: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> Array:
    """The pseudoinverse (Moore and Penrose): singular values up to ``rcond`` times the largest count as zero.

    Of a ``hermitian`` matrix the lower triangle is read. ``rcond`` and ``rtol`` are two names of the limit, 1e-15 by
    default, as in NumPy. (There a given ``rtol=None`` means the standard's tolerance; here it means the default.)

    >>> pinv([[2.0], [0.0]])
    array([[0.5, 0. ]])
    """
    x = matrices("pinv", a)
    if hermitian:
        x = square_matrices("pinv", x)
        x = ew.add(tril(x), adjoint(tril(x, -1)))
    given = _one_of("pinv", rcond=rcond, rtol=rtol)
    return _pseudoinverse(x, 1e-15 if given is None else given)


def _pseudoinverse(x: Array, limit: ArrayLike) -> Array:
    """With a derivative of its own, as equal singular values have none of their vectors.

    G. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
    variables separate", SIAM Journal on Numerical Analysis 10, 1973.
    """
    from zenith.transforms import custom_jvp

    @custom_jvp
    def inverse(x: Array, limit: ArrayLike) -> Array:
        return _from_factors(svd(x, full_matrices=False), limit)

    @inverse.defjvp
    def rule(primals: Sequence[Array], tangents: Sequence[Array]) -> tuple[Array, Array]:
        (a, limit), (change, _) = primals, tangents
        p, adjoint_change = inverse(a, limit), adjoint(change)
        right, left = adjoint(p), ew.subtract(adjoint_change, matmul(adjoint_change, matmul(a, p)))
        inside = ew.subtract(adjoint_change, matmul(matmul(p, a), adjoint_change))
        moved = ew.add(matmul(p, matmul(right, left)), matmul(inside, matmul(right, p)))
        return p, ew.subtract(moved, matmul(p, matmul(change, p)))

    return inverse(x, limit)


def _from_factors(factors: SVDResult, limit: ArrayLike) -> Array:
    u, s, vh = factors
    large = ew.greater(s, ew.multiply(s[..., :1], _column(limit)))
    inverse = where(large, ew.divide(1.0, where(large, s, 1.0)), 0.0)
    return matmul(ew.multiply(adjoint(vh), expand_dims(inverse, -2)), adjoint(u))


def _one_of(name: str, **tolerances: ArrayLike | None) -> ArrayLike | None:
    """The tolerance that is given; ArgumentError for several."""
    given = [value for value in tolerances.values() if value is not None]
    if len(given) > 1:
        raise ArgumentError(
            f"{name} takes one of {' and '.join(tolerances)}", where=user_line(), fix="leave one of them out"
        )
    return given[0] if given else None


@implements(np.linalg.lstsq, module="linalg")
def lstsq(a: ArrayLike, y: ArrayLike, rcond: ArrayLike | None = None) -> tuple[Array, Array, Array, Array]:
    """The smallest X that makes ``a @ X`` nearest to y, the squared errors, the rank (int32), the singular values.

    Singular values up to ``rcond`` times the largest count as zero: by default the larger side times the distance of 1
    and the next number; that distance for a negative ``rcond``.
    There is a sum of squares for each column where ``a`` has more rows than columns, and none otherwise: NumPy leaves
    them out, too, where the rank is less than the number of columns.

    >>> x, squares, rank, values = lstsq([[1.0], [1.0]], [1.0, 3.0])
    >>> x, squares
    (array([2.]), array([2.]))
    """
    x, right = matrices("lstsq", a), inexact("lstsq", y)
    if x.ndim != 2 or right.ndim not in (1, 2):
        raise ShapeError(
            "lstsq takes one matrix, and a vector or matrix on the right",
            where=user_line(),
            fix="use zenith.vmap for several",
        )
    dtype = result_dtype("lstsq", (x, right))
    x, right = convert(x, dtype), convert(right, dtype)
    rows, columns = dims_of(x)
    require(rows, "==", dims_of(right)[0], "lstsq: both operands must have as many rows")
    values = svdvals(x)
    limit = _relative(x) if rcond is None else where(ew.less(rcond, 0), float(np.finfo(x.dtype).eps), rcond)
    found = matmul(_pseudoinverse(x, limit), right)
    rest = ew.subtract(right, matmul(x, found))
    squares = reductions.sum(reshape(ew.squared_distance(rest), (right.shape[0], -1)), 0)
    tall = ask(rows, ">", columns)
    rank = convert(_rank(values, ew.multiply(values[..., :1], limit)), np.dtype(np.int32))
    return found, squares if tall else squares[:0], rank, values
