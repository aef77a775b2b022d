"""Schedules of products on tensor cores: a table of tiles, one of GPUs, and a cost model that chooses.

A tile's time is that of its multiplications or of moving its operands, whichever is longer: from the second-level cache
to shared memory, and from there to registers. Tiles run in waves, as many at a time as fit the GPU's multiprocessors.
Sizes that are not known count as middling. This is the *roofline* (S. Williams, A. Waterman and D. Patterson,
2009) of one multiprocessor, with the *wave quantisation* of NVIDIA's "Matrix multiplication background user's guide".

>>> from zenith.ir.types import bfloat16
>>> tiles = [t for t in matrix_tiles((9, 0), tf32=False) if t.instruction.element == bfloat16]
>>> [picker((9, 0))(tiles, (1, rows, 4096, 1024)).name for rows in (16, 8192)]
['bf16_32x64', 'bf16_128x256']
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.cuda.instructions import AMPERE, INSTRUCTIONS, instructions
from zenith.backends.tensor_core_tiles import (
    LANES,
    MIN_SPLIT_TERMS,
    MatrixInstruction,
    MatrixTile,
    Pick,
    ProductShape,
)

PRODUCT = "product"  # the kind of kernel, in tuning tables
STEPS = 512  # products of fragments that an accumulator takes: it bounds the rounding error of long sums
LINE = 64  # bytes of a line of terms in shared memory
MIDDLING = (16, 1024, 1024, 1024)  # the estimate of sizes that are not known
REGISTERS = 65536  # of a multiprocessor
OWN_REGISTERS = 112  # of a thread, besides its sums, as compiled
FROM_CACHE, FROM_SHARED = 64, 128  # bytes a cycle that a multiprocessor gets
BUSY = 8  # warps that keep a multiprocessor's tensor cores at work
FIRST = 64  # the prologue and epilogue of a block's pipeline (first operands, sums) take the time of so many terms
KB, HALF, SUM = 1024, 2, 4  # bytes


@dataclass(frozen=True, slots=True)
class Chip:
    """GPUs of a compute capability: shared memory of a block in KB, multiprocessors, 16-bit products of one a cycle.

    Of multiprocessors, those of the largest GPU (CUDA C++ programming guide, "Compute capabilities").
    """

    shared: int
    processors: int
    products: int


CHIPS = {
    (7, 5): Chip(64, 72, 512), (8, 0): Chip(163, 108, 1024), (8, 6): Chip(99, 84, 512), (8, 7): Chip(163, 16, 1024),
    (8, 9): Chip(99, 144, 512), (9, 0): Chip(227, 132, 1536), (10, 0): Chip(227, 148, 1536),
    (12, 0): Chip(99, 170, 512),
}  # fmt: skip

# rows and columns of a block's tile and of a warp's, stages
TILES = (
    (128, 256, 64, 64, 3),
    (128, 128, 64, 32, 4),
    (128, 64, 64, 32, 4),
    (64, 128, 32, 64, 4),
    (64, 64, 32, 32, 4),
    (32, 64, 16, 32, 4),
    (16, 128, 16, 32, 4),
)


def chip(capability: tuple[int, ...]) -> Chip:
    """The row of a compute capability, or that of the latest before it."""
    known = [c for c in CHIPS if c <= capability[:2]]
    return CHIPS[max(known)] if known else CHIPS[min(CHIPS)]


def matrix_tiles(capability: tuple[int, ...], tf32: bool) -> tuple[MatrixTile, ...]:
    """The schedules that GPUs can run, each type with the largest instruction for it; float32 with ``tf32`` only."""
    elements = dict.fromkeys(i.element for i in INSTRUCTIONS if tf32 or not i.rounds)
    best = [i for element in elements for i in instructions(element, capability)[:1]]
    made = [_tile(i, capability, row) for i in best for row in TILES]
    return tuple(t for t in made if shared_memory(t) <= chip(capability).shared * KB)


def _tile(i: MatrixInstruction, capability: tuple[int, ...], row: tuple[int, int, int, int, int]) -> MatrixTile:
    rows, panel, warp_rows, warp_columns, stages = row
    ahead = capability >= AMPERE
    return MatrixTile(
        f"{i.type}_{rows}x{panel}", i, rows, panel, warp_rows, warp_columns, LINE // i.element.itemsize,
        stages if ahead else 2, ahead, STEPS * i.terms, 2 * chip(capability).processors,
    )  # fmt: skip


def sum_order(tile: MatrixTile, shape: ProductShape) -> tuple[object, ...]:
    """A key for the order in which :mod:`zenith.backends.lower.product.gpu` adds a product's terms.

    The order depends on the terms that an instruction adds at once, those that an accumulator takes before it joins the
    sum, and the number of splits (split-K), in whole lines. The warps and the number of stages change nothing. Where
    sizes are not known, the number of splits is a formula of the tile.
    """
    same = (tile.instruction.name, tile.block, tile.depth)
    batch, m, n, k = shape
    if k is not None and k <= MIN_SPLIT_TERMS:
        return (*same, 1)
    if batch is None or m is None or n is None or k is None:
        return (*same, tile.rows, tile.panel, tile.tasks)
    tiles = batch * -(-m // tile.rows) * -(-n // tile.panel)
    return (*same, max(1, min(tile.tasks // max(1, tiles), -(-k // MIN_SPLIT_TERMS))))


def shared_memory(tile: MatrixTile) -> int:
    """The bytes of shared memory of a block in which sums overwrite operands."""
    return max(tile.staged, tile.rows * tile.line * SUM)


def picker(capability: tuple[int, ...]) -> Pick:
    """The choice of a schedule for GPUs of a capability: the one that takes the least time, of equal ones the first."""
    return lambda tiles, shape: min(tiles, key=lambda tile: cycles(tile, shape, chip(capability)))


def cycles(tile: MatrixTile, shape: ProductShape, gpu: Chip) -> float:
    """About how many cycles a product takes: those of the blocks that one multiprocessor gets."""
    batch, m, n, k = (max(1, usual if known is None else known) for known, usual in zip(shape, MIDDLING, strict=True))
    tiles = batch * -(-m // tile.rows) * -(-n // tile.panel)
    splits = max(1, min(tile.tasks // tiles, -(-k // MIN_SPLIT_TERMS)))
    blocks = -(-tiles * splits // gpu.processors)
    warps = min(blocks, resident(tile, gpu)) * tile.threads // LANES
    block = tile.rows * tile.panel * (-(-k // splits) + FIRST) * _per_product(tile, gpu)
    joined = 0 if splits == 1 else 2 * SUM * batch * m * n * splits / (FROM_CACHE * gpu.processors)
    return blocks * block / min(1, warps / BUSY) + joined


def _per_product(tile: MatrixTile, gpu: Chip) -> float:
    """The cycles that one product of two elements costs a multiprocessor: to compute, or to move its operands."""
    size = tile.instruction.element.itemsize
    from_cache = (1 / tile.rows + 1 / tile.panel) * size / FROM_CACHE
    from_shared = (1 / tile.warp_rows + 1 / tile.warp_columns) * size / FROM_SHARED
    return max(size / HALF / gpu.products, from_cache, from_shared)


def resident(tile: MatrixTile, gpu: Chip) -> int:
    """The occupancy: how many blocks of a tile a multiprocessor runs at once."""
    sums = tile.rows * tile.panel // tile.threads
    by_registers = REGISTERS // (tile.threads * (sums + OWN_REGISTERS))
    return max(1, min(by_registers, gpu.shared * KB // shared_memory(tile)))
