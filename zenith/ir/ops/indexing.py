"""Reading and adding at computed places: take, gather, scatter_add.

Indices are non-negative integers (front ends add the size to negative ones). An index outside its axis is an
:class:`~zenith.errors.OutOfBoundsError` when the program runs, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from zenith.errors import OutOfBoundsError, ShapeError
from zenith.ir.lowering import Elements, Scatter
from zenith.ir.ops.common import (
    all_batched,
    arrays,
    index_dtype,
    random_array,
    require_axis,
    require_kind,
    require_same_dtype,
    require_same_shape,
    rng,
    sample,
    wide,
    with_batch_axis,
)
from zenith.ir.ops.shape import inverse_permutation
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, Type, int64, kind_of


def check_bounds(name: str, indices: Any, size: int) -> None:
    """Raise when an index is outside ``0 <= index < size``."""
    if indices.size and not (int(indices.min()) >= 0 and int(indices.max()) < size):
        raise OutOfBoundsError(f"{name}: an index is outside an axis of size {size}", fix="check the indices")


# --- take: whole slices along one axis -------------------------------------------------------------------------


def _take_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, indices = arrays("take", types, 2)
    index_dtype((indices,), "take")
    require_axis("take", x, params["axis"])
    axis = params["axis"]
    return (x.with_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])),)


def _take(values: Sequence[Any], params: Params) -> tuple[Any]:
    x, indices = values
    check_bounds("take", indices, x.shape[params["axis"]])
    return (np.take(x, indices.astype(np.int64), axis=params["axis"]),)


def _take_element(k: Any, index: Any, read: Any, types: Any, params: Params) -> Any:
    axis, count = params["axis"], types[1].rank
    place = k.checked(read[1](*index[axis : axis + count]), types[0].shape[axis])
    return read[0](*index[:axis], place, *index[axis + count :])


def _take_jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Sequence[Any]:
    return [None if tangents[0] is None else b.take(tangents[0], primals[1], **params)]


def _take_vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    x, indices = primals
    axis, count, rank = params["axis"], len(indices.shape), len(x.shape)
    front = (axis, *(a for a in range(rank) if a != axis))
    ct_axes = (*range(axis, axis + count), *range(axis), *range(axis + count, rank - 1 + count))
    zeros = b.full(0.0, x.dtype, [x.shape[a] for a in front])
    total = b.scatter_add(zeros, b.transpose(cotangents[0], axes=ct_axes), indices)
    return [b.transpose(total, axes=inverse_permutation(front)), None]


def _take_batch(b: Any, args: Any, batched: Any, size: Any, params: Params) -> Sequence[Any]:
    x, indices = args
    axis = params["axis"]
    if not batched[1]:
        return [b.take(x, indices, axis=axis + 1)]
    if not batched[0]:
        taken = b.take(x, indices, axis=axis)
        return [b.transpose(taken, axes=(axis, *(a for a in range(len(taken.shape)) if a != axis)))]
    front = (0, axis + 1, *(a for a in range(1, len(x.shape)) if a != axis + 1))
    lead = b.broadcast(b.iota(size=size, dtype=indices.dtype), shape=indices.shape, axes=(0,))
    taken = b.gather(b.transpose(x, axes=front), lead, indices)
    count, extra = len(indices.shape) - 1, len(x.shape) - 2
    before = tuple(range(1 + count, 1 + count + axis))
    return [b.transpose(taken, axes=(0, *before, *range(1, 1 + count), *range(1 + count + axis, 1 + count + extra)))]


def _take_samples(dtype: np.dtype[Any]) -> Iterable[Sample]:
    if kind_of(dtype):
        x, generator = random_array(rng("take"), dtype, (4, 5, 3)), rng("places")
        yield sample(x, generator.integers(0, 5, (2, 3)), axis=1)
        yield sample(x, generator.integers(0, 4, (6,)).astype(np.int32), axis=0)
        yield sample(x, np.asarray(2), axis=2)


register(Primitive(
    name="take", doc="Slices of the first operand along an axis, at the places that the second gives.",
    params={"axis": "int"}, typing=_take_type, evaluate=_take, lowering=Elements(_take_element, cheap=True),
    jvp=_take_jvp, vjp=_take_vjp, batch=_take_batch, ulp=0, effect=False, samples=_take_samples,
))  # fmt: skip


# --- gather and scatter_add: places given by one index array for each leading axis ------------------------------


def _places(name: str, x: ArrayType, indices: Sequence[ArrayType]) -> tuple[Any, ...]:
    """The shape of what index arrays address in ``x``."""
    if not 1 <= len(indices) <= x.rank:
        raise ShapeError(f"{name} needs 1 to {x.rank} index arrays, not {len(indices)}", types=(x, *indices))
    index_dtype(indices, name)
    require_same_shape(name, indices)
    return (*indices[0].shape, *x.shape[len(indices) :])


def _missing(name: str) -> list[ArrayType]:
    raise ShapeError(f"{name} needs an array and index arrays")


def _gather_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, *indices = arrays("gather", types) if types else _missing("gather")
    return (x.with_shape(_places("gather", x, indices)),)


def _gather(values: Sequence[Any], params: Params) -> tuple[Any]:
    x, *indices = values
    for i, size in zip(indices, x.shape, strict=False):
        check_bounds("gather", i, size)
    return (np.asarray(x[tuple(indices)]),)


def _gather_element(k: Any, index: Any, read: Any, types: Any, params: Params) -> Any:
    count = types[1].rank
    places = [k.checked(r(*index[:count]), n) for r, n in zip(read[1:], types[0].shape, strict=False)]
    return read[0](*places, *index[count:])


def _gather_jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Sequence[Any]:
    return [None if tangents[0] is None else b.gather(tangents[0], *primals[1:])]


def _gather_vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    return [b.scatter_add(b.zeros_like(primals[0]), cotangents[0], *primals[1:]), *([None] * (len(primals) - 1))]


def _with_lead(b: Any, indices: Sequence[Any], batched: Sequence[bool], size: Any) -> list[Any]:
    """Index arrays with a batch axis, and one more in front that counts along it."""
    grown = all_batched(b, indices, batched, size)
    lead = b.broadcast(b.iota(size=size, dtype=int64), shape=grown[0].shape, axes=(0,))
    return [lead, *grown]


def _gather_batch(b: Any, args: Any, batched: Any, size: Any, params: Params) -> Sequence[Any]:
    x = with_batch_axis(b, args[0], batched[0], size)
    return [b.gather(x, *_with_lead(b, args[1:], batched[1:], size))]


def _gather_samples(dtype: np.dtype[Any]) -> Iterable[Sample]:
    if kind_of(dtype):
        x, generator = random_array(rng("gather"), dtype, (4, 5, 3)), rng("places")
        yield sample(x, generator.integers(0, 4, (6,)), generator.integers(0, 5, (6,)))
        yield sample(x, generator.integers(0, 4, (2, 3)))
        yield sample(x, np.zeros((0,), np.int64))


register(Primitive(
    name="gather", doc="Elements at places: one index array for each leading axis of the first operand.", params={},
    typing=_gather_type, evaluate=_gather, lowering=Elements(_gather_element, cheap=True), jvp=_gather_jvp,
    vjp=_gather_vjp, batch=_gather_batch, ulp=0, effect=False, samples=_gather_samples,
))  # fmt: skip


def _scatter_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, updates, *indices = arrays("scatter_add", types) if len(types) > 1 else _missing("scatter_add")
    require_same_dtype("scatter_add", (x, updates))
    require_kind("scatter_add", x, "iuf")
    require_same_shape("scatter_add", (x.with_shape(_places("scatter_add", x, indices)), updates))
    return (x,)


def _scatter(values: Sequence[Any], params: Params) -> tuple[Any]:
    x, updates, *indices = wide(values)
    for i, size in zip(indices, x.shape, strict=False):
        check_bounds("scatter_add", i, size)
    out = x.copy()
    with np.errstate(all="ignore"):
        np.add.at(out, tuple(indices), updates)
        return (out.astype(values[0].dtype, copy=False),)


def _scatter_jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Sequence[Any]:
    x, updates = tangents[:2]
    if x is None and updates is None:
        return [None]
    x = b.zeros_like(primals[0]) if x is None else x
    updates = b.zeros_like(primals[1]) if updates is None else updates
    return [b.scatter_add(x, updates, *primals[2:])]


def _scatter_vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    indices = primals[2:]
    return [cotangents[0], b.gather(cotangents[0], *indices), *([None] * len(indices))]


def _scatter_batch(b: Any, args: Any, batched: Any, size: Any, params: Params) -> Sequence[Any]:
    x, updates = all_batched(b, args[:2], batched[:2], size)
    return [b.scatter_add(x, updates, *_with_lead(b, args[2:], batched[2:], size))]


def _scatter_samples(dtype: np.dtype[Any]) -> Iterable[Sample]:
    if kind_of(dtype) and kind_of(dtype) in "iuf":
        x, generator = random_array(rng("scatter"), dtype, (4, 5)), rng("places")
        yield sample(
            x, random_array(generator, dtype, (6,)), generator.integers(0, 4, (6,)), generator.integers(0, 5, (6,))
        )
        yield sample(x, random_array(generator, dtype, (7, 5)), generator.integers(0, 4, (7,)))


register(Primitive(
    name="scatter_add", doc="The first operand with the second added at places, one index array a leading axis; "
    "places may repeat and are added in order.", params={}, typing=_scatter_type, evaluate=_scatter, lowering=Scatter(),
    jvp=_scatter_jvp, vjp=_scatter_vjp, batch=_scatter_batch, ulp=4, effect=False, samples=_scatter_samples,
))  # fmt: skip
