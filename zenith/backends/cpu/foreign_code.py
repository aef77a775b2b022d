"""Calls of foreign native code in compiled code; :mod:`zenith.backends.cpu.foreign` says what they do."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin

from zenith.backends.cpu.buffers import Buffer, element_address
from zenith.backends.cpu.foreign import call_native
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Values

_WORD = ir.IntType(64)


@infer_global(call_native)
class _CallNative(AbstractTemplate):
    def generic(self, args: Sequence[types.Type], kws: object) -> Signature | None:
        if not isinstance(args[0], types.IntegerLiteral):
            return None
        return signature(types.void, args[0], *(a if isinstance(a, Buffer) else types.int64 for a in args[1:]))


@lower_builtin(call_native, types.VarArg(types.Any))
def _lower_call_native(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    count, address, words = sig.args[0].literal_value, args[1], args[2:]
    kinds = sig.args[2 : 2 + 2 * count : 2]
    pairs = zip(words[: 2 * count : 2], kinds, words[1 : 2 * count : 2], strict=True)
    passed = [builder.ptrtoint(element_address(builder, *pair), _WORD) for pair in pairs]
    passed += words[2 * count :]
    kind = ir.FunctionType(ir.VoidType(), [_WORD] * len(passed))
    builder.call(builder.inttoptr(address, kind.as_pointer()), passed)
    return context.get_dummy_value()
