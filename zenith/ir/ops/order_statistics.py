"""Order statistics: the elements at some ranks of a row, as if it were sorted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim
from zenith.ir.graph import Value
from zenith.ir.lowering import ArrayTypes, ComplexRule, Tile
from zenith.ir.ops.common import all_batched, arrays, index_dtype, random_array, rng, sample, wide
from zenith.ir.ops.indexing import check_bounds
from zenith.ir.ops.sort import elements_at
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, kind_of

OPERATIONS = 16  # of an element, about: its digit is extracted twice, counted, and looked up


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, ranks = arrays("order_statistics", types, 2)
    index_dtype((ranks,), "order_statistics")
    if not x.rank or ranks.rank != 1:
        raise ShapeError("order_statistics needs an axis to sort along, and a row of ranks", types=(x, ranks))
    return (x.with_shape((*x.shape[:-1], *ranks.shape)),)


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    (x,), ranks = wide(values[:1]), values[1]
    check_bounds("order_statistics", ranks, x.shape[-1])
    indices = np.argsort(x, axis=-1, kind="stable")[..., ranks.astype(np.int64)]
    return (np.take_along_axis(values[0], indices, axis=-1),)


def _operations(types: ArrayTypes, results: ArrayTypes) -> Dim:
    operations: Dim = types[0].size * OPERATIONS
    return operations


def _indices(b: Builder, x: Value, ranks: Value) -> list[Value]:
    """Index arrays of the elements in the rows."""
    return elements_at(b, x, b.take(b.sort(x, descending=False)[1], ranks, axis=len(x.shape) - 1))


def _jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    return [None if tangents[0] is None else b.gather(tangents[0], *_indices(b, *primals))]


def _vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    return [b.scatter_add(b.zeros_like(primals[0]), cotangents[0], *_indices(b, *primals)), None]


def _batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    if not batched[1]:
        return [b.order_statistics(*args)]
    x, ranks = all_batched(b, args, batched, size)
    shape = (*x.shape[:-1], ranks.shape[-1])
    own = b.broadcast(ranks, shape=shape, axes=(0, len(shape) - 1))
    return [b.gather(b.sort(x, descending=False)[0], *elements_at(b, x, own))]


def _complex(b: Builder, x: Value, ranks: Value) -> Value:
    return b.take(b.sort(x, descending=False)[0], ranks, axis=len(x.shape) - 1)


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        for shape, ranks in (
            ((5,), (2,)),
            ((3, 4), (3, 0, 0)),
            ((2, 3, 33), (16, 17, 32)),
            ((2, 3), ()),
            ((0, 3), (1,)),
        ):
            yield sample(random_array(rng("order_statistics"), dtype, shape), np.array(ranks, np.int64))


register(Primitive(
    name="order_statistics", doc="The elements of the last axis that have the ranks of the second operand when it is "
    "sorted in ascending order; nan is the largest.", params={}, typing=_type, evaluate=_evaluate,
    lowering=Tile("order_statistics", _operations, 1, complex_rule=ComplexRule(_complex, 0)), jvp=_jvp, vjp=_vjp,
    batch=_batch, ulp=0, effect=False, samples=_samples, speculatable=False,
))  # fmt: skip
