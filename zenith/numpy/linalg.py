"""Linear algebra, as in ``numpy.linalg``, on matrices and stacks of them: all leading axes count matrices.

A compiled program calls LAPACK, from kernels that share a stack of matrices (complete QR factors between them);
inverses, equations and determinants of matrices of at most four rows are written out and fused with what is around
them. Unlike NumPy's functions these raise nothing where a matrix has no result (a singular one, one that is not
positive definite): it gives nan or infinities, alone in its stack.

>>> from zenith.numpy import linalg
>>> linalg.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 4.0]))
array([1., 1.])
"""

# ruff: noqa: F403 (each submodule's __all__ lists what it exports)
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from zenith.errors import ShapeError, user_line
from zenith.numpy import equations, factors, linear, norms, products
from zenith.numpy.absent import refuse_name
from zenith.numpy.equations import *
from zenith.numpy.factors import *
from zenith.numpy.linear import matmul, tensordot, vecdot
from zenith.numpy.norms import *
from zenith.numpy.operands import as_array, dims_of, shape_text
from zenith.numpy.shaping import matrix_transpose, reshape
from zenith.numpy.typing import Array, ArrayLike, DTypeLike, Out
from zenith.trace.dispatch import implements, refuse

__all__ = [
    *equations.__all__, *factors.__all__, *norms.__all__, "LinAlgError", "cross", "diagonal", "matmul",
    "matrix_transpose", "multi_dot", "outer", "tensordot", "trace", "vecdot",
]  # fmt: skip

LinAlgError = np.linalg.LinAlgError  # which nothing here raises

refuse((np.linalg.eig, np.linalg.eigvals),
       "its result is real or complex by the matrix's values, which no program's is",
       "use eigh or eigvalsh for symmetric and Hermitian matrices, or zenith.pure_callback")  # fmt: skip


@implements(np.linalg.cross, module="linalg")
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of three components along an axis; other axes are broadcast.

    >>> cross([1, 0, 0], [0, 1, 0])
    array([0, 0, 1])
    """
    return products.cross(x1, x2, axis=axis)


@implements(np.linalg.diagonal, module="linalg", gives="shown")
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """A diagonal of each matrix in the last two axes.

    >>> diagonal([[1, 2], [3, 4]])
    array([1, 4])
    """
    return linear.diagonal(x, offset, -2, -1)


@implements(np.linalg.trace, module="linalg")
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sum of a diagonal of each matrix in the last two axes.

    >>> trace([[1, 2], [3, 4]])
    np.int64(5)
    """
    return linear.trace(x, offset, -2, -1, dtype)


@implements(np.linalg.outer, module="linalg")
def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Every product of an element of one vector and one of the other; ShapeError for what is no vector.

    >>> outer([1, 2], [3, 4])
    array([[3, 4],
           [6, 8]])
    """
    for x in map(as_array, (x1, x2)):
        if x.ndim != 1:
            raise ShapeError(f"linalg.outer takes vectors, not {shape_text(dims_of(x))}", where=user_line(),
                             fix="use zenith.numpy.outer, which flattens, or broadcasting")  # fmt: skip
    return linear.outer(x1, x2)


@implements(np.linalg.multi_dot, module="linalg")
def multi_dot(arrays: Sequence[Array], *, out: Out = None) -> Array:
    """The product of several matrices, of which the first and the last may be vectors.

    Where all sizes are fixed the order of the products is the one with fewest operations (dynamic programming; T. Hu
    and M. Shing, "Computation of matrix chain products", 1982, name the problem); otherwise they go from the vector at
    an end, or from the left.

    >>> multi_dot([np.ones((2, 3)), np.ones((3, 4)), np.ones(4)])
    array([12., 12.])
    """
    given = [as_array(a) for a in arrays]
    if len(given) < 2:
        raise ShapeError("multi_dot multiplies two arrays or more", where=user_line(), fix="give two arrays or more")
    row, column = given[0].ndim == 1, given[-1].ndim == 1
    given[0] = reshape(given[0], (1, -1)) if row else given[0]
    given[-1] = reshape(given[-1], (-1, 1)) if column else given[-1]
    for array in given:
        if array.ndim != 2:
            text = f"multi_dot multiplies matrices, and vectors at its ends, not {shape_text(dims_of(array))}"
            raise ShapeError(text, where=user_line(), fix="give vectors at both ends and matrices between them")
    sizes = [n.static for n in (dims_of(given[0])[0], *(dims_of(a)[-1] for a in given))]
    if any(n is None for n in sizes):
        found = (
            functools.reduce(lambda x, y: matmul(y, x), reversed(given)) if column else functools.reduce(matmul, given)
        )
    else:
        found = _multiply_chain(given, [n or 0 for n in sizes])
    found = found[0] if row else found
    return found[..., 0] if column else found


def _multiply_chain(chain: Sequence[Array], sizes: Sequence[int]) -> Array:
    """The cheapest product of matrices ``i`` to ``j`` is one of two cheapest products."""
    best: dict[tuple[int, int], tuple[int, Any]] = {(i, i): (0, i) for i in range(len(chain))}
    for length in range(1, len(chain)):
        for i in range(len(chain) - length):
            j = i + length
            splits = [
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            ]
            best[i, j] = min(splits)

    def product(i: int, j: int) -> Array:
        k = best[i, j][1]
        return chain[i] if i == j else matmul(product(i, k), product(k + 1, j))

    return product(0, len(chain) - 1)


if not TYPE_CHECKING:  # which knows the names that there are

    def __getattr__(name: str) -> NoReturn:
        refuse_name(__name__, name, {n: globals()[n] for n in __all__})
