"""Writing at computed indices: scatter_set, scatter_add, scatter_mul, scatter_max, scatter_min.

Each is the first operand with the second joined to it at indices, given by one index array for each leading axis.
Indices may repeat: updates are joined in index order, so the last of those that are set remains. Indices are
non-negative integers; one outside its axis is an :class:`~zenith.errors.OutOfBoundsError` when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim, product
from zenith.ir.graph import Value
from zenith.ir.lowering import ComplexRule, Scatter
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
from zenith.ir.primitive import BatchRule, Evaluate, JvpRule, Params, Primitive, Sample, VjpRule, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, int64, kind_of

Write = Callable[[NDArray, tuple[NDArray, ...], NDArray], None]


def _typing(name: str, kinds: str) -> Callable[[Sequence[Type], Params], tuple[ArrayType]]:
    def typing(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
        x, updates, *indices = arrays(name, types) if len(types) > 1 else missing(name)
        require_same_dtype(name, (x, updates))
        require_kind(name, x, kinds)
        require_same_shape(name, (x.with_shape(addressed(name, x, indices)), updates))
        return (x,)

    return typing


def _evaluate(name: str, write: Write) -> Evaluate:
    def evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
        x, updates, *indices = wide(values)
        for i, size in zip(indices, x.shape, strict=False):
            check_bounds(name, i, size)
        out = np.array(x)
        with np.errstate(all="ignore"):
            write(out, tuple(indices), updates)
            return (out.astype(values[0].dtype, copy=False),)

    return evaluate


def _set(out: NDArray, indices: tuple[NDArray, ...], updates: NDArray) -> None:
    """NumPy's assignment, of rows one after the other: so the last value of a repeated index remains."""
    if updates.size:
        out[tuple(np.ravel(i) for i in indices)] = updates.reshape(-1, *out.shape[len(indices) :])


def _samples(name: str, kinds: str) -> Callable[[NumPyType], Iterable[Sample]]:
    def samples(dtype: NumPyType) -> Iterable[Sample]:
        if kind_of(dtype) and kind_of(dtype) in kinds:
            x, generator = random_array(rng(name), dtype, (4, 5)), rng("places")
            indices = generator.integers(0, 4, (6,)), generator.integers(0, 5, (6,))
            yield sample(x, random_array(generator, dtype, (6,)), *indices)
            yield sample(x, random_array(generator, dtype, (7, 5)), generator.integers(0, 4, (7,)))
            yield sample(x, random_array(generator, dtype, (5,)), np.asarray(2))

    return samples


def _batch(name: str) -> BatchRule:
    def batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
        x, updates = all_batched(b, args[:2], batched[:2], size)
        return [getattr(b, name)(x, updates, *with_lead(b, args[2:], batched[2:], size))]

    return batch


def _none(indices: Values) -> list[None]:
    return [None] * len(indices)


def _filled(b: Builder, primals: Values, tangents: Tangents) -> list[Value] | None:
    """The tangents of the array and the updates, zeros where there are none; None without any."""
    if tangents[0] is None and tangents[1] is None:
        return None
    return [b.zeros_like(p) if t is None else t for p, t in zip(primals[:2], tangents[:2], strict=True)]


# --- set and add: linear ---------------------------------------------------------------------------------------


def _linear_jvp(name: str) -> JvpRule:
    def jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
        moved = _filled(b, primals, tangents)
        return [None if moved is None else getattr(b, name)(*moved, *primals[2:])]

    return jvp


def _add_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    indices = primals[2:]
    return [cotangents[0], b.gather(cotangents[0], *indices), *_none(indices)]


def _set_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    x, updates, *indices = primals
    outside = b.scatter_set(cotangents[0], b.zeros_like(updates), *indices)
    found = b.gather(cotangents[0], *indices)
    return [outside, b.where(_stays(b, x, updates, indices), found, b.zeros_like(updates)), *_none(indices)]


def _stays(b: Builder, x: Value, updates: Value, indices: Values) -> Value:
    """Which updates no later one at the same index has overwritten."""
    lead = indices[0].shape
    numbers = b.reshape(b.iota(size=product(lead), dtype=int64), shape=lead)
    placed = b.full(0, int64, x.shape[: len(indices)])
    stays = b.eq(b.gather(b.scatter_set(placed, numbers, *indices), *indices), numbers)
    return b.broadcast(stays, shape=updates.shape, axes=tuple(range(len(lead))))


# --- mul: the product of all other factors of an element ---------------------------------------------------------


