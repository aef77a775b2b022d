"""Products and convolutions of arrays that were stored as bytes, as exact sums of bytes with the scales behind them.

PyTorch's export, ONNX's ``DequantizeLinear`` and people write a quantised layer as a product of floats,
``(float(q) - zero) * scale`` times the like of the weights. Where zeros and scales are constant along the terms of a
sum, that is

    (q @ v - zero_q * (sum(v) - terms * zero_v) - zero_v * sum(q)) * scale_q * scale_v

whose ``q @ v`` is an exact product of bytes (:mod:`zenith.passes.integer_products`), so nothing is made a float in
order to be multiplied. Whoever else reads a dequantised array still does. What is subtracted is exact, too: in int32
where zeros are certain to be levels, else in float64. Rounded are the difference, the product of the scales, and the
product of both: at most three units in the last place of the result. The product of floats rounds operands and sums
instead, and so it differs from this one by about as much as from the exact result.

The arithmetic is that of Jacob et al., "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference", arXiv:1712.05877.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import prod

from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import Params
from zenith.ir.types import DType, float32, float64, int8, int32, uint8
from zenith.passes.dequantized import LEAST, MOST, Dequantized, Moved, dequantized, is_level
from zenith.passes.rewrite import Rewriter, number_of, rebuild

LARGEST = {int8: 128, uint8: 255}  # of levels, without their signs
LIMIT = 2**31  # of sums


def dequantized_products(graph: Graph) -> Graph:
    """The graph with products and convolutions of dequantised bytes as those of bytes."""
    return rebuild(graph, _visit, inner=dequantized_products)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.primitive.name not in ("matmul", "conv") or args[0].dtype != float32:
        return None
    x, y = args
    found = _product(b, x, y) if node.primitive.name == "matmul" else _convolution(b, x, y, node.params)
    return None if found is None else [found]


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand: how it was made, along which axes it is summed, and the sums of its levels, like the result.

    ``spread`` repeats numbers that belong to the other axes for all elements of the result.
    """

    made: Dequantized
    summed: Sequence[int]
    spread: Callable[[Value], Value]
    sums: Callable[[], Value]


def _product(b: Rewriter, x: Value, y: Value) -> Value | None:
    """The matrix product; None where it stays one of floats."""
    last, terms = len(x.shape) - 1, x.shape[-1].static
    left, right = dequantized(b, x), dequantized(b, y)
    if left is None or right is None or not _fits(terms, _largest(left), _largest(right)):
        return None
    if left.varies_along(b, [last]) or right.varies_along(b, [last - 1]):
        return None
    q, v = (b.cast(made.levels.written(b), dtype=int32) for made in (left, right))
    exact = b.matmul(q, v)

    def operand(made: Dequantized, levels: Value, axis: int) -> Operand:
        kept = tuple(a for a in range(last + 1) if a != axis)
        spread = partial(b.broadcast, shape=exact.shape, axes=kept)
        return Operand(made, (axis,), spread, lambda: spread(b.reduce_sum(levels, axes=(axis,))))

    return _scaled(b, exact, operand(left, q, last), operand(right, v, last - 1), terms or 0)


def _convolution(b: Rewriter, x: Value, w: Value, params: Params) -> Value | None:
    """The convolution; None where it stays one of floats. Zeros around the array are its level of zero."""
    border = b.definition(x) if b.definition(x).primitive.name == "pad" else None
    left, right = dequantized(b, x if border is None else b.operands(x)[0]), dequantized(b, w)
    terms = _number_of_terms(w)
    if left is None or right is None or not _fits(terms, _largest(left), _largest(right)):
        return None
    inside = tuple(range(1, len(x.shape)))
    around = 0 if border is None else _level_around(b, left, x, border)
    if around is None or left.varies_along(b, inside) or right.varies_along(b, inside):
        return None
    q, v = (made.levels.written(b) for made in (left, right))
    q, v = q if border is None else b.pad(q, b.full(around, q.dtype, ()), **border.params), b.cast(v, dtype=int32)
    q = b.cast(q, dtype=int32)
    exact = b.conv(q, v, **params)
    of_examples, of_channels = (partial(b.broadcast, shape=exact.shape, axes=(axis,)) for axis in (0, 1))
    windows = partial(_sums_of_windows, b, q, w.shape, exact.shape, params)
    array = Operand(left, inside, of_examples, windows)
    weights = Operand(right, inside, of_channels, lambda: of_channels(b.reduce_sum(v, axes=inside)))
    return _scaled(b, exact, array, weights, terms or 0)


