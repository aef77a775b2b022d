"""The backward pass of attention, without the scores in memory: cotangents of queries, keys and values.

With the logarithms ``l`` of each query's sum of exponentials, the weights are ``w = exp(q k^T scale + mask - l)``, no
second softmax is needed, and a kernel can recompute them a block at a time (Dao, "FlashAttention-2", 2023). From
the averages' cotangent ``ct`` and each query's delta ``m``, the row dot of its averages and ``ct``, follow::

    c = w (ct v^T - m)        dq = scale c k        dk = scale c^T q        dv = w^T ct

The operands are queries, keys, values, ``ct``, ``l``, ``m`` and the mask, if any. A kernel computes only the results
that are read. The cotangent of an added mask is ``c``, as large as the mask: attention's own rule computes it with
separate operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim, product
from zenith.ir.graph import Value
from zenith.ir.lowering import ArrayTypes, Tile
from zenith.ir.ops.attention import (
    along_rows,
    operand_types,
    scores_of,
    scores_tangent,
    sum_type,
    total_of,
    weights_and_scores_cotangent,
    widened,
)
from zenith.ir.ops.common import (
    all_batched,
    or_zeros,
    random_array,
    require_same_dtype,
    require_same_shape,
    rng,
    sample,
    wide,
)
from zenith.ir.ops.product import swap_last
from zenith.ir.ops.reduce import spread
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, is_narrow, kind_of

EXTRA = 3  # operands that attention itself does not have: the cotangent, the logarithms, delta


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ...]:
    (q, k, v, *_), (ct, logarithm, delta) = operand_types(types, params, EXTRA)
    for name, each in (("the logarithms", logarithm), ("delta", delta)):
        require_same_dtype(f"attention_vjp, {name}", (each, sum_type(q)))
        require_same_shape(f"attention_vjp, {name}", (each, sum_type(q)))
    result = q.with_shape((*q.shape[:-1], v.shape[-1]))
    require_same_dtype("attention_vjp, the cotangent", (ct, result))
    require_same_shape("attention_vjp, the cotangent", (ct, result))
    return q, k, v


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray, ...]:
    q, k, v, ct, logarithm, delta, *masks = wide(values)
    with np.errstate(all="ignore"):
        weights = np.exp(scores_of(q, k, masks, params) - logarithm[..., None])
        ds = weights * (np.matmul(ct, np.swapaxes(v, -1, -2)) - delta[..., None])
        scale = q.dtype.type(params["scale"])
        found = np.matmul(ds, k) * scale, np.matmul(_swapped(ds), q) * scale, np.matmul(_swapped(weights), ct)
        return tuple(x.astype(values[0].dtype, copy=False) for x in found)


def _swapped(x: NDArray) -> NDArray:
    return np.swapaxes(x, -1, -2)


def _operations(types: ArrayTypes, results: ArrayTypes) -> Dim:
    """Five products: of queries and keys, of values and cotangents, and one for each result."""
    q, _, v = types[:3]
    columns: Dim = 3 * q.shape[-1] + 2 * v.shape[-1]
    return product((*q.shape[:-1], types[1].shape[-2])) * columns * 2


class _Expanded:
    """The formula as arrays, in the element type of the logarithms, from which second derivatives are computed."""

    def __init__(self, b: Builder, primals: Values, params: Params) -> None:
        self.b, self.scale, self.model = b, params["scale"], primals[4]
        self.operands = self.wide(primals)
        self.q, self.k, self.v, self.ct, _, delta, *_ = self.operands
        self.weights, self.of_scores = weights_and_scores_cotangent(b, self.operands, params)
        self.slope = b.sub(b.matmul(self.ct, swap_last(b, self.v)), self.of_rows(delta))

    def wide(self, values: Tangents) -> list[Any]:
        """Values in the element type of the logarithms; None stays."""
        return [None if x is None else widened(self.b, x, self.model) for x in values]

    def of_rows(self, x: Value) -> Value:
        """A number for each query, broadcast along its row of scores."""
        return spread(self.b, x, self.weights, (len(self.weights.shape) - 1,))

    def product(self, x: Value | None, y: Value | None, transposed: bool = False, scale: float = 1.0) -> Any:
        """A matrix product times a number, the first factor ``transposed`` or not; None when a factor is."""
        if x is None or y is None:
            return None
        found = self.b.matmul(swap_last(self.b, x) if transposed else x, y)
        return found if scale == 1.0 else self.b.mul(found, scale)

    def times(self, x: Value | None, y: Value | None) -> Any:
        """An elementwise product; None when a factor is."""
        return None if x is None or y is None else self.b.mul(x, y)

    def transposed(self, x: Value | None) -> Any:
        """The transpose of a matrix; None stays."""
        return None if x is None else swap_last(self.b, x)


def _jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    e = _Expanded(b, primals, params)
    dq, dk, dv, dct, dl, dm, *dmask = e.wide(tangents)
    moved = scores_tangent(b, e.operands, (dq, dk, dv, *dmask), params)
    dw = e.times(e.weights, total_of(b, [moved, None if dl is None else b.neg(e.of_rows(dl))]))
    slopes = [
        e.product(dct, e.transposed(e.v)),
        e.product(e.ct, e.transposed(dv)),
        None if dm is None else b.neg(e.of_rows(dm)),
    ]
    dc = total_of(b, [e.times(dw, e.slope), e.times(e.weights, total_of(b, slopes))])
    found = (
        [e.product(dc, e.k, scale=e.scale), e.product(e.of_scores, dk, scale=e.scale)],
        [e.product(dc, e.q, True, e.scale), e.product(e.of_scores, dq, True, e.scale)],
        [e.product(dw, e.ct, True), e.product(e.weights, dct, True)],
    )
    totals = [total_of(b, terms) for terms in found]
    return [None if x is None else b.cast(x, dtype=o.dtype) for x, o in zip(totals, outputs, strict=True)]


def _vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    e = _Expanded(b, primals, params)
    gq, gk, gv = e.wide(or_zeros(b, cotangents, outputs))
    reached = b.mul(b.add(e.product(gq, e.transposed(e.k)), e.product(e.q, e.transposed(gk))), e.scale)
    slope = b.mul(e.weights, reached)
    score = b.mul(e.weights, cast(Value, total_of(b, [b.mul(reached, e.slope), e.product(e.ct, e.transposed(gv))])))
    found = [
        b.add(e.product(score, e.k, scale=e.scale), e.product(e.of_scores, gk, scale=e.scale)),
        b.add(e.product(score, e.q, True, e.scale), e.product(e.of_scores, gq, True, e.scale)),
        e.product(slope, e.ct, True),
        b.add(e.product(slope, e.v), e.product(e.weights, gv)),
        b.neg(along_rows(b, score)),
        b.neg(along_rows(b, slope)),
        *cast(dict[str, list[Value | None]], {"none": [], "bool": [None], "add": [score]})[params["mask"]],
    ]
    return [None if x is None else b.cast(x, dtype=p.dtype) for x, p in zip(found, primals, strict=True)]


def _batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    return b.attention_vjp(*all_batched(b, args, batched, size), **params)


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype) != "f":
        return
    generator = rng("attention_vjp")
    sums = np.dtype(np.float32) if is_narrow(dtype) else dtype

    def case(lead: tuple[int, ...], s: int, t: int, d: int, e: int, *masks: NDArray, causal: bool = False,
             mask: str = "none") -> Sample:  # fmt: skip
        shapes = ((s, d), (t, d), (t, e), (s, e))
        q, k, v, ct = (random_array(generator, dtype, (*lead, *shape)) for shape in shapes)
        logarithm, delta = (random_array(generator, sums, (*lead, s), 1.0, 3.0) for _ in range(2))
        return sample(q, k, v, ct, logarithm, delta, *masks, scale=0.5, causal=causal, mask=mask)

    yield case((2,), 3, 4, 2, 5)
    yield case((), 7, 3, 1, 2, causal=True)
    seen = random_array(generator, np.dtype(bool), (3, 4)) & (np.arange(3) != 1)[:, None]
    yield case((), 3, 4, 2, 18, seen, mask="bool")
    yield case((2, 1), 4, 5, 3, 2, random_array(generator, dtype, (2, 1, 4, 5)), causal=True, mask="add")
    yield case((), 1, 0, 2, 3)
    yield case((2,), 0, 3, 2, 2)
    yield case((), 2, 3, 0, 2)


register(Primitive(
    name="attention_vjp", doc="Cotangents of attention's queries, keys and values from the averages' cotangent, the "
    "logarithms of the sums of exponentials and delta.",
    params={"scale": "number", "causal": "bool", "mask": "text"}, typing=_type, evaluate=_evaluate,
    lowering=Tile("attention_vjp", _operations, 4, summed=5), jvp=_jvp, vjp=_vjp, batch=_batch, ulp=8, effect=False,
    samples=_samples,
))  # fmt: skip
