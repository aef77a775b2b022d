"""How many tasks a product has: panels of columns times blocks of rows, as formulas of the sizes.

Few and large tasks read the operands least often; enough of them occupy all threads to the end. So a block has as
many rows as a task takes at most, unless that leaves too few tasks; then the rows are cut further, down to single
tiles. Blocks differ by one row at most.
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.target import TileShape
from zenith.ir.dims import Dim, DimLike, maximum, minimum


@dataclass(frozen=True, slots=True)
class TaskGrid:
    """``panels`` of columns and ``blocks`` of rows for each matrix of the batch.

    ``heights`` are the fewest and the most rows of a register tile, ``least_rows`` is the fewest rows of a block where
    the number of rows is known.
    """

    panels: Dim
    blocks: Dim
    heights: tuple[int, int]
    least_rows: int | None

    @classmethod
    def of(cls, rows: Dim, columns: Dim, matrices: Dim, tile: TileShape, tasks: int) -> TaskGrid:
        """The cut of ``matrices`` products with ``rows`` x ``columns`` elements each into at least so many tasks."""
        panels = (columns + (tile.panel - 1)) // tile.panel
        others = maximum(1, panels * matrices)
        wanted = (others + (tasks - 1)) // others  # ceil(tasks / others)
        blocks = maximum(quotient_up(rows, tile.row_block), minimum(wanted, quotient_up(rows, tile.rows)))
        heights = heights_of(rows, blocks, tile.rows)
        least = rows.static // blocks.static if rows.static is not None and blocks.static else None
        return cls(panels, blocks, heights, least)


def quotient_up(a: Dim, b: DimLike) -> Dim:
    """``a / b``, rounded up."""
    return (a + (b - 1)) // b


def heights_of(rows: Dim, blocks: Dim, most: int) -> tuple[int, int]:
    """The fewest and the most rows of a register tile, ``most`` at most, where rows are cut into so many blocks."""
    if rows.static is None or not blocks.static:
        return 1, most
    each = rows.static // blocks.static, -(-rows.static // blocks.static)
    heights = [h for block in each for h in _heights(block, most)]
    return min(heights), max(heights)


def _heights(rows: int, most: int) -> tuple[int, int]:
    """The heights of the nearly equal tiles of a block."""
    tiles = -(-rows // most)
    return rows // tiles, -(-rows // tiles)
