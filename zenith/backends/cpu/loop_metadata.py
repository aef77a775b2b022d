"""Loop metadata for LLVM: elementary functions compute several vectors interleaved, short loops become vectors.

Such a function is a chain of dependent operations, a hundred cycles long, and a core looks only some hundred
instructions ahead: with the chains of one vector after another it sees too few of them at once. LLVM's loop vectoriser
interleaves the chains of several vectors where metadata on a loop's latch says so; by itself it does so in short loops
only. Measured on Cascade Lake with four: a fifth less time for exp, tanh, sigmoid, and for their chain.

LLVM fully unrolls a loop of a small constant trip count, such as one over a block of channels, before its vectoriser
sees it, and then often computes element by element. Metadata forbids that where the trip count is a number of whole
vectors, and in kernels with a register tile: the loop becomes a vector or two. Elsewhere short loops may be inside a
longer one that is vectorised once they are unrolled. Measured on AMD EPYC: relu of 2 M elements in blocks of 16 takes a
third of the time so, sums of rows of 64 a sixth. Loops of sorting networks have many vectors in registers: unrolled,
they would take longer to compile, and some longer to run.

A tail, the fewer iterations than whole vectors make, becomes masked vectors where metadata asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from zenith.backends.cpu.vectors import select

MARK = "zenith.elementary"
TRIP_COUNT = "zenith.turns"
ROLLED = "zenith.rolled"
TAIL = "zenith.tail"
FEWEST = 8  # iterations that are a vector
MOST = 64  # iterations of a loop that LLVM may fully unroll
TILES = ("gathered_tile", "product_tile", "scaled_tile")  # how names of register tiles' functions begin
REGISTERS_OF_A_VECTOR = 8  # what one chain needs at a time, and its share of the constants


def mark(builder: ir.IRBuilder, result: ir.Instruction) -> None:
    """Note that ``result`` is that of an elementary function."""
    result.set_metadata(MARK, builder.module.add_metadata([]))


def note_trip_count(builder: ir.IRBuilder, counter: ir.Instruction, count: int) -> None:
    """Note in the header of a loop that its trip count is a few whole vectors."""
    if FEWEST <= count <= MOST and count % FEWEST == 0:
        counter.set_metadata(TRIP_COUNT, builder.module.add_metadata([]))


def note_tail(builder: ir.IRBuilder, counter: ir.Instruction) -> None:
    """Note in the header of a loop that it is a tail."""
    counter.set_metadata(TAIL, builder.module.add_metadata([]))


def keep_rolled(builder: ir.IRBuilder, instruction: ir.Instruction) -> None:
    """Note that no loop of the function with this instruction is to be unrolled."""
    instruction.set_metadata(ROLLED, builder.module.add_metadata([]))


def advise(module: ir.Module) -> None:
    """Attach this metadata to every loop of one block that computes a marked value, or is of whole vectors."""
    has_tile = any(function.name.startswith(TILES) for function in module.functions)
    count = select().registers // REGISTERS_OF_A_VECTOR
    for function in module.functions:
        is_rolled = any(ROLLED in i.metadata for block in function.blocks for i in block.instructions)
        order = {block: number for number, block in enumerate(function.blocks)}
        for block in function.blocks:
            branch = block.terminator
            if not isinstance(branch, ir.Branch) or order[branch.operands[0]] > order[block]:
                continue
            hints = []
            header = branch.operands[0].instructions
            if any(TAIL in i.metadata for i in header):
                hints.append(_hint(module, "llvm.loop.vectorize.predicate.enable", ir.Constant(ir.IntType(1), 1)))
            elif any(MARK in instruction.metadata for instruction in block.instructions):
                hints.append(_hint(module, "llvm.loop.interleave.count", ir.Constant(ir.IntType(32), count)))
            is_whole = any(TRIP_COUNT in i.metadata for i in header)
            if is_whole or is_rolled or (has_tile and any(_writes(i) for i in block.instructions)):
                hints.append(_hint(module, "llvm.loop.unroll.disable"))
            if hints:
                branch.set_metadata("llvm.loop", _loop_id(module, hints))


def _writes(instruction: ir.Instruction) -> bool:
    """Whether an instruction writes to a buffer: only such accesses have alias scopes."""
    return instruction.opname == "store" and "alias.scope" in instruction.metadata


def _hint(module: ir.Module, name: str, *values: ir.Value) -> ir.MDValue:
    return module.add_metadata([ir.MetaDataString(module, name), *values])


def _loop_id(module: ir.Module, hints: Sequence[ir.MDValue]) -> ir.MDValue:
    """A distinct metadata node, which identifies one loop because it contains itself."""
    node = ir.MDValue(module, hints, name=str(len(module.metadata)))
    node.operands = (node, *hints)
    return node
