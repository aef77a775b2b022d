"""Attention: every query's average of the values, weighted by the softmax of its products with the keys.

``softmax(q k^T scale + mask) v`` in one primitive (Vaswani et al., "Attention Is All You Need", 2017), so that a kernel
need not write the scores to memory. Operands have equal leading axes; heads that share keys are broadcast views.

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
from zenith.ir.types import ArrayType, Type, bool_, int64, kind_of

MASKS = ("none", "bool", "add")


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    if params["mask"] not in MASKS:
        raise ShapeError(f"attention: mask is one of {', '.join(MASKS)}, not {params['mask']!r}")
    q, k, v, *masks = arrays("attention", types, 3 if params["mask"] == "none" else 4)
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
    return (q.with_shape((*q.shape[:-1], v.shape[-1])),)


def _evaluate(values: Sequence[Any], params: Params) -> tuple[Any]:
    q, k, v, *masks = wide(values)
    with np.errstate(all="ignore"):
        scores = np.matmul(q, np.swapaxes(k, -1, -2)) * q.dtype.type(params["scale"])
        if params["mask"] == "add":
            scores = scores + masks[0]
        seen = masks[0] if params["mask"] == "bool" else np.ones(scores.shape, bool)
        if params["causal"]:
            seen = seen & np.tri(*scores.shape[-2:], dtype=np.bool_)
        scores = np.where(seen, scores, -np.inf).astype(q.dtype, copy=False)
        top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - np.where(top == -np.inf, 0, top).astype(q.dtype, copy=False))
        total = np.sum(weights, axis=-1, keepdims=True)
        result = np.matmul(weights, v) / np.where(total == 0, 1, total).astype(q.dtype, copy=False)
        if scores.shape[-1] and math.isnan(params["empty"]):
            result = np.where(total == 0, q.dtype.type(np.nan), result)
        return (result.astype(values[0].dtype, copy=False),)


def _operations(types: Sequence[Any]) -> Dim:
    """Both products, each a multiplication and an addition a term."""
    q, k, v = types[:3]
    columns: Dim = q.shape[-1] + v.shape[-1]
    return product((*q.shape[:-1], k.shape[-2])) * columns * 2


def _weights(b: Any, primals: Sequence[Any], params: Params) -> Any:
    """The softmax of the scores; zeros, or nan as ``empty`` has it, for a query that sees nothing."""
    q, k, _, *masks = primals
    scores = b.mul(b.matmul(q, swap_last(b, k)), params["scale"])
    nothing, last = b.full(-math.inf, scores.dtype, scores.shape), len(scores.shape) - 1
    if params["mask"] == "add":
        scores = b.add(scores, masks[0])
    if params["mask"] == "bool":
        scores = b.where(masks[0], scores, nothing)
    if params["causal"]:
        query, key = (b.broadcast(b.iota(size=scores.shape[a], dtype=int64), shape=scores.shape, axes=(a,))
                      for a in (last - 1, last))  # fmt: skip
        scores = b.where(b.ge(query, key), scores, nothing)
    top = spread(b, b.reduce_max(scores, axes=(last,)), scores, (last,))
    weights = b.exp(b.sub(scores, b.where(b.eq(top, -math.inf), b.zeros_like(top), top)))
    total = spread(b, b.reduce_sum(weights, axes=(last,)), scores, (last,))
    if params["empty"] == 0.0:
        total = b.where(b.eq(total, 0.0), b.full(1.0, total.dtype, total.shape), total)
    return b.div(weights, total)


def _through_softmax(b: Any, weights: Any, change: Any) -> Any:
    """The softmax's derivative, which is symmetric: ``w * (c - sum of w * c)``."""
    last = len(weights.shape) - 1
    mean = b.reduce_sum(b.mul(weights, change), axes=(last,))
    return b.mul(weights, b.sub(change, spread(b, mean, weights, (last,))))


def _sum(b: Any, terms: Sequence[Any]) -> Any:
    total = None
    for term in terms:
        total = term if total is None else b.add(total, term)
    return total


def _jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Sequence[Any]:
    q, k, v, *_ = primals
    dq, dk, dv, *dmask = tangents
    weights = _weights(b, primals, params)
    products = [b.matmul(dq, swap_last(b, k))] if dq is not None else []
    products += [b.matmul(q, swap_last(b, dk))] if dk is not None else []
    scores = [b.mul(p, params["scale"]) for p in products] + [m for m in dmask if m is not None]
    parts = [b.matmul(_through_softmax(b, weights, _sum(b, scores)), v)] if scores else []
    return [_sum(b, parts + ([b.matmul(weights, dv)] if dv is not None else []))]


def _vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    q, k, v, *_ = primals
    weights, (ct,) = _weights(b, primals, params), cotangents
    scores = _through_softmax(b, weights, b.matmul(ct, swap_last(b, v)))
    products = b.mul(scores, params["scale"])
    found = [b.matmul(products, k), b.matmul(swap_last(b, products), q), b.matmul(swap_last(b, weights), ct)]
    return found + {"none": [], "bool": [None], "add": [scores]}[params["mask"]]


def _batch(b: Any, args: Any, batched: Any, size: Any, params: Params) -> Sequence[Any]:
    return [b.attention(*all_batched(b, args, batched, size), **params)]


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
    name="attention", doc="The values of the keys that each query sees, averaged by the softmax of their products.",
    params={"scale": "number", "causal": "bool", "mask": "text", "empty": "number"}, typing=_type, evaluate=_evaluate,
    lowering=Tile("attention", _operations), jvp=_jvp, vjp=_vjp, batch=_batch, ulp=4, effect=False, samples=_samples,
))  # fmt: skip
