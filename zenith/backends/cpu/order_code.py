"""What ``ordered`` and ``digit`` of :mod:`zenith.backends.scalars` mean to Numba: integers that sort as numbers do."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from zenith.backends import scalars as s
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Typer, TypingContext, Values
from zenith.backends.cpu.scalars import FLOATS, INTEGERS
from zenith.backends.vecmath.formats import FORMATS

WORDS: dict[int, types.Type] = {8: types.uint8, 16: types.uint16, 32: types.uint32, 64: types.uint64}
_BYTE, _INDEX = ir.IntType(8), ir.IntType(64)


@lower_builtin(s.ordered, types.Any)
def _emit_ordered(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    """By operations on integers alone, which do not flush the smallest floats to zero."""
    (x,), kind = args, signature.args[0]
    if kind in INTEGERS and not kind.signed:
        return x
    word = ir.IntType(kind.bitwidth)
    top = word(1 << (word.width - 1))
    if kind in INTEGERS:
        return builder.xor(x, top)
    form, bits = FORMATS[str(kind)], builder.bitcast(x, word)
    infinity = word((2 * form.exponent_bias + 1) << form.mantissa_bits)
    size = builder.and_(bits, word((1 << (word.width - 1)) - 1))
    bits = builder.select(builder.icmp_unsigned("==", size, word(0)), word(0), bits)
    flipped = builder.xor(bits, builder.or_(builder.ashr(bits, word(word.width - 1)), top))
    return builder.select(builder.icmp_unsigned(">", size, infinity), word(-1), flipped)


@lower_builtin(s.digit, types.Any, types.Integer)
def _emit_digit(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    x, index = args
    word = _emit_ordered(context, builder, signature, [x])
    if word.type.width > _BYTE.width:
        shift = builder.shl(context.cast(builder, index, signature.args[1], types.int64), _INDEX(3))
        shift = shift if word.type.width == _INDEX.width else builder.trunc(shift, word.type)
        word = builder.trunc(builder.lshr(word, shift), _BYTE)
    return builder.zext(word, _INDEX)


def _word(x: Any) -> types.Type | None:
    return WORDS[x.bitwidth] if x in FLOATS + INTEGERS else None


@type_callable(s.ordered)
def _type_ordered(context: TypingContext) -> Typer:
    return _word


@type_callable(s.digit)
def _type_digit(context: TypingContext) -> Typer:
    return lambda x, index: types.int64 if _word(x) and isinstance(index, types.Integer) else None
