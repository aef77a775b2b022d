"""Primitives that take arrays apart and put them together: slice, pad, concatenate.

All are linear in their array arguments. Kernels read them as index maps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim, dim, maximum, prove_at_least, prove_equal
from zenith.ir.graph import Value
from zenith.ir.lowering import ArrayTypes, E, Elements, Index, Indexing, Reads, View
from zenith.ir.ops.common import (
    all_batched,
    arrays,
    random_array,
    require_axis,
    require_same_dtype,
    rng,
    same_op_jvp,
    sample,
)
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, DType, NDArray, NumPyType, Type, kind_of


def _array(name: str, dtype: NumPyType, *shape: int) -> NDArray:
    return random_array(rng(name), dtype, shape)


# --- slice -----------------------------------------------------------------------------------------------------


def _slice_size(start: Dim, stop: Dim, step: int) -> Dim:
    return (stop - start + (step - 1)) // step


def is_of_no_turn(size: Dim, stop: Dim) -> bool:
    """Whether a bound that varies is compared with an axis of size 0: in a loop that then has no turns."""
    return size == 0 and stop.static is None


def slice_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    """The type of a slice; ShapeError where it lies outside."""
    (x,) = arrays("slice", types, 1)
    start, stop, step = params["start"], params["stop"], params["step"]
    if not len(start) == len(stop) == len(step) == x.rank or any(s < 1 for s in step):
        raise ShapeError(f"slice needs start, stop and a step >= 1 for each axis of {x}", types=(x,))
    for lo, hi, size in zip(start, stop, x.shape, strict=True):
        ends = prove_at_least(size, hi) is False and not is_of_no_turn(size, hi)
        if ends or False in (prove_at_least(lo, 0), prove_at_least(hi, lo)):
            raise ShapeError(f"slice {lo}:{hi} is outside an axis of size {size}", types=(x,))
    return (x.with_shape([_slice_size(a, b, s) for a, b, s in zip(start, stop, step, strict=True)]),)


def _slice(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    bounds = zip(params["start"], params["stop"], params["step"], strict=True)
    return (values[0][tuple(slice(a, b, s) for a, b, s in bounds)],)


def _slice_element(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> E:
    moves = zip(index, params["start"], params["step"], strict=True)
    return read[0](*(start + i * step for i, start, step in moves))


def _slice_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    x, ct = primals[0], cotangents[0]
    covered = [n + maximum(n - 1, 0) * (s - 1) for n, s in zip(ct.shape, params["step"], strict=True)]
    high = [n - lo - c for n, lo, c in zip(x.shape, params["start"], covered, strict=True)]
    zero = b.literal(value=0.0, dtype=ct.dtype)
    return [b.pad(ct, zero, low=params["start"], high=tuple(high), interior=tuple(s - 1 for s in params["step"]))]


def _slice_batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    start, stop = (dim(0), *params["start"]), (dim(size), *params["stop"])
    return [b.slice(args[0], start=start, stop=stop, step=(1, *params["step"]))]


def _slice_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        x = _array("slice", dtype, 5, 6)
        yield sample(x, start=(1, 0), stop=(4, 6), step=(1, 2))
        yield sample(x, start=(2, 1), stop=(2, 6), step=(1, 3))


register(Primitive(
    name="slice", doc="start:stop:step of every axis, inside the operand, with positive steps.",
    params={"start": "sizes", "stop": "sizes", "step": "ints"}, typing=slice_type, evaluate=_slice,
    lowering=Elements(_slice_element, cheap=True, strided=True), jvp=same_op_jvp("slice"), vjp=_slice_vjp,
    batch=_slice_batch, ulp=0, effect=False, samples=_slice_samples,
))  # fmt: skip


# --- prefix ----------------------------------------------------------------------------------------------------


def _prefix_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("prefix", types, 1)
    size = params["size"]
    if not x.rank or (prove_at_least(x.shape[0], size) is False and not is_of_no_turn(x.shape[0], size)):
        raise ShapeError(f"the first {params['size']} slices of {x}", types=(x,))
    return (x.with_shape((params["size"], *x.shape[1:])),)


def _prefix_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    x, ct = primals[0], cotangents[0]
    low, high = (dim(0),) * len(x.shape), (x.shape[0] - params["size"], *[dim(0)] * (len(x.shape) - 1))
    return [b.pad(ct, b.literal(value=0.0, dtype=ct.dtype), low=low, high=high, interior=(0,) * len(low))]


def _prefix_batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    (x,) = args
    stop = (dim(size), params["size"], *x.shape[2:])
    return [b.slice(x, start=(dim(0),) * len(stop), stop=stop, step=(1,) * len(stop))]


register(Primitive(
    name="prefix", doc="The first slices along the first axis, in the same memory.", params={"size": "size"},
    typing=_prefix_type, evaluate=lambda values, params: (values[0][: params["size"]],), lowering=View(),
    jvp=same_op_jvp("prefix"), vjp=_prefix_vjp, batch=_prefix_batch, ulp=0, effect=False,
    samples=lambda dtype: [sample(_array("prefix", dtype, 5, 2), size=3),
                           sample(_array("prefix", dtype, 4), size=4)] if kind_of(dtype) else [],
))  # fmt: skip


# --- pad -------------------------------------------------------------------------------------------------------


def _padded(size: Dim, low: Dim, high: Dim, interior: int) -> Dim:
    return low + size + (maximum(size - 1, 0) * interior if interior else dim(0)) + high


def _pad_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, value = arrays("pad", types, 2)
    require_same_dtype("pad", (x, value))
    low, high, interior = params["low"], params["high"], params["interior"]
    if not len(low) == len(high) == len(interior) == x.rank or value.rank or any(i < 0 for i in interior):
        raise ShapeError(
            f"pad needs low, high and interior >= 0 for each axis of {x} and a 0-d value", types=(x, value)
        )
    if any(prove_at_least(p, 0) is False for p in (*low, *high)):
        raise ShapeError("pad cannot remove elements: a padding is negative", types=(x,))
    return (x.with_shape([_padded(*item) for item in zip(x.shape, low, high, interior, strict=True)]),)


def _pad(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, value = values
    axes = list(zip(x.shape, params["low"], params["high"], params["interior"], strict=True))
    out = np.full([lo + n + max(n - 1, 0) * i + hi for n, lo, hi, i in axes], value, x.dtype)
    out[tuple(slice(lo, lo + n + max(n - 1, 0) * i, i + 1) for n, lo, _, i in axes)] = x
    return (out,)


def _pad_element(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> E:
    inside, source = [], []
    for i, size, low, interior in zip(index, types[0].shape, params["low"], params["interior"], strict=True):
        offset = i - low
        inside.append(k.at_least(offset, 0))
        if interior:
            inside.append(k.equal(offset % (interior + 1), 0))
            offset = offset // (interior + 1)
        inside.append(k.at_least(size - 1, offset))
        source.append(k.clamp(offset, size))
    return k.choose(k.all(inside), lambda: read[0](*source), read[1])


def _pad_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    x, value = tangents
    if x is None and value is None:
        return [None]
    zero = b.literal(value=0.0, dtype=primals[0].dtype)
    return [b.pad(x if x is not None else b.zeros_like(primals[0]), value if value is not None else zero, **params)]


def _unpad(b: Builder, ct: Value, x: Value, params: Params) -> Value:
    step = tuple(i + 1 for i in params["interior"])
    stop = [lo + n + maximum(n - 1, 0) * i if i else lo + n
            for lo, n, i in zip(params["low"], x.shape, params["interior"], strict=True)]  # fmt: skip
    return b.slice(ct, start=params["low"], stop=tuple(stop), step=step)


def _pad_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    ct, x = cotangents[0], primals[0]
    inner = _unpad(b, ct, x, params)
    border = b.sub(ct, b.pad(inner, b.full(0, ct.dtype, ()), **params))  # of the cotangent alone: nothing is saved
    return [inner, b.reduce_sum(border, axes=tuple(range(len(ct.shape))))]


def _pad_batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    grown = {"low": (dim(0), *params["low"]), "high": (dim(0), *params["high"]), "interior": (0, *params["interior"])}
    if not batched[1]:
        return [b.pad(args[0], args[1], **grown)]
    x = all_batched(b, args, batched, size)[0]
    zero = b.full(0, args[1].dtype, ())
    mask = b.pad(b.full(True, _bool(), x.shape), b.literal(value=False, dtype=_bool()), **grown)
    value = b.broadcast(args[1], shape=mask.shape, axes=(0,))
    return [b.where(mask, b.pad(x, zero, **grown), value)]


def _bool() -> DType:
    from zenith.ir.types import bool_

    return bool_


def _pad_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        x, value = _array("pad", dtype, 2, 3), _array("padding", dtype)
        yield sample(x, value, low=(1, 0), high=(0, 2), interior=(0, 0))
        yield sample(x, value, low=(0, 2), high=(1, 0), interior=(2, 1))
        yield sample(_array("pad", dtype, 0, 3), value, low=(1, 0), high=(1, 0), interior=(1, 0))


register(Primitive(
    name="pad", doc="Puts the second operand (0-d) before, after and between the elements of the first.",
    params={"low": "sizes", "high": "sizes", "interior": "ints"}, typing=_pad_type, evaluate=_pad,
    lowering=Elements(_pad_element, cheap=False), jvp=_pad_jvp, vjp=_pad_vjp, batch=_pad_batch, ulp=0, effect=False,
    samples=_pad_samples,
))  # fmt: skip


# --- concatenate -----------------------------------------------------------------------------------------------


def _concat_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    operands, axis = arrays("concat", types), params["axis"]
    if not operands:
        raise ShapeError("concat needs at least one operand")
    require_same_dtype("concat", operands)
    require_axis("concat", operands[0], axis)
    first = operands[0].shape
    for operand in operands[1:]:
        others = [
            a != axis and prove_equal(n, m) is False for a, (n, m) in enumerate(zip(first, operand.shape, strict=False))
        ]
        if operand.rank != len(first) or any(others):
            raise ShapeError(f"concat needs equal sizes on all axes but {axis}", types=tuple(operands))
    total = sum((p.shape[axis] for p in operands), dim(0))
    return (operands[0].with_shape([total if a == axis else n for a, n in enumerate(first)]),)


def _concat_element(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> E:
    axis, sizes = params["axis"], [type.shape[params["axis"]] for type in types]
    starts = [dim(0), *accumulate(sizes[:-1])]

    def of_operand(number: int) -> E:
        offset = k.clamp(index[axis] - starts[number], sizes[number])
        return read[number](*(offset if a == axis else i for a, i in enumerate(index)))

    def of_first(count: int) -> E:
        """The element of one of the first operands: the last that begins at the index or before."""
        if count == 1:
            return of_operand(0)
        has_begun = k.at_least(index[axis], starts[count - 1])
        return k.choose(has_begun, lambda: of_operand(count - 1), lambda: of_first(count - 1))

    return of_first(len(types))


def _concat_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    if all(t is None for t in tangents):
        return [None]
    moved = [b.zeros_like(p) if t is None else t for p, t in zip(primals, tangents, strict=True)]
    return [b.concat(*moved, **params)]


def _concat_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    ct, axis, at, found = cotangents[0], params["axis"], dim(0), []
    for p in primals:
        start = tuple(at if a == axis else dim(0) for a in range(len(ct.shape)))
        stop = tuple(at + p.shape[a] if a == axis else n for a, n in enumerate(ct.shape))
        found.append(b.slice(ct, start=start, stop=stop, step=(1,) * len(ct.shape)))
        at = at + p.shape[axis]
    return found


def _concat_batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    return [b.concat(*all_batched(b, args, batched, size), axis=params["axis"] + 1)]


def _concat_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        yield sample(_array("c1", dtype, 2, 3), _array("c2", dtype, 2, 0), _array("c3", dtype, 2, 1), axis=1)
        yield sample(_array("c4", dtype, 3), axis=0)


register(Primitive(
    name="concat", doc="Operands one after another along an axis.", params={"axis": "int"}, typing=_concat_type,
    evaluate=lambda values, params: (np.concatenate(values, params["axis"]),),
    lowering=Elements(_concat_element, cheap=False), jvp=_concat_jvp, vjp=_concat_vjp,
    batch=_concat_batch, ulp=0, effect=False, samples=_concat_samples,
))  # fmt: skip
