"""Factors of matrices, by LAPACK: Cholesky's, QR, eigenvalues of Hermitian matrices, singular values.

The rules for real matrices are those of M. B. Giles, "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation" (2008), and I. Murray, "Differentiation of the Cholesky decomposition" (arXiv:1602.07527);
for QR those of S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions" (2010); for complex
singular vectors those of Z.-Q. Wan and S.-X. Zhang, "Automatic differentiation for complex valued SVD"
(arXiv:1909.02659). They are written for cotangents that are conjugate to Zenith's. Vectors of equal eigenvalues or
singular values have no derivative: it is infinite or nan.

Of a Hermitian operand the lower triangle is read, as LAPACK does; its derivatives are those within the Hermitian
matrices, along the Hermitian part of a direction, so that a gradient is Hermitian and does not depend on the triangle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import minimum, prove_at_least
from zenith.ir.graph import Value
from zenith.ir.lowering import Composite, InnerLoops
from zenith.ir.ops.common import libraries_compute_in, or_zeros, sample
from zenith.ir.ops.householder import qr_by_reflections
from zenith.ir.ops.matrices import (
    Compute,
    adjoint,
    below,
    by_lapack,
    columns_by,
    conjugate,
    definite_matrices,
    diagonal,
    diagonal_matrix,
    half_lower,
    hermitian_part,
    inverse_differences,
    lapack,
    like,
    matrix,
    of_moving,
    on_stacks,
    real,
    rows_by,
    sound_matrices,
    square,
)
from zenith.ir.primitive import Params, Primitive, Sample, TypeRule, not_differentiable, register
from zenith.ir.types import ArrayType, DType, NumPyType, Type

ULP = 8  # in the operand: LAPACK's factors are those of a matrix that near


def _real(dtype: DType) -> DType:
    return dtype.real if dtype.is_complex else dtype


def _conjugates(b: Builder, cotangents: Cotangents, outputs: Values) -> list[Value]:
    """The conjugates of cotangents, zeros for none."""
    return [conjugate(b, c) for c in or_zeros(b, cotangents, outputs)]


def _definite_samples(dtype: NumPyType) -> Iterable[Sample]:
    if libraries_compute_in(dtype):
        for shape in ((3, 3), (2, 4, 4), (1, 1)):
            yield sample(definite_matrices("definite", dtype, shape))


def _of_one_phase(samples: Iterable[Sample]) -> Iterable[Sample]:
    """Samples whose vectors have no free phase: the derivative omits that of LAPACK's choice of it."""
    return [s for s in samples if s.values[0].dtype.kind != "c" or s.values[0].shape[-2:] == (1, 1)]


# --- Cholesky's factor -----------------------------------------------------------------------------------------------


def _cholesky_jvp(b: Builder, primals: Values, tangents: Values, outputs: Values, params: Params) -> Tangents:
    (lower,) = outputs
    inner = adjoint(b, b.solve(lower, adjoint(b, b.solve(lower, hermitian_part(b, tangents[0])))))
    return [b.matmul(lower, half_lower(b, inner))]


def _cholesky_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    upper = adjoint(b, outputs[0])
    inner = half_lower(b, b.matmul(upper, conjugate(b, cotangents[0])))
    found = b.solve(upper, adjoint(b, b.solve(upper, adjoint(b, inner))))
    return [conjugate(b, hermitian_part(b, found))]


_evaluate, _lowering = by_lapack(
    lambda xp, a: [xp.linalg.cholesky(a)], lapack("cholesky_lo", "(m,m)->(m,m)", "D->D", 2)
)
register(Primitive(
    name="cholesky", doc="The lower triangular L with L times its adjoint a Hermitian positive definite matrix, of "
    "which the lower triangle is read.", params={}, typing=lambda types, params: tuple(square("cholesky", types)),
    evaluate=_evaluate, lowering=_lowering, jvp=of_moving(_cholesky_jvp), vjp=_cholesky_vjp,
    batch=on_stacks("cholesky"), ulp=ULP, effect=False, samples=_definite_samples,
))  # fmt: skip


# --- eigenvalues of Hermitian matrices -------------------------------------------------------------------------------


def _eigh_type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ArrayType]:
    (a,) = square("eigh", types)
    return ArrayType(_real(a.dtype), a.shape[:-1]), a


