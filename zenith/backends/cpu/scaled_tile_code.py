"""The register tile of block-scaled products in compiled code; :mod:`zenith.backends.cpu.scaled_tile` says what.

Levels have no sign, and the left operand has one, as instructions want it: a word of levels is split into words of
bytes by a mask, and by a shift where it has two halves. What levels are more than the numbers that they stand for is
subtracted once a group: as the product of a row by the middle level, which a vector of it gives in every lane.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from llvmlite.ir import Value
from numba.core import types
from numba.core.types import Type
from numba.extending import lower_builtin, type_callable

from zenith.backends.cpu.buffers import Buffer
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, TypingContext, Values
from zenith.backends.cpu.scaled_tile import scaled_tile
from zenith.backends.cpu.tile_code import loop, new_function
from zenith.backends.cpu.vector_code import Vectors
from zenith.backends.cpu.word_code import BytePanel, Words
from zenith.ir.ops.scaled_product import middle

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)
_LOW = 0x0F0F0F0F
_STORED = (types.float32, types.int8, types.float32, types.uint32, types.float32)  # C, A, its scales, B, its scales
_UNROLL = 4


@type_callable(scaled_tile)
def _type_scaled_tile(context: TypingContext) -> Callable[..., Signature | None]:
    def typer(
        ROWS: Type, VECTORS: Type, LANES: Type, BITS: Type, GROUP: Type, c: Buffer, c_at: Type, c_row: Type, a: Buffer,
        a_at: Type, a_row: Type, a_scales: Buffer, a_scales_at: Type, a_scales_row: Type, a_scales_group: Type,
        b: Buffer, b_at: Type, b_scales: Buffer, b_scales_at: Type, groups: Type, onto: Type,
    ) -> Signature | None:  # fmt: skip
        sizes, buffers = (ROWS, VECTORS, LANES, BITS, GROUP), (c, a, a_scales, b, b_scales)
        if not all(isinstance(size, types.IntegerLiteral) for size in sizes):
            return None
        if tuple(buffer.dtype for buffer in buffers) != _STORED:
            return None
        i = types.intp
        return types.void(*sizes, c, i, i, a, i, i, a_scales, i, i, i, b, i, b_scales, i, i, i)

    return typer


@lower_builtin(scaled_tile, types.VarArg(types.Any))
def _lower_scaled_tile(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> Value:
    shape = tuple(size.literal_value for size in signature.args[:5])
    rows, lanes = shape[0], shape[2]
    c, c_at, c_row, a, a_at, a_row, a_scales, scales_at, scales_row, scales_group = args[5:15]
    b, b_at, b_scales, b_scales_at, groups, onto = args[15:]
    floats, words = Vectors(builder, types.float32, lanes), BytePanel(builder, types.uint32, lanes)
    of_a = Words(builder, types.int8, lanes)

    def each_row(v: Vectors, pointer: Value, at: Value, stride: Value) -> Values:
        first = v.at(pointer, at)
        return [v.at(first, builder.mul(stride, _INT64(r))) for r in range(rows)]

    panels = words.at(b, b_at), floats.at(b_scales, b_scales_at)
    given = [floats.at(c, c_at), c_row, *panels, groups, onto, scales_group,
             *each_row(of_a, a, a_at, a_row), *each_row(floats, a_scales, scales_at, scales_row)]  # fmt: skip
    name = f"scaled_tile_{'_'.join(map(str, shape))}"
    function = builder.module.globals.get(name) or _tile_function(builder.module, name, shape, given)
    builder.call(function, given)
    return context.get_dummy_value()


def _tile_function(module: ir.Module, name: str, shape: tuple[int, ...], given: Values) -> Value:
    """A tile as a function of its own, like that of other products."""
    function, builder = new_function(module, name, given)
    _ScaledTile(builder, shape, *function.args).emit()
    builder.ret_void()
    return function


class _ScaledTile:
    """Emits one tile; rows of A and of its scales, panels and C are pointers."""

    def __init__(
        self, builder: ir.IRBuilder, shape: tuple[int, ...], c: Value, c_row: Value, b: Value, b_scales: Value,
        groups: Value, onto: Value, scales_group: Value, *rows: Value,
    ) -> None:  # fmt: skip
        self.builder, (self.rows, vectors, lanes, self.bits, self.group) = builder, shape
        self.floats, self.words = Vectors(builder, types.float32, lanes), BytePanel(builder, types.uint32, lanes)
        self.of_a = Words(builder, types.int8, lanes)
        self.b, self.b_scales, self.groups, self.onto, self.scales_group = b, b_scales, groups, onto, scales_group
        self.a, self.a_scales = rows[: self.rows], rows[self.rows :]
        self.columns, self.width = [_INT64(j * lanes) for j in range(vectors)], _INT64(vectors * lanes)
        c_rows = [self.floats.at(c, builder.mul(c_row, _INT64(r))) for r in range(self.rows)]
        self.c = [self.floats.at(row, column) for row in c_rows for column in self.columns]

    def emit(self) -> None:
        """The sums of all groups, begun with what is in C or with zeros."""
        builder, v = self.builder, self.floats
        fresh = builder.icmp_signed("==", self.onto, _INT64(0))
        sums = [builder.select(fresh, v.zero, v.load(pointer)) for pointer in self.c]
        _, state = loop(builder, _INT64(0), self.groups, 1, [_INT64(0), self.b, self.b_scales, *sums], self._group)
        for pointer, total in zip(self.c, state[3:], strict=True):
            v.store(total, pointer)

    def _group(self, group: Value, state: Values) -> Values:
        """Add a group's sums: integers, made floats and scaled."""
        builder, v = self.builder, self.floats
        at, b_row, b_scales, *sums = state
        per_word = 32 // self.bits
        none = [self.words.zero] * (self.rows * (len(self.columns) + 1))
        steps = _INT64(self.group // per_word)
        unrolled, inner = loop(builder, _INT64(0), steps, _UNROLL, [at, b_row, *none], self._steps)
        _, (at, b_row, *found) = loop(builder, unrolled, steps, 1, inner, self._step)
        of_columns = [v.load(v.at(b_scales, column)) for column in self.columns]
        found, shifts = found[self.rows :], found[: self.rows]
        after = []
        for r in range(self.rows):
            scale = v.splat(v.at(self.a_scales[r], builder.mul(group, self.scales_group)))
            for j, of_column in enumerate(of_columns):
                number = r * len(self.columns) + j
                exact = builder.sitofp(builder.sub(found[number], shifts[r]), v.vector)
                after.append(v.multiply_add(exact, builder.fmul(scale, of_column), sums[number]))
        return [at, b_row, v.at(b_scales, self.width), *after]

    def _steps(self, step: Value, state: Values) -> Values:
        for _ in range(_UNROLL):
            state = self._step(step, state)
        return state

    def _step(self, _: Value, state: Values) -> Values:
        """A row of words of B times the terms that these have.

        Hardware fetches ahead. Prefetches cost a third of the bandwidth in 4 bits (0.55 of a plain pass over memory in
        place of 0.85, two cores of an EPYC), and a tenth in 8.
        """
        builder, words = self.builder, self.words
        at, b_row, *sums = state
        right = [self._parts(words.load(words.at(b_row, column))) for column in self.columns]
        shifts, found = list(sums[: self.rows]), list(sums[self.rows :])
        for r in range(self.rows):
            for part in range(len(right[0])):
                position = builder.add(at, _INT64(part * self.of_a.terms))
                left = self.of_a.splat(self.of_a.at(self.a[r], position))
                shifts[r] = words.multiply_add(self._middle(), left, shifts[r])
                for j, parts in enumerate(right):
                    number = r * len(right) + j
                    found[number] = words.multiply_add(parts[part], left, found[number])
        terms = 32 // self.bits
        return [builder.add(at, _INT64(terms)), words.at(b_row, self.width), *shifts, *found]

    def _parts(self, word: Value) -> list[Value]:
        """The bytes of words, in order of their terms."""
        if self.bits == 8:
            return [word]
        low = ir.Constant(word.type, [_LOW] * word.type.count)
        four = ir.Constant(word.type, [4] * word.type.count)
        return [self.builder.and_(word, low), self.builder.and_(self.builder.lshr(word, four), low)]

    def _middle(self) -> Value:
        """Bytes that stand for zero."""
        return ir.Constant(self.words.vector, [middle(self.bits) * 0x01010101] * self.words.lanes)
