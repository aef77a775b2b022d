"""Factors of matrices: Cholesky's, QR, eigenvalues and vectors of Hermitian matrices, singular values and vectors.

Of eigenvectors and singular vectors only the directions are defined: signs and complex phases are LAPACK's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zenith.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError, user_line
from zenith.ir.types import is_narrow, kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy.conditionals import triu
from zenith.numpy.indexing import take_along_axis
from zenith.numpy.joining import flip
from zenith.numpy.linear import matmul
from zenith.numpy.operands import FLOAT64, ask, compute_array, convert, dims_of, require, shape_text
from zenith.numpy.shaping import matrix_transpose
from zenith.numpy.sorting import argsort
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b
from zenith.trace.dispatch import implements

__all__ = ["EighResult", "QRResult", "SVDResult", "cholesky", "eigh", "eigvalsh", "qr", "svd", "svdvals"]


class QRResult(NamedTuple):
    """The factors of :func:`qr`."""

    Q: Array
    R: Array


class EighResult(NamedTuple):
    """What :func:`eigh` gives."""

    eigenvalues: Array
    eigenvectors: Array


class SVDResult(NamedTuple):
    """The factors of :func:`svd`."""

    U: Array
    S: Array
    Vh: Array


def matrices(name: str, a: ArrayLike) -> Array:
    """An operand of two axes or more; integers and bools as float64."""
    x = inexact(name, a)
    if x.ndim < 2:
        raise ShapeError(f"{name} needs matrices: an array of two axes or more, not {shape_text(dims_of(x))}",
                         where=user_line(), fix="reshape it: x[:, None] is a column, x[None] a row")  # fmt: skip
    if is_narrow(x.dtype):
        raise DTypeError(f"{name} computes in float32 or wider, not in {x.dtype}", where=user_line(),
                         fix="cast the operand to float32 first")  # fmt: skip
    return x


def inexact(name: str, a: ArrayLike) -> Array:
    """An operand as an array of floats or complex numbers; integers and bools as float64."""
    x = compute_array(name, a)
    return convert(x, FLOAT64) if kind_of(x.dtype) in "biu" else x


def square_matrices(name: str, a: ArrayLike) -> Array:
    """The same, of as many rows as columns."""
    x = matrices(name, a)
    rows, columns = dims_of(x)[-2:]
    require(rows, "==", columns, f"{name} needs square matrices, not {shape_text(dims_of(x))}")
    return x


def adjoint(x: Array) -> Array:
    """The conjugate transpose of matrices."""
    return matrix_transpose(ew.conjugate(x) if kind_of(x.dtype) == "c" else x)


@implements(np.linalg.cholesky, module="linalg")
def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Array:
    """The lower triangular L with ``L @ L.conj().T == a`` for Hermitian positive definite matrices, or its adjoint.

    Only one triangle of ``a`` is read; a matrix that is not positive definite gives nan. Derivatives are those within
    the Hermitian matrices: a gradient is Hermitian, whichever triangle is read.

    >>> cholesky([[4.0, 2.0], [2.0, 5.0]])
    array([[2., 0.],
           [1., 2.]])
    """
    x = square_matrices("cholesky", a)
    return adjoint(b.cholesky(adjoint(x))) if upper else b.cholesky(x)


@implements(np.linalg.qr, module="linalg")
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Orthonormal columns Q and an upper triangular R with ``a == Q @ R``: a :class:`QRResult`, or R alone.

    ``mode`` is ``"reduced"``, ``"complete"`` (Q is square; no derivative) or ``"r"``.

    >>> qr([[3.0], [4.0]]).R
    array([[-5.]])
    """
    x = matrices("qr", a)
    if mode not in ("reduced", "complete", "r"):
        raise UnsupportedError(f"qr: the mode {mode!r} is not supported", where=user_line(),
                               fix="use 'reduced', 'complete' or 'r'")  # fmt: skip
    rows, columns = dims_of(x)[-2:]
    if mode == "complete" and rows != columns:
        return QRResult(*b.complete_qr(x))
    if ask(rows, ">=", columns):
        q, r = b.qr(x)
    else:  # the first columns give Q, which takes the others to R
        q, _ = b.qr(b.slice(x, start=(0,) * x.ndim, stop=(*dims_of(x)[:-1], rows), step=(1,) * x.ndim))
        r = triu(matmul(adjoint(q), x))
    return r if mode == "r" else QRResult(q, r)


def _lower_read(name: str, a: ArrayLike, uplo: str) -> Array:
    """Square matrices, transposed where needed so that the triangle to be read is the lower one."""
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise ArgumentError(f"{name}: {uplo!r} is no UPLO", where=user_line(), fix="use 'L' or 'U'")
    x = square_matrices(name, a)
    return adjoint(x) if uplo.upper() == "U" else x


@implements(np.linalg.eigh, module="linalg")
def eigh(a: ArrayLike, UPLO: str = "L") -> EighResult:
    """Eigenvalues, ascending, and eigenvectors, as columns, of Hermitian matrices, of which one triangle is read.

    Derivatives are those within the Hermitian matrices. The vectors of equal eigenvalues have none: infinite or nan.

    >>> eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues
    array([1., 2.])
    """
    return EighResult(*b.eigh(_lower_read("eigh", a, UPLO)))


@implements(np.linalg.eigvalsh, module="linalg")
def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Array:
    """The eigenvalues of :func:`eigh`.

    >>> eigvalsh([[0.0, 1.0], [1.0, 0.0]])
    array([-1.,  1.])
    """
    return b.eigh(_lower_read("eigvalsh", a, UPLO))[0]


@implements(np.linalg.svd, module="linalg")
def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Singular vectors and values: ``a == U @ diag(S) @ Vh``, S descending; S alone without ``compute_uv``.

    With ``full_matrices`` U and Vh are square, and have derivatives where ``a`` is. ``hermitian`` says that ``a`` is,
    of which the lower triangle is read: its eigenvalues' magnitudes are the singular values.

    >>> svd([[3.0, 0.0], [0.0, 4.0]]).S
    array([4., 3.])
    """
    x = matrices("svd", a)
    if hermitian:
        x = square_matrices("svd", x)
        return _hermitian_svd(x) if compute_uv else _hermitian_svd(x).S
    if not compute_uv:
        return b.svd(x)[1]
    rows, columns = dims_of(x)[-2:]
    return SVDResult(*(b.complete_svd(x) if full_matrices and rows != columns else b.svd(x)))


def _hermitian_svd(x: Array) -> SVDResult:
    """Eigenvectors by falling magnitudes of their eigenvalues, whose signs the right ones take."""
    values, vectors = eigh(x)
    sizes = ew.absolute(values)
    order = flip(argsort(sizes, axis=-1), axis=-1)
    u = take_along_axis(vectors, order[..., None, :], axis=-1)
    signs = take_along_axis(ew.sign(values), order, axis=-1)
    return SVDResult(u, take_along_axis(sizes, order, axis=-1), adjoint(ew.multiply(u, signs[..., None, :])))


@implements(np.linalg.svdvals, module="linalg")
def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of matrices, descending.

    >>> svdvals([[3.0, 0.0], [0.0, 4.0]])
    array([4., 3.])
    """
    return b.svd(matrices("svdvals", x))[1]
