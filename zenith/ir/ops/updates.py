"""A slice of an array overwritten, at bounds that are known when the program is compiled: update_slice.

It is how an assignment to a slice is recorded. Where nobody reads the array any more, the update is in place, and only
the slice is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim, DimLike, dim
from zenith.ir.graph import Value
from zenith.ir.lowering import ArrayTypes, ComplexRule, E, Index, Indexing, Overwrite, Reads
from zenith.ir.ops.common import all_batched, arrays, random_array, require_same_dtype, require_same_shape, rng, sample
from zenith.ir.ops.slicing import slice_type
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, kind_of


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, update = arrays("update_slice", types, 2)
    require_same_dtype("update_slice", (x, update))
    (sliced,) = slice_type((x,), params)
    if sliced.rank != update.rank:
        raise ShapeError("update_slice needs an update with the array's axes", types=(x, update))
    require_same_shape("update_slice", (sliced, update))
    return (x,)


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, update = values
    out = np.array(x)
    bounds = zip(params["start"], params["stop"], params["step"], strict=True)
    out[tuple(slice(a, b, s) for a, b, s in bounds)] = update
    return (out,)


def _index(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> Sequence[DimLike]:
    return [start + i * step for i, start, step in zip(index, params["start"], params["step"], strict=True)]


def _complex(
    b: Builder, x: Value, update: Value, start: Sequence[DimLike], stop: Sequence[DimLike], step: Sequence[int]
) -> Value:
    """On arrays as they are in memory, where an element is a row of two numbers."""
    update = b.as_parts(update)
    return b.of_parts(b.update_slice(b.as_parts(x), update, start=(*start, 0), stop=(*stop, 2), step=(*step, 1)))


def _jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    if tangents[0] is None and tangents[1] is None:
        return [None]
    x, update = (b.zeros_like(p) if t is None else t for p, t in zip(primals, tangents, strict=True))
    return [b.update_slice(x, update, **params)]


def _vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    outside = b.update_slice(cotangents[0], b.zeros_like(primals[1]), **params)
    return [outside, b.slice(cotangents[0], **params)]


def _batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    start, stop = (dim(0), *params["start"]), (dim(size), *params["stop"])
    return [b.update_slice(*all_batched(b, args, batched, size), start=start, stop=stop, step=(1, *params["step"]))]


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        generator = rng("update_slice")
        x, update = random_array(generator, dtype, (5, 6)), random_array(generator, dtype, (3, 3))
        yield sample(x, update, start=(1, 0), stop=(4, 6), step=(1, 2))
        yield sample(x, update[:0], start=(2, 1), stop=(2, 4), step=(1, 1))
        yield sample(x, random_array(generator, dtype, (2, 6)), start=(0, 0), stop=(5, 6), step=(3, 1))


register(Primitive(
    name="update_slice", doc="The first operand with the second over start:stop:step of every axis, inside of it.",
    params={"start": "sizes", "stop": "sizes", "step": "ints"}, typing=_type, evaluate=_evaluate,
    lowering=Overwrite(_index, ComplexRule(_complex, 0)), jvp=_jvp, vjp=_vjp, batch=_batch, ulp=0, effect=False,
    samples=_samples,
))  # fmt: skip
