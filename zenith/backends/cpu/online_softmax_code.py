"""The step of an online softmax in compiled code: LLVM vectors; :mod:`zenith.backends.cpu.online_softmax` says what."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from llvmlite.ir import Value
from numba.core import types
from numba.core.types import Type
from numba.extending import lower_builtin, type_callable

from zenith.backends.cpu.buffers import Buffer
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Typer, TypingContext, Values
from zenith.backends.cpu.online_softmax import SUMS, softmax_tile
from zenith.backends.cpu.tile_code import loop
from zenith.backends.cpu.vector_code import Vectors
from zenith.backends.cpu.vector_math import LLVMOps
from zenith.backends.vecmath.exponential import exp

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


@type_callable(softmax_tile)
def _type_softmax_tile(context: TypingContext) -> Typer:
    def typer(
        LANES: Type, scale: Type, scores: Buffer, at: Type, stride: Type, keys: Type, top: Buffer, total: Buffer,
        shrink: Buffer, first: Type,
    ) -> Signature | None:  # fmt: skip
        if not isinstance(LANES, types.IntegerLiteral):
            return None
        if not scale == scores.dtype == top.dtype == total.dtype == shrink.dtype:
            return None
        i = types.intp
        return types.void(LANES, scale, scores, i, i, i, top, total, shrink, i)

    return typer


@lower_builtin(softmax_tile, types.VarArg(types.Any))
def _lower_softmax_tile(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> Value:
    lanes, dtype = signature.args[0].literal_value, signature.args[1]
    _Step(Vectors(builder, dtype, lanes), LLVMOps(builder, str(dtype), lanes), *args[1:]).emit()
    return context.get_dummy_value()


class _Step:
    """Emits one call of ``softmax_tile``."""

    def __init__(
        self, v: Vectors, k: LLVMOps, scale: Value, scores: Value, at: Value, stride: Value, keys: Value,
        top: Value, total: Value, shrink: Value, first: Value,
    ) -> None:  # fmt: skip
        self.v, self.k, self.builder, self.stride, self.keys = v, k, v.builder, stride, keys
        self.scores = v.at(scores, at)
        self.top, self.total, self.shrink = (v.at(pointer, first) for pointer in (top, total, shrink))
        self.scale = self._splat(scale)

    def _splat(self, scalar: Value) -> Value:
        first = self.builder.insert_element(ir.Constant(self.v.vector, ir.Undefined), scalar, _INT32(0))
        return self.builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT32, self.v.lanes), None))

    def emit(self) -> None:
        """Two loops along the keys: the largest score, then weights and their sum."""
        v, k = self.v, self.k
        nothing = k.const(-float("inf"))
        before = v.load(self.top)
        top = self._along(nothing, self._score, self._larger)
        top = self._larger(before, top)
        self.base = k.select(k.eq(top, nothing), k.const(0.0), top)
        shrink = self._exp(before)
        total = self._along(k.const(0.0), self._weight, k.add)
        v.store(top, self.top)
        v.store(shrink, self.shrink)
        v.store(k.fma(v.load(self.total), shrink, total), self.total)

    def _along(self, neutral: Value, value: Callable[[Value], Value], join: Callable[[Value, Value], Value]) -> Value:
        """All keys' values joined, SUMS chains at once."""

        def several(key: Value, chains: Values) -> list[Value]:
            keys = [self.builder.add(key, _INT64(i)) for i in range(len(chains))]
            return [join(c, value(k)) for c, k in zip(chains, keys, strict=True)]

        def rest(key: Value, chain: Values) -> list[Value]:
            return [join(chain[0], value(key))]

        middle, chains = loop(self.builder, _INT64(0), self.keys, SUMS, [neutral] * SUMS, several)
        _, (last,) = loop(self.builder, middle, self.keys, 1, [neutral], rest)
        while len(chains) > 1:
            chains = [join(a, b) for a, b in zip(chains[::2], chains[1::2], strict=True)]
        return join(chains[0], last)

    def _pointer(self, key: Value) -> Value:
        return self.v.at(self.scores, self.builder.mul(key, self.stride))

    def _score(self, key: Value) -> Value:
        return self.v.load(self._pointer(key))

    def _exp(self, score: Value) -> Value:
        """First the difference: with products no largest score would be sure to weigh 1 when they are contracted."""
        return exp(self.k, self.k.mul(self.k.sub(score, self.base), self.scale))

    def _larger(self, x: Value, y: Value) -> Value:
        """The larger; x where y is nan, whose weight will be nan."""
        return self.k.select(self.k.lt(x, y), y, x)

    def _weight(self, key: Value) -> Value:
        pointer = self._pointer(key)
        weight = self._exp(self.v.load(pointer))
        self.v.store(weight, pointer)
        return weight
