"""Order along the last axis: argsort, and sort, which takes the elements from the places that argsort gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.dims import Dim
from zenith.ir.lowering import Composite, Tile
from zenith.ir.ops.common import arrays, random_array, rng, sample, wide
from zenith.ir.primitive import Params, Primitive, Sample, not_differentiable, register
from zenith.ir.types import ArrayType, Type, int64, kind_of

OPERATIONS = 100  # about what one element takes: twenty merges of a few comparisons and moves each
_POSITION = not_differentiable("a position has no derivative")


def _row_type(name: str, types: Sequence[Type]) -> ArrayType:
    (x,) = arrays(name, types, 1)
    if not x.rank:
        raise ShapeError(f"{name} needs an axis to sort along", types=(x,))
    return x


def _operations(types: Sequence[Any]) -> Dim:
    size: Dim = types[0].size
    return size * OPERATIONS


def _samples(name: str) -> Any:
    def samples(dtype: np.dtype[Any]) -> Iterable[Sample]:
        if kind_of(dtype):
            for shape in ((5,), (3, 4), (2, 3, 33), (0,), (2, 0), (0, 3), (4, 1)):
                yield sample(random_array(rng(name), dtype, shape))

    return samples


register(Primitive(
    name="argsort", doc="The places of the last axis in ascending order of their elements; equal ones keep their "
    "order, nan comes last.", params={}, typing=lambda types, params: (_row_type("argsort", types).with_dtype(int64),),
    evaluate=lambda values, params: (np.argsort(wide(values)[0], axis=-1, kind="stable"),),
    lowering=Tile("sort", _operations, 1), jvp=_POSITION, vjp=_POSITION,
    batch=lambda b, args, batched, size, params: [b.argsort(args[0])], ulp=0, effect=False,
    samples=_samples("argsort"),
))  # fmt: skip


def _elements_at(b: Any, x: Any, places: Any) -> list[Any]:
    """An index array for each axis: the element's own places, but in the last axis those given."""
    rank = len(x.shape)
    own = [b.broadcast(b.iota(size=x.shape[a], dtype=int64), shape=x.shape, axes=(a,)) for a in range(rank - 1)]
    return [*own, places]


def _expand(b: Any, args: Any, params: Params) -> Sequence[Any]:
    (x,) = args
    return [b.gather(x, *_elements_at(b, x, b.argsort(x)))]


def _sorted(x: Any) -> Any:
    return np.sort(wide([x])[0], axis=-1, kind="stable").astype(x.dtype, copy=False)


def _jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Sequence[Any]:
    if tangents[0] is None:
        return [None]
    return [b.gather(tangents[0], *_elements_at(b, primals[0], b.argsort(primals[0])))]


def _vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    (x,) = primals
    return [b.scatter_add(b.zeros_like(x), cotangents[0], *_elements_at(b, x, b.argsort(x)))]


register(Primitive(
    name="sort", doc="The elements of the last axis in ascending order, nan last; the derivative of equal elements is "
    "that of their order in the operand.", params={}, typing=lambda types, params: (_row_type("sort", types),),
    evaluate=lambda values, params: (_sorted(*values),), lowering=Composite(_expand), jvp=_jvp, vjp=_vjp,
    batch=lambda b, args, batched, size, params: [b.sort(args[0])], ulp=0, effect=False, samples=_samples("sort"),
))  # fmt: skip
