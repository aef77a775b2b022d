"""The gradient of a convolution by its weights: for each weight the sum over all elements that it multiplies.

``conv_weights(x, y)`` is the cotangent of the weights of :mod:`zenith.ir.ops.convolution` for that of its result, y.
The sum of ``y * conv(x, w)`` is linear in each of ``x``, ``w`` and ``y``, and its derivative by one of them is an
operation of the other two. So ``conv``, its gradient by the array and this one are closed under derivatives.

It could be written as a convolution whose window is the whole of ``y``, with examples for channels. Kernels prefer the
layout of the forward convolution, blocks of channels, so that neither array has to be permuted: it is a matrix product
whose rows are the elements of a window and whose terms are the pixels of ``y``
(:mod:`zenith.backends.lower.convolution.weight_gradient`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim, dim, product, prove_equal
from zenith.ir.lowering import ArrayTypes, Composite, Tile
from zenith.ir.ops.blocked_convolution import BlockedLayout, Source, block_of, covered, share
from zenith.ir.ops.common import (
    all_batched,
    arrays,
    random_array,
    require_kind,
    require_same_dtype,
    rng,
    rounded,
    sample,
    wide,
)
from zenith.ir.primitive import Params, Primitive, Sample, not_batchable, not_differentiable, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, float32, kind_of

Sizes = Sequence[Dim]


def _checked(name: str, types: Sequence[Type], params: Params, first: int) -> tuple[ArrayType, ArrayType]:
    """Both arrays, whose spatial axes begin at ``first``; ShapeError unless the one has as many windows as the other
    has pixels.
    """
    x, y = arrays(name, types, 2)
    require_same_dtype(name, (x, y))
    require_kind(name, x, "iuf")
    window, strides, dilation = params["window"], params["strides"], params["dilation"]
    last = x.rank - (first - 2)  # on blocks, the axis after the spatial ones counts the channels of a block
    if x.rank != y.rank or last <= first or not len(window) == len(strides) == len(dilation) == last - first:
        raise ShapeError(
            f"{name} needs x and y of equal ranks, a window, a stride and a dilation an axis", types=(x, y)
        )
    sizes = covered(x.shape[first:last], window, strides, dilation)
    pairs = zip((x.shape[0], *sizes), (y.shape[0], *y.shape[first:last]), strict=True)
    if any(prove_equal(n, m) is False for n, m in pairs):
        raise ShapeError(f"{name}: windows {window} of x are not as many as y has elements", types=(x, y))
    return x, y


# --- of channels ---------------------------------------------------------------------------------------------------


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, y = _checked("conv_weights", types, params, 2)
    groups, channels = params["groups"], params["channels"]
    wrong = prove_equal(x.shape[1], channels * groups) is False
    if wrong or prove_equal(y.shape[1], share(y.shape[1], groups) * groups) is False:
        raise ShapeError(f"conv_weights: {x.shape[1]} channels and {y.shape[1]} are not {groups} groups of {channels}",
                         types=(x, y))  # fmt: skip
    return (x.with_shape((y.shape[1], channels, *params["window"])),)


def _sums(
    x: Any, y: Any, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int], groups: int, channels: int
) -> NDArray:
    """The gradient for NumPy arrays (n, c, sizes...) and (n, o, sizes...)."""
    found = np.zeros((y.shape[1], channels, *window), x.dtype)
    axes = (0, *range(2, x.ndim))
    for offset in itertools.product(*map(range, window)):
        spatial = zip(offset, strides, dilation, y.shape[2:], strict=True)
        seen = x[(..., *(slice(p * d, p * d + (n - 1) * s + 1 if n else 0, s) for p, s, d, n in spatial))]
        by_group: list[Any] = np.split(found, groups) if groups else []
        for g, of_group in enumerate(by_group):
            left, right = np.split(y, groups, 1)[g], np.split(seen, groups, 1)[g]
            with np.errstate(all="ignore"):
                of_group[(..., *offset)] = np.tensordot(left, right, axes=(axes, axes))
    return found


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    return (rounded(_sums(*wide(values), **params), values[0]),)


def _jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    (x, y), (dx, dy) = primals, tangents
    terms = [(dx, y)] * (dx is not None) + [(x, dy)] * (dy is not None)
    moved = [b.conv_weights(*pair, **params) for pair in terms]
    return [b.add(*moved) if len(moved) == 2 else moved[0] if moved else None]


def _vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    from zenith.ir.ops.convolution import by_array  # the two are derivatives of each other

    (x, y), (w,) = primals, cotangents
    options = {name: params[name] for name in ("strides", "dilation", "groups")}
    found = b.conv(x, w, **options)
    if found.shape != y.shape:  # sizes that are equal, written in two ways
        found = b.reshape(found, shape=y.shape)
    return [by_array(b, x, w, y, options), found]


def _batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    """A batch becomes more groups; where all examples share x, more channels of y."""
    x, y = args
    axes, groups = tuple(range(3, len(args[batched.index(True)].shape))), params["groups"]
    if batched[0] or groups != 1:
        x, y = all_batched(b, [x, y], batched, size)
        permuted = b.transpose(x, axes=(1, 0, 2, *axes))
        x, groups = b.reshape(permuted, shape=(x.shape[1], size * x.shape[2], *x.shape[3:])), size * groups
    channels = y.shape[2]
    permuted = b.transpose(y, axes=(1, 0, 2, *axes))
    y = b.reshape(permuted, shape=(y.shape[1], size * channels, *y.shape[3:]))
    found = b.conv_weights(x, y, **{**params, "groups": groups})
    return [b.reshape(found, shape=(size, channels, *found.shape[1:]))]


def _expand(b: Builder, args: Values, params: Params) -> Values:
    """The gradient on blocks, with the movements of operands into that layout and of the result back."""
    x, y = args
    if x.dtype.is_narrow:  # sums are rounded once
        wide = _expand(b, [b.cast(x, dtype=float32), b.cast(y, dtype=float32)], params)
        return [b.cast(wide[0], dtype=x.dtype)]
    groups, channels, window = params["groups"], dim(params["channels"]), params["window"]
    outputs = share(y.shape[1], groups)
    shape = (y.shape[1], channels, *window)
    if groups == 0 or channels == 0:
        return [b.full(0, x.dtype, shape)]
    options = {name: params[name] for name in ("window", "strides", "dilation")}
    block = block_of(channels)
    left, right = (
        Source.of(b, value).blocked(b, groups, BlockedLayout(size, size))
        for value, size in ((x, block), (y, block_of(outputs)))
    )
    found = b.conv_blocks_weights(left, right, **options)
    split = b.reshape(found, shape=(groups, channels // block, *window, block, outputs))
    axes = len(window)
    permuted = b.transpose(split, axes=(0, axes + 3, 1, axes + 2, *range(2, axes + 2)))
    return [b.reshape(permuted, shape=shape)]


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype) and kind_of(dtype) in "iuf":
        generator = rng("conv_weights")
        for x, y, window, strides, dilation, groups in (
            ((2, 3, 7, 6), (2, 4, 3, 4), (3, 2), (2, 1), (1, 2), 1),
            ((1, 32, 9), (1, 24, 5), (3,), (1,), (2,), 2),
            ((2, 2, 3, 4, 5), (2, 2, 2, 4, 2), (2, 1, 3), (1, 1, 2), (1, 1, 1), 1),
        ):
            given = random_array(generator, dtype, x), random_array(generator, dtype, y)
            options = {"window": window, "strides": strides, "dilation": dilation, "groups": groups}
            yield sample(*given, **options, channels=x[1] // groups)


register(Primitive(
    name="conv_weights", doc="The gradient of a convolution of x (n, c, sizes...) by its weights (o, c / groups, "
    "window...), with so many ``channels`` a group, from that y (n, o, sizes...) of its result.",
    params={"window": "sizes", "strides": "ints", "dilation": "ints", "groups": "size", "channels": "size"},
    typing=_type, evaluate=_evaluate, lowering=Composite(_expand, sums=True), jvp=_jvp, vjp=_vjp, batch=_batch,
    ulp=4, effect=False, samples=_samples,
))  # fmt: skip


# --- of blocks of channels -----------------------------------------------------------------------------------------


def _blocks_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, y = _checked("conv_blocks_weights", types, params, 3)
    if prove_equal(x.shape[1], y.shape[1]) is False:
        raise ShapeError(f"conv_blocks_weights: x has {x.shape[1]} groups, y {y.shape[1]}", types=(x, y))
    terms = product((x.shape[2], *params["window"], x.shape[-1]))
    return (x.with_shape((x.shape[1], terms, y.shape[2] * y.shape[-1])),)


def _channels(x: NDArray) -> NDArray:
    """(n, groups, blocks, sizes..., block) as (n, c, sizes...)."""
    return np.moveaxis(x, -1, 3).reshape(x.shape[0], x.shape[1] * x.shape[2] * x.shape[-1], *x.shape[3:-1])


def _blocks_evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, y = wide(values)
    groups, blocks, block = x.shape[1], x.shape[2], x.shape[-1]
    found = _sums(_channels(x), _channels(y), **params, groups=groups, channels=blocks * block)
    split = found.reshape(groups, y.shape[2] * y.shape[-1], blocks, block, *params["window"])
    terms = np.moveaxis(split, (1, 3), (-1, -2)).reshape(groups, -1, y.shape[2] * y.shape[-1])
    return (rounded(np.ascontiguousarray(terms), values[0]),)


def _operations(types: ArrayTypes, results: ArrayTypes) -> Dim:
    """A multiplication and an addition for each weight at each pixel of the cotangent."""
    y = types[1].shape
    pixels: Dim = product((y[0], *y[3:-1]))
    return 2 * pixels * product(results[0].shape)


def _blocks_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype) and kind_of(dtype) in "iuf":
        generator = rng("conv_blocks_weights")
        for x, y, window, strides, dilation in (
            ((1, 1, 2, 8, 7, 3), (1, 1, 3, 6, 6, 4), (3, 2), (1, 1), (1, 1)),
            ((2, 2, 1, 5, 9, 4), (2, 2, 1, 2, 3, 5), (2, 3), (2, 2), (1, 2)),
            ((2, 1, 1, 605, 2), (2, 1, 6, 603, 11), (3,), (1,), (1,)),
            ((0, 1, 1, 5, 2), (0, 1, 1, 3, 4), (3,), (1,), (1,)),
        ):
            values = random_array(generator, dtype, x), random_array(generator, dtype, y)
            yield sample(*values, window=window, strides=strides, dilation=dilation)


_WHY = "conv_weights is"
register(Primitive(
    name="conv_blocks_weights", doc="conv_weights on blocks of channels (n, groups, blocks, sizes..., block), as "
    "(groups, terms, o): a term is a block, an offset in the window, a channel of the block.",
    params={"window": "sizes", "strides": "ints", "dilation": "ints"}, typing=_blocks_type, evaluate=_blocks_evaluate,
    lowering=Tile("convolution_weights", _operations, 2), jvp=not_differentiable(f"{_WHY} differentiated"),
    vjp=not_differentiable(f"{_WHY} differentiated"), batch=not_batchable(f"{_WHY} batched"), ulp=4, effect=False,
    samples=_blocks_samples,
))  # fmt: skip
