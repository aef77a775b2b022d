"""Calls of libraries in random programs: of LAPACK on stacks of matrices, of pocketfft, and of SciPy by elements.

Operands are matrices for which the answer is well determined, and now and then any others: error bounds leave out
results that are not. Eigenvectors and singular vectors have a free phase: a program reads only products of them that no
phase changes. Nothing is a whole number up to rounding, as products of factors easily are, since what is rounded down
then is decided by chance.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.program_growth import Program
from tests.program_proposals import sampled
from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Value
from zenith.ir.lowering import HostCall
from zenith.ir.ops.fourier import NORMS
from zenith.ir.primitive import Primitive, all_primitives, get
from zenith.ir.types import DTYPES, int32


def library_primitives() -> list[Primitive]:
    """The primitives that a library computes."""
    return [
        p
        for p in all_primitives()
        if isinstance(p.lowering, HostCall) and any(list(p.samples(t.numpy)) for t in DTYPES)
    ]


# --- matrices --------------------------------------------------------------------------------------------------------


def _stack(program: Program, name: str) -> Value:
    """Matrices with elements between -0.7 and 1.3, among which there are no whole numbers."""
    x = program.squash(program.operand(get(name), least_rank=2), -1, 1)
    return program.emit("add", x, program.full(0.3, x.dtype, x.shape))


def _adjoint(program: Program, x: Value) -> Value:
    """The conjugate transpose of each matrix, for an operation that alone reads it."""
    rank = len(x.shape)
    (found,) = program.compute("transpose", x, axes=(*range(rank - 2), rank - 1, rank - 2))
    return program.compute("conj", found)[0] if x.dtype.is_complex else found


def _diagonal(program: Program, x: Value, number: float) -> Value:
    """A number on the diagonals of square matrices like ``x``."""
    rank = len(x.shape)
    position = program.emit("iota", size=x.shape[-1], dtype=int32)
    row, column = (program.emit("broadcast", position, shape=x.shape, axes=(axis,)) for axis in (rank - 2, rank - 1))
    ones = program.convert(program.emit("eq", row, column), x.dtype)
    return program.emit("mul", ones, program.full(number, x.dtype, x.shape))


def _definite(program: Program, x: Value) -> Value:
    """Hermitian matrices with eigenvalues of 1.3 and more, as many rows as ``x`` has."""
    gram = program.emit("matmul", x, _adjoint(program, x))
    return program.emit("add", gram, _diagonal(program, gram, 1.3))


def _square(program: Program, name: str) -> Value:
    """Square matrices: definite, those with a large diagonal, or whatever there is."""
    x = _stack(program, name)
    if x.shape[-1] != x.shape[-2] or program.chance(0.4):
        return _definite(program, x)
    if program.chance(0.2):
        return x
    return program.emit("add", x, _diagonal(program, x, 7.3))


def _by_columns(program: Program, x: Value, factors: Value) -> Value:
    """Each column of a matrix times its own factor, for a product that alone reads it."""
    rank = len(x.shape)
    spread = program.emit("broadcast", factors, shape=x.shape, axes=(*range(rank - 2), rank - 1))
    (found,) = program.compute("mul", x, program.convert(spread, x.dtype) if x.dtype.is_complex else spread)
    return found


def _solve(program: Program, name: str) -> None:
    a = _square(program, name)
    program.emit(name, a, program.find(a.dtype, (*a.shape[:-1], program.size())))


def _cholesky(program: Program, name: str) -> None:
    program.emit(name, _definite(program, _stack(program, name)))


def _of_square(program: Program, name: str) -> None:
    program.show(program.compute(name, _square(program, name)))


def _eigh(program: Program, name: str) -> None:
    """Eigenvalues, and the matrix recomposed of them and the vectors."""
    values, vectors = program.compute(name, _square(program, name))
    program.show([values])
    if program.chance(0.6):
        program.emit("matmul", _by_columns(program, vectors, values), _adjoint(program, vectors))


def _svd(program: Program, name: str) -> None:
    """Singular values, and the matrix recomposed of them and as many vectors."""
    left, values, right = program.compute(name, _stack(program, name))
    program.show([values])
    if program.chance(0.6):
        left, right = _first(program, left, -1, values.shape[-1]), _first(program, right, -2, values.shape[-1])
        program.emit("matmul", _by_columns(program, left, values), right)


def _first(program: Program, x: Value, axis: int, count: Dim) -> Value:
    """So many of the rows or columns of matrices."""
    stop, none = list(x.shape), (dim(0),) * len(x.shape)
    stop[axis] = count
    (found,) = program.compute("slice", x, start=none, stop=tuple(stop), step=(1,) * len(stop))
    return found


def _qr(program: Program, name: str) -> None:
    """Factors of matrices that are surely not wider than high, and whose columns are far from each other."""
    x = _stack(program, name)
    tall = _definite(program, _adjoint(program, x))
    if program.chance(0.6):
        tall = program.emit("concat", tall, x, axis=len(x.shape) - 2)
    program.show(program.compute(name, tall))


def _reflections(program: Program, name: str) -> None:
    """The triangular factor, and the orthonormal columns, by the two steps of qr."""
    x = _stack(program, "geqrf")
    tall = program.emit("concat", _definite(program, _adjoint(program, x)), x, axis=len(x.shape) - 2)
    factors, scales = program.compute("geqrf", tall)
    program.show(program.compute("householder_product", factors, scales))


def _complete_qr(program: Program, name: str) -> None:
    """The product of both factors; only the product is determined."""
    program.emit("matmul", *program.compute(name, _stack(program, name)))


# --- Fourier transforms ----------------------------------------------------------------------------------------------


def _points(program: Program, x: Value, *axes: int) -> None:
    """Reject axes without elements, over which there is no transform."""
    program.require(all(x.shape[axis].evaluate(program.sizes) > 0 for axis in axes))


def _fft(program: Program, name: str) -> None:
    x = program.operand(get(name), least_rank=1)
    axes = program.subset(len(x.shape))
    _points(program, x, *axes)
    program.emit(name, x, axes=axes, inverse=program.chance(0.5), norm=program.one(NORMS))


def _rfft(program: Program, name: str) -> None:
    x = program.operand(get(name), least_rank=1)
    _points(program, x, -1)
    program.emit(name, x, norm=program.one(NORMS))


def _irfft(program: Program, name: str) -> None:
    """A real array of an odd or even number of points, from a spectrum."""
    x = program.pick(lambda v: v.dtype.is_complex and len(v.shape) >= 1)
    size = x.shape[-1] * 2 - (1 if program.chance(0.5) else 2)
    program.require(size.evaluate(program.sizes) > 0)
    program.emit(name, x, size=size, norm=program.one(NORMS))


# --- functions by elements -------------------------------------------------------------------------------------------


def _incomplete_gamma(program: Program, name: str) -> None:
    """Where both arguments are positive and neither tail is far."""
    a = program.operand(get(name))
    x = program.find(a.dtype, a.shape)
    params = {"order": program.one((1, 2))} if name == "gammainc_slope" else {}
    program.emit(name, program.squash(a, 0.3, 6.1), program.squash(x, 0.2, 7.3), **params)


CALLS: dict[str, Callable[[Program, str], None]] = {
    "solve": _solve, "cholesky": _cholesky, "eigh": _eigh, "svd": _svd, "complete_svd": _svd, "qr": _qr,
    "complete_qr": _complete_qr, **dict.fromkeys(("geqrf", "householder_product"), _reflections),
    **dict.fromkeys(("det", "slogdet", "adjugate"), _of_square),
    **dict.fromkeys(("gammainc", "gammaincc", "gammainc_slope"), _incomplete_gamma),
    "fft": _fft, "rfft": _rfft, "irfft": _irfft,
}  # fmt: skip


def propose_call(program: Program, primitive: Primitive) -> None:
    """A call of a library's routine; rejected where nothing fits."""
    if primitive.name in CALLS:
        CALLS[primitive.name](program, primitive.name)
    else:
        sampled(program, primitive)
