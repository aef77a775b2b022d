"""Slices at offsets that are known when the program runs: dynamic_slice, dynamic_update_slice.

A slice has the sizes of its parameters and begins at one integer an axis, clamped so that the slice lies inside. The
first ``batch`` axes of all operands count examples, each of which has its own start on every other axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim, DimLike, dim, prove_at_least, prove_equal
from zenith.ir.graph import Value
from zenith.ir.lowering import ArrayTypes, ComplexRule, E, Elements, Index, Indexing, Overwrite, Reads
from zenith.ir.ops.common import (
    all_batched,
    arrays,
    index_dtype,
    random_array,
    require_same_dtype,
    rng,
    sample,
    with_batch_axis,
)
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, int64, kind_of


def _check_slice(name: str, x: ArrayType, sizes: Sequence[Dim], starts: Sequence[ArrayType], batch: int) -> None:
    """An error unless a slice of ``sizes`` fits into an example of ``x``, with a start for each of its axes."""
    if not 0 <= batch <= x.rank or len(sizes) != x.rank - batch or len(starts) != len(sizes):
        raise ShapeError(f"{name} needs a size and a start for each axis of {x}", types=(x, *starts))
    index_dtype(starts, name)
    for start in starts:
        if start.rank != batch or any(prove_equal(m, n) is False for m, n in zip(start.shape, x.shape, strict=False)):
            raise ShapeError(f"{name} needs starts without axes", types=(x, *starts))
    for size, n in zip(sizes, x.shape[batch:], strict=True):
        if False in (prove_at_least(size, 0), prove_at_least(n, size)):
            raise ShapeError(f"{name}: a slice of size {size} does not fit into an axis of size {n}", types=(x,))


def _slices(
    shape: Sequence[int], sizes: Sequence[int], starts: Sequence[NDArray], batch: int
) -> Iterator[tuple[Any, ...]]:
    """The index of each example's slice."""
    for example in np.ndindex(*shape[:batch]):
        found = zip(starts, sizes, shape[batch:], strict=True)
        first = [(min(max(int(start[example]), 0), n - size), size) for start, size, n in found]
        yield (*example, *(slice(at, at + size) for at, size in first))


def _index(
    k: Indexing[E], index: Index, starts: Reads[E], types: ArrayTypes, sizes: Sequence[Dim], batch: int
) -> list[Dim]:
    """The index in the array of an element of the slice."""
    bounds = zip(starts, index[batch:], types[0].shape[batch:], sizes, strict=True)
    return [*index[:batch], *(i + k.between(start(*index[:batch]), n - size) for start, i, n, size in bounds)]


# --- dynamic_slice -------------------------------------------------------------------------------------------------


def _slice_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, *starts = arrays("dynamic_slice", types)
    sizes, batch = params["sizes"], params["batch"]
    _check_slice("dynamic_slice", x, sizes, starts, batch)
    return (x.with_shape((*x.shape[:batch], *sizes)),)


