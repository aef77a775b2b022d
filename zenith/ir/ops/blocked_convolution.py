"""Convolution on blocks of channels: the layout that kernels compute in, and how a convolution is brought into it.

Neighbours in memory are a block of channels of one pixel, ``(n, groups, blocks, sizes..., block)``: a vector register
holds outputs of one pixel, and the terms of a row of a window follow each other in memory (E. Georganas et al.,
*Anatomy of high-performance deep learning convolutions on SIMD architectures*, arXiv:1808.05567). The operations that
``expand`` puts in front of it and after it only move elements, and those of two convolutions with elementwise
operations between them cancel (:mod:`zenith.passes.movement`): arrays are permuted at the ends of a network only.

How many channels a block has is a *layout*: a register's on a CPU; all of a group, which is channels last, on a GPU.

Where processors multiply *words* of narrow elements, pairs of bfloat16 or four bytes, a block has whole words: a few
channels, as those of an image, are filled up with zeros.

A convolution of each channel by itself has no sum over channels. It is written out as products of shifted arrays.

The declared error is that of sums in any order, each term off by so many ulp. Where a backend computes a window of 3x3
by transforms (:mod:`zenith.backends.lower.convolution.winograd`), it is so for terms as large as the largest one of the
window.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Values
from zenith.ir.dims import Dim, dim, dims, product, prove_at_least, prove_equal
from zenith.ir.graph import Value
from zenith.ir.lowering import ArrayTypes, Tile
from zenith.ir.ops.common import (
    arrays,
    random_array,
    require_kind,
    require_same_dtype,
    rng,
    rounded,
    sample,
    wide,
)
from zenith.ir.ops.windows import window_count
from zenith.ir.primitive import Params, Primitive, Sample, not_batchable, not_differentiable, register
from zenith.ir.types import ArrayType, DType, NDArray, NumPyType, Type, bfloat16, float32, kind_of, uint8

BLOCK = 32  # channels of a block at most: two lines of float32, half a line of bytes; 16 cost bytes a tenth
FEW = 4  # channels that are not worth a block: an iteration of the register tile has as many terms
BYTES, PAIR = 4, 2  # elements of a word
WRITTEN_OUT = 64  # elements of a depthwise convolution's window at most: longer sums compile slowly

Sizes = Sequence[Dim]


def covered(sizes: Sizes, window: Sizes, strides: Sequence[int], dilation: Sequence[int]) -> tuple[Dim, ...]:
    """How many windows there are along each axis."""
    axes = zip(sizes, window, strides, dilation, strict=True)
    return tuple(window_count(n, dim(k), dim(s), d) for n, k, s, d in axes)


def share(channels: Dim, groups: Dim) -> Dim:
    """The channels of a group."""
    return channels if groups == 0 else channels // groups


def block_of(channels: Dim, word: int = 1) -> Dim:
    """The channels of a block: the most that divide their number, in whole words; all where it is small or not known.

    Whole words of bytes come first, so that convolutions of all types have the same blocks.
    """
    count = channels.static
    if count is None or count <= BLOCK:
        return channels
    fitting = [c for c in range(BLOCK, 0, -1) if count % c == 0 and c % word == 0]
    return dim(next((c for c in fitting if c % BYTES == 0 and 2 * c >= BLOCK), fitting[0]))


def read_block_of(channels: Dim, window: Sizes, dilation: Sequence[int], word: int = 1) -> Dim:
    """The channels of a block of a convolution's operand: 1 where they are few, as those of an image.

    Then the elements of a row of the window are adjacent, and no array is permuted for the sake of three channels.
    Channels are whole words, where a word has several.
    """
    few, wide = channels.static or 0, window[-1].static or 0
    is_image = word == 1 and few <= FEW and few <= wide and dilation[-1] == 1
    return dim(1) if is_image else block_of(channels, word)


def word_of(dtype: DType) -> int:
    """How many elements of a type processors multiply as one word: four bytes, two bfloat16."""
    return {uint8: BYTES, bfloat16: PAIR}.get(dtype, 1)


# --- the layout ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlockedLayout:
    """How a convolution is stored: the channels of a block of the array and of the result.

    Weights are (terms, outputs) or, with ``outputs_first``, the transpose: the terms of each output are adjacent. The
    only group of the array has so many channels behind its own, of zeros or of its border, which ``fill`` a word: their
    weights are zeros.
    """

    block: Dim
    result: Dim
    outputs_first: bool = False
    fill: int = 0


Choice = Callable[[Value, Params, int], BlockedLayout]
"""The layout for the weights and the parameters of a convolution, and the elements of a word."""


def in_blocks(w: Value, params: Params, word: int) -> BlockedLayout:
    """The layout of registers."""
    channels = w.shape[1]
    fill = -channels.static % word if channels.static is not None and params["groups"] == 1 else 0
    word = 1 if ((channels + fill).static or 0) % word else word
    read = read_block_of(channels + fill, w.shape[2:], params["dilation"], word)
    return BlockedLayout(read, block_of(share(w.shape[0], params["groups"])), fill=fill)


def is_by_channels(inputs: Dim, outputs: Dim, window: Sizes, groups: Dim) -> bool:
    """Whether each channel is convolved by itself, in a window that is written out."""
    elements = product(window).static
    return groups == inputs == outputs and elements is not None and elements <= WRITTEN_OUT


def blocks_of_result(
    inputs: Dim, outputs: Dim, window: Sizes, groups: Dim, channels_last: bool = False
) -> tuple[Dim, Dim]:
    """Into how many groups kernels split a convolution's result, and how many channels a block of it has."""
    groups = dim(1) if is_by_channels(inputs, outputs, window, groups) else groups
    channels = share(outputs, groups)
    return groups, channels if channels_last else block_of(channels)


