"""Intrinsics of tensor cores: fragments from shared memory, products of fragments, asynchronous copies.

======================================================  ================================================================
``ldmatrix_N(words, first, buffer, at)``                N (1, 2, 4) small matrices of 8 lines of 16 bytes from shared
                                                        memory into ``words[first:first + N]``. Lane l says where line
                                                        ``l % 8`` of matrix ``l // 8`` begins: a position in
                                                        ``buffer``, aligned to 16 bytes, and valid for every lane
``ldmatrix_N_transposed(words, first, buffer, at)``     the same, each small matrix of 2-byte elements transposed
``mma_m16n8k16_f16(c, first, a, a_first, b, b_first)``  ``C += A B`` by all lanes of a warp: ``c`` holds float32 sums,
                                                        ``a`` and ``b`` words, each a local array of the thread from
                                                        an index on. One for each entry of the table ``INSTRUCTIONS``
``tf32(word)``                                          the bits of a float32 rounded to TF32
``pair_f16(low, high)``, ``pair_bf16``                  the word of two numbers rounded to 16 bits
``copy_async(target, at, source, start, count)``        begin to copy 16 bytes from global to shared memory, both
                                                        aligned: ``count`` elements, the rest becomes zero
``commit_copies()``                                     the copies begun since the last commit are a group
``wait_copies(left)``                                   wait until at most the last ``left`` groups are under way; a
                                                        literal. Other threads see the copies after a barrier
======================================================  ================================================================

Their meaning, lane by lane, is in :mod:`zenith.backends.cuda.fragments`. They are inline PTX: instructions of the PTX
ISA, sections 9.7.14 (``mma``, ``ldmatrix``) and 9.7.9.25 (``cp.async``). Local arrays with constant indices are
registers.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types

from zenith.backends.cpu.narrow import BRAIN, HALF, Narrow
from zenith.backends.cpu.numba_protocols import Intrinsic, Signature, TargetContext, TypingContext, Values
from zenith.backends.cuda.access import SHARED_SPACE
from zenith.backends.cuda.instructions import AMPERE, INSTRUCTIONS, TURING
from zenith.backends.cuda.narrow import ROUNDS_BFLOAT16, capability_in_use, rounded
from zenith.backends.tensor_core_tiles import MatrixInstruction
from zenith.errors import UnsupportedError

_WORD, _FLOAT, _VOID = ir.IntType(32), ir.FloatType(), ir.VoidType()
GLOBAL_SPACE = 1
BYTES = 16  # of a line of a small matrix, and of a copy
_ORDERED = "~{memory}"  # a clobber: the compiler must not move accesses to memory across it


def matrix_functions() -> dict[str, object]:
    """All intrinsics by the names in kernel sources."""
    names: dict[str, object] = {i.name: _mma(i) for i in INSTRUCTIONS}
    for count in (1, 2, 4):
        names |= {f"ldmatrix_{count}": _ldmatrix(count, ""), f"ldmatrix_{count}_transposed": _ldmatrix(count, ".trans")}
    names |= {f"pair_{kind.name}": _pair(kind) for kind in (HALF, BRAIN)}
    copies = {"copy_async": _copy_async(), "commit_copies": _commit_copies(), "wait_copies": _wait_copies()}
    return {**names, "tf32": _tf32(), **copies}


def _require(name: str, since: tuple[int, int]) -> None:
    """Refuse to emit an instruction that the target architecture does not have."""
    if capability_in_use() < since:
        raise UnsupportedError(f"{name} needs a GPU of compute capability {since[0]}.{since[1]}",
                               fix="compile for a newer architecture")  # fmt: skip


def _assembly(
    builder: ir.IRBuilder, result: ir.Type, text: str, constraints: str, operands: Values, ordered: bool = False
) -> ir.Value:
    """A call of PTX by all lanes together (convergent); an ``ordered`` one is not reordered with memory accesses."""
    constraints = ",".join(c for c in (constraints, _ORDERED if ordered else "") if c)
    kind = ir.FunctionType(result, [o.type for o in operands])
    code = ir.InlineAsm(kind, text, constraints, side_effect=ordered)
    return builder.call(code, operands, attrs=("convergent", "nounwind"))


def _element(builder: ir.IRBuilder, array: ir.Value, first: ir.Value, number: int) -> ir.Value:
    """A pointer to ``array[first + number]``."""
    at = builder.add(first, first.type(number)) if number else first
    return builder.gep(array, [builder.zext(at, cgutils.intp_t) if at.type.width < 64 else at])


def _read(builder: ir.IRBuilder, array: ir.Value, first: ir.Value, count: int) -> list[ir.Value]:
    return [builder.load(_element(builder, array, first, number)) for number in range(count)]


def _address(builder: ir.IRBuilder, buffer: ir.Value, at: ir.Value, space: int) -> ir.Value:
    """The address of ``buffer[at]`` in an address space: 32 bits of shared memory, 64 of global memory."""
    pointer = _element(builder, buffer, at, 0)
    there = builder.addrspacecast(pointer, pointer.type.pointee.as_pointer(space))
    return builder.ptrtoint(there, _WORD if space == SHARED_SPACE else ir.IntType(64))


def _mma(i: MatrixInstruction) -> object:
    """The product of two fragments, added to a third."""
    from numba.cuda.extending import intrinsic

    counts = (i.sums, i.left_words, i.right_words)
    numbers = iter(range(2 * i.sums + i.left_words + i.right_words))
    names = [", ".join(f"${next(numbers)}" for _ in range(count)) for count in (i.sums, *counts[1:], i.sums)]
    d, a, b, c = (f"{{{group}}}" for group in names)
    text = f"mma.sync.aligned.{i.shape}.row.col.f32.{i.type}.{i.type}.f32 {d}, {a}, {b}, {c};"
    constraints = ",".join(["=f"] * i.sums + ["r"] * (i.left_words + i.right_words) + ["f"] * i.sums)

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        _require(i.name, i.since)
        (c, c_at), (a, a_at), (b, b_at) = zip(args[::2], args[1::2], strict=True)
        sums = _read(builder, c, c_at, i.sums)
        operands = [*_read(builder, a, a_at, i.left_words), *_read(builder, b, b_at, i.right_words), *sums]
        made = _assembly(builder, ir.LiteralStructType([_FLOAT] * i.sums), text, constraints, operands)
        for number in range(i.sums):
            builder.store(builder.extract_value(made, number), _element(builder, c, c_at, number))
        return context.get_dummy_value()

    return intrinsic(lambda typing, c, c_at, a, a_at, b, b_at: (types.void(c, c_at, a, a_at, b, b_at), emit))


def _ldmatrix(count: int, suffix: str) -> object:
    from numba.cuda.extending import intrinsic

    results = ", ".join(f"${number}" for number in range(count))
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 {{{results}}}, [${count}];"
    constraints = ",".join(["=r"] * count + ["r"])

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        _require("ldmatrix", TURING)
        words, first, buffer, at = args
        address = _address(builder, buffer, at, SHARED_SPACE)
        kind = _WORD if count == 1 else ir.LiteralStructType([_WORD] * count)
        made = _assembly(builder, kind, text, constraints, [address], ordered=True)
        for number in range(count):
            word = made if count == 1 else builder.extract_value(made, number)
            builder.store(word, _element(builder, words, first, number))
        return context.get_dummy_value()

    return intrinsic(lambda typing, words, first, buffer, at: (types.void(words, first, buffer, at), emit))


def _tf32() -> object:
    from numba.cuda.extending import intrinsic

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        _require("cvt.rna.tf32", AMPERE)
        number = builder.bitcast(builder.trunc(args[0], _WORD) if args[0].type.width > 32 else args[0], _FLOAT)
        code = ir.InlineAsm(ir.FunctionType(_WORD, [_FLOAT]), "cvt.rna.tf32.f32 $0, $1;", "=r,f")
        return builder.call(code, [number])

    return intrinsic(lambda typing, word: (types.uint32(word), emit))


def _pair(kind: Narrow) -> object:
    from numba.cuda.extending import intrinsic

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        low, high = args
        if capability_in_use() >= ROUNDS_BFLOAT16:  # one instruction for both
            text = f"cvt.rn.{kind.name}x2.f32 $0, $1, $2;"
            code = ir.InlineAsm(ir.FunctionType(_WORD, [_FLOAT, _FLOAT]), text, "=r,f,f")
            return builder.call(code, [high, low])
        halves = [builder.zext(rounded(builder, kind, x), _WORD) for x in (low, high)]
        return builder.or_(halves[0], builder.shl(halves[1], _WORD(16)))

    return intrinsic(lambda typing, low, high: (types.uint32(types.float32, types.float32), emit))


def _copy_async() -> object:
    from numba.cuda.extending import intrinsic

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        _require("cp.async", AMPERE)
        target, at, source, start, count = args
        to = _address(builder, target, at, SHARED_SPACE)
        here = _address(builder, source, start, GLOBAL_SPACE)
        itemsize = context.get_abi_sizeof(target.type.pointee)
        length = builder.trunc(count, _WORD) if count.type.width > 32 else count
        text = f"cp.async.cg.shared.global [$0], [$1], {BYTES}, $2;"
        length = builder.mul(length, _WORD(itemsize))
        _assembly(builder, _VOID, text, "r,l,r", [to, here, length], ordered=True)
        return context.get_dummy_value()

    return intrinsic(
        lambda typing, target, at, source, start, count: (types.void(target, at, source, start, count), emit)
    )


def _commit_copies() -> object:
    from numba.cuda.extending import intrinsic

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        _require("cp.async", AMPERE)
        _assembly(builder, _VOID, "cp.async.commit_group;", "", [], ordered=True)
        return context.get_dummy_value()

    return intrinsic(lambda typing: (types.void(), emit))


def _wait_copies() -> object:
    from numba.cuda.extending import intrinsic

    def describe(typing: TypingContext, left: types.Type) -> Intrinsic | None:
        if not isinstance(left, types.IntegerLiteral):
            return None

        def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
            _require("cp.async", AMPERE)
            text = f"cp.async.wait_group {left.literal_value};"
            _assembly(builder, _VOID, text, "", [], ordered=True)
            return context.get_dummy_value()

        return types.void(left), emit

    return intrinsic(describe)
