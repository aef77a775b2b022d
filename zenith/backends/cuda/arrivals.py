"""Blocks of threads that count each other: ``arrive(counters, at)`` adds one to a counter, and returns its old value.

The last block to arrive sees all writes of the others before their arrival: the counter is changed between two fences
of the whole device. The first fence follows the writes of the block, since the block has waited for all its threads;
the second precedes the reads (the pattern of ``threadFenceReduction`` in the CUDA samples; PTX ISA, chapter "Memory
Consistency Model").
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import types

from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Values

ADD = "fence.acq_rel.gpu; atom.relaxed.gpu.global.add.u32 $0, [$1], 1; fence.acq_rel.gpu;"


def arrive() -> object:
    """The intrinsic; it takes a pointer to int32 counters and an index."""
    from numba.cuda.extending import intrinsic

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        counters, at = args
        pointer = builder.gep(counters, [builder.zext(at, ir.IntType(64)) if at.type.width < 64 else at])
        address = builder.ptrtoint(pointer, ir.IntType(64))
        word = ir.IntType(32)
        kind = ir.FunctionType(word, [address.type])
        return builder.asm(kind, ADD, "=r,l,~{memory}", [address], side_effect=True)

    return intrinsic(lambda typing, counters, at: (types.int32(counters, at), emit))