def _eigh_jvp(b: Builder, primals: Values, tangents: Values, outputs: Values, params: Params) -> Tangents:
    values, vectors = outputs
    inner = b.matmul(adjoint(b, vectors), b.matmul(hermitian_part(b, tangents[0]), vectors))
    rotation = b.mul(like(b, inverse_differences(b, values, inner.shape), inner), inner)
    return [real(b, diagonal(b, inner)), b.matmul(vectors, rotation)]


def _eigh_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Cotangents, params: Params) -> Cotangents:
    (_, vectors), (of_values, of_vectors) = outputs, cotangents
    upper = adjoint(b, vectors)
    inner = None if of_values is None else _diagonal_of(b, of_values, vectors)
    if of_vectors is not None:
        rotation = b.matmul(upper, conjugate(b, of_vectors))
        rotation = b.mul(like(b, inverse_differences(b, outputs[0], rotation.shape), rotation), rotation)
        inner = rotation if inner is None else b.add(inner, rotation)
    return [conjugate(b, hermitian_part(b, b.matmul(vectors, b.matmul(cast(Value, inner), upper))))]


def _diagonal_of(b: Builder, values: Value, matrix: Value) -> Value:
    """Real vectors as the diagonals of matrices, of the type of others."""
    return diagonal_matrix(b, rows_by(b, b.full(1.0, matrix.dtype, (*values.shape, values.shape[-1])), values))


_evaluate, _lowering = by_lapack(lambda xp, a: xp.linalg.eigh(a), lapack("eigh_lo", "(m,m)->(m),(m,m)", "D->dD", 20))
register(Primitive(
    name="eigh", doc="The eigenvalues, ascending, and the eigenvectors, as columns, of a Hermitian matrix, of which "
    "the lower triangle is read.", params={}, typing=_eigh_type, evaluate=_evaluate, lowering=_lowering,
    jvp=of_moving(_eigh_jvp), vjp=_eigh_vjp, batch=on_stacks("eigh"), ulp=ULP, effect=False,
    samples=lambda dtype: _of_one_phase(_definite_samples(dtype)),
))  # fmt: skip


# --- QR ---------------------------------------------------------------------------------------------------------------


def _qr_type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ArrayType]:
    (a,) = matrix("qr", types)
    *lead, rows, columns = a.shape
    if prove_at_least(rows, columns) is False:
        raise ShapeError("qr needs matrices that are not wider than high", types=(a,))
    return a, a.with_shape((*lead, columns, columns))


def _times_inverse(b: Builder, x: Value, a: Value) -> Value:
    return adjoint(b, b.solve(adjoint(b, a), adjoint(b, x)))


def _imaginary_diagonal(b: Builder, x: Value) -> Value:
    on = diagonal_matrix(b, x)
    return b.sub(on, like(b, real(b, on), on))


def _qr_jvp(b: Builder, primals: Values, tangents: Values, outputs: Values, params: Params) -> Tangents:
    q, r = outputs
    seen = _times_inverse(b, tangents[0], r)
    inner = b.matmul(adjoint(b, q), seen)
    lower = below(b, inner)
    rotation = b.sub(lower, adjoint(b, lower))
    if inner.dtype.is_complex:
        rotation = b.add(rotation, _imaginary_diagonal(b, inner))
    return [b.add(b.matmul(q, b.sub(rotation, inner)), seen), b.matmul(b.sub(inner, rotation), r)]


def _qr_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Cotangents, params: Params) -> Cotangents:
    q, r = outputs
    of_q, of_r = _conjugates(b, cotangents, outputs)
    inner = b.sub(b.matmul(of_r, adjoint(b, r)), b.matmul(adjoint(b, q), of_q))
    half = half_lower(b, adjoint(b, inner))  # only the upper triangle is read
    total = b.add(of_q, b.matmul(q, b.add(half, adjoint(b, half))))
    return [conjugate(b, _times_inverse(b, total, adjoint(b, r)))]


def _shaped_samples(*shapes: tuple[int, ...]) -> Callable[[NumPyType], Iterable[Sample]]:
    def samples(dtype: NumPyType) -> Iterable[Sample]:
        return (
            [sample(sound_matrices("factors", dtype, shape)) for shape in shapes] if libraries_compute_in(dtype) else []
        )

    return samples


