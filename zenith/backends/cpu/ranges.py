"""``range`` in compiled kernels: a counter from ``start`` up to ``stop``, in steps that are literals above zero.

Numba's own range counts the iterations left, for which it divides, and raises an error for a step of zero: about a
hundred instructions a loop, which LLVM has to find superfluous. Here an iteration is a comparison and an addition.

``tail(start, stop)`` is the same range, whose loop is computed in masked vectors (:mod:`loop_tails`).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import DataModelManager, models, register_default
from numba.core.typing.templates import AbstractTemplate, Registry, signature
from numba.extending import lower_builtin

from zenith.backends.cpu.loop_metadata import note_tail, note_trip_count
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Values

_WORD = ir.IntType(64)


class RangeIterator(types.SimpleIteratorType):
    """An iterator: its counter's address, and where it stops; ``count`` is the trip count, 0 where that is unknown."""

    def __init__(self, step: int, count: int, is_tail: bool) -> None:
        self.step, self.count, self.is_tail = step, count, is_tail
        super().__init__(f"Turns({step}, {count}, {is_tail})", types.int64)


class Interval(types.SimpleIterableType):
    """An iterable range: its start and its stop."""

    def __init__(self, step: int, count: int = 0, is_tail: bool = False) -> None:
        super().__init__(f"Interval({step}, {count}, {is_tail})", RangeIterator(step, count, is_tail))


@register_default(Interval)
class IntervalModel(models.PrimitiveModel):
    """Two words."""

    def __init__(self, manager: DataModelManager, kind: types.Type) -> None:
        super().__init__(manager, kind, ir.LiteralStructType([_WORD, _WORD]))


@register_default(RangeIterator)
class RangeIteratorModel(models.PrimitiveModel):
    """An address and a word."""

    def __init__(self, manager: DataModelManager, kind: types.Type) -> None:
        super().__init__(manager, kind, ir.LiteralStructType([_WORD.as_pointer(), _WORD]))


RANGES = Registry()  # for Zenith's kernels alone: Numba's other users keep its own range


class _Range(AbstractTemplate):
    """The type of ``range(start, stop)`` and ``range(start, stop, step)``; all others are left to Numba."""

    key = range
    prefer_literal = True

    def generic(self, args: tuple[Any, ...], kws: object) -> Signature | None:
        if len(args) < 2 or not all(isinstance(a, types.Integer) for a in args):
            return None
        if len(args) == 2:
            known = all(isinstance(a, types.IntegerLiteral) for a in args)
            count = args[1].literal_value - args[0].literal_value if known else 0
            return signature(Interval(1, max(0, count)), *args)
        literal = isinstance(args[2], types.IntegerLiteral) and args[2].literal_value > 0
        return signature(Interval(args[2].literal_value), *args) if literal else None

    def get_impl_key(self, sig: Signature) -> type[AbstractTemplate]:
        return _Range


RANGES.register_global(range, types.Function(_Range))


def tail(start: int, stop: int) -> range:
    """The range, for Python."""
    return range(start, stop)


class _Tail(AbstractTemplate):
    """The type of ``tail(start, stop)``."""

    key = tail

    def generic(self, args: tuple[Any, ...], kws: object) -> Signature:
        return signature(Interval(1, is_tail=True), *args)

    def get_impl_key(self, sig: Signature) -> type[AbstractTemplate]:
        return _Tail


RANGES.register_global(tail, types.Function(_Tail))


@lower_builtin(_Tail, types.VarArg(types.Any))
@lower_builtin(_Range, types.VarArg(types.Any))
def _lower_range(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    words = [context.cast(builder, args[i], sig.args[i], types.int64) for i in range(2)]
    return _struct(builder, context.get_value_type(sig.return_type), words)


@lower_builtin("getiter", Interval)
def _lower_getiter(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    start, stop = (builder.extract_value(args[0], i) for i in range(2))
    counter = cgutils.alloca_once(builder, _WORD)
    builder.store(start, counter)
    return _struct(builder, context.get_value_type(sig.return_type), [counter, stop])


@lower_builtin("iternext", RangeIterator)
def _lower_iternext(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    counter, stop = (builder.extract_value(args[0], i) for i in range(2))
    now = builder.load(counter, typ=_WORD)
    note_trip_count(builder, now, sig.args[0].count)
    if sig.args[0].is_tail:
        note_tail(builder, now)
    builder.store(builder.add(now, _WORD(sig.args[0].step), flags=("nsw",)), counter)
    goes_on = builder.icmp_signed("<", now, stop)
    return _struct(builder, context.get_value_type(sig.return_type), [now, goes_on])


def _struct(builder: ir.IRBuilder, kind: ir.Type, fields: Values) -> ir.Value:
    value: ir.Value = ir.Constant(kind, ir.Undefined)
    for i, field in enumerate(fields):
        value = builder.insert_value(value, field, i)
    return value
