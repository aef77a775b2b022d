"""Primitives that rearrange elements: broadcast, transpose, reshape, reverse.

All are linear. Kernels read them as index maps, so they cost nothing when fused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Values
from zenith.ir.dims import Dim, dim, product, prove_equal
from zenith.ir.lowering import ArrayTypes, E, Elements, Index, Indexing, Reads, View
from zenith.ir.ops.common import (
    arrays,
    moved_axes,
    random_array,
    require_axis,
    rng,
    same_op_jvp,
    sample,
)
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, kind_of


def _array(name: str, dtype: NumPyType, *shape: int) -> NDArray:
    return random_array(rng(name), dtype, shape)


# --- broadcast -------------------------------------------------------------------------------------------------


def _broadcast_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("broadcast", types, 1)
    shape, axes = params["shape"], params["axes"]
    if len(axes) != x.rank or list(axes) != sorted(set(axes)) or any(not 0 <= a < len(shape) for a in axes):
        raise ShapeError(f"broadcast needs one growing target axis for each axis of {x}, not {axes}", types=(x,))
    for axis, size in zip(axes, x.shape, strict=True):
        if prove_equal(size, shape[axis]) is False and size != 1:
            raise ShapeError(f"cannot broadcast size {size} to {shape[axis]}", types=(x,))
    return (x.with_shape(shape),)


def _broadcast(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    (x,) = values
    spread = [1] * len(params["shape"])
    for axis, size in zip(params["axes"], x.shape, strict=True):
        spread[axis] = size
    return (np.broadcast_to(x.reshape(spread), params["shape"]),)


def _broadcast_element(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> E:
    source = types[0].shape
    chosen = [dim(0) if size == 1 else index[a] for a, size in zip(params["axes"], source, strict=True)]
    return read[0](*chosen)


def _broadcast_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    (x,) = primals
    stretched = {a for a, size in zip(params["axes"], x.shape, strict=True) if size == 1 and params["shape"][a] != 1}
    new = set(range(len(params["shape"]))) - set(params["axes"])
    summed = tuple(sorted(new | stretched))
    ct = b.reduce_sum(cotangents[0], axes=summed) if summed else cotangents[0]
    return [b.reshape(ct, shape=x.shape) if stretched else ct]


def _broadcast_batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    axes = (0, *moved_axes(params["axes"]))
    return [b.broadcast(args[0], shape=(dim(size), *params["shape"]), axes=axes)]


def _broadcast_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype):
        yield sample(_array("broadcast", dtype, 3), shape=(2, 3), axes=(1,))
        yield sample(_array("broadcast", dtype), shape=(4,), axes=())
        yield sample(_array("broadcast", dtype, 2, 1), shape=(2, 3, 5), axes=(0, 2))
        yield sample(_array("broadcast", dtype, 1, 2), shape=(0, 2), axes=(0, 1))


register(Primitive(
    name="broadcast", doc="Repeats along new axes and axes of size 1: axis i of the operand becomes axes[i].",
    params={"shape": "sizes", "axes": "ints"}, typing=_broadcast_type, evaluate=_broadcast,
    lowering=Elements(_broadcast_element, cheap=True, strided=True), jvp=same_op_jvp("broadcast"), vjp=_broadcast_vjp,
    batch=_broadcast_batch, ulp=0, effect=False, samples=_broadcast_samples,
))  # fmt: skip


# --- transpose -------------------------------------------------------------------------------------------------


def _transpose_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("transpose", types, 1)
    if sorted(params["axes"]) != list(range(x.rank)):
        raise ShapeError(f"transpose axes {params['axes']} are no permutation of the axes of {x}", types=(x,))
    return (x.with_shape([x.shape[a] for a in params["axes"]]),)


def inverse_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes ``axes``."""
    return tuple(sorted(range(len(axes)), key=lambda i: axes[i]))


def _transpose_element(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> E:
    return read[0](*(index[i] for i in inverse_permutation(params["axes"])))


register(Primitive(
    name="transpose", doc="Axis i of the result is axis axes[i] of the operand.", params={"axes": "ints"},
    typing=_transpose_type, evaluate=lambda values, params: (np.transpose(values[0], params["axes"]),),
    lowering=Elements(_transpose_element, cheap=True, strided=True), jvp=same_op_jvp("transpose"),
    vjp=lambda b, primals, outputs, cts, params: [b.transpose(cts[0], axes=inverse_permutation(params["axes"]))],
    batch=lambda b, args, batched, size, params: [b.transpose(args[0], axes=(0, *moved_axes(params["axes"])))],
    ulp=0, effect=False,
    samples=lambda dtype: [sample(_array("transpose", dtype, 2, 3, 4), axes=(2, 0, 1)),
                           sample(_array("transpose", dtype), axes=())] if kind_of(dtype) else [],
))  # fmt: skip


# --- reshape ---------------------------------------------------------------------------------------------------


def _reshape_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("reshape", types, 1)
    if prove_equal(x.size, product(params["shape"])) is False:
        raise ShapeError(f"cannot reshape {x} of {x.size} elements to {list(params['shape'])}", types=(x,))
    return (x.with_shape(params["shape"]),)


register(Primitive(
    name="reshape", doc="The same elements in row-major order under another shape.", params={"shape": "sizes"},
    typing=_reshape_type, evaluate=lambda values, params: (values[0].reshape(params["shape"]),), lowering=View(),
    jvp=same_op_jvp("reshape"),
    vjp=lambda b, primals, outputs, cts, params: [b.reshape(cts[0], shape=primals[0].shape)],
    batch=lambda b, args, batched, size, params: [b.reshape(args[0], shape=(dim(size), *params["shape"]))],
    ulp=0, effect=False,
    samples=lambda dtype: [sample(_array("reshape", dtype, 2, 6), shape=(3, 4)),
                           sample(_array("reshape", dtype, 1), shape=())] if kind_of(dtype) else [],
))  # fmt: skip


# --- reverse ---------------------------------------------------------------------------------------------------


def _reverse_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("reverse", types, 1)
    for axis in params["axes"]:
        require_axis("reverse", x, axis)
    return (x,)


def _reverse_element(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> E:
    sizes = types[0].shape
    return read[0](*(sizes[a] - 1 - i if a in params["axes"] else i for a, i in enumerate(index)))


register(Primitive(
    name="reverse", doc="The order of elements reversed along some axes.", params={"axes": "ints"},
    typing=_reverse_type, evaluate=lambda values, params: (np.flip(values[0], params["axes"]),),
    lowering=Elements(_reverse_element, cheap=True, strided=True), jvp=same_op_jvp("reverse"),
    vjp=lambda b, primals, outputs, cts, params: [b.reverse(cts[0], **params)],
    batch=lambda b, args, batched, size, params: [b.reverse(args[0], axes=moved_axes(params["axes"]))],
    ulp=0, effect=False,
    samples=lambda dtype: [sample(_array("reverse", dtype, 3, 4), axes=(1,)),
                           sample(_array("reverse", dtype, 3, 4), axes=(0, 1))] if kind_of(dtype) else [],
))  # fmt: skip
