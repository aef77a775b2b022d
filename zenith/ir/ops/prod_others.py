"""For each element the product of all others: the derivative of a product.

A division finds it where nothing is zero. That quotient, and its substitute at zeros, is right as a value and wrong to
differentiate. So it is a primitive, whose own derivative is computed from the products of all elements but two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import product
from zenith.ir.graph import Value
from zenith.ir.lowering import Composite
from zenith.ir.ops.common import (
    arrays,
    moved_axes,
    random_array,
    require_axis,
    require_kind,
    rng,
    sample,
    wide,
)
from zenith.ir.ops.reduce import spread
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, int32, kind_of


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("prod_others", types, 1)
    require_kind("prod_others", x, "fc")
    for axis in params["axes"]:
        require_axis("prod_others", x, axis)
    return (x,)


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    (x,), axes = wide(values), tuple(params["axes"])
    zero = x == 0
    filled = np.where(zero, x.dtype.type(1), x)
    with np.errstate(all="ignore"):
        rest = np.prod(filled, axis=axes, keepdims=True) / filled
        others = np.where(np.sum(zero, axis=axes, keepdims=True) - zero == 0, rest, x.dtype.type(0))
        return (others.astype(values[0].dtype, copy=False),)


def _expand(b: Builder, args: Values, params: Params) -> Values:
    """The product divided by the element; with one zero, at it the product of the others; with several zeros, 0."""
    (x,) = args
    ones, zeros = b.full(1.0, x.dtype, x.shape), b.zeros_like(x)
    zero = b.eq(x, 0.0)
    filled, counted = b.where(zero, ones, x), b.where(zero, ones, zeros)
    rest = b.div(spread(b, b.reduce_prod(filled, **params), x, params["axes"]), filled)
    others = b.sub(spread(b, b.reduce_sum(counted, **params), x, params["axes"]), counted)
    return [b.where(b.eq(others, 0.0), rest, zeros)]


def _times_pairs(b: Builder, x: Value, tangent: Value, axes: Sequence[int]) -> Value:
    """For each k the sum over l of ``change[l]`` times the product of all elements but k and l, which are different."""
    order = (*(a for a in range(len(x.shape)) if a not in axes), *axes)
    outer = len(order) - len(axes)
    shape = tuple(x.shape[a] for a in order)
    flat = (*shape[:outer], product(shape[outer:]))
    x, tangent = (b.reshape(b.transpose(v, axes=order), shape=flat) for v in (x, tangent))
    wide = (*flat, flat[-1])
    row, column = (b.broadcast(b.iota(size=flat[-1], dtype=int32), shape=wide, axes=(outer + i,)) for i in range(2))
    same, leading = b.eq(row, column), tuple(range(outer))
    but_one = b.where(same, b.full(1.0, x.dtype, wide), b.broadcast(x, shape=wide, axes=(*leading, outer + 1)))
    but_two = b.prod_others(but_one, axes=(outer + 1,))
    pairs = b.where(same, b.full(0.0, x.dtype, wide), but_two)
    terms = b.mul(pairs, b.broadcast(tangent, shape=wide, axes=(*leading, outer + 1)))
    total = b.reshape(b.reduce_sum(terms, axes=(outer + 1,)), shape=shape)
    return b.transpose(total, axes=tuple(order.index(a) for a in range(len(order))))


def _jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    return [None if tangents[0] is None else _times_pairs(b, primals[0], tangents[0], params["axes"])]


def _vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    """The matrix of products of all but two is symmetric."""
    return [_times_pairs(b, primals[0], cotangents[0], params["axes"])]


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype) in ("f", "c"):
        generator = rng("prod_others")
        for shape, axes in (((7,), (0,)), ((3, 5), (1,)), ((2, 3, 4), (0, 2)), ((2, 0), (1,)), ((3, 4), ())):
            x = random_array(generator, dtype, shape)
            yield sample(x, axes=axes)
            if x.size:
                yield sample(np.where(np.arange(x.size).reshape(shape) % 4 == 1, dtype.type(0), x), axes=axes)


register(Primitive(
    name="prod_others", doc="For each element the product of all others along axes.", params={"axes": "ints"},
    typing=_type, evaluate=_evaluate, lowering=Composite(_expand), jvp=_jvp, vjp=_vjp,
    batch=lambda b, args, batched, size, params: [b.prod_others(args[0], axes=moved_axes(params["axes"]))],
    ulp=16, effect=False, samples=_samples,
))  # fmt: skip
