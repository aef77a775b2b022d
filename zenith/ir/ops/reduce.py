"""Reductions over axes (which disappear): sum, product, max, min, and, or; and the position of the maximum.

A reduction of nothing gives the neutral element; for max and min that is the smallest and largest value of the type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim
from zenith.ir.graph import Value
from zenith.ir.lowering import ComplexRule, Composite, Fold, Identity
from zenith.ir.ops.common import (
    arrays,
    moved_axes,
    random_array,
    require_axis,
    require_kind,
    rng,
    same_op_jvp,
    sample,
    wide,
)
from zenith.ir.ops.complex_product import product_over
from zenith.ir.primitive import JvpRule, NoRule, Params, Primitive, Sample, VjpRule, not_differentiable, register
from zenith.ir.types import ArrayType, DType, NDArray, NumPyType, Type, int64, kind_of


def _reduced(x: ArrayType, axes: Sequence[int]) -> list[Dim]:
    return [n for a, n in enumerate(x.shape) if a not in axes]


def spread(b: Builder, value: Value, model: Value, axes: Sequence[int]) -> Value:
    """A reduced value repeated along the axes that the reduction of ``model`` removed."""
    remaining = tuple(a for a in range(len(model.shape)) if a not in axes)
    return b.broadcast(value, shape=model.shape, axes=remaining)


def _reduction(
    name: str, doc: str, combine: str, identity: Identity, function: Callable[..., NDArray],
    jvp: JvpRule | NoRule, vjp: VjpRule | NoRule, *, kinds: str = "iuf", ulp: float = 0,
    complex_rule: ComplexRule | None = None,
) -> Primitive:  # fmt: skip
    def typing(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
        (x,) = arrays(name, types, 1)
        require_kind(name, x, kinds)
        for axis in params["axes"]:
            require_axis(name, x, axis)
        if list(params["axes"]) != sorted(set(params["axes"])):
            raise ShapeError(f"{name} needs growing axes, not {params['axes']}", types=(x,))
        return (x.with_shape(_reduced(x, params["axes"])),)

    def evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
        (x,) = values
        start = identity(_dtype(x)) if x.size == 0 else np._NoValue
        with np.errstate(all="ignore"):
            out = function(*wide(values), axis=tuple(params["axes"]), initial=start)
            return (np.asarray(out).astype(x.dtype, copy=False),)

    def samples(dtype: NumPyType) -> Iterable[Sample]:
        if kind_of(dtype) and kind_of(dtype) in kinds:
            generator = rng(name)
            for shape, axes in (((7,), (0,)), ((3, 5), (1,)), ((3, 5), (0,)), ((2, 3, 4), (0, 2)), ((2, 3, 4), (1,)),
                                ((2, 0), (1,)), ((3, 4), ()), ((2, 3), (0, 1))):  # fmt: skip
                yield sample(random_array(generator, dtype, shape), axes=axes)

    return register(Primitive(
        name=name, doc=doc, params={"axes": "ints"}, typing=typing, evaluate=evaluate,
        lowering=Fold(combine, identity, complex_rule), jvp=jvp, vjp=vjp, batch=lambda b, args, batched, size, params: [
            getattr(b, name)(args[0], axes=moved_axes(params["axes"]))],
        ulp=ulp, effect=False, samples=samples,
    ))  # fmt: skip


def _dtype(x: NDArray) -> DType:
    from zenith.ir.types import dtype_of

    found = dtype_of(x.dtype)
    assert found is not None
    return found


def lowest(dtype: DType) -> Any:
    """The smallest value of a type: the neutral element of max."""
    return -float("inf") if dtype.is_float else False if dtype.kind == "b" else int(np.iinfo(dtype.numpy).min)


def highest(dtype: DType) -> Any:
    """The largest value of a type: the neutral element of min."""
    return float("inf") if dtype.is_float else True if dtype.kind == "b" else int(np.iinfo(dtype.numpy).max)


def _number(value: int) -> Identity:
    return lambda dtype: float(value) if dtype.is_float else value


def _sum_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    return [spread(b, cotangents[0], primals[0], params["axes"])]


def _extreme_weights(b: Builder, x: Value, y: Value, params: Params) -> Value:
    """1 / (number of elements that attain the extreme) at these, 0 elsewhere."""
    hit = b.eq(x, spread(b, y, x, params["axes"]))
    ones = b.where(hit, b.full(1.0, x.dtype, x.shape), b.zeros_like(x))
    return b.div(ones, spread(b, b.reduce_sum(ones, **params), x, params["axes"]))


def _extreme_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    if tangents[0] is None:
        return [None]
    return [b.reduce_sum(b.mul(_extreme_weights(b, primals[0], outputs[0], params), tangents[0]), **params)]


def _extreme_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    weights = _extreme_weights(b, primals[0], outputs[0], params)
    return [b.mul(weights, spread(b, cotangents[0], primals[0], params["axes"]))]


def _prod_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    if tangents[0] is None:
        return [None]
    return [b.reduce_sum(b.mul(b.prod_others(primals[0], **params), tangents[0]), **params)]


def _prod_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    return [b.mul(b.prod_others(primals[0], **params), spread(b, cotangents[0], primals[0], params["axes"]))]


_LOGICAL: NoRule = not_differentiable("it is a logical operation")

_reduction("reduce_sum", "Sum over axes.", "x + y", _number(0), np.sum, same_op_jvp("reduce_sum"), _sum_vjp, ulp=4,
           kinds="iufc")  # fmt: skip
_reduction("reduce_prod", "Product over axes.", "x * y", _number(1), np.prod, _prod_jvp, _prod_vjp, ulp=8,
           kinds="iufc", complex_rule=ComplexRule(product_over, 24))  # fmt: skip
_reduction("reduce_max", "Maximum over axes; nan if any is; the derivative is shared on ties.", "maximum(x, y)", lowest,
           np.max, _extreme_jvp, _extreme_vjp)  # fmt: skip
_reduction("reduce_min", "Minimum over axes; nan if any is; the derivative is shared on ties.", "minimum(x, y)",
           highest, np.min, _extreme_jvp, _extreme_vjp)  # fmt: skip


def _logical(function: np.ufunc) -> Callable[..., NDArray]:
    return lambda x, axis, initial: function.reduce(x, axis=axis)


_reduction("reduce_and", "Whether all are true (bool), the bits that all have (integers).", "x & y",
           lambda dtype: True if dtype.kind == "b" else int(np.invert(dtype.numpy.type(0))), _logical(np.bitwise_and),
           _LOGICAL, _LOGICAL, kinds="biu")  # fmt: skip
_reduction("reduce_or", "Whether any is true (bool), the bits that any has (integers).", "x | y",
           lambda dtype: False if dtype.kind == "b" else 0, _logical(np.bitwise_or),
           _LOGICAL, _LOGICAL, kinds="biu")  # fmt: skip


def _argmax_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("argmax", types, 1)
    require_kind("argmax", x, "biuf")
    require_axis("argmax", x, params["axis"])
    if x.shape[params["axis"]] == 0:
        raise ShapeError("argmax of nothing: the axis has size 0", types=(x,))
    return (ArrayType(int64, _reduced(x, (params["axis"],))),)


def _argmax(values: Sequence[NDArray], params: Params) -> tuple[Any]:
    (x,) = values
    if x.shape[params["axis"]] == 0:
        raise ShapeError("argmax of nothing: the axis has size 0")
    return (np.argmax(x, params["axis"]) if x.size else np.zeros(np.delete(x.shape, params["axis"]), np.int64),)


def _argmax_expand(b: Builder, args: Values, params: Params) -> Values:
    """The first index of the maximum; nan counts as the maximum."""
    (x,), axis = args, params["axis"]
    if x.dtype.kind == "b":
        x = b.cast(x, dtype=int64)
    hit = b.eq(x, spread(b, b.reduce_max(x, axes=(axis,)), x, (axis,)))
    if x.dtype.is_float:
        hit = b.bit_or(hit, b.ne(x, x))
    count = x.shape[axis]
    indices = b.broadcast(b.iota(size=count, dtype=int64), shape=x.shape, axes=(axis,))
    end = b.broadcast_scalar(b.size(value=count), x.shape)
    return [b.reduce_min(b.where(hit, indices, end), axes=(axis,))]


register(Primitive(
    name="argmax", doc="The position of the first maximum (of the first nan, if any) along an axis, as int64.",
    params={"axis": "int"}, typing=_argmax_type,
    evaluate=_argmax, lowering=Composite(_argmax_expand),
    jvp=not_differentiable("a position has no derivative"), vjp=not_differentiable("a position has no derivative"),
    batch=lambda b, args, batched, size, params: [b.argmax(args[0], axis=params["axis"] + 1)], ulp=0, effect=False,
    samples=lambda dtype: [sample(random_array(rng("argmax"), dtype, shape), axis=axis)
                           for shape, axis in (((5,), 0), ((3, 4), 1), ((3, 4), 0)) if kind_of(dtype) in tuple("biuf")],
))  # fmt: skip
