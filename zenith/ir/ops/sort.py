"""Order along the last axis: its elements in ascending or descending order or the first of these, and their places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.dims import Dim, prove_at_least
from zenith.ir.lowering import ComplexRule, Tile
from zenith.ir.ops.common import arrays, random_array, rng, sample, wide
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, Type, int32, int64, kind_of

OPERATIONS = 16  # about what moving one element by one digit takes: that is found twice, and counted once


def _row_type(name: str, types: Sequence[Type]) -> ArrayType:
    (x,) = arrays(name, types, 1)
    if not x.rank:
        raise ShapeError(f"{name} needs an axis to sort along", types=(x,))
    return x


def _type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ArrayType]:
    x = _row_type("sort", types)
    return x, x.with_dtype(int64)


def _evaluate(values: Sequence[Any], params: Params) -> tuple[Any, Any]:
    """Descending is the mirror image of sorting the mirrored row, in which equal elements are the other way round."""
    (x,) = wide(values)
    row = x[..., ::-1] if params["descending"] else x
    places = np.argsort(row, axis=-1, kind="stable")
    if params["descending"]:
        places = x.shape[-1] - 1 - places[..., ::-1]
    return np.take_along_axis(values[0], places, axis=-1), places


def _operations(types: Sequence[Any], results: Sequence[Any]) -> Dim:
    """What moving all elements by each of their digits takes."""
    operations: Dim = types[0].size * (OPERATIONS * types[0].dtype.itemsize)
    return operations


def elements_at(b: Any, x: Any, places: Any) -> list[Any]:
    """An index array for each axis: the element's own places, but in the last axis those given."""
    rank = len(places.shape)
    own = [b.broadcast(b.iota(size=x.shape[a], dtype=int64), shape=places.shape, axes=(a,)) for a in range(rank - 1)]
    return [*own, places]


def _sort_complex(b: Any, x: Any, descending: bool) -> tuple[Any, Any]:
    """By real parts, equal ones by imaginary parts; behind them what has nan: imaginary, real, both.

    Three stable sorts, by the least of these keys first.
    """
    xr, xi = b.real(x), b.imag(x)
    missing = b.add(b.cast(b.ne(xi, xi), dtype=int32), b.mul(b.cast(b.ne(xr, xr), dtype=int32), 2))
    places = b.sort(xi, descending=descending)[1]
    for key in (xr, missing):
        order = b.sort(b.gather(key, *elements_at(b, x, places)), descending=descending)[1]
        places = b.gather(places, *elements_at(b, x, order))
    return b.gather(x, *elements_at(b, x, places)), places


def moved(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Sequence[Any]:
    """Tangents move as the elements do that were taken to ``outputs``, elements and their places; places jump."""
    (tangent,), (_, places) = tangents, outputs
    return [None if tangent is None else b.gather(tangent, *elements_at(b, tangent, places)), None]


def sent_back(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Sequence[Any]:
    """Cotangents go to the places from which their elements came."""
    (x,), (_, places) = primals, outputs
    return [b.scatter_add(b.zeros_like(x), cotangents[0], *elements_at(b, x, places))]


def _samples(dtype: np.dtype[Any]) -> Iterable[Sample]:
    if kind_of(dtype):
        for k, shape in enumerate(((5,), (3, 4), (2, 3, 33), (0,), (2, 0), (0, 3), (4, 1))):
            yield sample(random_array(rng("sort"), dtype, shape), descending=k % 2 == 1)


register(Primitive(
    name="sort", doc="The elements of the last axis in ascending or descending order, and their places in the operand; "
    "equal elements keep their order, nan is the largest.", params={"descending": "bool"}, typing=_type,
    evaluate=_evaluate, lowering=Tile("sort", _operations, 1, complex_rule=ComplexRule(_sort_complex, 0)),
    jvp=moved, vjp=sent_back,
    batch=lambda b, args, batched, size, params: b.sort(args[0], **params), ulp=0, effect=False, samples=_samples,
))  # fmt: skip


def _top_type(types: Sequence[Type], params: Params) -> tuple[ArrayType, ArrayType]:
    x, k = _row_type("top_k", types), params["k"]
    if (k.static or 0) < 0 or prove_at_least(x.shape[-1], k) is False:
        raise ShapeError(f"top_k: {k} is more than an axis of size {x.shape[-1]} has", types=(x,))
    found = x.with_shape((*x.shape[:-1], k))
    return found, found.with_dtype(int64)


def _top(values: Sequence[Any], params: Params) -> tuple[Any, Any]:
    elements, places = _evaluate(values, {"descending": params["largest"]})
    return elements[..., : params["k"]], places[..., : params["k"]]


def _top_complex(b: Any, x: Any, k: Dim, largest: bool) -> list[Any]:
    """The first of the sorted row."""
    shape = (*x.shape[:-1], k)
    parts = b.sort(x, descending=largest)
    return [b.slice(part, start=(0,) * len(shape), stop=shape, step=(1,) * len(shape)) for part in parts]


def _top_samples(dtype: np.dtype[Any]) -> Iterable[Sample]:
    if kind_of(dtype):
        for shape, k, largest in (((5,), 2, True), ((3, 4), 4, False), ((2, 3, 33), 5, True), ((2, 3), 0, True)):
            yield sample(random_array(rng("top_k"), dtype, shape), k=k, largest=largest)


register(Primitive(
    name="top_k", doc="The k largest or smallest elements of the last axis, best first, and their places in the "
    "operand; of equal elements the first, nan is the largest.", params={"k": "size", "largest": "bool"},
    typing=_top_type, evaluate=_top, lowering=Tile("top_k", _operations, 1, complex_rule=ComplexRule(_top_complex, 0)),
    jvp=moved, vjp=sent_back,
    batch=lambda b, args, batched, size, params: b.top_k(args[0], **params), ulp=0, effect=False, samples=_top_samples,
))  # fmt: skip
