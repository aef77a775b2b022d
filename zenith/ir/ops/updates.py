"""A part of an array written over, at a place that is known when the program is compiled: update_slice.

It is how an assignment to a slice is recorded. What stays is read from the array, so where nobody needs the array any
more, the part alone is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.dims import dim
from zenith.ir.lowering import Overwrite
from zenith.ir.ops.common import all_batched, arrays, random_array, require_same_dtype, require_same_shape, rng, sample
from zenith.ir.ops.slicing import slice_type
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, Type, kind_of


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, update = arrays("update_slice", types, 2)
    require_same_dtype("update_slice", (x, update))
    (part,) = slice_type((x,), params)
    if part.rank != update.rank:
        raise ShapeError("update_slice needs a part with the array's axes", types=(x, update))
    require_same_shape("update_slice", (part, update))
    return (x,)


def _evaluate(values: Sequence[Any], params: Params) -> tuple[Any]:
    x, update = values
    out = np.array(x)
    bounds = zip(params["start"], params["stop"], params["step"], strict=True)
    out[tuple(slice(a, b, s) for a, b, s in bounds)] = update
    return (out,)


def _place(k: Any, index: Any, read: Any, types: Any, params: Params) -> Any:
    return [start + i * step for i, start, step in zip(index, params["start"], params["step"], strict=True)]


def _jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Sequence[Any]:
    if tangents[0] is None and tangents[1] is None:
        return [None]
    x, update = (b.zeros_like(p) if t is None else t for p, t in zip(primals, tangents, strict=True))
    return [b.update_slice(x, update, **params)]


def _vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    outside = b.update_slice(cotangents[0], b.zeros_like(primals[1]), **params)
    return [outside, b.slice(cotangents[0], **params)]


def _batch(b: Any, args: Any, batched: Any, size: Any, params: Params) -> Sequence[Any]:
    start, stop = (dim(0), *params["start"]), (dim(size), *params["stop"])
    return [b.update_slice(*all_batched(b, args, batched, size), start=start, stop=stop, step=(1, *params["step"]))]


def _samples(dtype: np.dtype[Any]) -> Iterable[Sample]:
    if kind_of(dtype):
        generator = rng("update_slice")
        x, part = random_array(generator, dtype, (5, 6)), random_array(generator, dtype, (3, 3))
        yield sample(x, part, start=(1, 0), stop=(4, 6), step=(1, 2))
        yield sample(x, part[:0], start=(2, 1), stop=(2, 4), step=(1, 1))
        yield sample(x, random_array(generator, dtype, (2, 6)), start=(0, 0), stop=(5, 6), step=(3, 1))


register(Primitive(
    name="update_slice", doc="The first operand with the second over start:stop:step of every axis, inside of it.",
    params={"start": "sizes", "stop": "sizes", "step": "ints"}, typing=_type, evaluate=_evaluate,
    lowering=Overwrite(_place), jvp=_jvp, vjp=_vjp, batch=_batch, ulp=0, effect=False, samples=_samples,
))  # fmt: skip
