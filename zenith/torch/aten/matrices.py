"""Linear algebra: ``torch.linalg`` over ``zenith.numpy.linalg``.

Where elimination finds a pivot of 0, or Cholesky's factor does not exist, the program raises when it runs, as PyTorch
does; a matrix that is singular but for rounding may have a result here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

import zenith.numpy as znp
from zenith.numpy.norms import SINGULAR
from zenith.numpy.typing import Array, ArrayLike
from zenith.torch.aten.refused import Failed, RefusedResult
from zenith.torch.aten.rules import RULES, Context, rule, to
from zenith.torch.aten.value_checks import has_no_factor, is_singular, with_factor, with_inverse, without_nan
from zenith.transforms import custom_jvp

linalg = znp.linalg
_NO_FACTORS = RefusedResult("the factors of LU are not computed", fix="use torch.linalg.qr, cholesky or svd")

# Operators of one matrix argument and one result.
_OF_ONE = {
    "linalg_det": linalg.det, "det": linalg.det,
}  # fmt: skip


def _register() -> None:
    for name, function in _OF_ONE.items():
        RULES[name] = lambda c, a, *rest, f=function: to(f(a, *rest), c.dtype)


_register()


@rule("linalg_matrix_power", "matrix_power")
def _matrix_power(c: Context, a: Array, n: int) -> Array:
    found = linalg.matrix_power(a, n)
    return with_inverse("linalg.matrix_power", found, a) if n < 0 else found


@rule("linalg_tensorinv")
def _tensorinv(c: Context, a: Array, ind: int = 2) -> Array:
    found = linalg.tensorinv(a, ind)
    rows = math.prod(a.shape[:ind])
    return with_inverse("linalg.tensorinv", found, znp.reshape(a, (rows, rows)))


@rule("linalg_inv", "inverse")
def _inv(c: Context, a: Array) -> Array:
    return with_inverse("linalg.inv", linalg.inv(a), a)


@rule("linalg_inv_ex")
def _inv_ex(c: Context, a: Array, *, check_errors: bool = False) -> tuple[Array, Failed]:
    found = linalg.inv(a)
    code = _code(is_singular(found, a))
    return (with_inverse("linalg.inv_ex", found, a) if check_errors else found), code


def _code(none: Array) -> Failed:
    """Which matrices have no result."""
    return Failed("which matrix has no result is not known: programs give nan or infinities there",
                  "ask torch.isfinite of the result", znp.astype(none, np.int32))  # fmt: skip


@rule("_linalg_det")
def _det(c: Context, a: Array) -> tuple[Array, RefusedResult, RefusedResult]:
    return linalg.det(a), _NO_FACTORS, _NO_FACTORS


@rule("linalg_slogdet", "slogdet", "_linalg_slogdet")
def _slogdet(c: Context, a: Array) -> tuple[Array | RefusedResult, ...]:
    return (*linalg.slogdet(a), *[_NO_FACTORS] * (len(c.value) - 2))


@rule("logdet")
def _logdet(c: Context, a: Array) -> Array:
    """nan where the determinant is negative."""
    sign, logarithm = linalg.slogdet(a)
    return znp.where(sign < 0, c.cast(znp.nan), logarithm)


@rule("linalg_solve")
def _solve(c: Context, a: Array, y: Array, *, left: bool = True) -> Array:
    return with_inverse("linalg.solve", _solved(c.arguments, a, y, left), a, y)


@rule("linalg_solve_ex", "_linalg_solve_ex")
def _solve_ex(c: Context, a: Array, y: Array, *, left: bool = True,
              check_errors: bool = False) -> tuple[Array | RefusedResult, ...]:  # fmt: skip
    found = _solved(c.arguments, a, y, left)
    code = _code(is_singular(found, a, y))
    factors = () if len(c.value) == 2 else (_NO_FACTORS, _NO_FACTORS)
    return (with_inverse("linalg.solve_ex", found, a, y) if check_errors else found, *factors, code)


def _solved(examples: Sequence[torch.Tensor], a: Array, y: Array, left: bool) -> Array:
    """A right side of one axis less is vectors, of as many as there are matrices; NumPy takes one vector only."""
    first, second = (tuple(e.shape) for e in examples[:2])
    vectors = len(second) == 1 or (len(second) == len(first) - 1 and second == first[:-1])
    y = znp.expand_dims(y, -1) if vectors else y
    if left or vectors:
        x = linalg.solve(a, y)
    else:
        x = znp.matrix_transpose(linalg.solve(znp.matrix_transpose(a), znp.matrix_transpose(y)))
    return x[..., 0] if vectors else x


@rule("linalg_solve_triangular")
def _solve_triangular(
    c: Context, a: Array, y: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    """Only one triangle is read, with ones on its diagonal if so wanted."""
    triangle = znp.triu(a) if upper else znp.tril(a)
    if unitriangular:
        one = znp.eye(a.shape[-1], dtype=a.dtype)
        triangle = znp.where(one != 0, one, triangle)
    if left:
        return linalg.solve(triangle, y)
    return znp.matrix_transpose(linalg.solve(znp.matrix_transpose(triangle), znp.matrix_transpose(y)))


@rule("triangular_solve")
def _triangular_solve(
    c: Context, y: Array, a: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Array, Array]:
    own = znp.matrix_transpose(a) if transpose else a
    found = _solve_triangular(c, own, y, upper=upper != transpose, unitriangular=unitriangular)
    return found, znp.broadcast_to(a, (*found.shape[:-2], *a.shape[-2:]))


@rule("linalg_cholesky", "cholesky")
def _cholesky(c: Context, a: Array, upper: bool = False) -> Array:
    return with_factor("linalg.cholesky", linalg.cholesky(a, upper=upper))


@rule("linalg_cholesky_ex")
def _cholesky_ex(c: Context, a: Array, *, upper: bool = False, check_errors: bool = False) -> tuple[Array, Failed]:
    found = linalg.cholesky(a, upper=upper)
    code = _code(has_no_factor(found))
    return (with_factor("linalg.cholesky_ex", found) if check_errors else found), code


@rule("cholesky_solve")
def _cholesky_solve(c: Context, y: Array, factor: Array, upper: bool = False) -> Array:
    lower = znp.conj(znp.matrix_transpose(znp.triu(factor))) if upper else znp.tril(factor)
    return linalg.solve(znp.conj(znp.matrix_transpose(lower)), linalg.solve(lower, y))


@rule("cholesky_inverse")
def _cholesky_inverse(c: Context, factor: Array, upper: bool = False) -> Array:
    return with_inverse("cholesky_inverse", linalg.inv(_of_factor(factor, upper)), factor)


def _of_factor(factor: Array, upper: bool) -> Array:
    """The matrix whose Cholesky factor this is."""
    factor = _as_read(znp.triu if upper else znp.tril, factor)
    other = znp.conjugate(znp.matrix_transpose(factor))
    return other @ factor if upper else factor @ other


def _as_read(read: Callable[[Array], Array], a: Array) -> Array:
    """What is read of a matrix. PyTorch's derivatives are those by all of its elements, also by those not read."""

    @custom_jvp
    def whole(a: Array) -> Array:
        return read(a)

    whole.defjvp(lambda primals, tangents: (whole(*primals), *tangents))
    return whole(a)


