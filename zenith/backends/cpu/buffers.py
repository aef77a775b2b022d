"""Buffers in compiled kernels: typed pointers from the argument block, which are known not to overlap.

``x = f32_buffer(args, 2, 5)`` is buffer 2 of 5. Each slot is a Numba type of its own, so that every load and store can
state to LLVM (alias scopes) that it touches no other buffer; loops over several buffers then vectorise without run-time
checks. A scratch buffer lives on the kernel's stack.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import DataModelManager, models, register_default
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, type_callable

from zenith.backends import scalars as s
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Typer, TypingContext, Values
from zenith.backends.cpu.scalars import NUMBA_TYPES
from zenith.backends.cpu.vectors import select
from zenith.backends.cpu.word_layout import POLL

SCRATCH_SLOT = 0


def preferred_width() -> str:
    """A function attribute: LLVM halves the widest vectors on some processors that do not slow down for them."""
    return f'"prefer-vector-width"="{8 * select().width}"'


class Buffer(types.Type):
    """A pointer to elements of ``dtype`` that overlaps no other slot of its kernel."""

    def __init__(self, dtype: Any, slot: int, count: int) -> None:
        self.dtype, self.slot, self.count = dtype, slot, count
        super().__init__(f"Buffer({dtype}, {slot} of {count})")


@register_default(Buffer)
class BufferModel(models.PrimitiveModel):
    """A buffer is its address."""

    def __init__(self, manager: DataModelManager, kind: Buffer) -> None:
        element = ir.IntType(8) if kind.dtype == types.boolean else manager.lookup(kind.dtype).get_value_type()
        super().__init__(manager, kind, element.as_pointer())


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Sequence[types.Type], kws: object) -> Signature | None:
        buffer, index = args
        if isinstance(buffer, Buffer) and isinstance(index, types.Integer):
            return signature(buffer.dtype, buffer, types.intp)
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Sequence[types.Type], kws: object) -> Signature | None:
        buffer, index, _ = args
        if isinstance(buffer, Buffer) and isinstance(index, types.Integer):
            return signature(types.none, buffer, types.intp, buffer.dtype)
        return None


def _element(builder: ir.IRBuilder, buffer: ir.Value, kind: Buffer, index: ir.Value) -> tuple[ir.Value, ir.Type]:
    element = _value_type(kind)
    return builder.gep(buffer, [index], inbounds=True, source_etype=element), element


def element_address(builder: ir.IRBuilder, buffer: ir.Value, kind: Buffer, index: ir.Value) -> ir.Value:
    """The pointer to an element."""
    return _element(builder, buffer, kind, index)[0]


def _value_type(kind: Buffer) -> ir.Type:
    """An element in memory: a bool is a byte."""
    special = {types.float32: ir.FloatType(), types.float64: ir.DoubleType(), types.boolean: ir.IntType(8)}
    return special.get(kind.dtype) or ir.IntType(kind.dtype.bitwidth)


def _mark(builder: ir.IRBuilder, instruction: ir.Instruction, kind: Buffer) -> None:
    """State in metadata that an access touches its own slot and none of the others."""
    module = builder.module
    domain = module.add_metadata([ir.MetaDataString(module, "zenith kernel")])
    scopes = [module.add_metadata([ir.MetaDataString(module, f"slot {i}"), domain]) for i in range(kind.count + 1)]
    instruction.set_metadata("alias.scope", module.add_metadata([scopes[kind.slot]]))
    others = [scope for i, scope in enumerate(scopes) if i != kind.slot]
    if others:
        instruction.set_metadata("noalias", module.add_metadata(others))


@lower_builtin(operator.getitem, Buffer, types.intp)
def _lower_getitem(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    kind = sig.args[0]
    pointer, element = _element(builder, args[0], kind, args[1])
    loaded = builder.load(
        pointer,
        typ=element,
        align=max(1, element.width // 8) if isinstance(element, ir.IntType) else kind.dtype.bitwidth // 8,
    )
    _mark(builder, loaded, kind)
    return builder.icmp_unsigned("!=", loaded, element(0)) if kind.dtype == types.boolean else loaded


@lower_builtin(operator.setitem, Buffer, types.intp, types.Any)
def _lower_setitem(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    kind = sig.args[0]
    pointer, element = _element(builder, args[0], kind, args[1])
    value = context.cast(builder, args[2], sig.args[2], kind.dtype)
    if kind.dtype == types.boolean:
        value = builder.zext(value, element)
    stored = builder.store(
        value,
        pointer,
        align=max(1, element.width // 8) if isinstance(element, ir.IntType) else kind.dtype.bitwidth // 8,
    )
    _mark(builder, stored, kind)
    return context.get_dummy_value()


def teach_buffer(function: Callable[..., object], dtype: types.Type) -> None:
    """Let compiled code find buffers of ``dtype`` in an argument block by this function."""

    @type_callable(function)
    def typing(context: TypingContext) -> Typer:
        def typer(args: types.Type, slot: Any, count: Any) -> Buffer | None:
            literal = isinstance(slot, types.IntegerLiteral) and isinstance(count, types.IntegerLiteral)
            return Buffer(dtype, slot.literal_value, count.literal_value) if literal else None

        return typer

    @lower_builtin(function, types.Any, types.Any, types.Any)
    def lower(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        word = ir.IntType(64)
        set.add(builder.function.attributes, preferred_width())
        address = builder.load(builder.gep(args[0], [word(sig.return_type.slot)], source_etype=word), typ=word)
        return builder.inttoptr(address, context.get_value_type(sig.return_type))


def teach_scratch(function: Callable[..., object], dtype: types.Type) -> None:
    """Let compiled code have memory of ``dtype`` on its stack by this function."""

    @type_callable(function)
    def typing(context: TypingContext) -> Typer:
        return lambda length: Buffer(dtype, SCRATCH_SLOT, 0) if isinstance(length, types.IntegerLiteral) else None

    @lower_builtin(function, types.Any)
    def lower(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        element = _value_type(sig.return_type)
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(element, sig.args[0].literal_value))
            memory.align = 64
        return builder.bitcast(memory, element.as_pointer())


for _name, _dtype in NUMBA_TYPES.items():
    teach_buffer(s.BUFFER[f"{_name}_buffer"], _dtype)
    teach_scratch(s.SCRATCH[f"{_name}_scratch"], _dtype)


def _teach_check(function: Callable[..., object], wraps: bool) -> None:
    """Let compiled code check an index by this function. One that is inside takes a comparison and no other work."""

    @type_callable(function)
    def typing(context: TypingContext) -> Typer:
        return lambda index, size, code, args: types.int64 if index == types.int64 else None

    @lower_builtin(function, types.Any, types.Any, types.Any, types.Any)
    def lower(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        index, size, code, block = args
        word = ir.IntType(64)
        kinds = sig.args[1:3]
        size, code = (context.cast(builder, v, t, types.int64) for v, t in zip((size, code), kinds, strict=True))
        found = cgutils.alloca_once_value(builder, index)
        with builder.if_then(builder.icmp_unsigned(">=", index, size), likely=False):
            if wraps:
                from_end = builder.icmp_signed("<", index, word(0))
                index = builder.select(from_end, builder.add(index, size), index)
                builder.store(index, found)
            is_outside = builder.icmp_unsigned(">=", index, size)
            with builder.if_then(is_outside, likely=False) if wraps else nullcontext():
                status = builder.inttoptr(builder.load(block, typ=word), word.as_pointer())
                builder.store(code, status)
                last = builder.sub(size, word(1))
                low = builder.select(builder.icmp_signed("<", index, last), index, last)
                builder.store(builder.select(builder.icmp_signed(">", low, word(0)), low, word(0)), found)
        return builder.load(found)


_teach_check(s.checked, False)
_teach_check(s.wrapped, True)


@type_callable(s.interrupted)
def _type_interrupted(context: TypingContext) -> Typer:
    return lambda args: types.boolean


@lower_builtin(s.interrupted, types.Any)
def _lower_interrupted(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    """The thread team's block follows the status word, and has the address of the function to ask; 0 for nobody."""
    word = ir.IntType(64)
    status = builder.inttoptr(builder.load(args[0], typ=word), word.as_pointer())
    team = builder.load(builder.gep(status, [word(1)], source_etype=word), typ=word)
    before = builder.block
    with builder.if_then(builder.icmp_unsigned("!=", team, word(0))):
        address = builder.inttoptr(builder.add(team, word(POLL)), word.as_pointer())
        ask = builder.inttoptr(builder.load(address, typ=word), ir.FunctionType(word, [word]).as_pointer())
        answer, asked = builder.call(ask, [team]), builder.block
    found = builder.phi(word)
    found.add_incoming(word(0), before)
    found.add_incoming(answer, asked)
    return builder.icmp_unsigned("!=", found, word(0))
