"""What the names in kernel sources mean to Numba: LLVM instructions for the functions of ``backends.scalars``.

Everything is branch-free, so that the loop around it is vectorised, and defined for every input, where LLVM's own
instruction is not (shifts beyond the width, conversions out of range).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from zenith.backends import scalars as s
from zenith.backends.cpu.division import divide_floats, divide_integers
from zenith.backends.cpu.intrinsics import call_intrinsic
from zenith.backends.cpu.narrow import HALF, Narrow, narrowed, single_to_odd, widened
from zenith.backends.cpu.numba_protocols import Emit, Signature, TargetContext, Values
from zenith.backends.cpu.vector_math import LLVMOps, teach_elementary  # it teaches Numba the elementary functions
from zenith.backends.vecmath import FUNCTIONS
from zenith.backends.vecmath.formats import FORMATS
from zenith.backends.vecmath.logarithm import logaddexp
from zenith.ir import types as ir_types
from zenith.ir.ops.reference import THREEFRY_PARITY, THREEFRY_ROTATIONS

FLOATS = (types.float32, types.float64)
INTEGERS = (
    types.int8, types.int16, types.int32, types.int64, types.uint8, types.uint16, types.uint32, types.uint64,
)  # fmt: skip
NUMBA_TYPES: dict[str, Any] = {
    "bool": types.boolean, **{t.name: kind for t, kind in zip(ir_types.INTEGERS, INTEGERS, strict=True)},
    **{t.name: Narrow(t.name) if t.is_narrow else getattr(types, t.numpy_name) for t in ir_types.DTYPES if t.is_float},
}  # fmt: skip


def _teach(function: Callable[..., object], accepts: Callable[..., object], emit: Emit, arity: int) -> None:
    """Let compiled code call ``function``: ``accepts(*types)`` is the result type or None, ``emit`` writes LLVM."""
    if arity == 1:
        type_callable(function)(lambda context: lambda x: accepts(x))
    elif arity == 2:
        type_callable(function)(lambda context: lambda x, y: accepts(x, y))
    else:
        type_callable(function)(lambda context: lambda x, y, z: accepts(x, y, z))
    lower_builtin(function, *[types.Any] * arity)(emit)


def _same_float(*kinds: types.Type) -> types.Type | None:
    return kinds[0] if kinds[0] in FLOATS and all(k == kinds[0] for k in kinds) else None


def _same_number(*kinds: types.Type) -> types.Type | None:
    return kinds[0] if kinds[0] in FLOATS + INTEGERS and all(k == kinds[0] for k in kinds) else None


def _same_integer(*kinds: types.Type) -> types.Type | None:
    return kinds[0] if kinds[0] in INTEGERS and all(k == kinds[0] for k in kinds) else None


# --- conversions -----------------------------------------------------------------------------------------------


def _emit_convert(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    source, target = types.unliteral(signature.args[0]), signature.return_type
    (x,) = args
    if source == target:
        return x
    if isinstance(source, Narrow):
        x, source = widened(builder, source, x), types.float32
    if isinstance(target, Narrow):
        return narrowed(builder, target, _single(context, builder, source, x, target))
    if source in FLOATS and isinstance(target, types.Integer):
        return _float_to_integer(builder, x, target)
    return context.cast(builder, x, source, target)


def _single(context: TargetContext, builder: ir.IRBuilder, source: types.Type, x: ir.Value, target: Narrow) -> ir.Value:
    """A number in float32 on its way to 16 bits, where NumPy goes by float32, too: float64 becomes float16 at once."""
    if source == types.float64 and target == HALF:
        return single_to_odd(builder, x)
    return context.cast(builder, x, source, types.float32)


def _float_to_integer(builder: ir.IRBuilder, x: ir.Value, target: Any) -> ir.Value:
    """Truncate as NumPy does on x86-64: to int32, or to int64 for wide and unsigned types, of which the low bits stay.

    nan and what is out of range give the smallest integer there, so 0 for a narrower type.
    """
    if target == types.uint64:
        return _float_to_uint64(builder, x)
    bits = 64 if target == types.uint32 else max(target.bitwidth, 32)
    kind = ir.IntType(bits)
    low, high = ir.Constant(x.type, -(2.0 ** (bits - 1))), ir.Constant(x.type, 2.0 ** (bits - 1))
    inside = builder.and_(builder.fcmp_ordered(">=", x, low), builder.fcmp_ordered("<", x, high))
    if bits == 32 and isinstance(x.type, ir.DoubleType):
        inside = builder.and_(
            builder.fcmp_ordered(">", x, ir.Constant(x.type, -(2.0**31) - 1)), builder.fcmp_ordered("<", x, high)
        )
    safe = builder.select(inside, x, ir.Constant(x.type, 0.0))
    result = builder.select(inside, builder.fptosi(safe, kind), ir.Constant(kind, -(2 ** (bits - 1))))
    return builder.trunc(result, ir.IntType(target.bitwidth)) if bits > target.bitwidth else result


def _float_to_uint64(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """From 2**63 on, the rest above that and the highest bit, which is all that is left of 2**64 and more: 0."""
    top, half = ir.IntType(64)(1 << 63), ir.Constant(x.type, 2.0**63)
    high = builder.fcmp_ordered(">=", x, half)
    below = _float_to_integer(builder, builder.select(high, builder.fsub(x, half), x), types.int64)
    return builder.select(high, builder.xor(below, top), below)


def teach_converter(function: Callable[..., object], target: types.Type) -> None:
    """Let compiled code convert numbers to ``target`` by this function."""
    _teach(
        function, lambda x: target if isinstance(x, (types.Number, types.Boolean, Narrow)) else None, _emit_convert, 1
    )


for _name, _function in s.CONVERT.items():
    teach_converter(_function, NUMBA_TYPES[_name])

for _function in s.LIBRARY.values():
    _entry = FUNCTIONS[_function.__name__]
    teach_elementary(_function, _entry.body, _entry.arity, in_library=True)


# --- arithmetic ------------------------------------------------------------------------------------------------


def _floats(name: str) -> Emit:
    return lambda context, builder, signature, args: call_intrinsic(builder, name, list(args))


_teach(s.floor, _same_float, _floats("floor"), 1)
_teach(s.ceil, _same_float, _floats("ceil"), 1)
_teach(s.trunc, _same_float, _floats("trunc"), 1)
_teach(s.sqrt, _same_float, _floats("sqrt"), 1)
_teach(s.rint, _same_float, _floats("rint"), 1)


def _emit_logaddexp(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    return logaddexp(LLVMOps(builder, str(signature.return_type)), *args)


_teach(s.logaddexp, _same_float, _emit_logaddexp, 2)
_teach(s.copysign, _same_float, _floats("copysign"), 2)
_teach(s.divide, _same_float, lambda context, builder, signature, args: builder.fdiv(*args), 2)


def _emit_divide_same(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    """The quotient by a reciprocal that LLVM moves out of the loop, and one correction: a third of a division's time.

    ``q = x (1 / y)`` is off by an ulp at most, and ``q - (q y - x) (1 / y)`` is rounded correctly, since a fused
    multiply-add finds the residual exactly (P. Markstein, "Computation of elementary functions on the IBM RISC
    System/6000 processor", IBM Journal of Research and Development 34, 1990); where it is too small for that, below
    2**-100 in float32, an ulp may be missing. A small y is made larger, and x with it, since its reciprocal may
    overflow; y is made positive, so that a zero keeps its sign. The correction of infinities is nan and not used.
    """
    x, y = args
    form, word = FORMATS[str(signature.return_type)], ir.IntType(signature.return_type.bitwidth)
    top = word((2 * form.exponent_bias - 1) << form.mantissa_bits)
    one = word(form.one_bits)
    exponent = builder.and_(builder.bitcast(y, word), word((2 * form.exponent_bias + 1) << form.mantissa_bits))
    wanted = builder.sub(top, exponent)
    factor = builder.bitcast(builder.select(builder.icmp_signed(">", wanted, one), wanted, one), x.type)
    factor = call_intrinsic(builder, "copysign", [factor, y])
    x, y = builder.fmul(x, factor), builder.fmul(y, factor)
    inverse = builder.fdiv(ir.Constant(x.type, 1.0), y)
    quotient = builder.fmul(x, inverse)
    excess = call_intrinsic(builder, "fma", [quotient, y, builder.fneg(x)])
    corrected = call_intrinsic(builder, "fma", [builder.fneg(excess), inverse, quotient])
    return builder.select(builder.fcmp_ordered("ord", corrected, corrected), corrected, quotient)


_teach(s.divide_same, _same_float, _emit_divide_same, 2)


def _emit_where(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    return builder.select(*args)


_teach(s.where, lambda c, x, y: x if c == types.boolean and x == y else None, _emit_where, 3)


def _extreme(intrinsic: str, relation: str, flags: Sequence[str] = ()) -> Emit:
    def emit(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        kind = signature.args[0]
        if kind in FLOATS:
            call: Any = call_intrinsic(builder, intrinsic, list(args))
            call.fastmath.update(flags)
            return call
        compare = builder.icmp_signed if kind.signed else builder.icmp_unsigned
        return builder.select(compare(relation, *args), *args)

    return emit


_teach(s.maximum, _same_number, _extreme("maximum", ">"), 2)
_teach(s.minimum, _same_number, _extreme("minimum", "<"), 2)
_teach(s.fold_max, _same_number, _extreme("maximum", ">", ("nsz",)), 2)  # half the instructions without signs of zeros
_teach(s.fold_min, _same_number, _extreme("minimum", "<", ("nsz",)), 2)


def _word(*kinds: types.Type) -> types.Type | None:
    return types.int64 if all(isinstance(k, types.Integer) for k in kinds) else None


def _wrapping(operation: str) -> Emit:
    def emit(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        words = [context.cast(builder, x, kind, types.int64) for x, kind in zip(args, signature.args, strict=True)]
        return getattr(builder, operation)(*words)

    return emit


_teach(s.wrapping_add, _word, _wrapping("add"), 2)
_teach(s.wrapping_sub, _word, _wrapping("sub"), 2)
_teach(s.wrapping_mul, _word, _wrapping("mul"), 2)


def _fold(floating: str, integer: str) -> Emit:
    def emit(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        if signature.args[0] in FLOATS:
            return getattr(builder, floating)(*args, flags=("reassoc",))
        return getattr(builder, integer)(*args)

    return emit


_teach(s.fold_add, _same_number, _fold("fadd", "add"), 2)
_teach(s.fold_mul, _same_number, _fold("fmul", "mul"), 2)


def _emit_magnitude(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    (x,) = args
    if signature.args[0] in FLOATS:
        return call_intrinsic(builder, "fabs", [x])
    return builder.select(builder.icmp_signed("<", x, x.type(0)), builder.neg(x), x)


_teach(s.magnitude, _same_number, _emit_magnitude, 1)


def _emit_sign(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    (x,) = args
    zero, one, minus = (ir.Constant(x.type, v) for v in (0, 1, -1))
    if signature.args[0] in FLOATS:
        nan_or_zero = builder.select(builder.fcmp_unordered("uno", x, x), x, zero)  # 0 also for -0, as NumPy says
        result = builder.select(builder.fcmp_ordered(">", x, zero), one, nan_or_zero)
        return builder.select(builder.fcmp_ordered("<", x, zero), minus, result)
    if not signature.args[0].signed:
        return builder.select(builder.icmp_unsigned("!=", x, zero), one, zero)
    negative = builder.select(builder.icmp_signed("<", x, zero), minus, zero)
    return builder.select(builder.icmp_signed(">", x, zero), one, negative)


_teach(s.sign, _same_number, _emit_sign, 1)


# --- division --------------------------------------------------------------------------------------------------


def _division(which: int) -> Emit:
    def emit(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        kind = signature.args[0]
        if kind in FLOATS:
            return divide_floats(builder, *args)[which]
        return divide_integers(builder, kind, *args)[which]

    return emit


_teach(s.floor_divide, _same_number, _division(0), 2)
_teach(s.remainder, _same_number, _division(1), 2)


# --- bits ------------------------------------------------------------------------------------------------------


def _shift(left: bool) -> Emit:
    def emit(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        x, y = args
        width, signed = x.type.width, signature.args[0].signed
        fits = builder.icmp_unsigned("<", y, x.type(width))
        safe = builder.select(fits, y, x.type(0))
        if left:
            return builder.select(fits, builder.shl(x, safe), x.type(0))
        if not signed:
            return builder.select(fits, builder.lshr(x, safe), x.type(0))
        return builder.select(fits, builder.ashr(x, safe), builder.ashr(x, x.type(width - 1)))

    return emit


_teach(s.shift_left, _same_integer, _shift(True), 2)
_teach(s.shift_right, _same_integer, _shift(False), 2)


def _emit_int_power(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    """Square and multiply over all bits of the exponent, without branches; see the reference for y < 0."""
    x, y = args
    zero, one, minus = x.type(0), x.type(1), x.type(-1)
    result, square = one, x
    for bit in range(x.type.width - (1 if signature.args[0].signed else 0)):
        odd = builder.trunc(builder.lshr(y, x.type(bit)), ir.IntType(1))
        result = builder.select(odd, builder.mul(result, square), result)
        square = builder.mul(square, square)
    if not signature.args[0].signed:
        return result
    odd = builder.trunc(y, ir.IntType(1))
    of_minus = builder.select(odd, minus, one)
    reciprocal = builder.select(builder.icmp_signed("==", x, minus), of_minus, zero)
    reciprocal = builder.select(builder.icmp_signed("==", x, one), one, reciprocal)
    return builder.select(builder.icmp_signed("<", y, zero), reciprocal, result)


_teach(s.int_power, _same_integer, _emit_int_power, 2)


def _emit_bit_count(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    """The count of 32 or 64 bits, in which narrower types are."""
    x = _emit_magnitude(context, builder, signature, args) if signature.args[0].signed else args[0]
    wide = ir.IntType(max(x.type.width, 32))
    x = builder.zext(x, wide) if x.type.width < wide.width else x
    return builder.trunc(call_intrinsic(builder, "ctpop", [x]), ir.IntType(8))


_teach(s.bit_count, lambda x: types.uint8 if x in INTEGERS else None, _emit_bit_count, 1)


def _emit_threefry(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    """The rounds of the reference, in 32-bit words: LLVM sees that halves are put together and taken apart again."""
    half = ir.IntType(32)
    (k0, k1), (x0, x1) = (
        (builder.trunc(builder.lshr(word, word.type(32)), half), builder.trunc(word, half)) for word in args
    )
    keys = (k0, k1, builder.xor(builder.xor(k0, k1), half(THREEFRY_PARITY)))
    x0, x1 = builder.add(x0, k0), builder.add(x1, k1)
    for step in range(5):
        for bits in THREEFRY_ROTATIONS[step % 2]:
            x0 = builder.add(x0, x1)
            rotated = builder.or_(builder.shl(x1, half(bits)), builder.lshr(x1, half(32 - bits)))
            x1 = builder.xor(rotated, x0)
        x0 = builder.add(x0, keys[(step + 1) % 3])
        x1 = builder.add(x1, builder.add(keys[(step + 2) % 3], half(step + 1)))
    high, low = (builder.zext(x, args[0].type) for x in (x0, x1))
    return builder.or_(builder.shl(high, high.type(32)), low)


_teach(s.threefry2x32, lambda x, y: x if x == y == types.int64 else None, _emit_threefry, 2)


# --- bit patterns and divisors ---------------------------------------------------------------------------------

_PATTERNS = {types.float32: types.int32, types.float64: types.int64}
_NUMBERS = {whole: real for real, whole in _PATTERNS.items()}
_LLVM = {types.float32: ir.FloatType(), types.float64: ir.DoubleType(), types.int32: ir.IntType(32),
         types.int64: ir.IntType(64)}  # fmt: skip


def _reinterpret(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    return builder.bitcast(args[0], _LLVM[signature.return_type])


_teach(s.float_bits, _PATTERNS.get, _reinterpret, 1)
_teach(s.bits_float, _NUMBERS.get, _reinterpret, 1)


def _emit_gcd(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    """Euclid's algorithm on magnitudes: ``x, y = y, x % y`` while y is not 0."""
    signed = signature.args[0].signed
    x, y = (_magnitude(builder, a) if signed else a for a in args)
    zero, before = x.type(0), builder.block
    test, body, end = (builder.append_basic_block(f"gcd.{name}") for name in ("test", "body", "end"))
    builder.branch(test)
    builder.position_at_end(test)
    left, right = builder.phi(x.type), builder.phi(x.type)
    builder.cbranch(builder.icmp_unsigned("!=", right, zero), body, end)
    builder.position_at_end(body)
    rest = builder.urem(left, right)
    builder.branch(test)
    for phi, start, following in ((left, x, right), (right, y, rest)):
        phi.add_incoming(start, before)
        phi.add_incoming(following, body)
    builder.position_at_end(end)
    return left


def _magnitude(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed("<", x, x.type(0)), builder.neg(x), x)


_teach(s.gcd, _same_integer, _emit_gcd, 2)
