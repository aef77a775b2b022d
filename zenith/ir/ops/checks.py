"""Checks of values: error_if, whose result is its first operand; an error when the second is true for an element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.errors import CheckError, DTypeError
from zenith.ir.builder import Builder
from zenith.ir.graph import Value
from zenith.ir.lowering import ComplexRule, Scalar
from zenith.ir.ops.common import arrays, random_array, require_same_shape, rng
from zenith.ir.ops.elementwise import batch_elementwise
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, bool_, kind_of


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, wrong = arrays("error_if", types, 2)
    require_same_shape("error_if", (x, wrong))
    if wrong.dtype != bool_:
        raise DTypeError("error_if takes bools second", types=(x, wrong))
    return (x,)


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, wrong = values
    if wrong.any():
        raise CheckError(params["why"], fix="check the values that it was given")
    return (x,)


def _complex(b: Builder, x: Value, wrong: Value, why: str) -> Value:
    return b.complex(b.error_if(b.real(x), wrong, why=why), b.imag(x))


def _checked(b: Builder, derivative: Value | None, wrong: Value, params: Params) -> Value | None:
    """A derivative, which is computed without what it belongs to, with the same check."""
    return None if derivative is None else b.error_if(derivative, wrong, **params)


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    shapes = ((), (5,), (3, 4), (0, 2)) if kind_of(dtype) else ()
    return [Sample((random_array(rng("error_if"), dtype, s), np.zeros(s, np.bool_)), {"why": "no"}) for s in shapes]


register(Primitive(
    name="error_if", doc="The first operand; an error when the program runs and the second is true for an element.",
    params={"why": "text"}, typing=_type, evaluate=_evaluate,
    lowering=Scalar("x", 2, ComplexRule(_complex, 0), checks="why"),
    jvp=lambda b, primals, tangents, outputs, params: [_checked(b, tangents[0], primals[1], params)],
    vjp=lambda b, primals, outputs, cotangents, params: [_checked(b, cotangents[0], primals[1], params), None],
    batch=batch_elementwise("error_if"), ulp=0, effect=False, samples=_samples,
    speculatable=False,
))  # fmt: skip
