"""Convolution of channels over any number of axes, as networks mean it: a correlation, with strides, holes and groups.

``conv`` takes windows that lie inside the array; a border, and holes between elements, are a ``pad`` in front of it.
Then one primitive is closed under derivatives. By the array it is a convolution of the cotangent, spread
by the strides, with the reversed weights (V. Dumoulin and F. Visin, *A guide to convolution arithmetic for deep
learning*, arXiv:1603.07285); by the weights it is :mod:`zenith.ir.ops.convolution_weights`.

Kernels compute it on blocks of channels (:mod:`zenith.ir.ops.blocked_convolution`), to which it expands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim, maximum, prove_at_least, prove_equal
from zenith.ir.graph import Value
from zenith.ir.lowering import Composite
from zenith.ir.ops.blocked_convolution import correlate, covered, expand, share
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
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, kind_of


def type_of(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    """The type of a convolution's result."""
    x, w = arrays("conv", types, 2)
    require_same_dtype("conv", (x, w))
    require_kind("conv", x, "iuf")
    axes, groups = x.rank - 2, params["groups"]
    if axes < 1 or w.rank != x.rank or not len(params["strides"]) == len(params["dilation"]) == axes:
        raise ShapeError("conv needs x (n, c, sizes...), w (o, c / groups, sizes...), a stride and a dilation an axis",
                         types=(x, w))  # fmt: skip
    if min(*params["strides"], *params["dilation"]) < 1 or prove_at_least(groups, 0) is False:
        raise ShapeError(f"conv: strides and dilation are at least 1, not {params}", types=(x, w))
    if (
        prove_equal(x.shape[1], w.shape[1] * groups) is False
        or prove_equal(w.shape[0], share(w.shape[0], groups) * groups) is False
    ):
        raise ShapeError(f"conv: {groups} groups of {w.shape[1]} channels make {w.shape[0]} of {x.shape[1]}",
                         types=(x, w), fix="w is (o, c / groups, sizes...), and groups divide o")  # fmt: skip
    sizes = covered(x.shape[2:], w.shape[2:], params["strides"], params["dilation"])
    if any(prove_at_least(n, 0) is False for n in sizes):
        raise ShapeError(f"conv: windows of {w.shape[2:]} do not fit into {x.shape[2:]}", types=(x, w))
    return (x.with_shape((x.shape[0], w.shape[0], *sizes)),)


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    return (rounded(correlate(*wide(values), **params), values[0]),)


# --- derivatives -------------------------------------------------------------------------------------------------


def _jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    (x, w), (dx, dw) = primals, tangents
    terms = [None if dx is None else b.conv(dx, w, **params), None if dw is None else b.conv(x, dw, **params)]
    moved = [p for p in terms if p is not None]
    return [b.add(*moved) if len(moved) == 2 else moved[0] if moved else None]


def _vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    x, w = primals
    found = b.conv_weights(x, cotangents[0], window=w.shape[2:], channels=w.shape[1], **params)
    return [by_array(b, x, w, cotangents[0], params), found]


def by_array(b: Builder, x: Value, w: Value, ct: Value, params: Params) -> Value:
    """The cotangent of x: for each element the sum over all windows that contain it."""
    groups, axes = params["groups"], tuple(range(2, len(x.shape)))
    low = [(n - 1) * d for n, d in zip(w.shape[2:], params["dilation"], strict=True)]
    spread = [
        n + maximum(n - 1, 0) * (s - 1) if s > 1 else n for n, s in zip(ct.shape[2:], params["strides"], strict=True)
    ]
    padded = b.pad(
        ct, b.full(0, ct.dtype, ()), low=(0, 0, *low), interior=(0, 0, *(s - 1 for s in params["strides"])),
        high=(0, 0, *(n - k for n, k in zip(x.shape[2:], spread, strict=True))),
    )  # fmt: skip
    split = b.reshape(w, shape=(groups, share(w.shape[0], groups), *w.shape[1:]))
    permuted = b.transpose(split, axes=(0, 2, 1, *(a + 1 for a in axes)))
    weights = b.reshape(permuted, shape=(groups * w.shape[1], share(w.shape[0], groups), *w.shape[2:]))
    ones = (1,) * len(axes)
    return b.conv(padded, b.reverse(weights, axes=axes), strides=ones, dilation=params["dilation"], groups=groups)


def _batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    return batch_of(b, b.conv, args, batched, size, params)


def batch_of(
    b: Builder, conv: Callable[..., Value], args: Values, batched: Sequence[bool], size: Dim, params: Params
) -> Values:
    """A batch of x alone becomes more examples, one of w alone more channels, one of both more groups."""
    x, w = args
    if not batched[1]:
        found = conv(b.reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:])), w, **params)
        return [b.reshape(found, shape=(*x.shape[:2], *found.shape[1:]))]
    axes = tuple(range(3, len(w.shape)))
    if not batched[0] and params["groups"] == 1:
        joined, groups = x, params["groups"]
    else:
        x, groups = all_batched(b, [x], [batched[0]], size)[0], size * params["groups"]
        permuted = b.transpose(x, axes=(1, 0, 2, *axes))
        joined = b.reshape(permuted, shape=(x.shape[1], size * x.shape[2], *x.shape[3:]))
    weights = b.reshape(w, shape=(size * w.shape[1], *w.shape[2:]))
    found = conv(joined, weights, **{**params, "groups": groups})
    split = b.reshape(found, shape=(found.shape[0], size, w.shape[1], *found.shape[2:]))
    return [b.transpose(split, axes=(1, 0, 2, *axes))]


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype) and kind_of(dtype) in "iuf":
        generator = rng("conv")
        for x, w, strides, dilation, groups in (
            ((2, 3, 7, 6), (4, 3, 3, 2), (2, 1), (1, 2), 1),
            ((1, 32, 9), (24, 16, 3), (1,), (2,), 2),
            ((2, 4, 6, 5), (4, 1, 3, 3), (1, 2), (1, 1), 4),
            ((2, 2, 3, 4, 5), (2, 2, 2, 1, 3), (1, 1, 2), (1, 1, 1), 1),
        ):
            arrays = random_array(generator, dtype, x), random_array(generator, dtype, w)
            yield sample(*arrays, strides=strides, dilation=dilation, groups=groups)


register(Primitive(
    name="conv", doc="Correlation of channels (n, c, sizes...) with weights (o, c / groups, sizes...), no border.",
    params={"strides": "ints", "dilation": "ints", "groups": "size"}, typing=type_of, evaluate=_evaluate,
    lowering=Composite(expand, sums=True), jvp=_jvp, vjp=_vjp, batch=_batch, ulp=4, effect=False, samples=_samples,
))  # fmt: skip
