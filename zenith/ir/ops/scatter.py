"""Writing at computed places: scatter_set, scatter_add, scatter_mul, scatter_max, scatter_min.

Each is the first operand with the second joined to it at places, which one index array for each leading axis gives.
Places may repeat: updates are joined in index order, so of those that are set the last one stays. Indices are
non-negative integers; one outside its axis is an :class:`~zenith.errors.OutOfBoundsError` when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from zenith.ir.dims import product
from zenith.ir.lowering import Scatter
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
from zenith.ir.ops.indexing import addressed, check_bounds, missing, with_lead
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, Type, int64, kind_of

Rule = Callable[..., Sequence[Any]]


def _typing(name: str, kinds: str) -> Callable[[Sequence[Type], Params], tuple[ArrayType]]:
    def typing(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
        x, updates, *indices = arrays(name, types) if len(types) > 1 else missing(name)
        require_same_dtype(name, (x, updates))
        require_kind(name, x, kinds)
        require_same_shape(name, (x.with_shape(addressed(name, x, indices)), updates))
        return (x,)

    return typing


def _evaluate(name: str, write: Callable[[Any, Any, Any], None]) -> Callable[..., tuple[Any]]:
    def evaluate(values: Sequence[Any], params: Params) -> tuple[Any]:
        x, updates, *indices = wide(values)
        for i, size in zip(indices, x.shape, strict=False):
            check_bounds(name, i, size)
        out = np.array(x)
        with np.errstate(all="ignore"):
            write(out, tuple(indices), updates)
            return (out.astype(values[0].dtype, copy=False),)

    return evaluate


def _set(out: Any, indices: Any, updates: Any) -> None:
    """NumPy's assignment, of rows one after the other: then the last value of a place stays."""
    if updates.size:
        out[tuple(np.ravel(i) for i in indices)] = updates.reshape(-1, *out.shape[len(indices) :])


def _samples(name: str, kinds: str) -> Callable[[np.dtype[Any]], Iterable[Sample]]:
    def samples(dtype: np.dtype[Any]) -> Iterable[Sample]:
        if kind_of(dtype) and kind_of(dtype) in kinds:
            x, generator = random_array(rng(name), dtype, (4, 5)), rng("places")
            places = generator.integers(0, 4, (6,)), generator.integers(0, 5, (6,))
            yield sample(x, random_array(generator, dtype, (6,)), *places)
            yield sample(x, random_array(generator, dtype, (7, 5)), generator.integers(0, 4, (7,)))
            yield sample(x, random_array(generator, dtype, (5,)), np.asarray(2))

    return samples


def _batch(name: str) -> Rule:
    def batch(b: Any, args: Any, batched: Any, size: Any, params: Params) -> Sequence[Any]:
        x, updates = all_batched(b, args[:2], batched[:2], size)
        return [getattr(b, name)(x, updates, *with_lead(b, args[2:], batched[2:], size))]

    return batch


def _none(indices: Sequence[Any]) -> list[None]:
    return [None] * len(indices)


def _filled(b: Any, primals: Any, tangents: Any) -> list[Any] | None:
    """The tangents of the array and the updates, zeros where there are none; None without any."""
    if tangents[0] is None and tangents[1] is None:
        return None
    return [b.zeros_like(p) if t is None else t for p, t in zip(primals[:2], tangents[:2], strict=True)]


# --- set and add: linear ---------------------------------------------------------------------------------------


def _linear_jvp(name: str) -> Rule:
    def jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Sequence[Any]:
        moved = _filled(b, primals, tangents)
        return [None if moved is None else getattr(b, name)(*moved, *primals[2:])]

    return jvp


def _add_vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    indices = primals[2:]
    return [cotangents[0], b.gather(cotangents[0], *indices), *_none(indices)]


def _set_vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    x, updates, *indices = primals
    outside = b.scatter_set(cotangents[0], b.zeros_like(updates), *indices)
    found = b.gather(cotangents[0], *indices)
    return [outside, b.where(_stays(b, x, updates, indices), found, b.zeros_like(updates)), *_none(indices)]


def _stays(b: Any, x: Any, updates: Any, indices: Sequence[Any]) -> Any:
    """Which updates no later one of the same place has written over."""
    lead = indices[0].shape
    numbers = b.reshape(b.iota(size=product(lead), dtype=int64), shape=lead)
    placed = b.full(0, int64, x.shape[: len(indices)])
    stays = b.eq(b.gather(b.scatter_set(placed, numbers, *indices), *indices), numbers)
    return b.broadcast(stays, shape=updates.shape, axes=tuple(range(len(lead))))


# --- mul: the product of all other factors of a place ------------------------------------------------------------


