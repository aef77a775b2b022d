"""Helpers of linear algebra: typing of stacks of matrices, calls of LAPACK, and helpers of their rules.

All leading axes count matrices, so that a batch is one more of them. LAPACK is called by the inner loops of NumPy's
ufuncs, in kernels, and on a GPU cuSOLVER by CuPy, which has NumPy's names: functions here take either (``xp``). A
matrix that has no result (a singular one, one that is not positive definite, one whose iteration does not end) gives
nan, and leaves the others of its stack alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Tangents, Values
from zenith.ir.dims import Dim, DimLike, prove_equal
from zenith.ir.graph import Value
from zenith.ir.lowering import Composite, HostCall, InnerLoop, InnerLoops
from zenith.ir.ops.common import all_batched, arrays, numpy_call, require_kind, require_wide, results_of, rng
from zenith.ir.primitive import BatchRule, Evaluate, JvpRule, Params
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, int64

Moving = Callable[[Builder, Values, Values, Values, Params], Tangents]
_UFUNCS = "numpy.linalg._umath_linalg"
Compute = Callable[..., Sequence[Any]]  # of NumPy or its like, the operands, and parameters by name


def matrix(name: str, types: Sequence[Type], count: int = 1) -> list[ArrayType]:
    """The operands, all stacks of matrices of float32, float64, complex64 or complex128."""
    found = arrays(name, types, count)
    for type in found:
        require_kind(name, type, "fc")
        require_wide(name, type)
        if type.rank < 2:
            raise ShapeError(f"{name} needs matrices: an array of two axes or more", types=(type,))
    return found


def square(name: str, types: Sequence[Type], count: int = 1) -> list[ArrayType]:
    """The same, where the first operand's matrices are square."""
    found = matrix(name, types, count)
    if prove_equal(*found[0].shape[-2:]) is False:
        raise ShapeError(f"{name} needs square matrices", types=(found[0],))
    return found


def by_lapack(compute: Compute, loops: InnerLoops | Composite | None = None) -> tuple[Evaluate, HostCall]:
    """The reference and the lowering of a primitive that ``compute(xp, ...)`` gives for stacks of matrices.

    ``loops`` compute them without Python, or other primitives that have such loops.
    """

    def found(xp: Any, values: Sequence[NDArray], params: Params) -> tuple[NDArray, ...]:
        with np.errstate(all="ignore"):
            try:
                return tuple(compute(xp, *values, **params))
            except np.linalg.LinAlgError:  # CuPy's, too
                return _one_by_one(xp, compute, values, params)

    def fill(xp: Any, values: Sequence[NDArray], results: Sequence[NDArray], params: Params) -> None:
        for result, value in zip(results, found(xp, values, params), strict=True):
            result[...] = value

    return partial(found, np), numpy_call("linalg", fill, loops)


def lapack(ufunc: str, signature: str, types: str, work: int, overwrites: bool = False) -> InnerLoops:
    """The inner loop of a ufunc of NumPy's that calls LAPACK, by its signature and its ``types`` for complex matrices.

    It computes in float64, whatever the precision of the matrices, as NumPy does. An example of m rows and n columns
    takes about ``work * m * n * n`` operations.
    """

    def loops(operands: Sequence[ArrayType], results: Sequence[ArrayType], params: Params) -> list[InnerLoop]:
        rows, columns = operands[0].shape[-2:]
        chosen = types if operands[0].dtype.is_complex else types.lower()
        cost = rows * columns * columns * work
        return [InnerLoop((f"{_UFUNCS}.{ufunc}",), chosen, signature, cost, overwrites=overwrites)]

    return loops


def _one_by_one(xp: Any, compute: Compute, values: Sequence[NDArray], params: Params) -> tuple[NDArray, ...]:
    """Each matrix by itself; one without result gets nan, in the shape of the identity's result."""
    lead = values[0].shape[:-2]
    sound = [xp.broadcast_to(xp.eye(*v.shape[-2:], dtype=v.dtype), v.shape) for v in values]
    results = tuple(xp.array(r) for r in compute(xp, *sound, **params))
    for at in np.ndindex(*lead):
        try:
            found = compute(xp, *(v[at] for v in values), **params)
        except np.linalg.LinAlgError:
            found = [np.nan] * len(results)
        for result, value in zip(results, found, strict=True):
            result[at] = value
    return results


def on_stacks(name: str) -> BatchRule:
    """The batching rule: one more leading axis, which every operand needs to have."""

    def batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
        return results_of(getattr(b, name)(*all_batched(b, args, batched, size), **params))

    return batch


def of_moving(rule: Moving) -> JvpRule:
    """A forward rule of one operand, for tangents that are not zero."""

    def jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
        return (
            [None] * len(outputs) if tangents[0] is None else rule(b, primals, cast(Values, tangents), outputs, params)
        )

    return jvp


# --- helpers of rules ------------------------------------------------------------------------------------------------


def transposed(b: Builder, x: Value) -> Value:
    """The transpose of each matrix."""
    rank = len(x.shape)
    return b.transpose(x, axes=(*range(rank - 2), rank - 1, rank - 2))


