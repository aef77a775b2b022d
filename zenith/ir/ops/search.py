"""Insertion points in sorted arrays, by bisection: where an element would be inserted to keep the order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Values
from zenith.ir.dims import Dim, prove_equal
from zenith.ir.lowering import ArrayTypes, E, Elements, Index, Indexing, Reads
from zenith.ir.ops.common import (
    arrays,
    random_array,
    require_kind,
    require_same_dtype,
    rng,
    sample,
    wide,
    with_batch_axis,
)
from zenith.ir.primitive import Params, Primitive, Sample, not_differentiable, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, int64, kind_of

_POSITION = not_differentiable("a position has no derivative")
# Whether an element of the array, x, comes before a value, y; nan is the largest.
_BEFORE = {"left": "(x < y) | ((y != y) & (x == x))", "right": "(x <= y) | (y != y)"}
_BEFORE_INTEGER = {"left": "x < y", "right": "x <= y"}


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    found = arrays("searchsorted", types, 2)
    array, values = found
    require_kind("searchsorted", array, "iuf")
    require_same_dtype("searchsorted", found)
    lead = zip(array.shape[:-1], values.shape[:-1], strict=False)
    if not array.rank or array.rank != values.rank or any(prove_equal(m, n) is False for m, n in lead):
        raise ShapeError(
            "searchsorted needs a sorted last axis, and values with the same axes in front", types=(array, values)
        )
    return (values.with_dtype(int64),)


def _evaluate(operands: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    array, values = wide(operands)
    out = np.empty(values.shape, np.int64)
    for row in np.ndindex(values.shape[:-1]):
        out[row] = np.searchsorted(array[row], values[row], _side(params))
    return (out,)


def _side(params: Params) -> Literal["left", "right"]:
    return "right" if params["right"] else "left"


def _element(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> E:
    array = types[0]
    text = (_BEFORE if array.dtype.is_float else _BEFORE_INTEGER)[_side(params)]
    value = read[1](*index)
    found = k.search(array.shape[-1], lambda at: k.compare(text, read[0](*index[:-1], at), value))
    return k.cast(found, int64)


def _batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    both = [with_batch_axis(b, a, flag, size) for a, flag in zip(args, batched, strict=True)]
    return [b.searchsorted(*both, **params)]


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype) and kind_of(dtype) in "iuf":
        generator = rng("searchsorted")
        for lead, size, count, right in (((), 33, 7, True), ((2,), 6, 3, False), ((), 0, 2, False)):
            array = np.sort(wide([random_array(generator, dtype, (*lead, size))])[0], axis=-1).astype(dtype)
            values = random_array(generator, dtype, (*lead, count))
            values[..., : size // 3] = array[..., : min(size // 3, count)]
            yield sample(array, values, right=right)


register(Primitive(
    name="searchsorted", doc="For each value how many elements of a sorted last axis are below it, right: not above; "
    "nan is the largest.", params={"right": "bool"}, typing=_type, evaluate=_evaluate,
    lowering=Elements(_element, cheap=False, computes=True), jvp=_POSITION, vjp=_POSITION, batch=_batch, ulp=0,
    effect=False, samples=_samples,
))  # fmt: skip
