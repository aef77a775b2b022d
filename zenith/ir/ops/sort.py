"""Order along the last axis: its elements in ascending or descending order or the first of these, and their indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim, prove_at_least
from zenith.ir.graph import Value
from zenith.ir.lowering import ArrayTypes, ComplexRule, Tile
from zenith.ir.ops.common import arrays, random_array, rng, sample, wide
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, int32, int64, kind_of

OPERATIONS = 16  # about what moving one element by one digit takes: each digit is extracted twice, and counted once


def _row_type(name: str, types: Sequence[Type]) -> ArrayType:
    (x,) = arrays(name, types, 1)
    if not x.rank:
        raise ShapeError(f"{name} needs an axis to sort along", types=(x,))
    return x


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ArrayType]:
    x = _row_type("sort", types)
    return x, x.with_dtype(int64)


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray, NDArray]:
    """Descending is the mirror image of sorting the mirrored row, in which equal elements are in opposite order."""
    (x,) = wide(values)
    row = x[..., ::-1] if params["descending"] else x
    indices = np.argsort(row, axis=-1, kind="stable")
    if params["descending"]:
        indices = x.shape[-1] - 1 - indices[..., ::-1]
    return np.take_along_axis(values[0], indices, axis=-1), indices


def _operations(types: ArrayTypes, results: ArrayTypes) -> Dim:
    """The operations of moving all elements by each of their digits."""
    operations: Dim = types[0].size * (OPERATIONS * types[0].dtype.itemsize)
    return operations


def elements_at(b: Builder, x: Value, indices: Value) -> list[Value]:
    """An index array for each axis: the element's own index, but ``indices`` in the last axis."""
    rank = len(indices.shape)
    own = [b.broadcast(b.iota(size=x.shape[a], dtype=int64), shape=indices.shape, axes=(a,)) for a in range(rank - 1)]
    return [*own, indices]


def _sort_complex(b: Builder, x: Value, descending: bool) -> tuple[Value, Value]:
    """By real parts, equal ones by imaginary parts; last those with nan: in the imaginary part, the real part, both.

    Three stable sorts, by the least of these keys first.
    """
    xr, xi = b.real(x), b.imag(x)
    missing = b.add(b.cast(b.ne(xi, xi), dtype=int32), b.mul(b.cast(b.ne(xr, xr), dtype=int32), 2))
    indices = b.sort(xi, descending=descending)[1]
    for key in (xr, missing):
        order = b.sort(b.gather(key, *elements_at(b, x, indices)), descending=descending)[1]
        indices = b.gather(indices, *elements_at(b, x, order))
    return b.gather(x, *elements_at(b, x, indices)), indices


def gather_tangents(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    """Tangents move with the elements that ``outputs`` has, with their indices; indices have no derivative."""
    (tangent,), (_, indices) = tangents, outputs
    return [None if tangent is None else b.gather(tangent, *elements_at(b, tangent, indices)), None]


def scatter_cotangents(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    """Cotangents are added to where their elements came from."""
    (x,), (_, indices) = primals, outputs
    return [b.scatter_add(b.zeros_like(x), cotangents[0], *elements_at(b, x, indices))]


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        for k, shape in enumerate(((5,), (3, 4), (2, 3, 33), (0,), (2, 0), (0, 3), (4, 1))):
            yield sample(random_array(rng("sort"), dtype, shape), descending=k % 2 == 1)


register(Primitive(
    name="sort", doc="The elements of the last axis in ascending or descending order, and their indices in it; "
    "equal elements keep their order, nan is the largest.", params={"descending": "bool"}, typing=_type,
    evaluate=_evaluate, lowering=Tile("sort", _operations, 1, complex_rule=ComplexRule(_sort_complex, 0)),
    jvp=gather_tangents, vjp=scatter_cotangents,
    batch=lambda b, args, batched, size, params: b.sort(args[0], **params), ulp=0, effect=False, samples=_samples,
))  # fmt: skip


def _top_type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ArrayType]:
    x, k = _row_type("top_k", types), params["k"]
    if (k.static or 0) < 0 or prove_at_least(x.shape[-1], k) is False:
        raise ShapeError(f"top_k: {k} is more than an axis of size {x.shape[-1]} has", types=(x,))
    found = x.with_shape((*x.shape[:-1], k))
    return found, found.with_dtype(int64)


def _top(values: Sequence[NDArray], params: Params) -> tuple[NDArray, NDArray]:
    elements, indices = _evaluate(values, {"descending": params["largest"]})
    return elements[..., : params["k"]], indices[..., : params["k"]]


def _top_complex(b: Builder, x: Value, k: Dim, largest: bool) -> list[Value]:
    """The first of the sorted row."""
    shape = (*x.shape[:-1], k)
    found = b.sort(x, descending=largest)
    return [b.slice(whole, start=(0,) * len(shape), stop=shape, step=(1,) * len(shape)) for whole in found]


def _top_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        for shape, k, largest in (((5,), 2, True), ((3, 4), 4, False), ((2, 3, 33), 5, True), ((2, 3), 0, True)):
            yield sample(random_array(rng("top_k"), dtype, shape), k=k, largest=largest)


register(Primitive(
    name="top_k", doc="The k largest or smallest elements of the last axis, best first, and their indices in the "
    "operand; of equal elements the first, nan is the largest.", params={"k": "size", "largest": "bool"},
    typing=_top_type, evaluate=_top, lowering=Tile("top_k", _operations, 1, complex_rule=ComplexRule(_top_complex, 0)),
    jvp=gather_tangents, vjp=scatter_cotangents,
    batch=lambda b, args, batched, size, params: b.top_k(args[0], **params), ulp=0, effect=False, samples=_top_samples,
))  # fmt: skip