def expand(b: Builder, args: Values, params: Params, choose: Choice = in_blocks) -> Values:
    """A convolution as one on blocks, with the movements of operands and result into that layout and back."""
    x, w = args
    if x.dtype.is_narrow:  # sums are rounded once
        wide = expand(b, [b.cast(x, dtype=float32), b.cast(w, dtype=float32)], params, choose)
        return [b.cast(wide[0], dtype=x.dtype)]
    if params["groups"] == 0 or w.shape[1] == 0:  # nothing is summed
        sizes = covered(x.shape[2:], w.shape[2:], params["strides"], params["dilation"])
        return [b.full(0, x.dtype, (x.shape[0], w.shape[0], *sizes))]
    if is_by_channels(x.shape[1], w.shape[0], w.shape[2:], params["groups"]):
        source = Source.of(b, x)
        return [_by_channels(b, source, w, params, choose(w, {**params, "groups": 1}, 1))]
    return [by_blocks(b, x, w, params, choose)]


@dataclass(frozen=True, slots=True)
class Border:
    """One number around the last axes of an array, and between its elements."""

    low: Sizes
    high: Sizes
    interior: Sequence[int]
    value: float = 0


@dataclass(frozen=True, slots=True)
class Source:
    """An operand as it is computed: the array inside of a border, which its blocks get, and before it is widened.

    The blocks are cast to ``dtype`` in the end: kernels widen 16-bit floats while they read.
    """

    array: Value
    border: Border | None
    dtype: DType

    @classmethod
    def of(cls, b: Builder, x: Value) -> Source:
        """Follow an operand back through a widening, and a border of one number around its last axes."""
        inner = unwidened(b, x)
        made = b.so_far.node(inner.node)
        if made.primitive.name == "pad":
            source, value = b.so_far.args(inner.node)
            number = b.so_far.node(value.node)
            low, high, interior = (made.params[name] for name in ("low", "high", "interior"))
            if number.primitive.name == "literal" and all(n == 0 for edges in (low, high, interior) for n in edges[:2]):
                return cls(source, Border(low[2:], high[2:], interior[2:], number.params["value"]), x.dtype)
        return cls(inner, None, x.dtype)

    def blocked(self, b: Builder, groups: Dim, layout: BlockedLayout) -> Value:
        """Its blocks, inside of the border, with the channels that fill them up."""
        x, channels = self.array, self.array.shape[1]
        is_finite = self.border is None or math.isfinite(self.border.value)  # what fills a word is multiplied by zeros
        inside = layout.fill != 0 and layout.block == channels + layout.fill and is_finite  # along with the border
        found = blocked(b, x if inside else _filled(b, x, layout.fill), groups, channels if inside else layout.block)
        if self.border is not None or inside:
            none = (0,) * (len(x.shape) - 2)
            border = self.border or Border(dims(none), dims(none), none)
            edges = (border.low, 0), (border.high, layout.fill if inside else 0), (border.interior, 0)
            low, high, interior = ((0, 0, 0, *along, last) for along, last in edges)
            found = b.pad(found, b.full(border.value, found.dtype, ()), low=low, high=high, interior=interior)
        return _as(b, found, self.dtype)


def _as(b: Builder, x: Value, dtype: DType) -> Value:
    return x if x.dtype == dtype else b.cast(x, dtype=dtype)


def unwidened(b: Builder, x: Value) -> Value:
    """What is cast, where that is a 16-bit float; else the value itself."""
    if b.so_far.node(x.node).primitive.name != "cast":
        return x
    (source,) = b.so_far.args(x.node)
    return source if source.dtype.is_narrow else x


