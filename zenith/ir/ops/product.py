"""Matrix products: the anchors that tile kernels compute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.errors import DTypeError, ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim, product, prove_equal
from zenith.ir.graph import Node, Value
from zenith.ir.lowering import ArrayTypes, Tile
from zenith.ir.ops.common import (
    all_batched,
    arrays,
    random_array,
    require_kind,
    require_same_dtype,
    rng,
    sample,
    wide,
)
from zenith.ir.ops.complex_rules import COMPLEX_RULES
from zenith.ir.primitive import Params, Primitive, Sample, not_differentiable, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, int8, int32, kind_of, uint8


def _matmul_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, y = arrays("matmul", types, 2)
    require_same_dtype("matmul", (x, y))
    require_kind("matmul", x, "iufc")
    if x.rank < 2 or x.rank != y.rank:
        raise ShapeError("matmul needs two operands of one rank >= 2", types=(x, y))
    if any(prove_equal(n, m) is False for n, m in zip(x.shape[:-2], y.shape[:-2], strict=True)):
        raise ShapeError("matmul needs equal leading sizes", types=(x, y))
    if prove_equal(x.shape[-1], y.shape[-2]) is False:
        raise ShapeError(f"matmul: inner sizes {x.shape[-1]} and {y.shape[-2]} differ", types=(x, y))
    return (x.with_shape((*x.shape[:-1], y.shape[-1])),)


def _matmul(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    with np.errstate(all="ignore"):
        return (np.matmul(*wide(values)).astype(values[0].dtype, copy=False),)


def matmul_operations(types: ArrayTypes, results: ArrayTypes) -> Dim:
    """A multiplication and an addition for each term of each sum."""
    x, y = types
    return 2 * product((*x.shape, y.shape[-1]))


def swap_last(b: Builder, x: Value) -> Value:
    """The last two axes exchanged."""
    rank = len(x.shape)
    return b.transpose(x, axes=(*range(rank - 2), rank - 1, rank - 2))


def swaps_last(node: Node) -> bool:
    """Whether a node exchanges the last two axes, and no others."""
    if node.primitive.name != "transpose":
        return False
    axes = tuple(node.params["axes"])
    rank = len(axes)
    return rank >= 2 and axes == (*range(rank - 2), rank - 1, rank - 2)


def _matmul_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    left = None if tangents[0] is None else b.matmul(tangents[0], primals[1])
    right = None if tangents[1] is None else b.matmul(primals[0], tangents[1])
    return [right if left is None else left if right is None else b.add(left, right)]


def _matmul_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    x, y = primals
    return [b.matmul(cotangents[0], swap_last(b, y)), b.matmul(swap_last(b, x), cotangents[0])]


def _matmul_batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    return [b.matmul(*all_batched(b, args, batched, size))]


def _matmul_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype) and kind_of(dtype) in "iufc":
        generator = rng("matmul")
        for left, right in (
            ((3, 4), (4, 5)),
            ((2, 3, 4), (2, 4, 1)),
            ((1, 7), (7, 33)),
            ((2, 0), (0, 3)),
            ((0, 2), (2, 3)),
        ):
            yield sample(random_array(generator, dtype, left), random_array(generator, dtype, right))


register(Primitive(
    name="matmul", doc="Matrix products of the last two axes, one for each index of the equal leading axes.", params={},
    typing=_matmul_type, evaluate=_matmul,
    lowering=Tile("product", matmul_operations, 2, complex_rule=COMPLEX_RULES["matmul"]),
    jvp=_matmul_jvp, vjp=_matmul_vjp, batch=_matmul_batch, ulp=4, effect=False, samples=_matmul_samples,
))  # fmt: skip


def _matmul_integer_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, y = arrays("matmul_integer", types, 2)
    if (x.dtype, y.dtype) != (uint8, int8):
        raise DTypeError("matmul_integer multiplies u8 by i8", types=(x, y))
    (found,) = _matmul_type([x.with_dtype(int32), y.with_dtype(int32)], params)
    return (found,)


def _matmul_integer(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, y = (v.astype(np.int32) for v in values)
    return (np.matmul(x, y),)


def _matmul_integer_batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    return [b.matmul_integer(*all_batched(b, args, batched, size))]


def _matmul_integer_samples(dtype: NumPyType) -> Iterable[Sample]:
    if dtype == np.dtype(np.int32):
        generator = rng("matmul_integer")
        for left, right in (((3, 4), (4, 5)), ((2, 3, 7), (2, 7, 1)), ((1, 70), (70, 33)), ((2, 0), (0, 3))):
            yield sample(
                generator.integers(0, 256, left, dtype=np.uint8), generator.integers(-128, 128, right, dtype=np.int8)
            )


register(Primitive(
    name="matmul_integer", doc="Matrix products of bytes, u8 by i8, whose sums are i32 and wrap (MatMulInteger).",
    params={}, typing=_matmul_integer_type, evaluate=_matmul_integer,
    lowering=Tile("product", matmul_operations, 2),
    jvp=not_differentiable("its operands are integers"), vjp=not_differentiable("its operands are integers"),
    batch=_matmul_integer_batch, ulp=0, effect=False, samples=_matmul_integer_samples,
))  # fmt: skip
