"""Prefixes of a strip in compiled code, as LLVM vectors; what they compute: :mod:`zenith.backends.cpu.prefix_scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.types import Type
from numba.extending import lower_builtin, type_callable

from zenith.backends.cpu.buffers import Buffer, preferred_width
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Typer, TypingContext, Values
from zenith.backends.cpu.prefix_scan import RUNNING_FUNCTIONS
from zenith.backends.cpu.tile_code import loop
from zenith.backends.cpu.vector_code import Vectors
from zenith.backends.cpu.vector_math import LLVMOps
from zenith.backends.vecmath.logarithm import logaddexp

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
Join = Callable[[ir.Value, ir.Value], ir.Value]


def teach_prefix(name: str, function: Callable[..., object]) -> None:
    """Let compiled code make the prefixes of a strip by this function; ``name`` says which (see :func:`_joins`)."""

    @type_callable(function)
    def typing(context: TypingContext) -> Typer:
        def typer(
            LANES: Type, to: Buffer, to_at: Type, source: Buffer, at: Type, count: Type, before: Type
        ) -> Signature | None:
            if not isinstance(LANES, types.IntegerLiteral) or not to.dtype == source.dtype == before:
                return None
            return before(LANES, to, types.intp, source, types.intp, types.intp, before)

        return typer

    @lower_builtin(function, types.VarArg(types.Any))
    def lower(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        lanes, dtype = signature.args[0].literal_value, signature.return_type
        v = Vectors(builder, dtype, lanes)
        _, to, to_at, source, at, count, before = args
        given = [v.at(to, to_at), v.at(source, at), count, before]
        symbol = f"{name}_{lanes}_{dtype}"
        called = builder.module.globals.get(symbol) or _function(builder.module, symbol, name, dtype, lanes, given)
        return builder.call(called, given)


for _name, _function_of_strip in RUNNING_FUNCTIONS.items():
    teach_prefix(_name, _function_of_strip)


def _function(module: ir.Module, symbol: str, name: str, dtype: Any, lanes: int, given: Values) -> ir.Value:
    """A prefix as a function of its own: a kernel that calls it twice has it once."""
    kind = ir.FunctionType(given[-1].type, [x.type for x in given])
    function = ir.Function(module, kind, symbol)
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    set.add(function.attributes, preferred_width())
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(_Prefix(builder, name, dtype, lanes).emit(*function.args))
    return function


class _Prefix:
    """Emits one prefix: vectors, then what is left over."""

    def __init__(self, builder: ir.IRBuilder, name: str, dtype: Any, lanes: int) -> None:
        self.builder, self.v, self.lanes = builder, Vectors(builder, dtype, lanes), lanes
        self.join, neutral = _joins(builder, name, dtype, lanes)
        self.join_one, _ = _joins(builder, name, dtype, None)
        self.neutral = ir.Constant(self.v.vector, [neutral] * lanes)

    def emit(self, to: ir.Value, source: ir.Value, count: ir.Value, before: ir.Value) -> ir.Value:
        """Write the prefixes; the last of them."""
        v = self.v

        def vector(i: ir.Value, state: Values) -> list[ir.Value]:
            block = self._within(v.load(v.at(source, i)))
            v.store(self.join(state[0], block), v.at(to, i))
            return [self.join(state[0], self._broadcast(block, self.lanes - 1))]

        def one(i: ir.Value, state: Values) -> list[ir.Value]:
            joined = self.join_one(state[0], v.load_one(v.at(source, i)))
            self.builder.store(joined, v.at(to, i), align=v.itemsize)
            return [joined]

        first = self.builder.insert_element(ir.Constant(v.vector, ir.Undefined), before, _INT32(0))
        middle, (total,) = loop(self.builder, _INT64(0), count, self.lanes, [self._broadcast(first, 0)], vector)
        last = self.builder.extract_element(total, _INT32(0))
        return loop(self.builder, middle, count, 1, [last], one)[1][0]

    def _within(self, block: ir.Value) -> ir.Value:
        """Each lane joined with those before it: with one, then with the next two, four, ..."""
        step = 1
        while step < self.lanes:
            indices = [i - step if i >= step else self.lanes + i for i in range(self.lanes)]
            block = self.join(self._shuffled(block, indices), block)
            step *= 2
        return block

    def _broadcast(self, vector: ir.Value, lane: int) -> ir.Value:
        return self._shuffled(vector, [lane] * self.lanes)

    def _shuffled(self, vector: ir.Value, indices: Sequence[int]) -> ir.Value:
        mask = ir.Constant(ir.VectorType(_INT32, self.lanes), list(indices))
        return self.builder.shuffle_vector(vector, self.neutral, mask)


def _joins(builder: ir.IRBuilder, name: str, dtype: Any, lanes: int | None) -> tuple[Join, float]:
    """How two vectors, or numbers, are joined, and the neutral element."""
    if isinstance(dtype, types.Float):
        return _of_floats(LLVMOps(builder, str(dtype), lanes), builder, name)
    limits = np.iinfo(str(dtype))
    compare = builder.icmp_signed if dtype.signed else builder.icmp_unsigned
    joins: dict[str, tuple[Join, int]] = {
        "running_sum": (builder.add, 0),
        "running_product": (builder.mul, 1),
        "running_max": (lambda x, y: builder.select(compare(">", x, y), x, y), int(limits.min)),
        "running_min": (lambda x, y: builder.select(compare("<", x, y), x, y), int(limits.max)),
    }
    return joins[name]


def _of_floats(k: LLVMOps, builder: ir.IRBuilder, name: str) -> tuple[Join, float]:
    def extreme(which: str) -> Join:
        return lambda x, y: k._intrinsic(which, x, y)

    joins: dict[str, tuple[Join, float]] = {
        "running_sum": (k.add, -0.0),
        "running_product": (k.mul, 1.0),
        "running_max": (extreme("maximum"), -float("inf")),
        "running_min": (extreme("minimum"), float("inf")),
        "running_logaddexp": (partial(logaddexp, k), -float("inf")),
    }
    return joins[name]