@rule("linalg_qr")
def _qr(c: Context, a: Array, mode: str = "reduced") -> tuple[Array, ...]:
    if mode == "r":
        return znp.zeros((0,), dtype=a.dtype), linalg.qr(a, "r")
    return tuple(linalg.qr(a, mode))


@rule("linalg_eigh")
def _eigh(c: Context, a: Array, triangle: str = "L") -> tuple[Array, ...]:
    return tuple(linalg.eigh(without_nan("linalg.eigh", a, triangle), triangle))


@rule("linalg_eigvalsh")
def _eigvalsh(c: Context, a: Array, triangle: str = "L") -> Array:
    return linalg.eigvalsh(without_nan("linalg.eigvalsh", a, triangle), triangle)


@rule("_linalg_eigh")
def _eigh_or_values(c: Context, a: Array, triangle: str = "L", compute_v: bool = True) -> tuple[Array, ...]:
    if compute_v:
        return _eigh(c, a, triangle)
    return _eigvalsh(c, a, triangle), znp.zeros((0,), dtype=a.dtype)


@rule("_linalg_svd")
def _reduced_svd(
    c: Context, a: Array, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Array, ...]:
    return _svd(c, a, full_matrices, compute_uv)


@rule("linalg_svd")
def _svd(c: Context, a: Array, full_matrices: bool = True, compute_uv: bool = True, *,
         driver: str | None = None) -> tuple[Array, ...]:  # fmt: skip
    if compute_uv:
        return tuple(linalg.svd(without_nan("linalg.svd", a), full_matrices))
    none = znp.zeros((0,), dtype=a.dtype)
    return none, _svdvals(c, a), none


