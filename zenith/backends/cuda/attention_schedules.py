"""Schedules of attention on tensor cores: the largest tiles whose sums fit registers and whose operands shared memory.

Scores and sums are register-resident from the first key to the last, so wide heads leave room for fewer scores. More
rows of a task reuse each copied block of other rows; larger blocks mean fewer iterations, each with its barriers. Where
there is room for two blocks of other rows, the next is copied while one is computed with (double buffering).

>>> from zenith.ir.types import float16
>>> for width in (64, 256):
...     tile = attention_tile(AttentionShape(float16, (width, width), 1, (width,)), (8, 0))
...     print(tile.rows, tile.block, tile.stages)
64 64 2
64 64 1
"""

from __future__ import annotations

from zenith.backends.cuda.instructions import AMPERE, instructions
from zenith.backends.cuda.schedules import KB, chip
from zenith.backends.tensor_core_tiles import AttentionShape, AttentionTile

ROWS, BLOCKS = (64, 32, 16), (64, 32, 16)  # of a task, and of other rows at a time
REGISTERS = 176  # registers of a thread for scores and sums, of 255
REGISTERS_AHEAD = (
    144  # the same where the next block is copied meanwhile, for whose addresses a thread needs the others
)
STAGES = 2  # blocks of other rows in shared memory: one is computed with, one in flight
LANE_SHARE = 2  # a lane has half as many registers of a matrix as that has columns


def attention_tile(shape: AttentionShape, capability: tuple[int, ...]) -> AttentionTile | str:
    """The tile for a kernel of attention on GPUs of a compute capability, or why there is none."""
    found = instructions(shape.element, capability)
    if not found:
        return f"it has no instruction for {shape.element}"
    instruction, available = found[0], chip(capability).shared * KB
    ahead, line = capability >= AMPERE, sum(shape.staged) * shape.element.itemsize
    for rows in ROWS:
        for block in BLOCKS:
            used = (shape.scores * block + sum(shape.sums)) // LANE_SHARE
            if (rows + block) * line <= available and used <= REGISTERS:
                room = (rows + STAGES * block) * line <= available and used <= REGISTERS_AHEAD
                stages = STAGES if ahead and room else 1
                return AttentionTile(instruction, rows, block, ahead, stages)
    return f"heads of {max(shape.staged)} columns leave no room for scores"
