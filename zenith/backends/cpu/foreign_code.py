"""Calls of native code from outside in compiled code; :mod:`zenith.backends.cpu.foreign` says what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from zenith.backends.cpu.buffers import Buffer, element_address
from zenith.backends.cpu.foreign import call_native

_WORD = ir.IntType(64)


@type_callable(call_native)
def _type_call_native(context: Any) -> Callable[..., Any]:
    def typer(COUNT: Any, address: Any, *words: Any) -> Any:
        if not isinstance(COUNT, types.IntegerLiteral):
            return None
        kinds = [word if isinstance(word, Buffer) else types.int64 for word in words]
        return types.void(COUNT, types.int64, *kinds)

    return typer


@lower_builtin(call_native, types.VarArg(types.Any))
def _lower_call_native(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
    count, address, words = signature.args[0].literal_value, args[1], args[2:]
    kinds = signature.args[2 : 2 + 2 * count : 2]
    pairs = zip(words[: 2 * count : 2], kinds, words[1 : 2 * count : 2], strict=True)
    passed = [builder.ptrtoint(element_address(builder, *pair), _WORD) for pair in pairs]
    passed += words[2 * count :]
    kind = ir.FunctionType(ir.VoidType(), [_WORD] * len(passed))
    builder.call(builder.inttoptr(address, kind.as_pointer()), passed)
    return context.get_dummy_value()
