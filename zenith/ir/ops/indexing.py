"""Reading at computed indices: take, gather; and wrapped, which converts indices from the end to those from the start.

Indices are non-negative integers (front ends wrap negative ones). An index outside its axis is an
:class:`~zenith.errors.OutOfBoundsError` when the program runs, as in NumPy. Writing at computed indices is the chapter
:mod:`~zenith.ir.ops.scatter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.errors import OutOfBoundsError, ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Value
from zenith.ir.lowering import ArrayTypes, E, Elements, Index, Indexing, Reads
from zenith.ir.ops.common import (
    all_batched,
    arrays,
    index_dtype,
    random_array,
    require_axis,
    require_same_shape,
    rng,
    sample,
    with_batch_axis,
)
from zenith.ir.ops.shape import inverse_permutation
from zenith.ir.primitive import Params, Primitive, Sample, not_differentiable, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, int64, kind_of


def check_bounds(name: str, indices: NDArray, size: int) -> None:
    """Raise when an index is outside ``0 <= index < size``."""
    if indices.size and not (int(indices.min()) >= 0 and int(indices.max()) < size):
        raise OutOfBoundsError(f"{name}: an index is out of bounds for an axis of size {size}", fix="check the indices")


# --- wrapped: indices counted from the end ---------------------------------------------------------------------


def _wrapped_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (indices,) = arrays("wrapped", types, 1)
    index_dtype((indices,), "wrapped")
    return (indices.with_dtype(int64),)


def _wrapped(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    indices = values[0].astype(np.int64)
    return (np.asarray(np.where(indices < 0, indices + params["size"], indices)),)


register(Primitive(
    name="wrapped", doc="Indices counted from the start of an axis, as int64: negative ones count from its end.",
    params={"size": "size"}, typing=_wrapped_type, evaluate=_wrapped,
    lowering=Elements(lambda k, index, read, types, params: k.wrapped(read[0](*index), dim(params["size"])),
                      cheap=True),
    jvp=not_differentiable("an index has no derivative"), vjp=not_differentiable("an index has no derivative"),
    batch=lambda b, args, batched, size, params: [b.wrapped(args[0], **params)], ulp=0, effect=False,
    samples=lambda dtype: [sample(random_array(rng("wrapped"), dtype, shape), size=20) for shape in ((4, 3), ())]
    if kind_of(dtype) and kind_of(dtype) in "iu" else [],
))  # fmt: skip


# --- take: whole slices along one axis -------------------------------------------------------------------------


def _take_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, indices = arrays("take", types, 2)
    index_dtype((indices,), "take")
    require_axis("take", x, params["axis"])
    axis = params["axis"]
    return (x.with_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])),)


def _take(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, indices = values
    check_bounds("take", indices, x.shape[params["axis"]])
    return (np.take(x, indices.astype(np.int64), axis=params["axis"]),)


def _take_element(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> E:
    axis, count = params["axis"], types[1].rank
    checked = k.checked(read[1](*index[axis : axis + count]), types[0].shape[axis])
    return read[0](*index[:axis], checked, *index[axis + count :])


def _take_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    return [None if tangents[0] is None else b.take(tangents[0], primals[1], **params)]


def _take_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    x, indices = primals
    axis, count, rank = params["axis"], len(indices.shape), len(x.shape)
    front = (axis, *(a for a in range(rank) if a != axis))
    ct_axes = (*range(axis, axis + count), *range(axis), *range(axis + count, rank - 1 + count))
    zeros = b.full(0.0, x.dtype, [x.shape[a] for a in front])
    total = b.scatter_add(zeros, b.transpose(cotangents[0], axes=ct_axes), indices)
    return [b.transpose(total, axes=inverse_permutation(front)), None]


def _take_batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    x, indices = args
    axis = params["axis"]
    if not batched[1]:
        return [b.take(x, indices, axis=axis + 1)]
    if not batched[0]:
        taken = b.take(x, indices, axis=axis)
        return [b.transpose(taken, axes=(axis, *(a for a in range(len(taken.shape)) if a != axis)))]
    front = (0, axis + 1, *(a for a in range(1, len(x.shape)) if a != axis + 1))
    lead = b.broadcast(b.iota(size=size, dtype=int64), shape=indices.shape, axes=(0,))
    taken = b.gather(b.transpose(x, axes=front), lead, indices)
    count, extra = len(indices.shape) - 1, len(x.shape) - 2
    before = tuple(range(1 + count, 1 + count + axis))
    return [b.transpose(taken, axes=(0, *before, *range(1, 1 + count), *range(1 + count + axis, 1 + count + extra)))]


def _take_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        x, generator = random_array(rng("take"), dtype, (4, 5, 3)), rng("places")
        yield sample(x, generator.integers(0, 5, (2, 3)), axis=1)
        yield sample(x, generator.integers(0, 4, (6,)).astype(np.int32), axis=0)
        yield sample(x, np.asarray(2), axis=2)


register(Primitive(
    name="take", doc="Slices of the first operand along an axis, at the indices that the second gives.",
    params={"axis": "int"}, typing=_take_type, evaluate=_take, lowering=Elements(_take_element, cheap=True),
    jvp=_take_jvp, vjp=_take_vjp, batch=_take_batch, ulp=0, effect=False, samples=_take_samples, speculatable=False,
))  # fmt: skip


# --- gather: one index array for each leading axis --------------------------------------------------------------


def addressed(name: str, x: ArrayType, indices: Sequence[ArrayType]) -> tuple[Dim, ...]:
    """The shape of the elements that index arrays address in ``x``."""
    if not 1 <= len(indices) <= x.rank:
        raise ShapeError(f"{name} needs 1 to {x.rank} index arrays, not {len(indices)}", types=(x, *indices))
    index_dtype(indices, name)
    require_same_shape(name, indices)
    return (*indices[0].shape, *x.shape[len(indices) :])


def missing(name: str) -> list[ArrayType]:
    """Raise the ShapeError for operands that are not there."""
    raise ShapeError(f"{name} needs an array and index arrays")


def _gather_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, *indices = arrays("gather", types) if types else missing("gather")
    return (x.with_shape(addressed("gather", x, indices)),)


def _gather(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, *indices = values
    for i, size in zip(indices, x.shape, strict=False):
        check_bounds("gather", i, size)
    return (np.asarray(x[tuple(indices)]),)


def _gather_element(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> E:
    count = types[1].rank
    leading = [k.checked(r(*index[:count]), n) for r, n in zip(read[1:], types[0].shape, strict=False)]
    return read[0](*leading, *index[count:])


def _gather_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    return [None if tangents[0] is None else b.gather(tangents[0], *primals[1:])]


def _gather_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    return [b.scatter_add(b.zeros_like(primals[0]), cotangents[0], *primals[1:]), *([None] * (len(primals) - 1))]


def with_lead(b: Builder, indices: Values, batched: Sequence[bool], size: Dim) -> list[Value]:
    """Index arrays with a batch axis, and one more in front that counts along it."""
    grown = all_batched(b, indices, batched, size)
    lead = b.broadcast(b.iota(size=size, dtype=int64), shape=grown[0].shape, axes=(0,))
    return [lead, *grown]


def _gather_batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    x = with_batch_axis(b, args[0], batched[0], size)
    return [b.gather(x, *with_lead(b, args[1:], batched[1:], size))]


def _gather_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        x, generator = random_array(rng("gather"), dtype, (4, 5, 3)), rng("places")
        yield sample(x, generator.integers(0, 4, (6,)), generator.integers(0, 5, (6,)))
        yield sample(x, generator.integers(0, 4, (2, 3)))
        yield sample(x, np.zeros((0,), np.int64))


register(Primitive(
    name="gather", doc="Elements at indices: one index array for each leading axis of the first operand.", params={},
    typing=_gather_type, evaluate=_gather, lowering=Elements(_gather_element, cheap=True), jvp=_gather_jvp,
    vjp=_gather_vjp, batch=_gather_batch, ulp=0, effect=False, samples=_gather_samples, speculatable=False,
))  # fmt: skip