_evaluate, _lowering = by_lapack(lambda xp, a: xp.linalg.qr(a), Composite(qr_by_reflections))
register(Primitive(
    name="qr", doc="A matrix with orthonormal columns and an upper triangular one, whose product is the operand.",
    params={}, typing=_qr_type, evaluate=_evaluate, lowering=_lowering, jvp=of_moving(_qr_jvp), vjp=_qr_vjp,
    batch=on_stacks("qr"), ulp=ULP, effect=False, samples=_shaped_samples((4, 3), (2, 3, 3), (3, 1)),
))  # fmt: skip


# --- singular values --------------------------------------------------------------------------------------------------


def _svd_type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ArrayType, ArrayType]:
    (a,) = matrix("svd", types)
    *lead, rows, columns = a.shape
    inner = columns if prove_at_least(rows, columns) else minimum(rows, columns)
    return (a.with_shape((*lead, rows, inner)), ArrayType(_real(a.dtype), (*lead, inner)),
            a.with_shape((*lead, inner, columns)))  # fmt: skip


def _inverse_gaps(b: Builder, s: Value, like_this: Value) -> Value:
    return like(b, inverse_differences(b, b.mul(s, s), like_this.shape), like_this)


def _reciprocal(b: Builder, x: Value) -> Value:
    return b.div(b.full(1.0, x.dtype, x.shape), x)


def _has_complement(vectors: Value) -> bool:
    """Whether columns may span less than the space, and rotate out of their span: those of square matrices do not."""
    return prove_at_least(vectors.shape[-1], vectors.shape[-2]) is not True


def _svd_jvp(b: Builder, primals: Values, tangents: Values, outputs: Values, params: Params) -> Tangents:
    (u, s, vh), da = outputs, tangents[0]
    v, uh = adjoint(b, vh), adjoint(b, u)
    inner = b.matmul(uh, b.matmul(da, v))
    gaps, inner_h, inverse = _inverse_gaps(b, s, inner), adjoint(b, inner), _reciprocal(b, s)
    left = b.mul(gaps, b.add(columns_by(b, inner, s), rows_by(b, inner_h, s)))
    right = b.mul(gaps, b.add(rows_by(b, inner, s), columns_by(b, inner_h, s)))
    if inner.dtype.is_complex:  # the phase of vectors is free: all of it is given to the left ones
        left = b.add(left, columns_by(b, _imaginary_diagonal(b, inner), inverse))
    of_u, of_v = b.matmul(u, left), b.matmul(v, right)
    if _has_complement(u):
        rest = b.matmul(da, v)
        of_u = b.add(of_u, columns_by(b, b.sub(rest, b.matmul(u, b.matmul(uh, rest))), inverse))
    if _has_complement(v):
        rest = b.matmul(adjoint(b, da), u)
        of_v = b.add(of_v, columns_by(b, b.sub(rest, b.matmul(v, b.matmul(vh, rest))), inverse))
    return [of_u, real(b, diagonal(b, inner)), adjoint(b, of_v)]


def _svd_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Cotangents, params: Params) -> Cotangents:
    (u, s, vh), (of_u, of_s, of_vh) = outputs, cotangents
    inner = b.zeros_like(b.matmul(vh, adjoint(b, vh))) if of_s is None else _diagonal_of(b, of_s, u)
    if of_u is None and of_vh is None:
        return [conjugate(b, b.matmul(u, b.matmul(inner, vh)))]
    of_u, _, of_vh = _conjugates(b, cotangents, outputs)
    of_v = adjoint(b, of_vh)
    left, right = b.matmul(adjoint(b, u), of_u), b.matmul(vh, of_v)
    gaps, inverse = _inverse_gaps(b, s, left), _reciprocal(b, s)
    skew = [b.mul(gaps, b.sub(x, adjoint(b, x))) for x in (left, right)]
    inner = b.add(inner, b.add(columns_by(b, skew[0], s), rows_by(b, skew[1], s)))
    if left.dtype.is_complex:
        inner = b.add(inner, columns_by(b, _imaginary_diagonal(b, left), inverse))
    found = b.matmul(u, b.matmul(inner, vh))
    if _has_complement(u):
        complement = columns_by(b, b.sub(of_u, b.matmul(u, left)), inverse)
        found = b.add(found, b.matmul(complement, vh))
    if _has_complement(adjoint(b, vh)):
        complement = columns_by(b, b.sub(of_v, b.matmul(adjoint(b, vh), right)), inverse)
        found = b.add(found, b.matmul(u, adjoint(b, complement)))
    return [conjugate(b, found)]