def conjugate(b: Builder, x: Value) -> Value:
    """The conjugate of complex numbers; real ones as they are."""
    return b.conj(x) if x.dtype.is_complex else x


def adjoint(b: Builder, x: Value) -> Value:
    """The conjugate transpose of each matrix."""
    return conjugate(b, transposed(b, x))


def real(b: Builder, x: Value) -> Value:
    """The real part."""
    return b.real(x) if x.dtype.is_complex else x


def like(b: Builder, x: Value, other: Value) -> Value:
    """Real numbers as complex ones where the other array is complex."""
    return b.complex(x, b.zeros_like(x)) if other.dtype.is_complex and not x.dtype.is_complex else x


def scaled(b: Builder, x: Value, factor: float) -> Value:
    """All elements times one number."""
    return b.mul(x, b.full(factor, x.dtype, x.shape))


def rows_by(b: Builder, x: Value, factors: Value) -> Value:
    """Each row of a matrix times its own real factor."""
    return b.mul(x, like(b, b.broadcast(factors, shape=x.shape, axes=tuple(range(len(x.shape) - 1))), x))


def columns_by(b: Builder, x: Value, factors: Value) -> Value:
    """Each column of a matrix times its own real factor."""
    rank = len(x.shape)
    return b.mul(x, like(b, b.broadcast(factors, shape=x.shape, axes=(*range(rank - 2), rank - 1)), x))


def _row_and_column(b: Builder, x: Value) -> tuple[Value, Value]:
    """The row and the column of each element."""
    row, column = (
        b.broadcast(b.iota(size=x.shape[axis], dtype=int64), shape=x.shape, axes=(axis,))
        for axis in (len(x.shape) - 2, len(x.shape) - 1)
    )
    return row, column


def on_diagonal(b: Builder, x: Value) -> Value:
    """Whether an element is on the diagonal."""
    row, column = _row_and_column(b, x)
    return b.eq(row, column)


def below(b: Builder, x: Value) -> Value:
    """The elements below the diagonal, and zero."""
    row, column = _row_and_column(b, x)
    return b.where(b.gt(row, column), x, b.zeros_like(x))


def upper_triangle(b: Builder, x: Value) -> Value:
    """The elements on and above the diagonal, and zero."""
    row, column = _row_and_column(b, x)
    return b.where(b.gt(row, column), b.zeros_like(x), x)


def diagonal_matrix(b: Builder, x: Value) -> Value:
    """The elements on the diagonal, and zero."""
    return b.where(on_diagonal(b, x), x, b.zeros_like(x))


def diagonal(b: Builder, x: Value) -> Value:
    """The elements on the diagonals of square matrices, as vectors."""
    return b.reduce_sum(diagonal_matrix(b, x), axes=(len(x.shape) - 1,))


def trace(b: Builder, x: Value) -> Value:
    """The sum of the elements on the diagonal of each matrix."""
    return b.reduce_sum(diagonal_matrix(b, x), axes=(len(x.shape) - 2, len(x.shape) - 1))


def half_lower(b: Builder, x: Value) -> Value:
    """The lower triangle with half of the diagonal's real part."""
    return b.add(below(b, x), scaled(b, like(b, real(b, diagonal_matrix(b, x)), x), 0.5))


def hermitian_part(b: Builder, x: Value) -> Value:
    """Half the sum of each matrix and its adjoint; this linear map is its own transpose."""
    return scaled(b, b.add(x, adjoint(b, x)), 0.5)


def identity(b: Builder, x: Value) -> Value:
    """Identity matrices of the shape of x."""
    return b.where(on_diagonal(b, x), b.full(1.0, x.dtype, x.shape), b.zeros_like(x))


def inverse_differences(b: Builder, values: Value, shape: Sequence[DimLike]) -> Value:
    """``1 / (values[j] - values[i])`` in row i and column j, 0 on the diagonal; infinite for equal ones."""
    rank = len(shape)
    rows = b.broadcast(values, shape=shape, axes=tuple(range(rank - 1)))
    columns = b.broadcast(values, shape=shape, axes=(*range(rank - 2), rank - 1))
    differences = b.where(on_diagonal(b, rows), b.full(1.0, rows.dtype, shape), b.sub(columns, rows))
    found = b.div(b.full(1.0, rows.dtype, shape), differences)
    return b.where(on_diagonal(b, rows), b.zeros_like(found), found)


# --- samples ---------------------------------------------------------------------------------------------------------


def sound_matrices(name: str, dtype: NumPyType, shape: Sequence[int]) -> NDArray:
    """Random matrices whose diagonal is large enough for all that is done to them."""
    generator = rng(name)
    x = generator.uniform(-1, 1, shape)
    if dtype.kind == "c":
        x = x + 1j * generator.uniform(-1, 1, shape)
    rows, columns = shape[-2:]
    return (x + np.eye(rows, columns) * (2.0 + np.arange(rows))[:, None]).astype(dtype)


def definite_matrices(name: str, dtype: NumPyType, shape: Sequence[int]) -> NDArray:
    """Random Hermitian matrices with positive eigenvalues that are well separated."""
    x = sound_matrices(name, dtype, shape)
    return np.asarray(x @ np.conj(np.swapaxes(x, -1, -2)), dtype)
