"""A GPU as a target: its properties that lowering may use.

A block of threads computes a product's tile, whose sums are in shared memory while blocks of terms are added and when
the epilogue is applied. So a tile is as large as leaves room for several blocks of threads on a multiprocessor, and
never needs more than the static shared memory of a kernel.

>>> from zenith.ir.types import float32
>>> tile = cuda_target().product_tile(float32, 10)
>>> tile.rows, tile.panel
(64, 16)
"""

from __future__ import annotations

from functools import partial

from zenith.backends.cuda.architecture import capability
from zenith.backends.cuda.attention_schedules import attention_tile
from zenith.backends.cuda.schedules import PRODUCT, matrix_tiles, picker, sum_order
from zenith.backends.cuda.tuning import tuned
from zenith.backends.target import GuardedTile, Target
from zenith.ir.numerics import PRECISIONS
from zenith.ir.types import DType, float32, float64, int32, int64, uint32, uint64

DEFAULT = "sm_90a"  # the architecture for which programs are planned where there is no GPU to ask
SHARED = 48 * 1024  # bytes of shared memory that every kernel may have on every GPU
BYTES = 256  # of a row and of a column of the tile: 64 elements of 4 bytes, 32 of 8
AT_WORK = 1 << 16  # threads: about a quarter of those that a large GPU runs at a time
TASKS = 264  # blocks of threads that keep a large GPU busy: two for each multiprocessor
SUMMED = 4  # bytes of a sum at least
ATOMICS = frozenset((float32, float64, int32, int64, uint32, uint64))  # types with an atomic addition
TERMS = 512  # terms summed from zero before they join the total: it bounds the rounding error of long sums


def choose(dtype: DType, columns: int | None = None, stored: tuple[DType, DType] | None = None) -> GuardedTile:
    """The tile of products of ``dtype``, however operands are ``stored``; few columns, when known, make it narrower."""
    rows = BYTES // max(dtype.itemsize, SUMMED)
    return GuardedTile(rows, rows, TERMS, SHARED, TASKS).fitting(None, columns)


def cuda_target(
    arch: str = DEFAULT,
    tf32: bool = False,
    repeatable: bool = True,
    libraries: tuple[str, ...] = (),
    precision: str = "exact",
) -> Target:
    """GPUs of an architecture, ``sm_75`` for example.

    ``tf32`` allows float32 products to round their operands; unless ``repeatable`` additions may come in any order.
    ``libraries`` are those whose routines may be called, ``precision`` is that of products of float32.
    """
    have, atomics = tuple(capability(arch)[:2]), frozenset() if repeatable else ATOMICS
    pick = tuned(arch, PRODUCT, lambda tile: tile.instruction.type, picker(have), sum_order)
    return Target(f"cuda-{arch}", choose, AT_WORK, matrix_tiles(have, tf32), pick, tf32, atomics, libraries,
                  partial(attention_tile, capability=have), channels_last=True,
                  rounds_to=PRECISIONS[precision])  # fmt: skip