_evaluate, _lowering = by_lapack(
    lambda xp, a: xp.linalg.svd(a, full_matrices=False), lapack("svd_s", "(m,n)->(m,p),(p),(p,n)", "D->DdD", 30)
)
register(Primitive(
    name="svd", doc="Left singular vectors as columns, singular values, descending, and right singular vectors as "
    "rows, conjugate: as many as the smaller side has.", params={}, typing=_svd_type, evaluate=_evaluate,
    lowering=_lowering, jvp=of_moving(_svd_jvp), vjp=_svd_vjp, batch=on_stacks("svd"), ulp=ULP, effect=False,
    samples=lambda dtype: _of_one_phase(_shaped_samples((4, 3), (2, 3, 3), (2, 4), (1, 1))(dtype)),
))  # fmt: skip


# --- values alone, in less than half the time -------------------------------------------------------------------------


def _values_alone(
    name: str, doc: str, values: Callable[[Sequence[Type]], ArrayType], compute: Compute, ufunc: str, signature: str
) -> None:
    """A primitive that a pass puts in the place of one whose vectors nobody reads."""
    evaluate, lowering = by_lapack(lambda xp, a: [compute(xp, a)], lapack(ufunc, signature, "D->d", 15))
    no_rule = not_differentiable("it is made when derivatives have been taken")
    register(Primitive(
        name=name, doc=doc, params={}, typing=lambda types, params: (values(types),), evaluate=evaluate,
        lowering=lowering, jvp=no_rule, vjp=no_rule, batch=on_stacks(name), ulp=ULP, effect=False,
        samples=lambda dtype: _definite_samples(dtype),
    ))  # fmt: skip


_values_alone("eigvalsh", "The eigenvalues of eigh.", lambda types: _eigh_type(types, {})[0],
              lambda xp, a: xp.linalg.eigvalsh(a), "eigvalsh_lo", "(m,m)->(m)")  # fmt: skip
_values_alone("svdvals", "The singular values of svd.", lambda types: _svd_type(types, {})[1],
              lambda xp, a: xp.linalg.svd(a, compute_uv=False), "svd", "(m,n)->(p)")  # fmt: skip


# --- factors completed to square ones ---------------------------------------------------------------------------------

NO_DERIVATIVE = not_differentiable("the matrix does not determine the vectors that complete a basis: leave them out, "
                                   "with mode='reduced' or full_matrices=False")  # fmt: skip


def _complete_qr_type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ArrayType]:
    (a,) = matrix("complete_qr", types)
    return a.with_shape((*a.shape[:-1], a.shape[-2])), a


def _complete_svd_type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ArrayType, ArrayType]:
    u, s, vh = _svd_type(types, params)
    return u.with_shape((*u.shape[:-1], u.shape[-2])), s, vh.with_shape((*vh.shape[:-2], *vh.shape[-1:] * 2))


def _complete(name: str, doc: str, typing: TypeRule, compute: Compute, loops: InnerLoops | None = None) -> None:
    evaluate, lowering = by_lapack(compute, loops)
    register(Primitive(
        name=name, doc=doc, params={}, typing=typing, evaluate=evaluate, lowering=lowering, jvp=NO_DERIVATIVE,
        vjp=NO_DERIVATIVE, batch=on_stacks(name), ulp=ULP, effect=False,
        samples=_shaped_samples((4, 2), (2, 3, 3), (2, 4)),
    ))  # fmt: skip


_complete("complete_qr", "As qr, with as many columns as rows.", _complete_qr_type,
          lambda xp, a: xp.linalg.qr(a, "complete"))  # fmt: skip
_complete("complete_svd", "As svd, with all left and right vectors.", _complete_svd_type,
          lambda xp, a: xp.linalg.svd(a, full_matrices=True),
          lapack("svd_f", "(m,n)->(m,m),(p),(n,n)", "D->DdD", 30))  # fmt: skip
