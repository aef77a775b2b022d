"""Complex numbers: real and imaginary parts, complex numbers of them, and views as pairs of real numbers.

An array of complex numbers is, in memory, an array of real ones with one more axis, the last, of size 2: the real and
the imaginary part. Programs are written with ``real``, ``imag``, ``complex`` and ``conj``; the pass ``split_complex``
lowers them to ``as_parts``, ``of_parts``, ``part`` and ``interleave`` for kernels.

Derivatives follow JAX's convention. A cotangent c of a complex value pairs with a tangent t by the real part of
``c * t``, without conjugation: rules of functions that are differentiable as complex functions are those of real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import dim, prove_at_least, prove_equal
from zenith.ir.graph import Value
from zenith.ir.lowering import Composite, Elements, Interleave, View
from zenith.ir.ops.common import (
    all_batched,
    arrays,
    random_array,
    require_kind,
    require_same_dtype,
    require_same_shape,
    rng,
    same_op_jvp,
    sample,
)
from zenith.ir.ops.elementwise import batch_elementwise
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, complex64, complex128, float32, float64, kind_of

_OF_PARTS = {float32: complex64, float64: complex128}
_SHAPES = ((), (5,), (3, 4), (0, 2))


def _only(name: str, types: Sequence[Type], kinds: str) -> ArrayType:
    """The one operand's type, of one of the kinds."""
    (x,) = arrays(name, types, 1)
    require_kind(name, x, kinds)
    return x


def _require_wide(name: str, x: ArrayType) -> None:
    """An error unless there are complex numbers with parts of this type."""
    if x.dtype not in _OF_PARTS:
        require_kind(name, x, "f")
        require_same_dtype(f"{name}, parts of complex numbers of 32 or 64 bits, and", (x, x.with_dtype(float32)))


def _samples(name: str, kinds: str, count: int) -> Callable[[NumPyType], Iterable[Sample]]:
    def samples(dtype: NumPyType) -> Iterable[Sample]:
        if kind_of(dtype) and kind_of(dtype) in kinds and dtype.itemsize >= 4:
            generator = rng(name)
            for shape in _SHAPES:
                yield sample(*(random_array(generator, dtype, shape) for _ in range(count)))

    return samples


# --- real and imaginary part -----------------------------------------------------------------------------------


