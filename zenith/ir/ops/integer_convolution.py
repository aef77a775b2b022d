"""Convolutions of bytes, u8 by i8, whose sums are i32: what :mod:`zenith.passes.integer_products` makes of others.

They are brought into blocks of channels like those of one element type (:mod:`zenith.ir.ops.blocked_convolution`), with
whole words of four bytes in a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.errors import DTypeError
from zenith.ir.builder import Builder, Values
from zenith.ir.dims import Dim
from zenith.ir.lowering import Composite, Tile
from zenith.ir.ops.blocked_convolution import (
    by_blocks,
    correlate,
    correlate_blocks,
    expand,
    is_by_channels,
    operations,
)
from zenith.ir.ops.blocked_convolution import type_of as type_of_blocks
from zenith.ir.ops.common import arrays, rng, sample
from zenith.ir.ops.convolution import batch_of, type_of
from zenith.ir.primitive import Params, Primitive, Sample, not_batchable, not_differentiable, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, int8, int32, uint8


def _widened(name: str, types: Sequence[Type]) -> list[ArrayType]:
    """The types of operands of int32; DTypeError unless they are u8 and i8."""
    x, w = arrays(name, types, 2)
    if (x.dtype, w.dtype) != (uint8, int8):
        raise DTypeError(f"{name} multiplies u8 by i8", types=(x, w))
    return [x.with_dtype(int32), w.with_dtype(int32)]


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    return type_of(_widened("conv_integer", types), params)


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, w = (v.astype(np.int32) for v in values)
    return (correlate(x, w, **params),)


def _expand(b: Builder, args: Values, params: Params) -> Values:
    """On blocks; channels that are convolved by themselves, and sums of nothing, as those of int32."""
    x, w = args
    if (
        w.shape[1] == 0
        or params["groups"] == 0
        or is_by_channels(x.shape[1], w.shape[0], w.shape[2:], params["groups"])
    ):
        return expand(b, [b.cast(value, dtype=int32) for value in args], params)
    return [by_blocks(b, x, w, params)]


def _batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    return batch_of(b, b.conv_integer, args, batched, size, params)


def _bytes(name: str, shapes: Sequence[tuple[int, ...]]) -> list[NDArray]:
    """Random bytes without and with a sign."""
    generator = rng(name)
    x, w = shapes
    return [generator.integers(0, 256, x, dtype=np.uint8), generator.integers(-128, 128, w, dtype=np.int8)]


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if dtype == np.dtype(np.int32):
        for x, w, strides, dilation, groups in (
            ((2, 3, 7, 6), (4, 3, 3, 2), (2, 1), (1, 2), 1),
            ((1, 32, 9), (24, 16, 3), (1,), (2,), 2),
            ((2, 6, 6, 5), (8, 3, 2, 3), (1, 1), (1, 1), 2),
            ((2, 4, 6, 5), (4, 1, 3, 3), (1, 2), (1, 1), 4),
            ((1, 2, 3), (3, 2, 3), (1,), (1,), 1),
        ):
            yield sample(*_bytes("conv_integer", (x, w)), strides=strides, dilation=dilation, groups=groups)


_WHY = "its operands are integers"
register(Primitive(
    name="conv_integer", doc="conv of bytes, u8 by i8, whose sums are i32 and wrap (ConvInteger).",
    params={"strides": "ints", "dilation": "ints", "groups": "size"}, typing=_type, evaluate=_evaluate,
    lowering=Composite(_expand), jvp=not_differentiable(_WHY), vjp=not_differentiable(_WHY), batch=_batch, ulp=0,
    effect=False, samples=_samples,
))  # fmt: skip


# --- on blocks of channels -----------------------------------------------------------------------------------------


def _blocks_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    return type_of_blocks(_widened("conv_blocks_integer", types), params)


def _blocks_evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, w = (v.astype(np.int32) for v in values)
    return (correlate_blocks(x, w, params),)


def _blocks_samples(dtype: NumPyType) -> Iterable[Sample]:
    if dtype == np.dtype(np.int32):
        for x, outputs, window, strides, dilation, block in (
            ((1, 1, 2, 8, 7, 8), 12, (3, 2), (1, 1), (1, 1), 4),
            ((2, 2, 1, 5, 9, 3), 5, (2, 3), (2, 2), (1, 2), 5),
            ((1, 1, 3, 141, 4), 66, (1,), (1,), (1,), 11),
            ((1, 1, 140, 6, 16), 20, (2,), (1,), (1,), 4),
            ((0, 1, 1, 5, 4), 4, (3,), (1,), (1,), 4),
        ):
            terms = int(np.prod((x[2], *window, x[-1])))
            values = _bytes("conv_blocks_integer", (x, (x[1], terms, outputs)))
            yield sample(*values, window=window, strides=strides, dilation=dilation, block=block)


register(Primitive(
    name="conv_blocks_integer", doc="conv_blocks of bytes, u8 by i8, whose sums are i32 and wrap.",
    params={"window": "sizes", "strides": "ints", "dilation": "ints", "block": "size"}, typing=_blocks_type,
    evaluate=_blocks_evaluate, lowering=Tile("convolution", operations, 2), jvp=not_differentiable(_WHY),
    vjp=not_differentiable(_WHY), batch=not_batchable("conv_integer is batched"), ulp=0, effect=False,
    samples=_blocks_samples,
))  # fmt: skip