@rule("linalg_svdvals")
def _svdvals(c: Context, a: Array, *, driver: str | None = None) -> Array:
    return linalg.svdvals(without_nan("linalg.svdvals", a))


@rule("pinverse")
def _pinverse(c: Context, a: Array, rcond: ArrayLike = 1e-15) -> Array:
    return _pinv(c, a, rcond)


@rule("linalg_pinv", "linalg_pinv.atol_rtol_tensor", "linalg_pinv.atol_rtol_float")
def _pinv(c: Context, a: Array, rcond: ArrayLike | None = None, hermitian: bool = False, *,
          atol: ArrayLike | None = None, rtol: ArrayLike | None = None) -> Array:  # fmt: skip
    """A Hermitian matrix is read from its lower triangle."""
    if hermitian:
        a = _as_read(lambda a: znp.tril(a, -1) + znp.conjugate(znp.matrix_transpose(znp.tril(a))), a)
    a = without_nan("linalg.pinv", a)
    given = rcond if rtol is None else rtol
    if given is None:
        given = _share(a) if atol is None else znp.where(znp.asarray(atol) > 0, 0.0, _share(a))
    if atol is None:
        return linalg.pinv(a, rtol=given)
    largest = znp.max(linalg.svdvals(a), axis=-1, initial=0)
    share = znp.where(largest > 0, atol / znp.where(largest > 0, largest, 1), 0)
    return linalg.pinv(a, rtol=c.cast(znp.maximum(given, share)))


@rule("linalg_matrix_rank", "linalg_matrix_rank.atol_rtol_float", "linalg_matrix_rank.atol_rtol_tensor")
def _matrix_rank(c: Context, a: Array, tol: ArrayLike | None = None, hermitian: bool = False, *,
                 atol: ArrayLike | None = None, rtol: ArrayLike | None = None) -> Array:  # fmt: skip
    """How many singular values are above ``atol`` and above the share ``rtol`` of the largest."""
    atol, a = tol if atol is None else atol, without_nan("linalg.matrix_rank", a, "L" if hermitian else "")
    values = znp.abs(linalg.eigvalsh(a)) if hermitian else linalg.svdvals(a)
    if rtol is None:
        rtol = _share(a) if atol is None else 0.0
    limit = znp.max(values, axis=-1) * rtol
    limit = limit if atol is None else znp.maximum(limit, atol)
    return znp.count_nonzero(values > znp.expand_dims(limit, -1), axis=-1)


def _share(a: Array) -> Array:
    """The share of the largest singular value below which PyTorch takes one for 0."""
    rows, columns = a.shape[-2:]
    return znp.maximum(rows, columns) * znp.finfo(a.dtype).eps


@rule("linalg_cond", "linalg_cond.p_str")
def _cond(c: Context, a: Array, p: str | float | None = None) -> Array:
    """The ratio of the extreme singular values is nan where all are 0, for NumPy's infinity."""
    if p not in (None, 2, -2):
        return linalg.cond(without_nan("linalg.cond", a) if p in SINGULAR else a, p)
    values = _svdvals(c, a)
    return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]


@rule("linalg_multi_dot", "chain_matmul")
def _multi_dot(c: Context, arrays: Sequence[Array]) -> Array:
    return linalg.multi_dot(arrays)


@rule("linalg_tensorsolve")
def _tensorsolve(c: Context, a: Array, y: Array, dims: Sequence[int] | None = None) -> Array:
    found = linalg.tensorsolve(a, y, dims)
    rows = znp.permute_dims(a, [*(axis for axis in range(a.ndim) if axis not in (dims or ())), *(dims or ())])
    return with_inverse("linalg.tensorsolve", found, znp.reshape(rows, (y.size, y.size)), y)


@rule("linalg_vecdot")
def _vecdot(c: Context, x: Array, y: Array, *, dim: int = -1) -> Array:
    return linalg.vecdot(x, y, axis=dim)


@rule("linalg_cross")
def _cross(c: Context, x: Array, y: Array, *, dim: int = -1) -> Array:
    return linalg.cross(*c.cast(x, y), axis=dim)


@rule("cross")
def _first_cross(c: Context, x: Array, y: Array, dim: int | None = None) -> Array:
    """Without an axis, along the first of size 3."""
    return _cross(c, x, y, dim=list(c.value.shape).index(3) if dim is None else dim)