def _part_of(
    name: str, doc: str, which: int, function: Callable[[NDArray], NDArray],
    transpose: Callable[[Builder, Value], Value],
) -> None:  # fmt: skip
    def typing(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
        x = _only(name, types, "c")
        return (x.with_dtype(x.dtype.real),)

    register(Primitive(
        name=name, doc=doc, params={}, typing=typing, evaluate=lambda values, params: (function(values[0]).copy(),),
        lowering=Composite(lambda b, args, params: [b.part(b.as_parts(args[0]), which=which)]), jvp=same_op_jvp(name),
        vjp=lambda b, primals, outputs, cts, params: [transpose(b, cts[0])],
        batch=batch_elementwise(name), ulp=0, effect=False, samples=_samples(name, "c", 1),
    ))  # fmt: skip


_part_of("real", "The real part of complex numbers.", 0, np.real, lambda b, ct: b.complex(ct, b.zeros_like(ct)))
_part_of(
    "imag", "The imaginary part of complex numbers.", 1, np.imag, lambda b, ct: b.complex(b.zeros_like(ct), b.neg(ct))
)


# --- complex and conj ------------------------------------------------------------------------------------------


def _complex_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, y = arrays("complex", types, 2)
    _require_wide("complex", x)
    require_same_dtype("complex", (x, y))
    require_same_shape("complex", (x, y))
    return (x.with_dtype(_OF_PARTS[x.dtype]),)


def _complex(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    x, y = values
    out = np.empty(x.shape, np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x, y
    return (out,)


def _complex_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    if tangents[0] is None and tangents[1] is None:
        return [None]
    return [b.complex(*(b.zeros_like(primals[0]) if t is None else t for t in tangents))]


register(Primitive(
    name="complex", doc="Complex numbers of real and imaginary parts.", params={}, typing=_complex_type,
    evaluate=_complex, lowering=Composite(lambda b, args, params: [b.of_parts(b.interleave(*args))]), jvp=_complex_jvp,
    vjp=lambda b, primals, outputs, cts, params: [b.real(cts[0]), b.neg(b.imag(cts[0]))],
    batch=batch_elementwise("complex"), ulp=0, effect=False, samples=_samples("complex", "f", 2),
))  # fmt: skip

register(Primitive(
    name="conj", doc="Complex conjugates.", params={}, typing=lambda types, params: (_only("conj", types, "c"),),
    evaluate=lambda values, params: (np.conjugate(values[0]),),
    lowering=Composite(lambda b, args, params: [b.complex(b.real(args[0]), b.neg(b.imag(args[0])))]),
    jvp=same_op_jvp("conj"), vjp=lambda b, primals, outputs, cts, params: [b.conj(cts[0])],
    batch=batch_elementwise("conj"), ulp=0, effect=False, samples=_samples("conj", "c", 1),
))  # fmt: skip


# --- views as pairs of real numbers ----------------------------------------------------------------------------


def _as_parts_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x = _only("as_parts", types, "c")
    return (ArrayType(x.dtype.real, (*x.shape, 2)),)


def _of_parts_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x = _only("of_parts", types, "f")
    _require_wide("of_parts", x)
    if not x.rank or prove_equal(x.shape[-1], dim(2)) is False:
        raise ShapeError("of_parts needs a last axis of size 2: real and imaginary parts", types=(x,))
    return (ArrayType(_OF_PARTS[x.dtype], x.shape[:-1]),)


def _as_parts(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    return (np.stack([values[0].real, values[0].imag], -1),)


def _of_parts(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    return _complex((values[0][..., 0], values[0][..., 1]), params)


register(Primitive(
    name="as_parts", doc="Complex numbers as pairs of real ones, along a new last axis; the same memory.", params={},
    typing=_as_parts_type, evaluate=_as_parts, lowering=View(), jvp=same_op_jvp("as_parts"),
    vjp=lambda b, primals, outputs, cts, params: [b.conj(b.of_parts(cts[0]))],
    batch=batch_elementwise("as_parts"), ulp=0, effect=False, samples=_samples("as_parts", "c", 1),
))  # fmt: skip

register(Primitive(
    name="of_parts", doc="Complex numbers of the pairs along the last axis; the same memory.", params={},
    typing=_of_parts_type, evaluate=_of_parts, lowering=View(), jvp=same_op_jvp("of_parts"),
    vjp=lambda b, primals, outputs, cts, params: [b.as_parts(b.conj(cts[0]))],
    batch=batch_elementwise("of_parts"), ulp=0, effect=False,
    samples=lambda dtype: [sample(random_array(rng("of_parts"), dtype, (*shape, 2))) for shape in _SHAPES]
    if kind_of(dtype) == "f" and dtype.itemsize >= 4 else [],
))  # fmt: skip


# --- elements of the last axis ---------------------------------------------------------------------------------


def _part_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("part", types, 1)
    if not x.rank or params["which"] < 0 or prove_at_least(x.shape[-1], params["which"] + 1) is False:
        raise ShapeError(f"part: there is no index {params['which']} along the last axis of {x}", types=(x,))
    return (x.with_shape(x.shape[:-1]),)


def _part_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    (x,), (ct,), which = primals, cotangents, params["which"]
    column, none = b.reshape(ct, shape=(*ct.shape, 1)), (0,) * len(ct.shape)
    high = (*none, x.shape[-1] - which - 1)
    return [b.pad(column, b.literal(value=0.0, dtype=ct.dtype), low=(*none, which), high=high, interior=(*none, 0))]


register(Primitive(
    name="part", doc="The elements at one index of the last axis.", params={"which": "int"},
    typing=_part_type, evaluate=lambda values, params: (values[0][..., params["which"]],),
    lowering=Elements(lambda k, index, read, types, params: read[0](*index, dim(params["which"])), cheap=True,
                      strided=True),
    jvp=same_op_jvp("part"), vjp=_part_vjp, batch=batch_elementwise("part"), ulp=0, effect=False,
    samples=lambda dtype: [sample(random_array(rng("part"), dtype, shape), which=which)
                           for shape, which in (((2,), 1), ((3, 4, 2), 0), ((0, 3), 2))] if kind_of(dtype) else [],
))  # fmt: skip


def _interleave_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    operands = arrays("interleave", types)
    if not operands:
        raise ShapeError("interleave needs at least one operand")
    require_same_dtype("interleave", operands)
    require_same_shape("interleave", operands)
    return (operands[0].with_shape((*operands[0].shape, len(operands))),)


def _interleave_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    if all(t is None for t in tangents):
        return [None]
    return [b.interleave(*(b.zeros_like(p) if t is None else t for p, t in zip(primals, tangents, strict=True)))]


register(Primitive(
    name="interleave", doc="Arrays of one shape stacked along a new last axis.", params={},
    typing=_interleave_type, evaluate=lambda values, params: (np.stack(values, -1),), lowering=Interleave(),
    jvp=_interleave_jvp,
    vjp=lambda b, primals, outputs, cts, params: [b.part(cts[0], which=i) for i in range(len(primals))],
    batch=lambda b, args, batched, size, params: [b.interleave(*all_batched(b, args, batched, size))],
    ulp=0, effect=False,
    samples=lambda dtype: [sample(*(random_array(rng(f"interleave{i}"), dtype, shape) for i in range(n)))
                           for shape, n in (((), 2), ((5,), 1), ((3, 4), 2), ((0, 2), 3))] if kind_of(dtype) else [],
))  # fmt: skip
