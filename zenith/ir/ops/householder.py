"""QR factors by LAPACK's own two steps, which need no Python: reflections, and the product of these.

Householder's reflections make a matrix triangular, one column after the other. ``geqrf`` gives that triangle, with the
vectors of the reflections below it, and ``householder_product`` the orthonormal columns (G. Golub, C. Van Loan, *Matrix
Computations*, 4th edition, 2013, section 5.2). Front ends know ``qr`` alone, which is expanded on a CPU. CuPy has
neither of the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.linalg import _umath_linalg

from zenith.ir.builder import Builder, Values
from zenith.ir.dims import minimum, prove_at_least
from zenith.ir.ops.common import arrays, libraries_compute_in, sample
from zenith.ir.ops.matrices import by_lapack, lapack, matrix, on_stacks, sound_matrices, upper_triangle
from zenith.ir.primitive import Params, Primitive, Sample, not_differentiable, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type

ULP = 8  # in the operand: LAPACK's factors are those of a matrix that near
SHAPES = ((4, 3), (2, 3, 3), (3, 1))
_NO_RULE = not_differentiable("it is made when derivatives have been taken")


def _geqrf(a: NDArray) -> tuple[NDArray, NDArray]:
    factors, scales = np.linalg.qr(a, mode="raw")
    return np.swapaxes(factors, -1, -2), scales


def _geqrf_type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ArrayType]:
    (a,) = matrix("geqrf", types)
    *lead, rows, columns = a.shape
    return a, a.with_shape((*lead, columns if prove_at_least(rows, columns) else minimum(rows, columns)))


def _geqrf_samples(dtype: NumPyType) -> Iterable[Sample]:
    if libraries_compute_in(dtype):
        for shape in SHAPES:
            yield sample(sound_matrices("geqrf", dtype, shape))


_evaluate, _lowering = by_lapack(lambda xp, a: _geqrf(a), lapack("qr_r_raw", "(m,n)->(p)", "D->D", 8, overwrites=True))
register(Primitive(
    name="geqrf", doc="The triangular factor of a matrix, with the vectors of reflections below it; their scales.",
    params={}, typing=_geqrf_type, evaluate=_evaluate, lowering=replace(_lowering, in_namespace=None),
    jvp=_NO_RULE, vjp=_NO_RULE, batch=on_stacks("geqrf"), ulp=ULP, effect=False, samples=_geqrf_samples,
))  # fmt: skip


def _product(factors: NDArray, scales: NDArray) -> NDArray:
    kind = "DD->D" if factors.dtype.kind == "c" else "dd->d"
    return np.asarray(_umath_linalg.qr_reduced(factors, scales, signature=kind), factors.dtype)


def _product_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    factors, scales = arrays("householder_product", types, 2)
    return (factors.with_shape((*factors.shape[:-1], scales.shape[-1])),)


def _product_samples(dtype: NumPyType) -> Iterable[Sample]:
    for given in _geqrf_samples(dtype):
        yield sample(*(x.astype(dtype) for x in _geqrf(given.values[0])))


_evaluate, _lowering = by_lapack(
    lambda xp, *given: [_product(*given)], lapack("qr_reduced", "(m,n),(k)->(m,k)", "DD->D", 8)
)
register(Primitive(
    name="householder_product", doc="The first columns of the product of the reflections of geqrf.", params={},
    typing=_product_type, evaluate=_evaluate, lowering=replace(_lowering, in_namespace=None),
    jvp=_NO_RULE, vjp=_NO_RULE, batch=on_stacks("householder_product"), ulp=ULP, effect=False, samples=_product_samples,
))  # fmt: skip


def qr_by_reflections(b: Builder, args: Values, params: Params) -> Values:
    """The factors of matrices that are not wider than high."""
    factors, scales = b.geqrf(args[0])
    rank, columns = len(factors.shape), factors.shape[-1]
    stop = (*factors.shape[:-2], columns, columns)
    top = b.slice(factors, start=(0,) * rank, stop=stop, step=(1,) * rank)
    return [b.householder_product(factors, scales), upper_triangle(b, top)]
