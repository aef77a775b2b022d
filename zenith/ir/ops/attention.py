"""Attention: every query's average of the values, weighted by the softmax of its products with the keys.

``softmax(q k^T scale + mask) v`` in one primitive (Vaswani et al., "Attention Is All You Need", 2017), so that a kernel
need not write the scores to memory. Operands have equal leading axes; heads that share keys are broadcast views.

The second result is the logarithm of each query's sum of exponentials, from which the way back makes the weights again
without a second softmax (Dao, "FlashAttention-2", 2023): :mod:`zenith.ir.ops.attention_vjp`. It has at least the
precision of float32. A query that sees nothing has 0 there, which leaves all its weights zero, or nan.

=========  ===========================================================================================================
``scale``  the factor of the products
``causal`` query i sees the keys 0 ... i only
``mask``   ``none``; ``bool``, a fourth operand ``[..., S, T]`` that is true where a query sees a key; ``add``, one that
           is added to the scaled products
``empty``  what a query that sees no key at all gets: 0.0, as PyTorch has it, or nan, as the formula has it; without
           keys (T = 0) the average is zero
=========  ===========================================================================================================

What an unseen key holds does not matter as long as it is finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.dims import Dim, product, prove_equal
from zenith.ir.lowering import Tile
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
from zenith.ir.types import ArrayType, Type, bool_, float32, int64, kind_of

MASKS = ("none", "bool", "add")


def operand_types(types: Sequence[Type], params: Params, others: int = 0) -> tuple[list[ArrayType], list[ArrayType]]:
    """Queries, keys, values and the mask, if any; then the ``others``, which stand before the mask; checked."""
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


def scores_of(q: Any, k: Any, masks: Sequence[Any], params: Params) -> Any:
    """Scaled products of NumPy arrays under the masks, minus infinity where a query does not see a key."""
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * q.dtype.type(params["scale"])
    if params["mask"] == "add":
        scores = scores + masks[0]
    seen = masks[0] if params["mask"] == "bool" else np.ones(scores.shape, bool)
    if params["causal"]:
        seen = seen & np.tri(*scores.shape[-2:], dtype=np.bool_)
    return np.where(seen, scores, -np.inf).astype(q.dtype, copy=False)


def _evaluate(values: Sequence[Any], params: Params) -> tuple[Any, Any]:
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


def _operations(types: Sequence[Any], results: Sequence[Any]) -> Dim:
    """Both products, each a multiplication and an addition a term."""
    q, k, v = types[:3]
    columns: Dim = q.shape[-1] + v.shape[-1]
    return product((*q.shape[:-1], k.shape[-2])) * columns * 2


def scores(b: Any, primals: Sequence[Any], params: Params) -> Any:
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


def _weights(b: Any, primals: Sequence[Any], params: Params) -> Any:
    """The softmax of the scores; zeros, or nan as ``empty`` has it, for a query that sees nothing."""
    found = scores(b, primals, params)
    last = (len(found.shape) - 1,)
    top = spread(b, b.reduce_max(found, axes=last), found, last)
    weights = b.exp(b.sub(found, b.where(b.eq(top, -math.inf), b.zeros_like(top), top)))
    total = spread(b, b.reduce_sum(weights, axes=last), found, last)
    if params["empty"] == 0.0:
        total = b.where(b.eq(total, 0.0), b.full(1.0, total.dtype, total.shape), total)
    return b.div(weights, total)


def along_rows(b: Any, x: Any) -> Any:
    """The sums of the last axis, and no less precise than float32."""
    x = b.cast(x, dtype=float32) if x.dtype.is_narrow else x
    return b.reduce_sum(x, axes=(len(x.shape) - 1,))


def _through_softmax(b: Any, weights: Any, change: Any) -> Any:
    """The softmax's derivative, which is symmetric: ``w * (c - sum of w * c)``."""
    last = len(weights.shape) - 1
    mean = b.reduce_sum(b.mul(weights, change), axes=(last,))
    return b.mul(weights, b.sub(change, spread(b, mean, weights, (last,))))


def total_of(b: Any, terms: Sequence[Any]) -> Any:
    """The sum of the terms that are not None; None when there is none."""
    total = None
    for term in terms:
        total = term if total is None else total if term is None else b.add(total, term)
    return total


def change_of_scores(b: Any, primals: Sequence[Any], tangents: Sequence[Any], params: Params) -> Any:
    """How scores move with queries, keys and an added mask, whose tangents may be None; None if they do not."""
    (q, k), (dq, dk, _, *dmask) = primals[:2], tangents
    products = [b.matmul(dq, swap_last(b, k)) if dq is not None else None]
    products += [b.matmul(q, swap_last(b, dk)) if dk is not None else None]
    return total_of(b, [None if p is None else b.mul(p, params["scale"]) for p in products] + dmask)


def _jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Sequence[Any]:
    (v, dv), weights = (primals[2], tangents[2]), _weights(b, primals, params)
    change = change_of_scores(b, primals, tangents, params)
    parts = [] if change is None else [b.matmul(_through_softmax(b, weights, change), v)]
    result = total_of(b, parts + ([b.matmul(weights, dv)] if dv is not None else []))
    return [result, None if change is None else along_rows(b, b.mul(weights, change))]


def _vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    """By :mod:`zenith.ir.ops.attention_vjp`; what reaches the logarithms joins the mean change of the averages."""
    (result, logarithm), (ct, ct_logarithm) = outputs, or_zeros(b, cotangents, outputs)
    mean = b.sub(along_rows(b, b.mul(*(widened(b, x, logarithm) for x in (ct, result)))), ct_logarithm)
    operands = (*primals[:3], ct, logarithm, mean, *primals[3:])
    found = list(b.attention_vjp(*operands, scale=params["scale"], causal=params["causal"], mask=params["mask"]))
    if params["mask"] == "add":
        found.append(b.cast(weights_and_change(b, operands, params)[1], dtype=ct.dtype))
    return found + [None] * (len(primals) - len(found))


def widened(b: Any, x: Any, model: Any) -> Any:
    """A floating-point array in the element type of another; a mask of bools as it is."""
    return b.cast(x, dtype=model.dtype) if x.dtype.is_float and x.dtype != model.dtype else x


def weights_and_change(b: Any, operands: Sequence[Any], params: Params) -> tuple[Any, Any]:
    """Every weight and the cotangent of every score, as arrays of the element type that the logarithms have."""
    logarithm, mean = operands[4:6]
    q, k, v, ct, *masks = (widened(b, x, logarithm) for x in (*operands[:4], *operands[6:]))
    found = scores(b, (q, k, v, *masks), params)
    logarithm, mean = (spread(b, x, found, (len(found.shape) - 1,)) for x in (logarithm, mean))
    weights = b.exp(b.sub(found, logarithm))
    return weights, b.mul(weights, b.sub(b.matmul(ct, swap_last(b, v)), mean))


def _batch(b: Any, args: Any, batched: Any, size: Any, params: Params) -> Sequence[Any]:
    return b.attention(*all_batched(b, args, batched, size), **params)  # type: ignore[no-any-return]


def _samples(dtype: np.dtype[Any]) -> Iterable[Sample]:
    if kind_of(dtype) != "f":
        return
    generator = rng("attention")

    def operands(lead: tuple[int, ...], s: int, t: int, d: int, e: int) -> list[Any]:
        return [random_array(generator, dtype, (*lead, *shape)) for shape in ((s, d), (t, d), (t, e))]

    def case(*values: Any, causal: bool = False, mask: str = "none", empty: float = 0.0) -> Sample:
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
