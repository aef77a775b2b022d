"""Sorting networks in compiled code, as LLVM vectors; what they do: :mod:`zenith.backends.cpu.sorting_network`."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from llvmlite.ir import Value
from numba.core import types
from numba.core.types import Type
from numba.extending import lower_builtin, type_callable

from zenith.backends.cpu.buffers import Buffer
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Typer, TypingContext, Values
from zenith.backends.cpu.sorting_network import EIGHT, comparators, merge_words, sort_words, transpose_words
from zenith.backends.cpu.vector_code import Vectors

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


@type_callable(sort_words)
def _type_sort_words(context: TypingContext) -> Typer:
    def typer(LANES: Type, words: Buffer, at: Type) -> Signature | None:
        if not isinstance(LANES, types.IntegerLiteral) or not isinstance(words.dtype, types.Integer):
            return None
        return types.void(LANES, words, types.intp)

    return typer


@lower_builtin(sort_words, types.VarArg(types.Any))
def _lower_sort_words(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> Value:
    lanes, words = signature.args[:2]
    _, pointer, at = args
    vectors = [builder.add(at, _INT64(i)) for i in range(8)]
    _compare(Vectors(builder, words.dtype, lanes.literal_value), words.dtype.signed, pointer, vectors, EIGHT)
    return context.get_dummy_value()


@type_callable(merge_words)
def _type_merge_words(context: TypingContext) -> Typer:
    def typer(
        LANES: Type, COUNT: Type, MIRRORED: Type, words: Buffer, first: Type, last: Type, step: Type
    ) -> Signature | None:
        if not all(isinstance(word, types.IntegerLiteral) for word in (LANES, COUNT, MIRRORED)):
            return None
        if not isinstance(words.dtype, types.Integer):
            return None
        return types.void(LANES, COUNT, MIRRORED, words, types.intp, types.intp, types.intp)

    return typer


@lower_builtin(merge_words, types.VarArg(types.Any))
def _lower_merge_words(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> Value:
    lanes, count, mirrored, words = signature.args[:4]
    pointer, first, last, step = args[3:]
    steps = [builder.mul(step, _INT64(i)) for i in range(count.literal_value // 2)]
    vectors = [builder.add(first, s) for s in steps] + [builder.sub(last, s) for s in reversed(steps)]
    pairs = comparators(count.literal_value, bool(mirrored.literal_value))
    _compare(Vectors(builder, words.dtype, lanes.literal_value), words.dtype.signed, pointer, vectors, pairs)
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


def _compare(v: Vectors, signed: bool, pointer: Value, vectors: Values, pairs: Sequence[tuple[int, int]]) -> None:
    """Load the vectors with these numbers, order pairs of them in turn, and store them."""
    builder = v.builder
    less = builder.icmp_signed if signed else builder.icmp_unsigned
    addresses = [v.at(pointer, builder.mul(number, _INT64(v.lanes))) for number in vectors]
    loaded = [v.load(address) for address in addresses]
    for i, j in pairs:
        x, y = loaded[i], loaded[j]
        follows = less("<", y, x)
        loaded[i], loaded[j] = builder.select(follows, y, x), builder.select(follows, x, y)
    for address, vector in zip(addresses, loaded, strict=True):
        v.store(vector, address)