def _others(b: Builder, primals: Values) -> tuple[Value, Value]:
    """For each element of the array, and of the updates, the product of the other factors of the same result.

    It is the product of the factors but zeros, divided by the factor where that is none, times the other factors that
    are 0. Their product is written as a function of their sum and the sum of their squares, so that it has their
    derivatives: with one other zero it is the sum, with two half of what the sum's square is more than the squares.
    With three or more it is 0, as are its first two derivatives; so derivatives of the scatter are right up to the
    third.
    """
    x, updates, *indices = primals
    zero, one = [b.eq(v, 0.0) for v in (x, updates)], b.full(1.0, x.dtype, ())
    ones = [b.broadcast(one, shape=v.shape, axes=()) for v in (x, updates)]
    factors = [b.where(z, o, v) for z, o, v in zip(zero, ones, (x, updates), strict=True)]
    whole = b.scatter_mul(*factors, *indices)
    count = b.scatter_add(*(b.cast(z, dtype=int64) for z in zero), *indices)
    vanish = [b.where(z, v, b.zeros_like(v)) for z, v in zip(zero, (x, updates), strict=True)]
    sums = b.scatter_add(*vanish, *indices), b.scatter_add(*(b.mul(v, v) for v in vanish), *indices)

    def others(of_result: Values, factor: Value, is_zero: Value, vanishing: Value) -> Value:
        product_of_factors, number, first, second = of_result
        found = _vanishing(b, b.sub(number, b.cast(is_zero, dtype=int64)), b.sub(first, vanishing),
                           b.sub(second, b.mul(vanishing, vanishing)))  # fmt: skip
        return b.mul(b.div(product_of_factors, factor), found)

    of_array = whole, count, *sums
    of_updates = [b.gather(v, *indices) for v in of_array]
    return (others(of_array, factors[0], zero[0], vanish[0]), others(of_updates, factors[1], zero[1], vanish[1]))


def _vanishing(b: Builder, number: Value, first: Value, second: Value) -> Value:
    """The product of so many factors that are 0, by their sum and the sum of their squares."""
    pair = b.mul(b.sub(b.mul(first, first), second), 0.5)
    found = b.where(b.eq(number, 2), pair, b.zeros_like(first))
    found = b.where(b.eq(number, 1), first, found)
    return b.where(b.eq(number, 0), b.full(1.0, first.dtype, first.shape), found)


def _mul_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    moved = _filled(b, primals, tangents)
    if moved is None:
        return [None]
    terms = [b.mul(o, t) for o, t in zip(_others(b, primals), moved, strict=True)]
    return [b.scatter_add(*terms, *primals[2:])]


def _mul_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    (ct,), indices = cotangents, primals[2:]
    of_array, of_updates = _others(b, primals)
    return [b.mul(of_array, ct), b.mul(of_updates, b.gather(ct, *indices)), *_none(indices)]


# --- max and min: the elements that attain it share -------------------------------------------------------------


def _weights(b: Builder, primals: Values, y: Value) -> tuple[Value, Value]:
    """For the array and the updates, 1 / (number of those that attain the extreme) where they do, 0 elsewhere."""
    x, updates, *indices = primals
    hits = [b.eq(x, y), b.eq(updates, b.gather(y, *indices))]
    ones = [b.where(h, b.full(1.0, x.dtype, h.shape), b.full(0.0, x.dtype, h.shape)) for h in hits]
    count = b.maximum(b.scatter_add(*ones, *indices), 1.0)
    return b.div(ones[0], count), b.div(ones[1], b.gather(count, *indices))


def _extreme_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    moved = _filled(b, primals, tangents)
    if moved is None:
        return [None]
    terms = [b.mul(w, t) for w, t in zip(_weights(b, primals, outputs[0]), moved, strict=True)]
    return [b.scatter_add(*terms, *primals[2:])]


def _extreme_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    (ct,), indices = cotangents, primals[2:]
    weights = _weights(b, primals, outputs[0])
    return [b.mul(weights[0], ct), b.mul(weights[1], b.gather(ct, *indices)), *_none(indices)]


def _complex(name: str) -> ComplexRule:
    """Both parts of an element at once: on arrays as they are in memory it is a row of two numbers."""

    def write(b: Builder, x: Value, updates: Value, *indices: Value) -> Value:
        found: Value = getattr(b, name)(b.as_parts(x), b.as_parts(updates), *indices)
        return b.of_parts(found)

    return ComplexRule(write, 0)


# --- the records -------------------------------------------------------------------------------------------------


def _scatter(
    name: str, doc: str, combine: str, write: Write, jvp: JvpRule, vjp: VjpRule, *,
    kinds: str = "iuf", ulp: float = 0,
) -> None:  # fmt: skip
    """Register a scatter that joins element ``x`` and update ``y`` by ``combine``."""
    complex_rule = _complex(name) if "c" in kinds else None
    register(Primitive(
        name=name, doc=f"{doc}, one index array a leading axis; indices may repeat, in order.", params={},
        typing=_typing(name, kinds), evaluate=_evaluate(name, write), lowering=Scatter(combine, complex_rule), jvp=jvp,
        vjp=vjp, batch=_batch(name), ulp=ulp, effect=False, samples=_samples(name, kinds), speculatable=False,
    ))  # fmt: skip


_scatter("scatter_set", "The first operand with the second written over it at indices", "y", _set,
         _linear_jvp("scatter_set"), _set_vjp, kinds="biufc")  # fmt: skip
_scatter("scatter_add", "The first operand with the second added at indices", "x + y", np.add.at,
         _linear_jvp("scatter_add"), _add_vjp, kinds="iufc", ulp=4)  # fmt: skip
_scatter("scatter_mul", "The first operand multiplied by the second at indices", "x * y", np.multiply.at,
         _mul_jvp, _mul_vjp, ulp=8)  # fmt: skip
_scatter("scatter_max", "The larger of the first operand and the second at indices, nan if any is",
         "where((x >= y) | (x != x), x, y)", np.maximum.at, _extreme_jvp, _extreme_vjp)  # fmt: skip
_scatter("scatter_min", "The smaller of the first operand and the second at indices, nan if any is",
         "where((x <= y) | (x != x), x, y)", np.minimum.at, _extreme_jvp, _extreme_vjp)  # fmt: skip
