"""The way back through attention, without the scores in memory: cotangents of queries, keys and values.

With the logarithms ``l`` of each query's sum of exponentials, the weights are ``w = exp(q k^T scale + mask - l)``, no
second softmax is needed, and a kernel can make them again a block at a time (Dao, "FlashAttention-2", 2023). Of the
averages' cotangent ``ct`` and each query's mean change ``m``, the sum of its averages times ``ct``, follow::

    c = w (ct v^T - m)        dq = scale c k        dk = scale c^T q        dv = w^T ct

The operands are queries, keys, values, ``ct``, ``l``, ``m`` and the mask, if any. A kernel computes those results that
are asked for. The cotangent of an added mask is ``c``, as large as the mask: attention's rule makes it of these
operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from zenith.ir.dims import Dim, product
from zenith.ir.lowering import Tile
from zenith.ir.ops.attention import (
    along_rows,
    change_of_scores,
    operand_types,
    scores_of,
    sum_type,
    total_of,
    weights_and_change,
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
from zenith.ir.types import ArrayType, Type, kind_of

OWN = 3  # operands that are not attention's: the cotangent, the logarithms, the mean changes


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ...]:
    (q, k, v, *_), (ct, logarithm, mean) = operand_types(types, params, OWN)
    for name, each in (("the logarithms", logarithm), ("the mean changes", mean)):
        require_same_dtype(f"attention_vjp, {name}", (each, sum_type(q)))
        require_same_shape(f"attention_vjp, {name}", (each, sum_type(q)))
    result = q.with_shape((*q.shape[:-1], v.shape[-1]))
    require_same_dtype("attention_vjp, the cotangent", (ct, result))
    require_same_shape("attention_vjp, the cotangent", (ct, result))
    return q, k, v


def _evaluate(values: Sequence[Any], params: Params) -> tuple[Any, ...]:
    q, k, v, ct, logarithm, mean, *masks = wide(values)
    with np.errstate(all="ignore"):
        weights = np.exp(scores_of(q, k, masks, params) - logarithm[..., None])
        change = weights * (np.matmul(ct, np.swapaxes(v, -1, -2)) - mean[..., None])
        scale = q.dtype.type(params["scale"])
        found = np.matmul(change, k) * scale, np.matmul(_turned(change), q) * scale, np.matmul(_turned(weights), ct)
        return tuple(x.astype(values[0].dtype, copy=False) for x in found)


def _turned(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def _operations(types: Sequence[Any], results: Sequence[Any]) -> Dim:
    """Five products: of queries and keys, of values and cotangents, and one for each result."""
    q, _, v = types[:3]
    columns: Dim = 3 * q.shape[-1] + 2 * v.shape[-1]
    return product((*q.shape[:-1], types[1].shape[-2])) * columns * 2


class _Expanded:
    """The formula as arrays, in the element type of the logarithms: what second derivatives are made of."""

    def __init__(self, b: Any, primals: Sequence[Any], params: Params) -> None:
        self.b, self.scale, self.model = b, params["scale"], primals[4]
        self.operands = self.wide(primals)
        self.q, self.k, self.v, self.ct, _, mean, *_ = self.operands
        self.weights, self.change = weights_and_change(b, self.operands, params)
        self.slope = b.sub(b.matmul(self.ct, swap_last(b, self.v)), self.of_rows(mean))

    def wide(self, values: Sequence[Any]) -> list[Any]:
        """Values in the element type of the logarithms; None stays."""
        return [None if x is None else widened(self.b, x, self.model) for x in values]

    def of_rows(self, x: Any) -> Any:
        """A number for each query, for each of its scores."""
        return spread(self.b, x, self.weights, (len(self.weights.shape) - 1,))

    def product(self, x: Any, y: Any, turned: bool = False, scale: float = 1.0) -> Any:
        """A matrix product, of the first factor turned or not, times a number; None when a factor is."""
        if x is None or y is None:
            return None
        found = self.b.matmul(swap_last(self.b, x) if turned else x, y)
        return found if scale == 1.0 else self.b.mul(found, scale)

    def times(self, x: Any, y: Any) -> Any:
        """An elementwise product; None when a factor is."""
        return None if x is None or y is None else self.b.mul(x, y)

    def transposed(self, x: Any) -> Any:
        """A matrix turned round; None stays."""
        return None if x is None else swap_last(self.b, x)


def _jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Sequence[Any]:
    e = _Expanded(b, primals, params)
    dq, dk, dv, dct, dl, dm, *dmask = e.wide(tangents)
    moved = change_of_scores(b, e.operands, (dq, dk, dv, *dmask), params)
    dw = e.times(e.weights, total_of(b, [moved, None if dl is None else b.neg(e.of_rows(dl))]))
    slopes = [
        e.product(dct, e.transposed(e.v)),
        e.product(e.ct, e.transposed(dv)),
        None if dm is None else b.neg(e.of_rows(dm)),
    ]
    dc = total_of(b, [e.times(dw, e.slope), e.times(e.weights, total_of(b, slopes))])
    found = (
        [e.product(dc, e.k, scale=e.scale), e.product(e.change, dk, scale=e.scale)],
        [e.product(dc, e.q, True, e.scale), e.product(e.change, dq, True, e.scale)],
        [e.product(dw, e.ct, True), e.product(e.weights, dct, True)],
    )
    totals = [total_of(b, terms) for terms in found]
    return [None if x is None else b.cast(x, dtype=o.dtype) for x, o in zip(totals, outputs, strict=True)]


def _vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    e = _Expanded(b, primals, params)
    gq, gk, gv = e.wide(or_zeros(b, cotangents, outputs))
    reached = b.mul(b.add(e.product(gq, e.transposed(e.k)), e.product(e.q, e.transposed(gk))), e.scale)
    slope = b.mul(e.weights, reached)
    score = b.mul(e.weights, total_of(b, [b.mul(reached, e.slope), e.product(e.ct, e.transposed(gv))]))
    found = [
        b.add(e.product(score, e.k, scale=e.scale), e.product(e.change, gk, scale=e.scale)),
        b.add(e.product(score, e.q, True, e.scale), e.product(e.change, gq, True, e.scale)),
        e.product(slope, e.ct, True),
        b.add(e.product(slope, e.v), e.product(e.weights, gv)),
        b.neg(along_rows(b, score)),
        b.neg(along_rows(b, slope)),
        *{"none": [], "bool": [None], "add": [score]}[params["mask"]],
    ]
    return [None if x is None else b.cast(x, dtype=p.dtype) for x, p in zip(found, primals, strict=True)]


def _batch(b: Any, args: Any, batched: Any, size: Any, params: Params) -> Sequence[Any]:
    return b.attention_vjp(*all_batched(b, args, batched, size), **params)  # type: ignore[no-any-return]


def _samples(dtype: np.dtype[Any]) -> Iterable[Sample]:
    if kind_of(dtype) != "f":
        return
    generator = rng("attention_vjp")
    sums = np.dtype(np.float32) if dtype.itemsize == 2 else dtype

    def case(lead: tuple[int, ...], s: int, t: int, d: int, e: int, *masks: Any, causal: bool = False,
             mask: str = "none") -> Sample:  # fmt: skip
        shapes = ((s, d), (t, d), (t, e), (s, e))
        q, k, v, ct = (random_array(generator, dtype, (*lead, *shape)) for shape in shapes)
        logarithm, mean = (random_array(generator, sums, (*lead, s), 1.0, 3.0) for _ in range(2))
        return sample(q, k, v, ct, logarithm, mean, *masks, scale=0.5, causal=causal, mask=mask)

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
    "logarithms of the sums of exponentials and the mean changes.",
    params={"scale": "number", "causal": "bool", "mask": "text"}, typing=_type, evaluate=_evaluate,
    lowering=Tile("attention_vjp", _operations, 4, summed=5), jvp=_jvp, vjp=_vjp, batch=_batch, ulp=8, effect=False,
    samples=_samples,
))  # fmt: skip
