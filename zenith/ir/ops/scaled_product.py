"""Products of matrices in few bits, whose terms have scales in groups: block-scaled products.

``scaled_matmul(x, w, x_scales, w_scales)``: with ``group`` terms to a scale, and n groups,

    y[r, j]  =  sum over g < n of  x_scales[r, g] * w_scales[g, j] * sum over k in group g of  x[r, k] * level(w)[k, j]

The inner sums are exact integers, the outer ones of the scales' type. A level of ``bits`` bits has no sign in memory
and stands for itself less half of its range: -8 .. 7 of four bits, -128 .. 127 of eight. Where two fit into a byte,
those of terms that are four apart share one: row i of ``w`` has in its low bits term ``8 * (i // 4) + i % 4``, and the
one four further in its high bits, so that four neighbours in a column hold eight neighbouring terms.

Formats that differ in their layout alone are those of GGUF (Q4_0, Q8_0), GPTQ and AWQ.

The left operand of ``grouped_product`` is one of floats, which is rounded in groups, too. A group of an activation, in
one row, has 127 levels of each sign, with the scale of its largest number. So sums of a group are integers, and what
rounding the activation loses, about half of a percent, is little beside what the matrix loses in four bits. Where zero
is not in the middle of a group's levels, the sums of the activation's groups are multiplied by how far it is, and
subtracted. The arithmetic is that of llama.cpp's products of Q4_0 by Q8_0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.errors import DTypeError, ShapeError
from zenith.ir.builder import Builder, Values
from zenith.ir.dims import Dim, dim, product, prove_equal
from zenith.ir.graph import Value
from zenith.ir.lowering import ArrayTypes, Tile
from zenith.ir.ops.common import all_batched, arrays, rng, sample
from zenith.ir.ops.product import matmul_operations
from zenith.ir.primitive import Params, Primitive, Sample, not_differentiable, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, float32, float64, int8, int32, uint8

WIDTHS = (4, 8)  # of levels, in bits
TOGETHER = 8  # terms that a group has whole numbers of
LARGEST = 127  # of an activation's levels
_APART = 4  # terms between the two levels of a byte


def middle(bits: int) -> int:
    """The level that stands for zero."""
    return 1 << (bits - 1)


def packed(levels: NDArray, bits: int) -> NDArray:
    """Levels u8 [..., terms, columns] as they are in memory.

    >>> packed(np.arange(8, dtype=np.uint8)[:, None], 4).T
    array([[ 64,  81,  98, 115]], dtype=uint8)
    """
    if bits == 8:
        return levels
    *lead, terms, columns = levels.shape
    low, high = np.moveaxis(levels.reshape(*lead, terms // TOGETHER, 2, _APART, columns), -3, 0)
    found: NDArray = (low | high << 4).reshape(*lead, terms // 2, columns)
    return found


def unpacked(stored: NDArray, bits: int) -> NDArray:
    """The levels u8 [..., terms, columns] of a matrix in memory."""
    if bits == 8:
        return stored
    *lead, rows, columns = stored.shape
    parts = stored.reshape(*lead, rows // _APART, _APART, columns)
    return np.stack([parts & 15, parts >> 4], -3).reshape(*lead, 2 * rows, columns)


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, w, of_x, of_w = found = tuple(arrays("scaled_matmul", types, 4))
    bits, group = params["bits"], params["group"]
    if bits not in WIDTHS or group < 1 or group % TOGETHER:
        raise ShapeError(f"scaled_matmul has 4 or 8 bits and groups of multiples of {TOGETHER} terms, "
                         f"not {bits} bits and groups of {group}")  # fmt: skip
    if (x.dtype, w.dtype) != (int8, uint8) or of_x.dtype not in (float32, float64) or of_x.dtype != of_w.dtype:
        raise DTypeError("scaled_matmul multiplies i8 by levels in u8, with scales in f32 or f64", types=found)
    if x.rank < 2 or any(t.rank != x.rank for t in found):
        raise ShapeError("scaled_matmul needs operands of one rank >= 2", types=found)
    *lead, rows, terms = x.shape
    columns = w.shape[-1]
    wanted = ((w, (*lead, terms * bits // 8, columns)), (of_x, (*lead, rows, terms // group)),
              (of_w, (*lead, terms // group, columns)))  # fmt: skip
    if prove_equal(terms % group, dim(0)) is False or any(
        prove_equal(n, m) is False for t, shape in wanted for n, m in zip(t.shape, shape, strict=True)
    ):
        raise ShapeError("scaled_matmul needs whole groups of terms, and a scale for each", types=found)
    return (ArrayType(of_x.dtype, (*lead, rows, columns)),)


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, w, of_x, of_w = values
    levels = unpacked(w, params["bits"]).astype(np.int32) - middle(params["bits"])
    *lead, rows, terms = x.shape
    groups = terms // params["group"]
    left = np.moveaxis(x.astype(np.int32).reshape(*lead, rows, groups, params["group"]), -2, -3)
    sums = np.matmul(left, levels.reshape(*lead, groups, params["group"], w.shape[-1])).astype(of_x.dtype)
    with np.errstate(all="ignore"):
        scales = np.swapaxes(of_x, -1, -2)[..., None] * of_w[..., None, :]
        return (np.sum(sums * scales, -3, dtype=of_x.dtype),)


def _operations(types: ArrayTypes, results: ArrayTypes) -> Dim:
    x, w = types[:2]
    return matmul_operations((x, w.with_shape((*w.shape[:-2], x.shape[-1], w.shape[-1]))), results)


def written_out(b: Builder, args: Values, params: Params) -> Value:
    """The same by a product of floats, for targets whose kernels read no bits."""
    x, w, of_x, of_w = args
    bits, group = params["bits"], params["group"]
    levels = w if bits == 8 else _unpacked(b, w)
    dtype = of_w.dtype
    shifted = b.sub(b.cast(levels, dtype=dtype), b.full(float(middle(bits)), dtype, levels.shape))
    matrix = b.mul(shifted, _repeated(b, of_w, group, len(of_w.shape) - 2))
    left = b.mul(b.cast(x, dtype=dtype), _repeated(b, of_x, group, len(of_x.shape) - 1))
    found: Value = b.matmul(left, matrix)
    return found


def grouped_product(b: Builder, left: Value, matrix: Value, known: Sequence[Value], bits: int) -> Value:
    """The product of floats [..., terms] by a stored matrix, of which are ``known`` the scales, and shifts if any."""
    rows, groups, columns = product(left.shape[:-1]), known[0].shape[0], matrix.shape[-1]
    terms = matrix.shape[-2] * 8 // bits
    size = terms.evaluate({}) // groups.evaluate({})
    x = left if left.dtype == float32 else b.cast(left, dtype=float32)
    grouped = b.reshape(x, shape=(rows, groups, size))
    top = b.reduce_max(b.abs(grouped), axes=(2,))
    scale = b.div(top, b.full(float(LARGEST), float32, top.shape))
    scale = b.where(b.eq(top, 0.0), b.full(1.0, float32, top.shape), scale)
    q = b.cast(b.round(b.div(grouped, b.broadcast(scale, shape=grouped.shape, axes=(0, 1)))), dtype=int8)
    result = b.scaled_matmul(b.reshape(q, shape=(rows, terms)), matrix, scale, known[0], bits=bits, group=size)
    for shifts in known[1:]:
        sums = b.cast(b.reduce_sum(b.cast(q, dtype=int32), axes=(2,)), dtype=float32)
        result = b.add(result, b.matmul(b.mul(sums, scale), shifts))
    result = b.reshape(result, shape=(*left.shape[:-1], columns))
    return result if left.dtype == float32 else b.cast(result, dtype=left.dtype)


def _unpacked(b: Builder, w: Value) -> Value:
    *lead, rows, columns = w.shape
    low = b.bit_and(w, b.full(15, uint8, w.shape))
    high = b.shift_right(w, b.full(4, uint8, w.shape))
    parts = [b.reshape(part, shape=(*lead, rows // _APART, 1, _APART, columns)) for part in (low, high)]
    joined = b.concat(*parts, axis=len(lead) + 1)
    found: Value = b.reshape(joined, shape=(*lead, rows * 2, columns))
    return found


def _repeated(b: Builder, scales: Value, group: int, axis: int) -> Value:
    """Scales for each term along an axis."""
    shape = scales.shape
    kept = tuple(a for a in range(len(shape) + 1) if a != axis + 1)
    wide = b.broadcast(scales, shape=(*shape[: axis + 1], group, *shape[axis + 1 :]), axes=kept)
    found: Value = b.reshape(wide, shape=(*shape[:axis], shape[axis] * group, *shape[axis + 1 :]))
    return found


def _batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    return [b.scaled_matmul(*all_batched(b, args, batched, size), **params)]


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if dtype != np.dtype(np.float32):
        return
    generator = rng("scaled_matmul")
    sizes = (
        ((), 3, 2, 8, 5, 4),
        ((2,), 1, 3, 32, 33, 4),
        ((), 5, 1, 64, 70, 8),
        ((1, 2), 2, 2, 16, 1, 8),
        ((), 0, 2, 8, 3, 4),
    )
    for lead, rows, groups, group, columns, bits in sizes:
        terms = groups * group
        yield sample(
            generator.integers(-127, 128, (*lead, rows, terms), dtype=np.int8),
            generator.integers(0, 256, (*lead, terms * bits // 8, columns), dtype=np.uint8),
            generator.uniform(0.001, 0.01, (*lead, rows, groups)).astype(np.float32),
            generator.uniform(0.001, 0.01, (*lead, groups, columns)).astype(np.float32),
            bits=bits, group=group,
        )  # fmt: skip


register(Primitive(
    name="scaled_matmul", doc="Matrix products of i8 by levels of 4 or 8 bits, with scales for groups of terms.",
    params={"bits": "int", "group": "int"}, typing=_type, evaluate=_evaluate,
    lowering=Tile("scaled_product", _operations, 4),
    jvp=not_differentiable("its operands are integers"), vjp=not_differentiable("its operands are integers"),
    batch=_batch, ulp=32, effect=False, samples=_samples,
))  # fmt: skip
