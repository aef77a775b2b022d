"""How a matrix product is cut up: one record, chosen from the element type and the instruction set by a table.

The product C[m, n] = A[m, k] B[k, n] is cut into panels of ``panel`` columns and blocks of at most ``row_block`` rows.
A task is one panel times one block of rows, and goes through K in blocks of ``block`` terms. What it reads again and
again must stay in the second-level cache: ``block * panel`` elements of B (128 KB), ``row_block * block`` of A (264 KB)
and its sums (33 KB). Tasks are numbered panel by panel, so that neighbours share the panel. A task walks down its rows
in balanced register tiles (``lower.product``). No size of a matrix enters the choice, except that few columns narrow
the panel. An element's sum does not depend on how the product is cut (see ``tile``), so the team may divide the tasks
as it likes.

>>> from zenith.backends.cpu.vectors import TABLE
>>> from zenith.ir.types import float32
>>> schedule = choose(float32, TABLE["avx512"])
>>> schedule.rows, schedule.panel, schedule.row_block
(6, 64, 132)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zenith.backends.cpu.tile import BLOCK, lookahead
from zenith.backends.cpu.vectors import InstructionSet, select
from zenith.ir.types import DType, bfloat16, int8, uint8

ROWS = 132  # of a task at most: whole tiles of 6 or 4 rows
TASKS = 16  # at least, where there are rows to cut, for balance; 12 of 126 rows or 24 of 63: two runs differed in order


@dataclass(frozen=True, slots=True)
class ProductSchedule:
    """The cut of a product: register tile, panel, tasks.

    ``rows`` and ``vectors`` are the register tile, ``lanes`` the elements of a vector, ``ahead`` the elements of the
    next panel that a tile fetches per term (see ``tile.lookahead``), ``terms`` those in a word of a panel.
    """

    rows: int
    vectors: int
    lanes: int
    ahead: int = 0
    block: int = BLOCK
    tasks: int = TASKS
    terms: int = 1

    @property
    def panel(self) -> int:
        """Columns of a panel of packed B."""
        return self.vectors * self.lanes

    @property
    def row_block(self) -> int:
        """Rows of a task at most."""
        return ROWS


# Rows and vectors of the register tile by instruction set, then by kind of element. Measured on Sapphire Rapids, two
# cores, float32, GFLOP/s; only numbers of one line were measured side by side:
#   avx512    126x768x768: 6x4 389, 5x4 377, 4x4 366; 1024^3: 371, 362, 351
#             126x768x768: 6x4 414, 7x3 396, 8x3 287, 9x3 236; 1024^3: 386, 351, 264, 218
#   avx2      1024^3: 4x3 217, 6x2 216, 5x2 188, 4x2 186 (each alone); 1x256x256: 4x3 1.65 us, 6x2 2.33 us
#   portable  126x768x768: 3x3 77, 4x3 76, 6x2 72, 4x2 70 (each alone); only 4x2 keeps every sum in a register
# Integer products need registers for the product too, and for partial products where the processor multiplies
# narrower integers; their tiles are small enough to keep every sum in a register. Their speed was not measured.
# Products of bytes in one instruction have the tile of floats, others that of int32. Those of levels need registers
# for the words' two halves, and for the sums of each row.
_TILES: dict[str, dict[str, tuple[int, int]]] = {
    "avx512": {"f": (6, 4), "i32": (4, 3), "i64": (4, 3), "levels": (4, 4)},
    "avx2": {"f": (4, 3), "i32": (3, 2), "i64": (2, 2), "levels": (2, 2)},
    "portable": {"f": (4, 2), "i32": (2, 2), "i64": (2, 2), "levels": (2, 2)},
}


def choose(
    dtype: DType,
    isa: InstructionSet | None = None,
    columns: int | None = None,
    stored: tuple[DType, DType] | None = None,
) -> ProductSchedule:
    """The schedule of products of ``dtype`` on ``isa`` (this processor's when None).

    ``columns``, when known at compile time, narrows the panel to what the columns fill: a classifier of 10 outputs
    needs one vector, not four. ``stored`` are the operands' types in memory, where panels may have words of terms.
    Sums of integers do not depend on their order, so that blocks may have as many words as others have terms.
    """
    isa = isa or select()
    are_bytes = stored == (uint8, int8)
    kind = "f" if dtype.is_float or (are_bytes and isa.multiplies_bytes) else f"i{dtype.bits}"
    kind = "levels" if stored == (int8, uint8) else kind
    rows, vectors = _TILES[isa.name][kind]
    terms = 4 if are_bytes else 2 if stored == (bfloat16, bfloat16) and isa.multiplies_pairs else 1
    block = BLOCK * terms if are_bytes else BLOCK
    schedule = ProductSchedule(rows, vectors, isa.lanes(dtype.itemsize), lookahead(dtype.itemsize), block, terms=terms)
    if columns is None:
        return schedule
    return replace(schedule, vectors=max(1, min(vectors, -(-columns // schedule.lanes))))
