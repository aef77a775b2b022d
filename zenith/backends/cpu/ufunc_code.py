"""Calls of inner loops of ufuncs in compiled code; :mod:`zenith.backends.cpu.ufuncs` says what they do."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin

from zenith.backends.cpu.buffers import Buffer, element_address
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Values
from zenith.backends.cpu.ufuncs import inner_loop, symbols

_WORD = ir.IntType(64)


@infer_global(inner_loop)
class _InnerLoop(AbstractTemplate):
    def generic(self, args: Sequence[types.Type], kws: object) -> Signature | None:
        if not isinstance(args[0], types.StringLiteral) or not all(isinstance(a, types.Literal) for a in args[1:3]):
            return None
        return signature(types.void, *args[:3], *(a if isinstance(a, Buffer) else types.int64 for a in args[3:]))


@lower_builtin(inner_loop, types.VarArg(types.Any))
def _lower_inner_loop(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    name, arguments, axes = (literal.literal_value for literal in sig.args[:3])
    pairs, numbers = args[3 : 3 + 2 * arguments], args[3 + 2 * arguments :]
    kinds = sig.args[3 : 3 + 2 * arguments : 2]
    elements = zip(pairs[::2], kinds, pairs[1::2], strict=True)
    addresses = [builder.ptrtoint(element_address(builder, *element), _WORD) for element in elements]
    tables = [_table(builder, words) for words in (addresses, numbers[: 1 + axes], numbers[1 + axes :])]
    code, data = (cgutils.get_or_insert_function(builder.module, _KIND, symbol) for symbol in symbols(name))
    builder.call(code, [*tables, builder.ptrtoint(data, _WORD)])
    return context.get_dummy_value()


_KIND = ir.FunctionType(ir.VoidType(), [_WORD] * 4)


def _table(builder: ir.IRBuilder, words: Values) -> ir.Value:
    """The address of words on the stack."""
    table = cgutils.alloca_once(builder, _WORD, ir.IntType(32)(max(len(words), 1)))
    for number, word in enumerate(words):
        builder.store(word, builder.gep(table, [_WORD(number)], source_etype=_WORD))
    return builder.ptrtoint(table, _WORD)