def _slice(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, *starts = map(np.asarray, values)
    sizes, batch = params["sizes"], params["batch"]
    out = np.empty((*x.shape[:batch], *sizes), x.dtype)
    for where in _slices(x.shape, sizes, starts, batch):
        out[where[:batch]] = x[where]
    return (out,)


def _slice_element(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> E:
    return read[0](*_index(k, index, read[1:], types, params["sizes"], params["batch"]))


def _slice_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    return [None if tangents[0] is None else b.dynamic_slice(tangents[0], *primals[1:], **params)]


def _slice_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    x, *starts = primals
    found = b.dynamic_update_slice(b.zeros_like(x), cotangents[0], *starts, batch=params["batch"])
    return [found, *([None] * len(starts))]


def _slice_batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    sizes, batch = params["sizes"], params["batch"]
    if any(batched[1:]) or batch:
        return [b.dynamic_slice(*all_batched(b, args, batched, size), sizes=sizes, batch=batch + 1)]
    return [b.dynamic_slice(args[0], _first(b, args[1:]), *args[1:], sizes=(dim(size), *sizes), batch=0)]


def _first(b: Builder, starts: Values) -> Value:
    """The start of a whole axis."""
    return b.literal(value=0, dtype=starts[0].dtype if starts else int64)


def _slice_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        x = random_array(rng("dynamic_slice"), dtype, (4, 5))
        yield sample(x, np.asarray(1), np.asarray(-1, np.int32), sizes=(2, 3), batch=0)
        yield sample(x, np.asarray(9), np.asarray(2), sizes=(1, 5), batch=0)
        yield sample(x, np.asarray([0, 7, 2, -3]), sizes=(3,), batch=1)
        yield sample(x, np.asarray(2), np.asarray(1), sizes=(0, 2), batch=0)


register(Primitive(
    name="dynamic_slice", doc="A slice of the first operand that begins at the others, clamped to lie inside.",
    params={"sizes": "sizes", "batch": "int"}, typing=_slice_type, evaluate=_slice,
    lowering=Elements(_slice_element, cheap=True), jvp=_slice_jvp, vjp=_slice_vjp, batch=_slice_batch, ulp=0,
    effect=False, samples=_slice_samples,
))  # fmt: skip


# --- dynamic_update_slice ------------------------------------------------------------------------------------------


def _update_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    found = arrays("dynamic_update_slice", types)
    if len(found) < 2:
        raise ShapeError("dynamic_update_slice needs an array and what it gets", types=tuple(types))
    (x, update, *starts), batch = found, params["batch"]
    require_same_dtype("dynamic_update_slice", (x, update))
    leading = zip(x.shape[:batch], update.shape[:batch], strict=False)
    if x.rank != update.rank or any(prove_equal(m, n) is False for m, n in leading):
        raise ShapeError("dynamic_update_slice needs an update with the array's axes", types=(x, update))
    _check_slice("dynamic_update_slice", x, update.shape[batch:], starts, batch)
    return (x,)


def _update(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, update, *starts = map(np.asarray, values)
    batch, out = params["batch"], x.copy()
    for where in _slices(x.shape, update.shape[batch:], starts, batch):
        out[where] = update[where[:batch]]
    return (out,)


def _update_index(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> Sequence[DimLike]:
    batch = params["batch"]
    return _index(k, index, read[2:], types, types[1].shape[batch:], batch)


def _update_complex(b: Builder, x: Value, update: Value, *starts: Value, batch: int) -> Value:
    """On arrays as they are in memory, where an element is a row of two numbers."""
    both = b.full(0, int64, x.shape[:batch])
    return b.of_parts(b.dynamic_update_slice(b.as_parts(x), b.as_parts(update), *starts, both, batch=batch))


def _update_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    if tangents[0] is None and tangents[1] is None:
        return [None]
    x, update = (b.zeros_like(p) if t is None else t for p, t in zip(primals[:2], tangents[:2], strict=True))
    return [b.dynamic_update_slice(x, update, *primals[2:], **params)]


def _update_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    (_, update, *starts), batch = primals, params["batch"]
    inside = b.dynamic_slice(cotangents[0], *starts, sizes=update.shape[batch:], batch=batch)
    outside = b.dynamic_update_slice(cotangents[0], b.zeros_like(update), *starts, batch=batch)
    return [outside, inside, *([None] * len(starts))]


def _update_batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    batch, starts = params["batch"], args[2:]
    if any(batched[2:]) or batch:
        return [b.dynamic_update_slice(*all_batched(b, args, batched, size), batch=batch + 1)]
    x, update = (with_batch_axis(b, a, flag, size) for a, flag in zip(args[:2], batched[:2], strict=True))
    return [b.dynamic_update_slice(x, update, _first(b, starts), *starts, batch=0)]


def _update_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        generator = rng("dynamic_update_slice")
        x, update = (random_array(generator, dtype, shape) for shape in ((4, 5), (2, 3)))
        yield sample(x, update, np.asarray(1), np.asarray(-1, np.int32), batch=0)
        yield sample(x, update, np.asarray(9), np.asarray(1), batch=0)
        yield sample(x, random_array(generator, dtype, (4, 3)), np.asarray([0, 7, 2, -3]), batch=1)
        yield sample(x, update[:0], np.asarray(2), np.asarray(1), batch=0)


register(Primitive(
    name="dynamic_update_slice", doc="The first operand with the second over the slice of it that begins at the "
    "others, clamped to lie inside.", params={"batch": "int"}, typing=_update_type, evaluate=_update,
    lowering=Overwrite(_update_index, ComplexRule(_update_complex, 0)), jvp=_update_jvp, vjp=_update_vjp,
    batch=_update_batch, ulp=0, effect=False, samples=_update_samples,
))  # fmt: skip
