"""Attention: every query's average of the values, weighted by the softmax of its products with the keys.

``softmax(q k^T scale + mask) v`` in one primitive (Vaswani et al., "Attention Is All You Need", 2017), so that a kernel
need not write the scores to memory. Operands have equal leading axes; heads that share keys are broadcast views.

The second result is the logarithm of each query's sum of exponentials, from which the backward pass recomputes the
weights without a second softmax (Dao, "FlashAttention-2", 2023): :mod:`zenith.ir.ops.attention_vjp`. It has at least
the precision of float32. A query that sees nothing has 0 there, which leaves all its weights zero, or nan.

=========  ===========================================================================================================
``scale``  the factor of the products
``causal`` query i sees the keys 0 ... i only
``mask``   ``none``; ``bool``, a fourth operand ``[..., S, T]`` that is true where a query sees a key; ``add``, one that
           is added to the scaled products
``empty``  the result of a query that sees no key at all: 0.0, as in PyTorch, or nan, as by the formula; without
           keys (T = 0) the average is zero
=========  ===========================================================================================================

The elements of an unseen key do not matter as long as they are finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim, product, prove_equal
from zenith.ir.graph import Value
from zenith.ir.lowering import ArrayTypes, Tile
from zenith.ir.ops.common import (
    all_batched,
    arrays,
    or_zeros,
    random_array,
    require_kind,
    require_same_dtype,
    require_same_shape,
    rng,
    sample,
    wide,
)
from zenith.ir.ops.product import swap_last
from zenith.ir.ops.reduce import spread
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, bool_, float32, int64, kind_of

MASKS = ("none", "bool", "add")


def operand_types(types: Sequence[Type], params: Params, others: int = 0) -> tuple[list[ArrayType], list[ArrayType]]:
    """The types of queries, keys, values and the mask, if any, and those of the ``others`` before the mask; checked."""
    if params["mask"] not in MASKS:
        raise ShapeError(f"attention: mask is one of {', '.join(MASKS)}, not {params['mask']!r}")
    found = arrays("attention", types, 3 + others + (params["mask"] != "none"))
    q, k, v, masks = *found[:3], found[3 + others :]
    require_same_dtype("attention", (q, k, v))
    require_kind("attention", q, "f")
    if q.rank < 2 or not q.rank == k.rank == v.rank:
        raise ShapeError("attention needs queries, keys and values of one rank >= 2", types=(q, k, v))
    leading = [(n, m) for other in (k, v) for n, m in zip(q.shape[:-2], other.shape[:-2], strict=True)]
    if any(prove_equal(n, m) is False for n, m in leading):
        raise ShapeError("attention needs equal leading sizes", types=(q, k, v))
    if prove_equal(q.shape[-1], k.shape[-1]) is False:
        raise ShapeError("attention: queries and keys must have the same number of columns", types=(q, k))
    if prove_equal(k.shape[-2], v.shape[-2]) is False:
        raise ShapeError("attention needs a value for each key", types=(k, v))
    for mask in masks:
        require_same_dtype("attention mask", (mask, q.with_dtype(bool_) if params["mask"] == "bool" else q))
        require_same_shape("attention mask", (mask, mask.with_shape((*q.shape[:-1], k.shape[-2]))))
    return [q, k, v, *masks], found[3 : 3 + others]


def sum_type(q: ArrayType) -> ArrayType:
    """The type of a number for each query: that of its elements, in float32 where they have 16 bits."""
    return ArrayType(float32 if q.dtype.is_narrow else q.dtype, q.shape[:-1])


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ArrayType]:
    (q, _, v, *_), _ = operand_types(types, params)
    return q.with_shape((*q.shape[:-1], v.shape[-1])), sum_type(q)


def scores_of(q: NDArray, k: NDArray, masks: Sequence[NDArray], params: Params) -> NDArray:
    """Scaled products of NumPy arrays under the masks, minus infinity where a query does not see a key."""
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * q.dtype.type(params["scale"])
    if params["mask"] == "add":
        scores = scores + masks[0]
    seen = masks[0] if params["mask"] == "bool" else np.ones(scores.shape, bool)
    if params["causal"]:
        seen = seen & np.tri(*scores.shape[-2:], dtype=np.bool_)
    return np.where(seen, scores, -np.inf).astype(q.dtype, copy=False)


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray, NDArray]:
    q, k, v, *masks = wide(values)
    with np.errstate(all="ignore"):
        scores = scores_of(q, k, masks, params)
        top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
        base = np.where(top == -np.inf, 0, top).astype(q.dtype, copy=False)
        weights = np.exp(scores - base)
        total = np.sum(weights, axis=-1, keepdims=True)
        nothing = params["empty"] if scores.shape[-1] else 0.0
        result = np.matmul(weights, v) / np.where(total == 0, 1, total).astype(q.dtype, copy=False)
        result = np.where(total == 0, q.dtype.type(nothing), result)
        logarithm = np.where(total == 0, q.dtype.type(nothing), base + np.log(total))[..., 0]
        return result.astype(values[0].dtype, copy=False), logarithm


def _operations(types: ArrayTypes, results: ArrayTypes) -> Dim:
    """Both products, each a multiplication and an addition a term."""
    q, k, v = types[:3]
    columns: Dim = q.shape[-1] + v.shape[-1]
    return product((*q.shape[:-1], k.shape[-2])) * columns * 2


def scores(b: Builder, primals: Values, params: Params) -> Value:
    """The scores as an array, minus infinity where a query does not see a key."""
    q, k, _, *masks = primals
    found = b.mul(b.matmul(q, swap_last(b, k)), params["scale"])
    nothing, last = b.full(-math.inf, found.dtype, found.shape), len(found.shape) - 1
    if params["mask"] == "add":
        found = b.add(found, masks[0])
    if params["mask"] == "bool":
        found = b.where(masks[0], found, nothing)
    if params["causal"]:
        query, key = (b.broadcast(b.iota(size=found.shape[a], dtype=int64), shape=found.shape, axes=(a,))
                      for a in (last - 1, last))  # fmt: skip
        found = b.where(b.ge(query, key), found, nothing)
    return found


def _weights(b: Builder, primals: Values, params: Params) -> Value:
    """The softmax of the scores; zeros, or nan as ``empty`` has it, for a query that sees nothing."""
    found = scores(b, primals, params)
    last = (len(found.shape) - 1,)
    top = spread(b, b.reduce_max(found, axes=last), found, last)
    weights = b.exp(b.sub(found, b.where(b.eq(top, -math.inf), b.zeros_like(top), top)))
    total = spread(b, b.reduce_sum(weights, axes=last), found, last)
    if params["empty"] == 0.0:
        total = b.where(b.eq(total, 0.0), b.full(1.0, total.dtype, total.shape), total)
    return b.div(weights, total)


def along_rows(b: Builder, x: Value) -> Value:
    """The sums of the last axis, and no less precise than float32."""
    x = b.cast(x, dtype=float32) if x.dtype.is_narrow else x
    return b.reduce_sum(x, axes=(len(x.shape) - 1,))


def _through_softmax(b: Builder, weights: Value, tangent: Value) -> Value:
    """The derivative of softmax along ``tangent`` c, which is symmetric: ``w * (c - sum of w * c)``."""
    last = len(weights.shape) - 1
    mean = b.reduce_sum(b.mul(weights, tangent), axes=(last,))
    return b.mul(weights, b.sub(tangent, spread(b, mean, weights, (last,))))


def total_of(b: Builder, terms: Tangents) -> Value | None:
    """The sum of the terms that are not None; None when there is none."""
    total = None
    for term in terms:
        total = term if total is None else total if term is None else b.add(total, term)
    return total


def scores_tangent(b: Builder, primals: Values, tangents: Tangents, params: Params) -> Value | None:
    """The tangent of the scores by those of queries, keys and an added mask, each of which may be None (zero)."""
    (q, k), (dq, dk, _, *dmask) = primals[:2], tangents
    products = [b.matmul(dq, swap_last(b, k)) if dq is not None else None]
    products += [b.matmul(q, swap_last(b, dk)) if dk is not None else None]
    return total_of(b, [None if p is None else b.mul(p, params["scale"]) for p in products] + dmask)


def _jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    (v, dv), weights = (primals[2], tangents[2]), _weights(b, primals, params)
    moved = scores_tangent(b, primals, tangents, params)
    terms = [] if moved is None else [b.matmul(_through_softmax(b, weights, moved), v)]
    result = total_of(b, terms + ([b.matmul(weights, dv)] if dv is not None else []))
    return [result, None if moved is None else along_rows(b, b.mul(weights, moved))]


def _vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    """By :mod:`zenith.ir.ops.attention_vjp`; the cotangent of the logarithms is subtracted from delta."""
    (result, logarithm), (ct, ct_logarithm) = outputs, or_zeros(b, cotangents, outputs)
    delta = b.sub(along_rows(b, b.mul(*(widened(b, x, logarithm) for x in (ct, result)))), ct_logarithm)
    operands = (*primals[:3], ct, logarithm, delta, *primals[3:])
    found = list(b.attention_vjp(*operands, scale=params["scale"], causal=params["causal"], mask=params["mask"]))
    if params["mask"] == "add":
        found.append(b.cast(weights_and_scores_cotangent(b, operands, params)[1], dtype=ct.dtype))
    return found + [None] * (len(primals) - len(found))


def widened(b: Builder, x: Value, model: Value) -> Value:
    """A floating-point array in the element type of another; a mask of bools as it is."""
    return b.cast(x, dtype=model.dtype) if x.dtype.is_float and x.dtype != model.dtype else x


def weights_and_scores_cotangent(b: Builder, operands: Values, params: Params) -> tuple[Value, Value]:
    """All weights and the cotangents of all scores, as arrays of the logarithms' element type."""
    logarithm, delta = operands[4:6]
    q, k, v, ct, *masks = (widened(b, x, logarithm) for x in (*operands[:4], *operands[6:]))
    found = scores(b, (q, k, v, *masks), params)
    logarithm, delta = (spread(b, x, found, (len(found.shape) - 1,)) for x in (logarithm, delta))
    weights = b.exp(b.sub(found, logarithm))
    return weights, b.mul(weights, b.sub(b.matmul(ct, swap_last(b, v)), delta))


