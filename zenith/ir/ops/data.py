"""Values that a program contains: inputs, literals, constants, weights, sizes and counters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from zenith.errors import ZenithError
from zenith.ir.builder import Builder, Values
from zenith.ir.dims import Dim, dim, row_major
from zenith.ir.lowering import Data, Elements
from zenith.ir.ops.common import arrays, require_kind, sample, with_batch_axis
from zenith.ir.primitive import BatchRule, Params, Primitive, Sample, TypeRule, not_differentiable, register
from zenith.ir.types import ArrayType, DType, NDArray, NumPyType, Type, int64, kind_of

_CONSTANT = not_differentiable("it depends on no argument")


def _of_nothing(name: str, result: Callable[[Params], ArrayType]) -> TypeRule:
    """The typing rule of a value without arguments: its parameters say its type."""

    def typing(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
        arrays(name, types, 0)
        return (result(params),)

    return typing


def _batch_nothing(name: str) -> BatchRule:
    def batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
        return [with_batch_axis(b, getattr(b, name)(**params), False, size)]

    return batch


def _no_value(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    raise ZenithError("an input, constant or weight is not computed: the interpreter takes it from the graph")


def _no_samples(dtype: NumPyType) -> Iterable[Sample]:
    return ()


register(Primitive(
    name="input", doc="An argument of the program; made by Graph.add_input.", params={"name": "text"},
    typing=lambda types, params: (), evaluate=_no_value, lowering=Data(), jvp=_CONSTANT, vjp=_CONSTANT,
    batch=_batch_nothing("input"), ulp=0, effect=False, samples=_no_samples,
))  # fmt: skip

register(Primitive(
    name="constant", doc="An array of the program, named by the hash of its contents.",
    params={"id": "text", "dtype": "dtype", "shape": "sizes"},
    typing=_of_nothing("constant", lambda params: ArrayType(params["dtype"], params["shape"])), evaluate=_no_value,
    lowering=Data(),
    jvp=_CONSTANT, vjp=_CONSTANT, batch=_batch_nothing("constant"), ulp=0, effect=False, samples=_no_samples,
))  # fmt: skip

register(Primitive(
    name="weight", doc="An array that the program knows by name only: its contents may change between calls.",
    params={"name": "text", "dtype": "dtype", "shape": "sizes"},
    typing=_of_nothing("weight", lambda params: ArrayType(params["dtype"], params["shape"])), evaluate=_no_value,
    lowering=Data(),
    jvp=_CONSTANT, vjp=_CONSTANT, batch=_batch_nothing("weight"), ulp=0, effect=False, samples=_no_samples,
))  # fmt: skip


def _literal(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    return (np.asarray(params["value"], params["dtype"].numpy),)


register(Primitive(
    name="empty", doc="Memory whose contents are not read: what is written over it is all that counts.",
    params={"dtype": "dtype", "shape": "sizes"},
    typing=_of_nothing("empty", lambda params: ArrayType(params["dtype"], params["shape"])),
    evaluate=lambda values, params: (np.zeros(params["shape"], params["dtype"].numpy),), lowering=Data(),
    jvp=_CONSTANT, vjp=_CONSTANT, batch=_batch_nothing("empty"), ulp=0, effect=False, samples=_no_samples,
))  # fmt: skip


register(Primitive(
    name="literal", doc="A number of the program, as a 0-d array.", params={"value": "number", "dtype": "dtype"},
    typing=_of_nothing("literal", lambda params: ArrayType(params["dtype"], ())), evaluate=_literal, lowering=Data(),
    jvp=_CONSTANT, vjp=_CONSTANT, batch=_batch_nothing("literal"), ulp=0, effect=False,
    samples=lambda dtype: [sample(value=1, dtype=_known(dtype))] if kind_of(dtype) else [],
))  # fmt: skip


def _known(dtype: NumPyType) -> DType | None:
    from zenith.ir.types import dtype_of

    return dtype_of(dtype)


register(Primitive(
    name="size", doc="A symbolic size as a 0-d int64 array.", params={"value": "size"},
    typing=_of_nothing("size", lambda params: ArrayType(int64, ())),
    evaluate=lambda values, params: (np.asarray(params["value"], np.int64),),
    lowering=Elements(lambda k, index, read, types, params: k.cast(dim(params["value"]), int64), cheap=True),
    jvp=_CONSTANT, vjp=_CONSTANT, batch=_batch_nothing("size"), ulp=0, effect=False,
    samples=lambda dtype: [sample(value=7)] if dtype == np.int64 else [],
))  # fmt: skip


def _iota_type(params: Params) -> ArrayType:
    result = ArrayType(params["dtype"], (dim(params["size"]),))
    require_kind("iota", result, "iuf")
    return result


register(Primitive(
    name="iota", doc="0, 1, 2, ... along one axis.", params={"size": "size", "dtype": "dtype"},
    typing=_of_nothing("iota", _iota_type),
    evaluate=lambda values, params: (np.arange(params["size"]).astype(params["dtype"].numpy),),
    lowering=Elements(lambda k, index, read, types, params: k.cast(index[0], params["dtype"]), cheap=True),
    jvp=_CONSTANT, vjp=_CONSTANT, batch=_batch_nothing("iota"), ulp=0, effect=False,
    samples=lambda dtype: [sample(size=n, dtype=_known(dtype)) for n in (0, 5) if kind_of(dtype) in tuple("iuf")],
))  # fmt: skip


def _counter(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    shape = params["shape"]
    return (np.arange(math.prod(shape), dtype=np.int64).reshape(shape),)


register(Primitive(
    name="counter", doc="The position of each element in row-major order, as int64.", params={"shape": "sizes"},
    typing=_of_nothing("counter", lambda params: ArrayType(int64, params["shape"])), evaluate=_counter,
    lowering=Elements(lambda k, index, read, types, params: k.position(row_major(params["shape"], index), int64),
                      cheap=True),
    jvp=_CONSTANT, vjp=_CONSTANT, batch=_batch_nothing("counter"), ulp=0, effect=False,
    samples=lambda dtype: [sample(shape=s) for s in ((), (5,), (3, 4), (2, 0), (2, 3, 2))] if dtype == np.int64 else [],
))  # fmt: skip
