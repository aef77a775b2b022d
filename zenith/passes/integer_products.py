"""Products and convolutions of 8-bit integers, summed in int32: those of bytes without a sign by bytes with one.

Processors multiply bytes four at a time, u8 by i8 (``vpdpbusd``). A product of int32 matrices that were widened from
bytes, or are constants of such numbers, is therefore written as ``matmul_integer``; where a sign is another one, the
bytes are moved by 128, and the sums of the other operand are subtracted as often: ``a @ b == (a + 128) @ b - 128 *
sum(b)``. All sums wrap as before. The sums of a fixed operand are computed once, ahead of all calls. A convolution,
whose sums of windows would be another one, is written as ``conv_integer`` where its weights have a sign.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import Params, get
from zenith.ir.types import ArrayType, DType, NDArray, int8, int32, uint8
from zenith.passes.rewrite import Rewriter, rebuild
from zenith.passes.widenings import MOVEMENTS, widens_byte

HALF = 128


def integer_products(graph: Graph) -> Graph:
    """The graph with products of widened bytes as products of bytes."""
    return rebuild(graph, _visit, inner=integer_products)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    (type, *_) = node.types or (None,)
    if node.primitive.name not in ("matmul", "conv") or not isinstance(type, ArrayType) or type.dtype != int32:
        return None
    if not all(_is_widened(b, value) for value in args):
        return None
    left, right = (_bytes(b, value) for value in args)
    if node.primitive is get("matmul"):
        return (_product(b, left, right, type),)
    return None if right.dtype == uint8 else (_convolution(b, left, right, node.params),)


def _is_widened(b: Rewriter, value: Value) -> bool:
    """Whether a value is int32 from bytes, converted and then moved, or a constant of such numbers."""
    made = b.definition(value)
    if made.primitive.name in MOVEMENTS or _has_border_of_zeros(b, made, value):
        return _is_widened(b, b.operands(value)[0])
    return widens_byte(b.so_far, value.node) or _constant_bytes(b, made) is not None


def _bytes(b: Rewriter, value: Value) -> Value:
    """The same matrix as bytes."""
    made = b.definition(value)
    constant = _constant_bytes(b, made)
    if constant is not None:
        return b.graph.add_constant(constant, made.line)
    source, *border = b.operands(value)
    if made.primitive is get("cast"):
        return source
    inside = _bytes(b, source)
    (moved,) = b.copy(made, [inside, *(b.full(0, inside.dtype, ()) for _ in border)])
    return moved


def _has_border_of_zeros(b: Rewriter, made: Node, value: Value) -> bool:
    if made.primitive is not get("pad"):
        return False
    number = b.definition(b.operands(value)[1])
    return number.primitive.name == "literal" and number.params["value"] == 0


def _constant_bytes(b: Rewriter, made: Node) -> NDArray | None:
    """A constant whose numbers fit into a byte: NumPy widens an array that a function captures before it is traced."""
    array = b.so_far.constants.get(made.params["id"]) if made.primitive.name == "constant" else None
    if array is None or not array.size:
        return None
    least, largest = int(array.min()), int(array.max())
    for dtype in (int8, uint8):
        if np.iinfo(dtype.numpy).min <= least and largest <= np.iinfo(dtype.numpy).max:
            return array.astype(dtype.numpy)
    return None


def _product(b: Rewriter, left: Value, right: Value, type: ArrayType) -> Value:
    """The product of bytes of any sign."""
    corrections = []
    if right.dtype == uint8:
        corrections.append(_sums(b, left, -1, HALF, type))
        right = _other_sign(b, right, int8)
    if left.dtype == int8:
        corrections.append(_sums(b, right, -2, -HALF, type))
        left = _other_sign(b, left, uint8)
    result: Value = b.matmul_integer(left, right)
    for correction in corrections:
        result = b.add(result, correction)
    return result


def _convolution(b: Rewriter, x: Value, w: Value, params: Params) -> Value:
    """The convolution of bytes of any sign by weights with one."""
    if x.dtype == uint8:
        return b.conv_integer(x, w, **params)
    result = b.conv_integer(_other_sign(b, x, uint8), w, **params)
    sums = b.reduce_sum(b.cast(w, dtype=int32), axes=tuple(range(1, len(w.shape))))
    correction = b.mul(sums, b.full(HALF, int32, sums.shape))
    return b.sub(result, b.broadcast(correction, shape=result.shape, axes=(1,)))


def _other_sign(b: Rewriter, value: Value, dtype: DType) -> Value:
    """Bytes less 128 as i8, or more by 128 as u8: in both cases the highest bit flips."""
    bits = b.cast(value, dtype=uint8)
    flipped: Value = b.bit_xor(bits, b.full(HALF, uint8, value.shape))
    return flipped if dtype == uint8 else b.cast(flipped, dtype=dtype)


def _sums(b: Rewriter, operand: Value, axis: int, times: int, type: ArrayType) -> Value:
    """The sums of an operand along the terms, so many times, for every element of the product."""
    rank = len(operand.shape)
    wide = b.cast(operand, dtype=int32)
    sums = b.reduce_sum(wide, axes=(rank + axis,))
    scaled = b.mul(sums, b.full(times, int32, sums.shape))
    kept = tuple(a for a in range(rank) if a != rank + axis)
    result: Value = b.broadcast(scaled, shape=type.shape, axes=kept)
    return result
