"""16-bit floats in compiled code: elements of memory, which arithmetic takes as float32 and gives back rounded.

A kernel moves them as they are and converts them where it says so (``f32(x)``, ``bf16(y)``), to the nearest and ties to
even. bfloat16 is the upper half of a float32. float16 is converted by the processor where it can (F16C); elsewhere by
integers, since what LLVM would call there is in no library that is always there. Everything is branch-free; what
widens works on vectors as on scalars.

The conversions by integers are F. Giesen's ("Float->half conversions", 2012).
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import DataModelManager, models, register_default

from zenith.backends.cpu.vectors import converts_float16

_INT16, _INT32, _FLOAT = ir.IntType(16), ir.IntType(32), ir.FloatType()
_MAGNITUDE, _INFINITE, _INFINITE_HALF, _QUIET = 0x7FFFFFFF, 0x7F800000, 0x7C00, 0x40
_LOST = 13  # bits of a float32's fraction that a float16 has not
_LEAST_NORMAL, _OVERFLOW = (127 - 14) << 23, (127 + 16) << 23  # of float16, as bits of a float32
_HALF_BIAS = (127 - 15) << 23


class Narrow(types.Type):
    """A 16-bit float as it is stored in memory."""

    bitwidth = 16


@register_default(Narrow)
class NarrowModel(models.PrimitiveModel):
    """Its bits."""

    def __init__(self, manager: DataModelManager, kind: types.Type) -> None:
        super().__init__(manager, kind, _INT16)


HALF, BRAIN = Narrow("f16"), Narrow("bf16")


def widened(builder: ir.IRBuilder, kind: Narrow, x: ir.Value) -> ir.Value:
    """The float32 of a 16-bit float, exactly."""
    if kind == HALF and _converts(builder):
        return builder.fpext(builder.bitcast(x, _like(x, ir.HalfType())), _like(x, _FLOAT))
    bits = builder.zext(x, _like(x, _INT32))
    if kind == BRAIN:
        return builder.bitcast(builder.shl(bits, _constant(bits, 16)), _like(x, _FLOAT))
    magnitude = builder.shl(builder.and_(bits, _constant(bits, 0x7FFF)), _constant(bits, _LOST))
    scaled = builder.fmul(builder.bitcast(magnitude, _like(x, _FLOAT)), _constant(x, 2.0**112, _FLOAT))
    special = builder.icmp_unsigned(">=", magnitude, _constant(bits, _INFINITE_HALF << _LOST))
    infinite = builder.or_(magnitude, _constant(bits, _INFINITE))
    result = builder.select(special, infinite, builder.bitcast(scaled, _like(x, _INT32)))
    sign = builder.shl(builder.and_(bits, _constant(bits, 0x8000)), _constant(bits, 16))
    return builder.bitcast(builder.or_(result, sign), _like(x, _FLOAT))


def _converts(builder: ir.IRBuilder) -> bool:
    """Whether there are instructions for float16: on this processor, and on every GPU, whose code is made here, too."""
    return "nvptx" in builder.module.triple or converts_float16()


def narrowed(builder: ir.IRBuilder, kind: Narrow, x: ir.Value) -> ir.Value:
    """The 16-bit float nearest to a float32; what is too large is infinite, and nan stays nan."""
    if kind == HALF and _converts(builder):
        return builder.bitcast(builder.fptrunc(_single(builder, x), _like(x, ir.HalfType())), _like(x, _INT16))
    bits = builder.bitcast(x, _like(x, _INT32))
    result = _brain_bits(builder, bits) if kind == BRAIN else _half_bits(builder, bits)
    return builder.trunc(result, _like(x, _INT16))


def _single(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """A float32, for certain: what was rounded from a float64 LLVM would round to 16 bits at once, by calling.

    On a GPU ``canonicalize`` says so. On x86 LLVM has no code for it in vectors of two: there -0 is added, which
    changes nothing; as LLVM knows that too, it comes out of an empty piece of assembly, once a function.
    """
    if "nvptx" in builder.module.triple:
        of = f"v{x.type.count}f32" if isinstance(x.type, ir.VectorType) else "f32"
        kind = ir.FunctionType(x.type, [x.type])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.canonicalize.{of}"), [x])
    with builder.goto_entry_block():
        bits = builder.asm(ir.FunctionType(_INT32, [_INT32]), "", "=r,0", [ir.Constant(_INT32, 1 << 31)], False)
        nothing = builder.bitcast(bits, _FLOAT)
    return builder.fadd(x, nothing)


def _brain_bits(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    high = builder.lshr(bits, _constant(bits, 16))
    odd = builder.and_(high, _constant(bits, 1))
    rounded = builder.lshr(builder.add(bits, builder.add(odd, _constant(bits, 0x7FFF))), _constant(bits, 16))
    x = builder.bitcast(bits, _like(bits, _FLOAT))
    return builder.select(builder.fcmp_unordered("uno", x, x), builder.or_(high, _constant(bits, _QUIET)), rounded)


def _half_bits(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """Normal numbers by adding, those below by an addition of floats that rounds at the right bit."""
    magnitude = builder.and_(bits, _constant(bits, _MAGNITUDE))
    odd = builder.and_(builder.lshr(magnitude, _constant(bits, _LOST)), _constant(bits, 1))
    rounding = builder.add(odd, _constant(bits, (1 << (_LOST - 1)) - 1 - _HALF_BIAS))
    normal = builder.lshr(builder.add(magnitude, rounding), _constant(bits, _LOST))
    half = _constant(bits, 0.5, _FLOAT)  # its ulp is float16's smallest number
    raised = builder.fadd(builder.bitcast(magnitude, half.type), half)
    small = builder.sub(builder.bitcast(raised, bits.type), builder.bitcast(half, bits.type))
    result = builder.select(builder.icmp_unsigned("<", magnitude, _constant(bits, _LEAST_NORMAL)), small, normal)
    large = builder.icmp_unsigned(">=", magnitude, _constant(bits, _OVERFLOW))
    result = builder.select(large, _constant(bits, _INFINITE_HALF), result)
    nan = builder.icmp_unsigned(">", magnitude, _constant(bits, _INFINITE))
    result = builder.select(nan, _constant(bits, _INFINITE_HALF | 0x200), result)
    return builder.or_(result, builder.and_(builder.lshr(bits, _constant(bits, 16)), _constant(bits, 0x8000)))


def single_to_odd(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The float32 of a float64, rounded to odd: rounded once more to fewer bits it is what the float64 would have been.

    S. Boldo and G. Melquiond, "When double rounding is odd", 2005.
    """
    near = builder.fptrunc(x, _FLOAT)
    back = builder.fpext(near, ir.DoubleType())
    bits = builder.bitcast(near, _INT32)
    inexact = builder.fcmp_ordered("!=", back, x)
    word = ir.IntType(64)
    rounded, exact = (builder.and_(builder.bitcast(v, word), word((1 << 63) - 1)) for v in (back, x))
    below = builder.sub(bits, builder.zext(builder.icmp_unsigned(">", rounded, exact), _INT32))
    odd = builder.select(inexact, builder.or_(below, _INT32(1)), bits)
    return builder.bitcast(odd, _FLOAT)


def _like(x: ir.Value, element: ir.Type) -> ir.Type:
    """``element``, or a vector of as many as x has."""
    return ir.VectorType(element, x.type.count) if isinstance(x.type, ir.VectorType) else element


def _constant(x: ir.Value, value: float | int, element: ir.Type = _INT32) -> ir.Value:
    kind = _like(x, element)
    return ir.Constant(kind, [ir.Constant(element, value)] * kind.count if isinstance(kind, ir.VectorType) else value)