def _others(b: Any, primals: Any) -> tuple[Any, Any]:
    """For each element of the array, and of the updates, the product of the other factors of its place.

    It is the product of the factors but zeros, divided by the factor where that is none, and 0 where another one is 0.
    """
    x, updates, *indices = primals
    zero, one = [b.eq(v, 0.0) for v in (x, updates)], b.full(1.0, x.dtype, ())
    ones = [b.broadcast(one, shape=v.shape, axes=()) for v in (x, updates)]
    factors = [b.where(z, o, v) for z, o, v in zip(zero, ones, (x, updates), strict=True)]
    whole = b.scatter_mul(*factors, *indices)
    zeros = b.scatter_add(*(b.cast(z, dtype=int64) for z in zero), *indices)

    def others(all_factors: Any, count: Any, factor: Any, is_zero: Any) -> Any:
        no_other = b.eq(count, b.cast(is_zero, dtype=int64))
        return b.where(no_other, b.div(all_factors, factor), b.zeros_like(factor))

    found, count = (b.gather(v, *indices) for v in (whole, zeros))
    return others(whole, zeros, factors[0], zero[0]), others(found, count, factors[1], zero[1])


def _mul_jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Sequence[Any]:
    moved = _filled(b, primals, tangents)
    if moved is None:
        return [None]
    parts = [b.mul(o, t) for o, t in zip(_others(b, primals), moved, strict=True)]
    return [b.scatter_add(*parts, *primals[2:])]


def _mul_vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    (ct,), indices = cotangents, primals[2:]
    of_array, of_updates = _others(b, primals)
    return [b.mul(of_array, ct), b.mul(of_updates, b.gather(ct, *indices)), *_none(indices)]


# --- max and min: the elements that attain it share -------------------------------------------------------------


def _weights(b: Any, primals: Any, y: Any) -> tuple[Any, Any]:
    """For the array and the updates, 1 / (number of those that attain the extreme) where they do, 0 elsewhere."""
    x, updates, *indices = primals
    hits = [b.eq(x, y), b.eq(updates, b.gather(y, *indices))]
    ones = [b.where(h, b.full(1.0, x.dtype, h.shape), b.full(0.0, x.dtype, h.shape)) for h in hits]
    count = b.maximum(b.scatter_add(*ones, *indices), 1.0)
    return b.div(ones[0], count), b.div(ones[1], b.gather(count, *indices))


def _extreme_jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Sequence[Any]:
    moved = _filled(b, primals, tangents)
    if moved is None:
        return [None]
    parts = [b.mul(w, t) for w, t in zip(_weights(b, primals, outputs[0]), moved, strict=True)]
    return [b.scatter_add(*parts, *primals[2:])]


def _extreme_vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    (ct,), indices = cotangents, primals[2:]
    weights = _weights(b, primals, outputs[0])
    return [b.mul(weights[0], ct), b.mul(weights[1], b.gather(ct, *indices)), *_none(indices)]


# --- the records -------------------------------------------------------------------------------------------------


def _scatter(
    name: str, doc: str, combine: str, write: Callable[[Any, Any, Any], None], jvp: Rule, vjp: Rule, *,
    kinds: str = "iuf", ulp: float = 0,
) -> None:  # fmt: skip
    """Register a scatter that joins element ``x`` and update ``y`` by ``combine``."""
    register(Primitive(
        name=name, doc=f"{doc}, one index array a leading axis; places may repeat and come in order.", params={},
        typing=_typing(name, kinds), evaluate=_evaluate(name, write), lowering=Scatter(combine), jvp=jvp, vjp=vjp,
        batch=_batch(name), ulp=ulp, effect=False, samples=_samples(name, kinds),
    ))  # fmt: skip


_scatter("scatter_set", "The first operand with the second written over it at places", "y", _set,
         _linear_jvp("scatter_set"), _set_vjp, kinds="biufc")  # fmt: skip
_scatter("scatter_add", "The first operand with the second added at places", "x + y", np.add.at,
         _linear_jvp("scatter_add"), _add_vjp, kinds="iufc", ulp=4)  # fmt: skip
_scatter("scatter_mul", "The first operand multiplied by the second at places", "x * y", np.multiply.at,
         _mul_jvp, _mul_vjp, ulp=8)  # fmt: skip
_scatter("scatter_max", "The larger of the first operand and the second at places, nan if any is",
         "where((x >= y) | (x != x), x, y)", np.maximum.at, _extreme_jvp, _extreme_vjp)  # fmt: skip
_scatter("scatter_min", "The smaller of the first operand and the second at places, nan if any is",
         "where((x <= y) | (x != x), x, y)", np.minimum.at, _extreme_jvp, _extreme_vjp)  # fmt: skip
