"""Division rounded down, as LLVM instructions: branch-free, and defined for every pair of numbers.

By zero the quotient is NumPy's, 0 for integers; nothing traps, and vectors of small integers are divided as vectors.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from zenith.backends.cpu.intrinsics import call_intrinsic

Pair = tuple[ir.Value, ir.Value]  # quotient and remainder


def divide_integers(builder: ir.IRBuilder, kind: Any, x: ir.Value, y: ir.Value) -> Pair:
    """Quotient and remainder rounded down; both 0 for a divisor of 0, and no trap for the smallest integer by -1."""
    zero, one = x.type(0), x.type(1)
    nothing = builder.icmp_signed("==", y, zero)
    divisor = builder.select(nothing, one, y)
    if _knows_constants(builder) and x.type.width < ir.IntType(32).width:
        quotient, rest = _divide_small(builder, kind, x, divisor)
    else:
        quotient, rest = _divide_words(builder, kind, x, divisor)
    return builder.select(nothing, zero, quotient), builder.select(nothing, zero, rest)


def _divide_words(builder: ir.IRBuilder, kind: Any, x: ir.Value, divisor: ir.Value) -> Pair:
    """By the processor's division, for a divisor that is not 0."""
    zero, one = x.type(0), x.type(1)
    if not kind.signed:
        return builder.udiv(x, divisor), builder.urem(x, divisor)
    flips = builder.icmp_signed("==", divisor, x.type(-1))
    safe = builder.select(flips, one, divisor)
    quotient = builder.select(flips, builder.neg(x), builder.sdiv(x, safe))
    found = _rounded_down(builder, quotient, builder.select(flips, zero, builder.srem(x, safe)), divisor)
    if not _knows_constants(builder):
        return found
    by_shift = builder.ashr(x, call_intrinsic(builder, "cttz", [divisor, ir.IntType(1)(0)], x.type))
    shifts = _is_known_power_of_two(builder, divisor)
    pairs = zip((by_shift, builder.and_(x, builder.sub(divisor, one))), found, strict=True)
    quotient, rest = (builder.select(shifts, by_bits, other) for by_bits, other in pairs)
    return quotient, rest


def _knows_constants(builder: ir.IRBuilder) -> bool:
    """Whether the code generator has ``llvm.is.constant``; NVVM's older ones do not."""
    return "nvptx" not in builder.module.triple


def _is_known_power_of_two(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Whether LLVM knows a number, and that it is a power of two: by it, bits are shifted and masked."""
    known = call_intrinsic(builder, "is.constant", [x], ir.IntType(1))
    rest = builder.and_(x, builder.sub(x, x.type(1)))
    power = builder.and_(builder.icmp_signed(">", x, x.type(0)), builder.icmp_signed("==", rest, x.type(0)))
    return builder.and_(known, power)


def _rounded_down(builder: ir.IRBuilder, quotient: ir.Value, rest: ir.Value, divisor: ir.Value) -> Pair:
    """Quotient and remainder rounded down, of those rounded towards zero."""
    zero, one = quotient.type(0), quotient.type(1)
    differ = builder.icmp_signed("<", builder.xor(rest, divisor), zero)
    down = builder.and_(builder.icmp_signed("!=", rest, zero), differ)
    quotient = builder.select(down, builder.sub(quotient, one), quotient)
    return quotient, builder.select(down, builder.add(rest, divisor), rest)


def _divide_small(builder: ir.IRBuilder, kind: Any, x: ir.Value, divisor: ir.Value) -> Pair:
    """8 and 16 bits in vectors: no processor divides vectors of integers, and float32 quotients are exact enough.

    Where x / y is no whole number it is 1 / y from one at least, which is more than 2**-17 of it, and rounding moves it
    by 2**-24. Of a constant divisor LLVM makes a multiplication of integers, and removes the other path.
    """
    width, word, single = x.type, ir.IntType(32), ir.FloatType()
    known = call_intrinsic(builder, "is.constant", [divisor], ir.IntType(1))
    by_words = _divide_words(builder, kind, x, builder.select(known, divisor, width(1)))
    x, y = ((builder.sext if kind.signed else builder.zext)(v, word) for v in (x, divisor))
    quotient = builder.fptosi(builder.fdiv(builder.sitofp(x, single), builder.sitofp(y, single)), word)
    rest = builder.sub(x, builder.mul(quotient, y))
    by_floats = _rounded_down(builder, quotient, rest, y) if kind.signed else (quotient, rest)
    pairs = zip(by_words, by_floats, strict=True)
    quotient, rest = (builder.select(known, w, builder.trunc(f, width)) for w, f in pairs)
    return quotient, rest


def divide_floats(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> Pair:
    """Floor quotient and remainder as NumPy's divmod gives them, from the exact ``fmod``."""
    zero, one = ir.Constant(x.type, 0.0), ir.Constant(x.type, 1.0)
    rest = builder.frem(x, y)
    quotient = builder.fdiv(builder.fsub(x, rest), y)
    differ = builder.xor(builder.fcmp_ordered("<", y, zero), builder.fcmp_ordered("<", rest, zero))
    moves = builder.and_(builder.fcmp_ordered("!=", rest, zero), differ)
    quotient = builder.select(moves, builder.fsub(quotient, one), quotient)
    unsigned_rest = builder.select(
        builder.fcmp_unordered("!=", rest, zero), rest, call_intrinsic(builder, "copysign", [zero, y])
    )
    rest = builder.select(moves, builder.fadd(rest, y), unsigned_rest)
    floor = call_intrinsic(builder, "floor", [quotient])
    gap = builder.fsub(quotient, floor)
    floor = builder.select(builder.fcmp_ordered(">", gap, ir.Constant(x.type, 0.5)), builder.fadd(floor, one), floor)
    true = builder.fdiv(x, y)
    signed_zero = call_intrinsic(builder, "copysign", [zero, true])
    floor = builder.select(builder.fcmp_unordered("!=", quotient, zero), floor, signed_zero)
    by_zero = builder.fcmp_ordered("==", y, zero)
    return builder.select(by_zero, true, floor), rest