def _batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    return b.attention(*all_batched(b, args, batched, size), **params)


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype) != "f":
        return
    generator = rng("attention")

    def operands(lead: tuple[int, ...], s: int, t: int, d: int, e: int) -> list[NDArray]:
        return [random_array(generator, dtype, (*lead, *shape)) for shape in ((s, d), (t, d), (t, e))]

    def case(*values: NDArray, causal: bool = False, mask: str = "none", empty: float = 0.0) -> Sample:
        return sample(*values, scale=0.5, causal=causal, mask=mask, empty=empty)

    yield case(*operands((2,), 3, 4, 2, 5))
    yield case(*operands((), 7, 3, 1, 2), causal=True)
    seen = random_array(generator, np.dtype(bool), (3, 4)) & (np.arange(3) != 1)[:, None]
    yield case(*operands((), 3, 4, 2, 18), seen, mask="bool")
    bias = random_array(generator, dtype, (2, 1, 4, 5))
    yield case(*operands((2, 1), 4, 5, 3, 2), bias, mask="add", causal=True)
    yield case(*operands((), 1, 0, 2, 3), empty=math.nan)
    yield case(*operands((2,), 0, 3, 2, 2))
    yield case(*operands((), 2, 3, 0, 2))


register(Primitive(
    name="attention", doc="The values of the keys that each query sees, averaged by the softmax of their products; and "
    "the logarithm of the sum of the products' exponentials.",
    params={"scale": "number", "causal": "bool", "mask": "text", "empty": "number"}, typing=_type, evaluate=_evaluate,
    lowering=Tile("attention", _operations, 3), jvp=_jvp, vjp=_vjp, batch=_batch, ulp=4, effect=False, samples=_samples,
))  # fmt: skip
