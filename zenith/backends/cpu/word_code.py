"""Words of several terms in compiled code: pairs of bfloat16, or four bytes, whose products join a sum at once.

A right operand's panel has words of neighbours in a column, a row of the left operand is words as it is in memory. The
sums are float32 for bfloat16, and int32, which never saturate, for bytes: those of the left operand have no sign, those
of the right one have.
"""

from __future__ import annotations

import platform
from typing import Any, cast

from llvmlite import ir
from llvmlite.ir import Value
from numba.core import cgutils, types

from zenith.backends.cpu.narrow import BRAIN, narrowed
from zenith.backends.cpu.numba_protocols import Values
from zenith.backends.cpu.vector_code import Vectors
from zenith.backends.cpu.vectors import select

WORD, _BITS = types.uint32, 32
_X86 = platform.machine().lower() in ("x86_64", "amd64")
_PAIRS_OF_INT16 = {16: "sse2.pmadd.wd", 32: "avx2.pmadd.wd", 64: "avx512.pmaddw.d.512"}  # on x86, by bytes of a vector


def is_packed_as(stored: types.Type, panel: types.Type) -> bool:
    """Whether a panel has words of several of these elements."""
    return bool(panel == WORD and stored in (BRAIN, types.float32, types.int8, types.uint8))


def are_words(c: types.Type, a: types.Type, b: types.Type) -> bool:
    """Whether a tile multiplies words: its sums, and its operands."""
    return b == WORD and (c, a) in ((types.float32, BRAIN), (types.float32, WORD), (types.int32, types.uint8))


class Words(Vectors):
    """Reads neighbours in a buffer of narrow elements, or of words, as words; positions are those of elements."""

    def __init__(self, builder: ir.IRBuilder, stored: Any, lanes: int) -> None:
        super().__init__(builder, WORD, lanes)
        self.itemsize, self.part = stored.bitwidth // 8, cast(ir.Type, ir.IntType(stored.bitwidth))
        self.terms, self.are_contiguous = _BITS // stored.bitwidth, True

    def at(self, pointer: Value, position: Value) -> Value:
        return self.builder.gep(pointer, [position], source_etype=self.part)

    def term(self, pointer: Value, words: ir.Type) -> Value:
        """The element at a pointer as a word, or as many neighbours as there are ``words``."""
        parts = ir.VectorType(self.part, words.count) if isinstance(words, ir.VectorType) else self.part
        return self.builder.zext(self._bits(self.builder.load(pointer, align=self.itemsize, typ=parts)), words)

    def _bits(self, parts: Value) -> Value:
        return parts


class RoundedWords(Words):
    """Reads elements of float32, rounded to bfloat16; their neighbours in memory are no words."""

    def __init__(self, builder: ir.IRBuilder, stored: Any, lanes: int) -> None:
        super().__init__(builder, stored, lanes)
        self.part, self.terms, self.are_contiguous = ir.FloatType(), 2, False

    def _bits(self, parts: Value) -> Value:
        """By the processor's instruction where it has one, which like its products takes subnormal numbers as zero."""
        if not (select().multiplies_pairs and isinstance(parts.type, ir.VectorType)):
            return narrowed(self.builder, BRAIN, parts)
        rounded = self.builder.fptrunc(parts, ir.VectorType(_BrainType(), parts.type.count))
        return self.builder.bitcast(rounded, ir.VectorType(ir.IntType(16), parts.type.count))


def words_of(builder: ir.IRBuilder, stored: types.Type, lanes: int) -> Words:
    """What reads elements in memory as parts of words."""
    return (RoundedWords if stored == types.float32 else Words)(builder, stored, lanes)


def panel_of(builder: ir.IRBuilder, a: types.Type, lanes: int) -> BrainPanel | BytePanel:
    """What reads the panel of words for a left operand of this type."""
    return (BytePanel if a == types.uint8 else BrainPanel)(builder, WORD, lanes)


class _BrainType(ir.Type):
    """LLVM's bfloat, which llvmlite does not know."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BrainType)

    def __hash__(self) -> int:
        return hash(_BrainType)


class BrainPanel(Vectors):
    """Reads a panel of pairs of bfloat16, and multiplies and adds them in float32."""

    def multiply_add(self, x: Value, y: Value, z: Value) -> Value:
        """``x[0] * y[0] + x[1] * y[1] + z`` in each lane."""
        pairs = ir.VectorType(_BrainType(), 2 * self.lanes)
        operands = [z, self.builder.bitcast(x, pairs), self.builder.bitcast(y, pairs)]
        return _call(self.builder, f"avx512bf16.dpbf16ps.{32 * self.lanes}", z.type, operands)


class BytePanel(Vectors):
    """Reads a panel of words of four int8, and multiplies them by uint8 and adds them in int32."""

    def multiply_add(self, x: Value, y: Value, z: Value) -> Value:
        """``x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3] + z`` in each lane.

        Without an instruction for it, even and odd bytes are pairs of int16. (What multiplies pairs of bytes,
        ``pmaddubsw``, saturates.)
        """
        if select().multiplies_bytes:
            return _call(self.builder, f"avx512.vpdpbusd.{32 * self.lanes}", z.type, [z, x, y])
        builder, halves = self.builder, ir.VectorType(ir.IntType(16), 2 * self.lanes)
        x, y, eight = builder.bitcast(x, halves), builder.bitcast(y, halves), _all(halves, 8)
        even = self._pairs(builder.and_(x, _all(halves, 255)), builder.ashr(builder.shl(y, eight), eight), z.type)
        odd = self._pairs(builder.lshr(x, eight), builder.ashr(y, eight), z.type)
        return builder.add(builder.add(z, even), odd)

    def _pairs(self, x: Value, y: Value, sums: ir.Type) -> Value:
        """``x[0] * y[0] + x[1] * y[1]`` of int16 in each lane."""
        name = _PAIRS_OF_INT16.get(4 * self.lanes)
        if _X86 and name is not None:
            return _call(self.builder, name, sums, [x, y])
        builder, sixteen = self.builder, _all(sums, 16)
        x, y = builder.bitcast(x, sums), builder.bitcast(y, sums)
        upper = builder.mul(builder.ashr(x, sixteen), builder.ashr(y, sixteen))
        lower = [builder.ashr(builder.shl(v, sixteen), sixteen) for v in (x, y)]
        return builder.add(builder.mul(*lower), upper)


def _all(kind: Any, number: int) -> Value:
    return ir.Constant(kind, [number] * kind.count)


def _call(builder: ir.IRBuilder, name: str, returns: ir.Type, args: Values) -> Value:
    """Call an intrinsic of x86 processors."""
    kind = ir.FunctionType(returns, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), args)
