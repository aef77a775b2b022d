"""Linear equations and determinants, by LAPACK's factorization with row exchanges; derivatives by solving once more.

The derivatives are those of M. B. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008); that of a determinant is :mod:`zenith.ir.ops.adjugate`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim, prove_equal
from zenith.ir.graph import Value
from zenith.ir.ops.common import libraries_compute_in, random_array, require_same_dtype, rng, sample
from zenith.ir.ops.matrices import (
    by_lapack,
    identity,
    lapack,
    of_moving,
    on_stacks,
    sound_matrices,
    square,
    trace,
    transposed,
)
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NumPyType, Type

ULP = 8  # in the operands: LAPACK's results are exact for matrices that near


# --- equations -------------------------------------------------------------------------------------------------------


def _solve_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    a, y = square("solve", types, 2)
    require_same_dtype("solve", (a, y))
    if len(a.shape) != len(y.shape) or any(
        prove_equal(m, n) is False for m, n in zip(a.shape[:-1], y.shape[:-1], strict=True)
    ):
        raise ShapeError("solve: leading axes and rows of both operands must be equal", types=(a, y))
    return (y,)


def _solve_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    da, right = tangents
    if da is not None:
        moved = b.neg(b.matmul(da, outputs[0]))
        right = moved if right is None else b.add(right, moved)
    return [None if right is None else b.solve(primals[0], right)]


def _solve_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    right = b.solve(transposed(b, primals[0]), cotangents[0])
    return [b.neg(b.matmul(right, transposed(b, outputs[0]))), right]


def _solve_batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    """Right sides of the same matrices are joined as columns, so that these are factored once."""
    a, y = args
    if batched[0]:
        return on_stacks("solve")(b, args, batched, size, params)
    rank = len(y.shape)
    *lead, rows, columns = y.shape[1:]
    permuted = b.transpose(y, axes=(*range(1, rank - 1), 0, rank - 1))
    found = b.solve(a, b.reshape(permuted, shape=(*lead, rows, size * columns)))
    split = b.reshape(found, shape=(*lead, rows, size, columns))
    return [b.transpose(split, axes=(rank - 2, *range(rank - 2), rank - 1))]


def _solve_samples(dtype: NumPyType) -> Iterable[Sample]:
    if libraries_compute_in(dtype):
        for lead, n, columns in (((), 3, 2), ((2,), 5, 1), ((2, 1), 1, 3)):
            right = random_array(rng("solve"), dtype, (*lead, n, columns))
            yield sample(sound_matrices("solve", dtype, (*lead, n, n)), right)


_evaluate, _lowering = by_lapack(
    lambda xp, a, y: [xp.linalg.solve(a, y)], lapack("solve", "(m,m),(m,n)->(m,n)", "DD->D", 4)
)
register(Primitive(
    name="solve", doc="The matrices X of A X = Y for square matrices A.", params={}, typing=_solve_type,
    evaluate=_evaluate, lowering=_lowering, jvp=_solve_jvp, vjp=_solve_vjp, batch=_solve_batch, ulp=ULP,
    effect=False, samples=_solve_samples,
))  # fmt: skip


# --- determinants ----------------------------------------------------------------------------------------------------


def _square_samples(dtype: NumPyType) -> Iterable[Sample]:
    if libraries_compute_in(dtype):
        for shape in ((3, 3), (2, 5, 5), (1, 1)):
            yield sample(sound_matrices("det", dtype, shape))


def _log_det_tangent(b: Builder, a: Value, da: Value) -> Value:
    """The tangent of the determinant's logarithm: the trace of the inverse times the tangent."""
    return trace(b, b.solve(a, da))


def _inverse_transposed(b: Builder, a: Value, factors: Value) -> Value:
    """Each matrix's factor times the transpose of its inverse."""
    inverse = transposed(b, b.solve(a, identity(b, a)))
    return b.mul(inverse, b.broadcast(factors, shape=a.shape, axes=tuple(range(len(a.shape) - 2))))


def _det_jvp(b: Builder, primals: Values, tangents: Values, outputs: Values, params: Params) -> Tangents:
    """By the adjugate, which singular matrices have, too."""
    return [trace(b, b.matmul(b.adjugate(primals[0]), tangents[0]))]


def _det_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    (a,) = primals
    factors = b.broadcast(cotangents[0], shape=a.shape, axes=tuple(range(len(a.shape) - 2)))
    return [b.mul(transposed(b, b.adjugate(a)), factors)]


def _det_samples(dtype: NumPyType) -> Iterable[Sample]:
    """Sound matrices, and a stack of those that lack one and two ranks."""
    yield from _square_samples(dtype)
    if libraries_compute_in(dtype):
        lacking = sound_matrices("det", dtype, (2, 5, 5))
        lacking[:, -1], lacking[1, 0] = lacking[:, 1], lacking[1, 2]
        yield sample(lacking)


_evaluate, _lowering = by_lapack(lambda xp, a: [xp.linalg.det(a)], lapack("det", "(m,m)->()", "D->D", 2))
register(Primitive(
    name="det", doc="The determinant of square matrices.", params={},
    typing=lambda types, params: ((a := square("det", types)[0]).with_shape(a.shape[:-2]),),
    evaluate=_evaluate, lowering=_lowering, jvp=of_moving(_det_jvp),
    vjp=_det_vjp, batch=on_stacks("det"), ulp=ULP, effect=False, samples=_det_samples,
))  # fmt: skip


def _slogdet_type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ArrayType]:
    (a,) = square("slogdet", types)
    sign = a.with_shape(a.shape[:-2])
    return sign, sign.with_dtype(a.dtype.real if a.dtype.is_complex else a.dtype)


def _slogdet_jvp(b: Builder, primals: Values, tangents: Values, outputs: Values, params: Params) -> Tangents:
    """The logarithm's imaginary part rotates the sign of a complex determinant; that of a real one is constant."""
    tangent = _log_det_tangent(b, primals[0], tangents[0])
    if not primals[0].dtype.is_complex:
        return [b.zeros_like(outputs[0]), tangent]
    rotation = b.complex(b.zeros_like(outputs[1]), b.imag(tangent))
    return [b.mul(outputs[0], rotation), b.real(tangent)]


def _slogdet_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Cotangents, params: Params) -> Cotangents:
    of_sign, factor = cotangents
    factor = b.zeros_like(outputs[1]) if factor is None else factor
    if primals[0].dtype.is_complex:
        rotation = b.zeros_like(factor) if of_sign is None else b.imag(b.mul(of_sign, outputs[0]))
        factor = b.complex(factor, rotation)
    return [_inverse_transposed(b, primals[0], factor)]


_evaluate, _lowering = by_lapack(lambda xp, a: xp.linalg.slogdet(a), lapack("slogdet", "(m,m)->(),()", "D->Dd", 2))
register(Primitive(
    name="slogdet", doc="The sign of the determinant and the logarithm of its magnitude.", params={},
    typing=_slogdet_type, evaluate=_evaluate, lowering=_lowering, jvp=of_moving(_slogdet_jvp), vjp=_slogdet_vjp,
    batch=on_stacks("slogdet"), ulp=ULP, effect=False, samples=_square_samples,
))  # fmt: skip
