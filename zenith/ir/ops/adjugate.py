"""The adjugate of square matrices, which is the determinant's derivative, for singular ones, too.

The adjugate is the determinant times the inverse, as long as there is one. With singular values S and vectors U and V
it is V times the diagonal of products of all singular values but one, times the adjoint of U, times the determinants of
U and of the adjoint of V; that holds for every matrix. Its derivative has the same form with products of all singular
values but two; see G. W. Stewart, "On the adjugate matrix" (Linear Algebra and its Applications 283, 1998). That rule
is differentiated through singular vectors: third derivatives of a determinant are nan where singular values are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import DimLike
from zenith.ir.graph import Value
from zenith.ir.ops.common import libraries_compute_in, sample
from zenith.ir.ops.matrices import (
    adjoint,
    by_lapack,
    conjugate,
    diagonal,
    diagonal_matrix,
    like,
    of_moving,
    on_diagonal,
    on_stacks,
    sound_matrices,
    square,
)
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import NDArray, NumPyType, int64

ULP = 8  # in the operand


def _adjugate(xp: Any, a: NDArray) -> list[NDArray]:
    """By the inverse where half of the digits are left by it for all matrices, else by singular values."""
    if not a.shape[-1]:
        return [a]
    try:
        inverse = xp.linalg.inv(a)
    except np.linalg.LinAlgError:
        return [_by_singular_values(xp, a)]
    condition = abs(a).sum(-1).max(-1) * abs(inverse).sum(-1).max(-1)
    if bool((condition * np.sqrt(np.finfo(a.dtype).eps) < 1).all()):
        return [xp.linalg.det(a)[..., None, None] * inverse]
    return [_by_singular_values(xp, a)]


def _by_singular_values(xp: Any, a: NDArray) -> Any:
    u, s, vh = xp.linalg.svd(a)
    one = xp.eye(a.shape[-1], dtype=s.dtype)
    others = (s[..., None, :] * (1 - one) + one).prod(-1)
    phase = xp.linalg.det(u) * xp.linalg.det(vh)
    left = vh.conj().swapaxes(-1, -2) * (phase[..., None] * others)[..., None, :]
    return left @ u.conj().swapaxes(-1, -2)


def _but_two(b: Builder, s: Value, shape: Sequence[DimLike]) -> Value:
    """In row i and column j the product of all singular values but those two."""
    rank = len(shape)
    cube = (*shape, shape[-1])
    row, column, index = (
        b.broadcast(b.iota(size=shape[-1], dtype=int64), shape=cube, axes=(axis,)) for axis in range(rank - 2, rank + 1)
    )
    left_out = b.bit_or(b.eq(index, row), b.eq(index, column))
    factors = b.broadcast(s, shape=cube, axes=(*range(rank - 2), rank))
    return b.reduce_prod(b.where(left_out, b.full(1.0, s.dtype, cube), factors), axes=(rank,))


def _diagonal_derivative(b: Builder, s: Value, tangent: Value) -> Value:
    """The derivative of the adjugate at a diagonal matrix along ``tangent``, a linear map that is its own transpose."""
    products = like(b, _but_two(b, s, tangent.shape), tangent)
    on, rank = on_diagonal(b, tangent), len(tangent.shape)
    products = b.where(on, b.zeros_like(products), products)
    diagonals = b.broadcast(diagonal(b, tangent), shape=tangent.shape, axes=(*range(rank - 2), rank - 1))
    along = b.reduce_sum(b.mul(products, diagonals), axes=(rank - 1,))
    across = b.neg(b.mul(products, tangent))
    along = b.broadcast(along, shape=tangent.shape, axes=tuple(range(rank - 1)))
    return b.add(diagonal_matrix(b, along), across)


def _factors(b: Builder, a: Value) -> tuple[Value, Value, Value, Value]:
    """Singular vectors and values, and the product of the vectors' determinants, for each element."""
    u, s, vh = b.svd(a)
    phase = b.mul(b.det(u), b.det(vh))
    return u, s, vh, b.broadcast(phase, shape=a.shape, axes=tuple(range(len(a.shape) - 2)))


def _jvp(b: Builder, primals: Values, tangents: Values, outputs: Values, params: Params) -> Tangents:
    u, s, vh, phase = _factors(b, primals[0])
    v, uh = adjoint(b, vh), adjoint(b, u)
    inner = _diagonal_derivative(b, s, b.matmul(uh, b.matmul(tangents[0], v)))
    return [b.mul(phase, b.matmul(v, b.matmul(inner, uh)))]


def _vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    u, s, vh, phase = _factors(b, primals[0])
    vt, uc = conjugate(b, vh), conjugate(b, u)
    inner = _diagonal_derivative(b, s, b.matmul(vt, b.matmul(b.mul(phase, cotangents[0]), uc)))
    return [b.matmul(uc, b.matmul(inner, vt))]


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if libraries_compute_in(dtype):
        for shape in ((3, 3), (2, 5, 5), (1, 1)):
            yield sample(sound_matrices("adjugate", dtype, shape))


_evaluate, _lowering = by_lapack(_adjugate)
register(Primitive(
    name="adjugate", doc="The matrix whose elements are, but for their signs, a square matrix's determinants without "
    "the element's column and row.", params={}, typing=lambda types, params: tuple(square("adjugate", types)),
    evaluate=_evaluate, lowering=_lowering, jvp=of_moving(_jvp), vjp=_vjp, batch=on_stacks("adjugate"), ulp=ULP,
    effect=False, samples=_samples,
))  # fmt: skip
