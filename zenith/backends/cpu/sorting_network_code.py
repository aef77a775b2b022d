"""Sorting networks in compiled code, as LLVM vectors; what they do: :mod:`zenith.backends.cpu.sorting_network`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir
from llvmlite.ir import Value
from numba.core import cgutils, types
from numba.core.types import Type
from numba.extending import lower_builtin, type_callable

from zenith.backends.cpu.buffers import Buffer
from zenith.backends.cpu.loop_metadata import keep_rolled
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Typer, TypingContext, Values
from zenith.backends.cpu.sorting_network import (
    EIGHT,
    comparators,
    merge_lanes,
    merge_words,
    sort_words,
    transpose_words,
)
from zenith.backends.cpu.vector_code import Vectors

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


def _are_words(literals: Sequence[Type], words: Buffer) -> bool:
    return all(isinstance(word, types.IntegerLiteral) for word in literals) and isinstance(words.dtype, types.Integer)


@type_callable(sort_words)
def _type_sort_words(context: TypingContext) -> Typer:
    def typer(LANES: Type, words: Buffer, first: Type, many: Type) -> Signature | None:
        return types.void(LANES, words, types.intp, types.intp) if _are_words([LANES], words) else None

    return typer


@type_callable(merge_words)
def _type_merge_words(context: TypingContext) -> Typer:
    def typer(
        LANES: Type, COUNT: Type, MIRRORED: Type, words: Buffer, first: Type, last: Type, step: Type, many: Type
    ) -> Signature | None:
        literals = LANES, COUNT, MIRRORED
        return types.void(*literals, words, *[types.intp] * 4) if _are_words(literals, words) else None

    return typer


@type_callable(merge_lanes)
def _type_merge_lanes(context: TypingContext) -> Typer:
    def typer(
        LANES: Type, GROUP: Type, MIRRORED: Type, words: Buffer, first: Type, last: Type, many: Type
    ) -> Signature | None:
        literals = LANES, GROUP, MIRRORED
        return types.void(*literals, words, *[types.intp] * 3) if _are_words(literals, words) else None

    return typer


@lower_builtin(sort_words, types.VarArg(types.Any))
def _lower_sort_words(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> Value:
    lanes, words = signature.args[:2]
    _, pointer, first, many = args
    with _comparing(builder, words, lanes.literal_value, many) as c:
        begin = builder.add(first, builder.shl(c.run, _INT64(3)))
        loaded, addresses = c.load(pointer, [builder.add(begin, _INT64(i)) for i in range(8)])
        c.compare(loaded, EIGHT)
        c.store(loaded, addresses)
    return context.get_dummy_value()


@lower_builtin(merge_words, types.VarArg(types.Any))
def _lower_merge_words(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> Value:
    lanes, count, mirrored = (word.literal_value for word in signature.args[:3])
    pointer, first, last, step, many = args[3:]
    steps = [builder.mul(step, _INT64(i)) for i in range(count // 2)]
    with _comparing(builder, signature.args[3], lanes, many) as c:
        begin, end = c.ends(first, last, mirrored)
        vectors = [builder.add(begin, s) for s in steps] + [builder.sub(end, s) for s in reversed(steps)]
        loaded, addresses = c.load(pointer, vectors)
        half = len(loaded) // 2 if mirrored == 2 else len(loaded)
        reverse = range(lanes - 1, -1, -1)
        loaded[half:] = [c.lanes_of(vector, vector, reverse) for vector in loaded[half:]]
        c.compare(loaded, comparators(count, bool(mirrored)))
        loaded[half:] = [c.lanes_of(vector, vector, reverse) for vector in loaded[half:]]
        c.store(loaded, addresses)
    return context.get_dummy_value()


@lower_builtin(merge_lanes, types.VarArg(types.Any))
def _lower_merge_lanes(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> Value:
    lanes, group, mirrored = (word.literal_value for word in signature.args[:3])
    pointer, first, last, many = args[3:]
    with _comparing(builder, signature.args[3], lanes, many) as c:
        (one, other), addresses = c.load(pointer, c.ends(first, last, mirrored))
        stride = group // 2
        if mirrored:
            one, other = c.mirrored(one, other, group)
            stride //= 2
        while stride:
            one, other = c.halves(one, other, stride)
            stride //= 2
        c.store([one, other], addresses)
    return context.get_dummy_value()


@type_callable(transpose_words)
def _type_transpose_words(context: TypingContext) -> Typer:
    def typer(LANES: Type, source: Buffer, first: Type, to: Buffer, to_first: Type) -> Signature | None:
        if not isinstance(LANES, types.IntegerLiteral) or source.dtype != to.dtype:
            return None
        return types.void(LANES, source, types.intp, to, types.intp)

    return typer


@lower_builtin(transpose_words, types.VarArg(types.Any))
def _lower_transpose_words(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> Value:
    """By perfect shuffles of the upper half of the vectors with the lower one, as many as LANES has bits."""
    lanes = signature.args[0].literal_value
    v = Vectors(builder, signature.args[1].dtype, lanes)
    _, source, first, to, to_first = args
    vectors = [v.load(v.at(source, at)) for at in _positions(builder, first, lanes)]
    halves = [_interleaved(range(half, half + lanes // 2), lanes) for half in (0, lanes // 2)]
    for _ in range(lanes.bit_length() - 1):
        pairs = zip(vectors[: lanes // 2], vectors[lanes // 2 :], strict=True)
        vectors = [builder.shuffle_vector(x, y, mask) for x, y in pairs for mask in halves]
    for vector, at in zip(vectors, _positions(builder, to_first, lanes), strict=True):
        v.store(vector, v.at(to, at))
    return context.get_dummy_value()


def _positions(builder: ir.IRBuilder, first: Value, lanes: int) -> Values:
    """Where LANES vectors begin, from a vector on."""
    begin = builder.mul(first, _INT64(lanes))
    return [builder.add(begin, _INT64(i * lanes)) for i in range(lanes)]


def _interleaved(half: range, lanes: int) -> ir.Constant:
    """The mask that interleaves these lanes of two vectors."""
    return ir.Constant(ir.VectorType(_INT32, lanes), [i for k in half for i in (k, k + lanes)])


@contextmanager
def _comparing(builder: ir.IRBuilder, words: Buffer, lanes: int, many: Value) -> Iterator[_Comparators]:
    """A loop, whose body is written inside: its vectors are in registers, and unrolling would only make it longer."""
    with cgutils.for_range(builder, many) as loop:
        c = _Comparators(builder, words, lanes, loop.index)
        yield c


class _Comparators:
    """Emits comparators: of vectors, lane by lane, and of the lanes of two vectors; ``run`` counts iterations."""

    def __init__(self, builder: ir.IRBuilder, words: Buffer, lanes: int, run: Value) -> None:
        self.builder, self.v, self.run = builder, Vectors(builder, words.dtype, lanes), run
        self.less = builder.icmp_signed if words.dtype.signed else builder.icmp_unsigned

    def ends(self, first: Value, last: Value, mirrored: int) -> tuple[Value, Value]:
        """The first and the last vector of this iteration."""
        move = self.builder.sub if mirrored else self.builder.add
        return self.builder.add(first, self.run), move(last, self.run)

    def load(self, pointer: Value, numbers: Values) -> tuple[list[Value], list[Value]]:
        """The vectors with these numbers, and their addresses."""
        addresses = [self.v.at(pointer, self.builder.mul(number, _INT64(self.v.lanes))) for number in numbers]
        return [self.v.load(address) for address in addresses], addresses

    def store(self, vectors: Values, addresses: Values) -> None:
        for address, vector in zip(addresses, vectors, strict=True):
            keep_rolled(self.builder, self.v.store(vector, address))

    def compare(self, vectors: list[Value], pairs: Sequence[tuple[int, int]]) -> None:
        """Order pairs of vectors in turn."""
        for i, j in pairs:
            vectors[i], vectors[j] = self.ordered(vectors[i], vectors[j])

    def ordered(self, x: Value, y: Value) -> tuple[Value, Value]:
        """The smaller ones of each lane, and the larger ones."""
        follows = self.less("<", y, x)
        return self.builder.select(follows, y, x), self.builder.select(follows, x, y)

    def lanes_of(self, x: Value, y: Value, lanes: Sequence[int]) -> Value:
        """These lanes of ``x``, or of ``y`` where they are counted on."""
        return self.builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(_INT32, len(lanes)), list(lanes)))

    def mirrored(self, first: Value, last: Value, group: int) -> tuple[Value, Value]:
        """Compare each lane of a group's lower half with its mirror image in the other vector."""
        lanes = range(self.v.lanes)
        mirror = [lane ^ (group - 1) for lane in lanes]
        low, high = self.ordered(first, self.lanes_of(last, last, mirror))
        lower = [lane & (group // 2) == 0 for lane in lanes]
        one = [lane if lower[lane] else lane + self.v.lanes for lane in lanes]
        other = [mirror[lane] + (self.v.lanes if lower[mirror[lane]] else 0) for lane in lanes]
        return self.lanes_of(low, high, one), self.lanes_of(low, high, other)

    def halves(self, first: Value, last: Value, stride: int) -> tuple[Value, Value]:
        """Compare the lanes of both vectors that are ``stride`` apart: the lower ones are a vector, and the upper."""
        lanes = range(self.v.lanes)
        low = [lane for lane in range(2 * self.v.lanes) if lane & stride == 0]
        smaller, larger = self.ordered(*(self.lanes_of(first, last, [lane + up for lane in low]) for up in (0, stride)))
        back = [low.index(lane) if lane & stride == 0 else low.index(lane - stride) + len(lanes)
                for lane in range(2 * self.v.lanes)]  # fmt: skip
        middle = len(lanes)
        return self.lanes_of(smaller, larger, back[:middle]), self.lanes_of(smaller, larger, back[middle:])
