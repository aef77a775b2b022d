"""Stream compaction: where the true elements of a row are, in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Values
from zenith.ir.dims import Dim
from zenith.ir.graph import Value
from zenith.ir.lowering import ArrayTypes, Tile
from zenith.ir.ops.common import arrays, rng, sample
from zenith.ir.ops.sort import elements_at
from zenith.ir.primitive import Params, Primitive, Sample, not_differentiable, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, bool_, int64

_POSITION = not_differentiable("a position has no derivative")


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (flags,) = arrays("true_indices", types, 1)
    if not flags.rank or flags.dtype != bool_ or (params["size"].static or 0) < 0:
        raise ShapeError("true_indices needs rows of truth values, and a size", types=(flags,))
    return (ArrayType(int64, (*flags.shape[:-1], params["size"])),)


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    (flags,), size = values, params["size"]
    out = np.zeros((*flags.shape[:-1], size), np.int64)
    for row in np.ndindex(flags.shape[:-1]):
        found = np.flatnonzero(flags[row])[:size]
        out[row][: len(found)] = found
    return (out,)


def _operations(types: ArrayTypes, results: ArrayTypes) -> Dim:
    operations: Dim = types[0].size * 2
    return operations


def _expand(b: Builder, args: Values, params: Params) -> Values:
    """True elements go to the front, by their ranks among them, and the others after them: no two to one index."""
    (flags,), size = args, params["size"]
    last, shape = len(flags.shape) - 1, flags.shape
    wanted = (*shape[:-1], size)

    def spread(value: Value, shape: Sequence[Dim], *axes: int) -> Value:
        return b.broadcast(value, shape=shape, axes=axes)

    counts, lead = b.cast(flags, dtype=int64), tuple(range(last))
    rank = b.cumsum(counts, axis=last, reverse=False)
    total = b.reduce_sum(counts, axes=(last,))
    index = spread(b.iota(size=shape[-1], dtype=int64), shape, last)
    rest = b.add(b.sub(index, rank), spread(total, shape, *lead))
    target = b.where(flags, b.sub(rank, spread(b.literal(value=1, dtype=int64), shape)), rest)
    zeros = b.full(0, int64, (*shape[:-1], shape[-1] + 1))
    ordered = b.scatter_add(zeros, index, *elements_at(b, zeros, target))
    at = b.iota(size=size, dtype=int64)
    taken = b.take(ordered, b.minimum(at, spread(b.size(value=shape[-1]), (size,))), axis=last)
    there = b.lt(spread(at, wanted, last), spread(total, wanted, *lead))
    return [b.where(there, taken, b.full(0, int64, wanted))]


def _samples(dtype: NumPyType) -> Iterable[Sample]:
    if dtype == np.bool_:
        generator = rng("true_indices")
        for shape, size in (((9,), 4), ((2, 33), 40), ((0,), 3), ((3, 5), 0), ((0, 4), 2), ((1, 70), 70)):
            yield sample(generator.integers(0, 2, shape).astype(bool), size=size)


register(Primitive(
    name="true_indices", doc="The indices of the first true elements of the last axis, then 0.",
    params={"size": "size"}, typing=_type, evaluate=_evaluate,
    lowering=Tile("true_indices", _operations, 1, expand=_expand), jvp=_POSITION, vjp=_POSITION,
    batch=lambda b, args, batched, size, params: [b.true_indices(args[0], **params)], ulp=0, effect=False,
    samples=_samples,
))  # fmt: skip
