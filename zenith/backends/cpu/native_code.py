"""Native functions: Python functions of 64-bit words that become machine code and call each other by symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import infer_global, make_concrete_template, signature
from numba.extending import lower_builtin

from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Values

F = TypeVar("F", bound=Callable[..., object])
NATIVE: dict[str, Callable[..., object]] = {}  # every native function by the symbol that it gets


def native(function: F) -> F:
    """A function of 64-bit words, which other native functions may call: compiled code knows it by its symbol."""
    arity, returns = function.__code__.co_argcount, function.__annotations__["return"] != "None"
    result = types.int64 if returns else types.void
    symbol = symbol_of(function)
    NATIVE[symbol] = function

    typing = signature(result, *[types.int64] * arity)
    infer_global(function, types.Function(make_concrete_template(symbol, function, [typing])))

    @lower_builtin(function, *[types.int64] * arity)
    def lower(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        word = ir.IntType(64)
        kind = ir.FunctionType(word if returns else ir.VoidType(), [word] * arity)
        value = builder.call(cgutils.get_or_insert_function(builder.module, kind, symbol), args)
        return value if returns else context.get_dummy_value()

    return function


def symbol_of(function: Callable[..., object]) -> str:
    """The name of a native function in object code."""
    return f"zenith_{function.__name__.strip('_')}"
