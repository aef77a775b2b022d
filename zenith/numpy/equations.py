"""Linear equations: solutions, inverses, determinants, powers of matrices.

Matrices of at most four rows are written out in traced functions; see :mod:`zenith.numpy.small_matrices`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from zenith.errors import ShapeError, user_line
from zenith.ir.dims import product
from zenith.numpy import small_matrices
from zenith.numpy.broadcasting import broadcast_dims, spread
from zenith.numpy.creation import eye
from zenith.numpy.factors import inexact, matrices, square_matrices
from zenith.numpy.linear import matmul
from zenith.numpy.operands import (
    compute_array,
    convert,
    dims_of,
    normal_axis,
    require,
    result_dtype,
    shape_text,
    static_int,
)
from zenith.numpy.shaping import transpose
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b
from zenith.trace.dispatch import implements

__all__ = ["SlogdetResult", "det", "inv", "matrix_power", "slogdet", "solve", "tensorinv", "tensorsolve"]


class SlogdetResult(NamedTuple):
    """What :func:`slogdet` gives."""

    sign: Array
    logabsdet: Array


@implements(np.linalg.solve, module="linalg")
def solve(a: ArrayLike, y: ArrayLike) -> Array:
    """X with ``a @ X == y``: y is one vector, or matrices whose leading axes fit those of ``a``.

    >>> solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 4.0])
    array([1., 1.])
    """
    x, right = square_matrices("solve", a), inexact("solve", y)
    dtype = result_dtype("solve", (x, right, 1.0))
    x, right = convert(x, dtype), convert(right, dtype)
    vector = right.ndim == 1
    right = b.reshape(right, shape=(*dims_of(right), 1)) if vector else right
    if not right.ndim:
        raise ShapeError(
            "solve needs a vector or matrices on the right, not a number",
            where=user_line(),
            fix="make it a vector, y[None]",
        )
    require(dims_of(x)[-1], "==", dims_of(right)[-2], f"solve: the rows of {shape_text(dims_of(x))} and of "
            f"{shape_text(dims_of(right))} must be equal")  # fmt: skip
    lead = broadcast_dims("solve", [dims_of(x)[:-2], dims_of(right)[:-2]])
    x, right = (spread(m, (*lead, *dims_of(m)[-2:])) for m in (x, right))
    found = _solved(x, right)
    return b.reshape(found, shape=dims_of(found)[:-1]) if vector else found


def _solved(x: Array, right: ArrayLike) -> Array:
    size = small_matrices.rows_of(x)
    return b.solve(x, right) if size is None else small_matrices.solve(x, right, size)


@implements(np.linalg.inv, module="linalg")
def inv(a: ArrayLike) -> Array:
    """The inverse of matrices.

    >>> inv([[2.0, 0.0], [0.0, 4.0]])
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    x = square_matrices("inv", a)
    return _solved(x, spread(eye(x.shape[-1], dtype=x.dtype), dims_of(x)))


@implements(np.linalg.det, module="linalg")
def det(a: ArrayLike) -> Array:
    """The determinant of matrices.

    >>> det([[2.0, 0.0], [0.0, 4.0]]).round(6)
    np.float64(8.0)
    """
    x = square_matrices("det", a)
    size = small_matrices.rows_of(x)
    return b.det(x) if size is None else small_matrices.det(x, size)


@implements(np.linalg.slogdet, module="linalg")
def slogdet(a: ArrayLike) -> SlogdetResult:
    """The sign of the determinant (a complex number of magnitude 1) and the logarithm of its magnitude.

    >>> slogdet([[-2.0]]).sign
    np.float64(-1.0)
    """
    return SlogdetResult(*b.slogdet(square_matrices("slogdet", a)))


@implements(np.linalg.matrix_power, module="linalg")
def matrix_power(a: ArrayLike, n: int) -> Any:
    """The matrix times itself ``n`` times, by squaring; of the inverse for negative ``n``, which must be an int.

    >>> matrix_power([[1.0, 1.0], [0.0, 1.0]], 3)
    array([[1., 3.],
           [0., 1.]])
    """
    count = static_int(n, "matrix_power: n")
    x = compute_array("matrix_power", a)
    if x.ndim < 2 or count < 0:
        x = square_matrices("matrix_power", x)
    rows, columns = dims_of(x)[-2:]
    require(rows, "==", columns, f"matrix_power needs square matrices, not {shape_text(dims_of(x))}")
    if count == 0:
        return spread(eye(x.shape[-1], dtype=x.dtype), dims_of(x))
    square, found = inv(x) if count < 0 else x, None
    left = abs(count)
    while True:
        if left % 2:
            found = square if found is None else matmul(found, square)
        left //= 2
        if not left:
            return found
        square = matmul(square, square)


# --- equations between several axes -----------------------------------------------------------------------------------


@implements(np.linalg.tensorsolve, module="linalg")
def tensorsolve(a: ArrayLike, y: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """X with ``tensordot(a, X, X.ndim) == y``: the last axes of ``a`` are those of X, after ``axes`` went there.

    >>> tensorsolve(np.eye(4).reshape(2, 2, 4), np.ones((2, 2)))
    array([1., 1., 1., 1.])
    """
    x, right = matrices("tensorsolve", a), compute_array("tensorsolve", y)
    last = [normal_axis("tensorsolve", axis, x.ndim) for axis in axes or ()]
    x = transpose(x, [*(a for a in range(x.ndim) if a not in last), *last])
    shape = dims_of(x)[right.ndim :]
    rows, columns = product(dims_of(right)), product(shape)
    require(rows, "==", columns, f"tensorsolve: {shape_text(dims_of(x))} is no square matrix for the right side's axes")
    found = solve(b.reshape(x, shape=(rows, columns)), b.reshape(right, shape=(rows,)))
    return b.reshape(found, shape=shape)


@implements(np.linalg.tensorinv, module="linalg")
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of ``a`` as a matrix between its first ``ind`` axes and the others.

    >>> tensorinv(np.eye(4).reshape(4, 2, 2), 1).shape
    (2, 2, 4)
    """
    x, at = matrices("tensorinv", a), static_int(ind, "tensorinv: ind")
    if not 0 < at < x.ndim:
        raise ShapeError(
            f"tensorinv: ind must leave axes on both sides, and is {at}",
            where=user_line(),
            fix="say how many of the first axes belong to the result's last ones",
        )
    first, last = dims_of(x)[:at], dims_of(x)[at:]
    require(product(first), "==", product(last), f"tensorinv: {shape_text(dims_of(x))} is no square matrix")
    found = inv(b.reshape(x, shape=(product(first), product(last))))
    return b.reshape(found, shape=(*last, *first))
