"""Choice and conversion: ``where`` and ``cast``, elementwise but with operands of different types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np

from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.graph import Value
from zenith.ir.lowering import Scalar
from zenith.ir.ops.common import (
    arrays,
    random_array,
    require_kind,
    require_same_dtype,
    require_same_shape,
    rng,
    sample,
)
from zenith.ir.ops.complex_rules import COMPLEX_RULES
from zenith.ir.ops.elementwise import batch_elementwise
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import DTYPES, ArrayType, NDArray, NumPyType, Type, has_derivative, kind_of


def _where_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    condition, x, y = arrays("where", types, 3)
    require_kind("where condition", condition, "b")
    require_same_dtype("where", (x, y))
    require_same_shape("where", (condition, x, y))
    return (x,)


def _where_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    _, x, y = tangents
    if x is None and y is None:
        return [None]
    zero = b.zeros_like(cast(Value, x if x is not None else y))
    return [b.where(primals[0], zero if x is None else x, zero if y is None else y)]


def _where_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    zero = b.zeros_like(cotangents[0])
    return [None, b.where(primals[0], cotangents[0], zero), b.where(primals[0], zero, cotangents[0])]


def _where_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        generator = rng("where")
        for shape in ((), (4, 3), (0,)):
            x, y = (random_array(generator, dtype, shape) for _ in range(2))
            yield sample(random_array(generator, np.dtype(bool), shape), x, y)


register(Primitive(
    name="where", doc="The second operand where the first is true, else the third.", params={}, typing=_where_type,
    evaluate=lambda values, params: (np.where(*values),), lowering=Scalar("where(x, y, z)", 1),
    jvp=_where_jvp, vjp=_where_vjp, batch=batch_elementwise("where"), ulp=0, effect=False, samples=_where_samples,
))  # fmt: skip


def _cast(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    (x,), dtype = values, params["dtype"]
    with np.errstate(all="ignore"):
        real = x.dtype.kind == "c" and dtype.kind not in "bc"
        return ((x.real if real else x).astype(dtype.numpy),)


def _cast_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    moves = has_derivative(outputs[0].type) and tangents[0] is not None
    return [b.cast(cast(Value, tangents[0]), **params) if moves else None]


def _cast_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    moves = has_derivative(primals[0].type) and has_derivative(outputs[0].type)
    return [b.cast(cotangents[0], dtype=primals[0].dtype) if moves else None]


def _cast_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        x = random_array(rng("cast"), dtype, (3, 4))
        for target in DTYPES:
            yield sample(x if dtype.kind == "c" and target.kind in "fc" else np.abs(x).astype(dtype), dtype=target)


register(Primitive(
    name="cast", doc="Conversion to another element type, as NumPy's astype on x86-64. Integers wrap. Floats are "
    "truncated to int32 for int8, int16, int32, uint8 and uint16, to int64 for int64 and uint32, of which the low bits "
    "stay; nan and what is out of range become the smallest int32 or int64. uint64 has also the numbers from 2**63 on "
    "below 2**64; what is larger becomes 0. A complex number loses its imaginary part.", params={"dtype": "dtype"},
    typing=lambda types, params: (arrays("cast", types, 1)[0].with_dtype(params["dtype"]),),
    evaluate=_cast, lowering=Scalar("x", 1, COMPLEX_RULES["cast"]), jvp=_cast_jvp, vjp=_cast_vjp,
    batch=batch_elementwise("cast"), ulp=0.5, effect=False, samples=_cast_samples,
))  # fmt: skip