def _filled(b: Builder, x: Value, fill: int) -> Value:
    """An array (n, c, sizes...) with so many channels of zeros behind its own."""
    if not fill:
        return x
    none = (0,) * len(x.shape)
    return b.pad(x, b.full(0, x.dtype, ()), low=none, high=(0, fill, *none[2:]), interior=none)


def blocked(b: Builder, x: Value, groups: Dim, block: Dim) -> Value:
    """(n, c, sizes...) as (n, groups, blocks, sizes..., block)."""
    channels, axes = share(x.shape[1], groups), range(4, 2 + len(x.shape))
    split = b.reshape(x, shape=(x.shape[0], groups, channels // block, block, *x.shape[2:]))
    return b.transpose(split, axes=(0, 1, 2, *axes, 3))


def unblocked(b: Builder, y: Value) -> Value:
    """(n, groups, blocks, sizes..., block) as (n, c, sizes...)."""
    last = len(y.shape) - 1
    permuted = b.transpose(y, axes=(0, 1, 2, last, *range(3, last)))
    return b.reshape(permuted, shape=(y.shape[0], product(permuted.shape[1:4]), *y.shape[3:last]))


def by_blocks(b: Builder, x: Value, w: Value, params: Params, choose: Choice = in_blocks) -> Value:
    """A convolution as one on blocks: of one element type, or of bytes (``conv_integer``)."""
    source, groups = Source.of(b, x), params["groups"]
    is_integer = x.dtype != w.dtype
    layout = choose(w, params, word_of(source.array.dtype) if is_integer or x.dtype.is_float else 1)
    weights = _filled(b, unwidened(b, w), layout.fill)
    matrix = _as(b, _matrix(b, weights, groups, layout), w.dtype)
    blocks = source.blocked(b, groups, layout)
    options = {name: params[name] for name in ("strides", "dilation")}
    convolve = b.conv_blocks_integer if is_integer else b.conv_blocks
    return unblocked(b, convolve(blocks, matrix, window=w.shape[2:], block=layout.result, **options))


def _matrix(b: Builder, w: Value, groups: Dim, layout: BlockedLayout) -> Value:
    """The weights (o, c, window...) of a layout, as (groups, terms, outputs of a group)."""
    axes, outputs = range(4, 2 + len(w.shape)), share(w.shape[0], groups)
    split = b.reshape(w, shape=(groups, outputs, w.shape[1] // layout.block, layout.block, *w.shape[2:]))
    terms = product(w.shape[1:])
    if layout.outputs_first:
        permuted = b.reshape(b.transpose(split, axes=(0, 1, 2, *axes, 3)), shape=(groups, outputs, terms))
        return b.transpose(permuted, axes=(0, 2, 1))
    return b.reshape(b.transpose(split, axes=(0, 2, *axes, 3, 1)), shape=(groups, terms, outputs))


def _by_channels(b: Builder, source: Source, w: Value, params: Params, layout: BlockedLayout) -> Value:
    """The sum over the offsets in a window: the array shifted by the offset times the channels' weights at it."""
    block = layout.result
    x = source.blocked(b, dim(1), BlockedLayout(block, result=block))
    window = [int(cast(int, k.static)) for k in w.shape[2:]]
    blocks, axes = x.shape[2], len(window)
    weights = b.reshape(w, shape=(blocks, block, product(w.shape[2:])))
    sizes = covered(x.shape[3:-1], w.shape[2:], params["strides"], params["dilation"])
    total = None
    for number, offset in enumerate(itertools.product(*map(range, window))):
        low = [p * d for p, d in zip(offset, params["dilation"], strict=True)]
        stop = [lo + (n - 1) * s + 1 for lo, n, s in zip(low, sizes, params["strides"], strict=True)]
        shifted = b.slice(
            x, start=(0, 0, 0, *low, 0), stop=(*x.shape[:3], *stop, block), step=(1, 1, 1, *params["strides"], 1)
        )
        factor = b.slice(weights, start=(0, 0, number), stop=(blocks, block, number + 1), step=(1, 1, 1))
        factor = b.broadcast(b.reshape(factor, shape=(blocks, block)), shape=shifted.shape, axes=(2, 3 + axes))
        term = b.mul(shifted, factor)
        total = term if total is None else b.add(total, term)
    return unblocked(b, cast(Value, total))


# --- the primitive -------------------------------------------------------------------------------------------------


def type_of(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    """The type of the result on blocks."""
    x, w = arrays("conv_blocks", types, 2)
    require_same_dtype("conv_blocks", (x, w))
    require_kind("conv_blocks", x, "iuf")
    window, strides, dilation = params["window"], params["strides"], params["dilation"]
    if x.rank < 5 or w.rank != 3 or not len(window) == len(strides) == len(dilation) == x.rank - 4:
        raise ShapeError("conv_blocks needs x (n, groups, blocks, sizes..., block), w (groups, terms, o)", types=(x, w))
    terms = product((x.shape[2], *window, x.shape[-1]))
    if prove_equal(x.shape[1], w.shape[0]) is False or prove_equal(terms, w.shape[1]) is False:
        raise ShapeError(f"conv_blocks: x has {x.shape[1]} groups of {terms} terms", types=(x, w))
    sizes = covered(x.shape[3:-1], window, strides, dilation)
    if any(prove_at_least(n, 0) is False for n in sizes) or prove_equal(w.shape[2] % params["block"], 0) is False:
        raise ShapeError(f"conv_blocks: windows {window} do not fit, or blocks of {params['block']}", types=(x, w))
    return (x.with_shape((*x.shape[:2], w.shape[2] // params["block"], *sizes, params["block"])),)


def correlate(x: Any, w: NDArray, strides: Sequence[int], dilation: Sequence[int], groups: int) -> NDArray:
    """The convolution of NumPy arrays (n, c, sizes...) and (o, c / groups, sizes...)."""
    axes = x.ndim - 2
    counts = covered(dims(x.shape[2:]), dims(w.shape[2:]), strides, dilation)
    sizes = [int(n.static or 0) for n in counts]
    found = np.zeros((x.shape[0], w.shape[0], *sizes), x.dtype)
    with np.errstate(all="ignore"):
        for offset in itertools.product(*map(range, w.shape[2:])):
            spatial = zip(offset, strides, dilation, sizes, strict=True)
            seen = x[(..., *(slice(p * d, p * d + (n - 1) * s + 1 if n else 0, s) for p, s, d, n in spatial))]
            for g in range(groups):
                left = np.split(seen, groups, 1)[g]
                right: Any = np.split(w, groups)[g]
                right = right[(..., *offset)]
                sums = np.moveaxis(np.tensordot(left, right, axes=((1,), (1,))), -1, 1)
                np.split(found, groups, 1)[g][...] += sums.astype(x.dtype, copy=False)
    assert found.ndim == 2 + axes
    return found


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, w = wide(values)
    return (rounded(correlate_blocks(x, w, params), values[0]),)


def correlate_blocks(x: NDArray, w: NDArray, params: Params) -> NDArray:
    """The convolution on blocks of NumPy arrays."""
    groups, outputs, window, last = x.shape[1], w.shape[2], params["window"], x.ndim - 1
    channels = np.moveaxis(x, last, 3).reshape(x.shape[0], groups * x.shape[2] * x.shape[last], *x.shape[3:last])
    split = w.reshape(groups, x.shape[2], *window, x.shape[last], outputs)
    weights = np.moveaxis(split, (-1, -2), (1, 3)).reshape(groups * outputs, x.shape[2] * x.shape[last], *window)
    y = correlate(channels, weights, params["strides"], params["dilation"], groups)
    found = y.reshape(x.shape[0], groups, outputs // params["block"], params["block"], *y.shape[2:])
    return np.ascontiguousarray(np.moveaxis(found, 3, -1))


def operations(types: ArrayTypes, results: ArrayTypes) -> Dim:
    """A multiplication and an addition for each term of each sum."""
    terms: Dim = types[1].shape[1]
    return 2 * terms * product(results[0].shape)


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype) and kind_of(dtype) in "iuf":
        generator = rng("conv_blocks")
        for x, outputs, window, strides, dilation, block in (
            ((1, 1, 2, 8, 7, 3), 12, (3, 2), (1, 1), (1, 1), 4),
            ((2, 2, 1, 5, 9, 4), 5, (2, 3), (2, 2), (1, 2), 5),
            ((1, 1, 3, 141, 2), 66, (1,), (1,), (1,), 11),
            ((0, 1, 1, 5, 2), 4, (3,), (1,), (1,), 4),
        ):
            terms = int(np.prod((x[2], *window, x[-1])))
            values = random_array(generator, dtype, x), random_array(generator, dtype, (x[1], terms, outputs))
            yield sample(*values, window=window, strides=strides, dilation=dilation, block=block)


register(Primitive(
    name="conv_blocks", doc="Correlation of blocks of channels (n, groups, blocks, sizes..., block) with weights "
    "(groups, terms, o): a term is a block, an offset in the window, a channel of the block.",
    params={"window": "sizes", "strides": "ints", "dilation": "ints", "block": "size"}, typing=type_of,
    evaluate=_evaluate, lowering=Tile("convolution", operations, 2), jvp=not_differentiable("conv is differentiated"),
    vjp=not_differentiable("conv is differentiated"), batch=not_batchable("conv is batched"), ulp=4, effect=False,
    samples=_samples,
))  # fmt: skip