def _number_of_terms(w: Value) -> int | None:
    """How many products a convolution by these weights adds for an element; None where that is not known."""
    sizes = [size.static for size in w.shape[1:]]
    return None if None in sizes else prod(size or 0 for size in sizes)


def _largest(made: Dequantized) -> int:
    return LARGEST[made.levels.value.dtype]


def _fits(terms: int | None, left: int, right: int) -> bool:
    """Whether there are sums, and none of so many products of numbers up to these exceeds int32."""
    return bool(terms) and (terms or 0) * left * right < LIMIT


def _level_around(b: Rewriter, inside: Dequantized, x: Value, border: Node) -> int | None:
    """The level that a border of zeros consists of; None for another border, or where no level is zero for sure."""
    of_examples = [border.params[name][0] for name in ("low", "high", "interior")]
    if number_of(b, b.operands(x)[1]) != 0 or any(n != 0 for n in of_examples):
        return None
    level = 0 if inside.zero is None else number_of(b, inside.zero.value)
    least = LEAST if inside.levels.value.dtype == int8 else 0
    return int(level) if level is not None and level in range(least, least + 256) else None


def _sums_of_windows(b: Rewriter, q: Value, window: Sequence[Dim], shape: Sequence[Dim], params: Params) -> Value:
    """The sums of levels in each window, for every output channel of its group."""
    groups = params["groups"]
    split = b.reshape(q, shape=(q.shape[0], groups, window[1], *q.shape[2:]))
    ones = b.full(1, int32, (groups, 1, *window[2:]))
    sums = b.conv(b.reduce_sum(split, axes=(2,)), ones, **params)
    whole = (shape[0], groups, shape[1] // groups, *shape[2:])
    repeated = b.broadcast(sums, shape=whole, axes=(0, 1, *range(3, len(whole))))
    result: Value = b.reshape(repeated, shape=tuple(shape))
    return result


def _scaled(b: Rewriter, exact: Value, left: Operand, right: Operand, terms: int) -> Value:
    """The result in float32, by the exact sums of products of levels."""
    wide = _exact_type(b, left.made, right.made, terms)
    of_left, of_right = (_zero(b, operand, wide) for operand in (left, right))
    found = _as(b, exact, wide)
    if of_left is not None:
        sums = _as(b, right.sums(), wide)
        if of_right is not None:
            sums = b.sub(sums, b.mul(of_right, b.full(terms, wide, exact.shape)))
        found = b.sub(found, b.mul(of_left, sums))
    if of_right is not None:
        found = b.sub(found, b.mul(of_right, _as(b, left.sums(), wide)))
    scales = [o.spread(_first(b, scale, o.summed, float32)) for o in (left, right) for scale in o.made.scales]
    found = _as(b, found, float32)
    return b.mul(found, reduce(b.mul, scales)) if scales else found


def _exact_type(b: Rewriter, left: Dequantized, right: Dequantized, terms: int) -> DType:
    """The type in which nothing that is subtracted is rounded: int32 for levels, as far as it holds the differences."""
    zeros = [made.zero for made in (left, right)]
    largest = [_largest(made) if made.zero is None else MOST - LEAST for made in (left, right)]
    are_levels = all(zero is None or is_level(b, zero.value) for zero in zeros)
    return int32 if are_levels and _fits(terms, *largest) else float64


def _zero(b: Rewriter, operand: Operand, dtype: DType) -> Value | None:
    zero = operand.made.zero
    return None if zero is None else operand.spread(_first(b, zero, operand.summed, dtype))


def _first(b: Rewriter, moved: Moved, axes: Sequence[int], dtype: DType) -> Value:
    """The numbers of an array that is constant along some axes, without these."""
    value = moved.written(b)
    shape, none = value.shape, (dim(0),) * len(value.shape)
    stop = tuple(dim(1) if axis in axes else size for axis, size in enumerate(shape))
    first = b.slice(value, start=none, stop=stop, step=(1,) * len(shape))
    kept = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    return _as(b, b.reshape(first, shape=kept), dtype)


def _as(b: Rewriter, value: Value, dtype: DType) -> Value:
    return value if value.dtype == dtype else b.cast(value, dtype=dtype)
