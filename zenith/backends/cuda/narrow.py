"""Rounding to 16-bit floats on a GPU, one instruction each: ``f16(x)`` and ``bf16(x)``, to nearest, ties to even.

Reading them needs nothing of its own: LLVM's half is known to NVVM, and bfloat16 is read by a shift. bfloat16 is
rounded by integers, as on a CPU, where there is no instruction for it, before sm_80.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import types

from zenith.backends.cpu.narrow import BRAIN, HALF, Narrow, narrowed, single_to_odd, widened
from zenith.backends.cpu.numba_protocols import Intrinsic, TargetContext, TypingContext

ROUNDS_BFLOAT16 = (8, 0)  # the compute capability from which there is an instruction


def roundings() -> dict[str, object]:
    """The conversions to 16-bit floats, by their names in kernel sources."""
    return {kind.name: _rounding(kind) for kind in (HALF, BRAIN)}


def _rounding(target: Narrow) -> object:
    from numba.cuda.extending import intrinsic

    def describe(typing: TypingContext, x: types.Type) -> Intrinsic:
        source = types.unliteral(x)
        return target(x), lambda context, builder, sig, args: _emit(context, builder, source, target, *args)

    return intrinsic(lambda typing, x: describe(typing, x))


def _emit(context: TargetContext, builder: ir.IRBuilder, source: types.Type, target: Narrow, x: ir.Value) -> ir.Value:
    if source == target:
        return x
    if isinstance(source, Narrow):
        x, source = widened(builder, source, x), types.float32
    if source == types.float64 and target == HALF:
        x, source = single_to_odd(builder, x), types.float32
    return rounded(builder, target, context.cast(builder, x, source, types.float32))


def rounded(builder: ir.IRBuilder, target: Narrow, single: ir.Value) -> ir.Value:
    """A float32 as a 16-bit float: by the instruction, or by integers where there is none."""
    if target == BRAIN and capability_in_use() < ROUNDS_BFLOAT16:
        return narrowed(builder, target, single)
    kind = ir.FunctionType(ir.IntType(target.bitwidth), [single.type])
    return builder.call(ir.InlineAsm(kind, f"cvt.rn.{target.name}.f32 $0, $1;", "=h,f"), [single])


def capability_in_use() -> tuple[int, int]:
    """The compute capability of the architecture that is compiled for."""
    from numba.cuda.core import targetconfig

    major, minor, *_ = targetconfig.ConfigStack().top().compute_capability
    return int(major), int(minor)
