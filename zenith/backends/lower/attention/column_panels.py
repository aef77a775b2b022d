"""Matrices as panels of columns for the register tile: whole vectors where they lie, what is left over in a copy.

Weighted sums of rows, as attention has them, are products whose right operand lies in memory as the user has it. A
register tile reads it in place where columns are neighbours and fill vectors; others are copied into a panel first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zenith.backends.kernel import Operand, PackPanel, ProductTile
from zenith.backends.lower.attention.task_writer import Room, TaskWriter
from zenith.backends.lower.nest import bind
from zenith.backends.lower.operand import Access
from zenith.ir.dims import Dim, dim, minimum


@dataclass(frozen=True, slots=True)
class Panels:
    """The columns of a matrix: panels of ``vectors`` that are read in place, then ones of ``rest`` that are copied.

    ``whole`` and ``rests`` are how many, ``width`` is the columns of all, padding included.
    """

    whole: Dim
    vectors: int
    rests: Dim
    rest: int
    width: Dim
    lanes: int


def panels(columns: Dim, stride: Dim, lanes: int, most: int) -> Panels:
    """Panels of equal width, at most ``most`` vectors; where a row's elements are no neighbours, all are copied."""
    vectors = most
    if columns.static is not None:
        total = max(1, -(-columns.static // lanes))
        vectors = -(-total // -(-total // most))
    whole = columns // (vectors * lanes) if stride == 1 else dim(0)
    left = columns - whole * (vectors * lanes)
    rest = vectors if left.static is None else min(vectors, -(-left.static // lanes))
    rests = (left + (rest * lanes - 1)) // (rest * lanes) if rest else dim(0)
    return Panels(whole, vectors, rests, rest, (whole * vectors + rests * rest) * lanes, lanes)


@dataclass(frozen=True, slots=True)
class Weighing:
    """Sums of rows with ``weights`` ``[sum][row]``: ``tiles`` tiles of ``height`` sums each, the first at ``sums``.

    Unless ``onto`` is 0, they are added to what stands there.
    """

    sums: Room
    weights: Operand
    tiles: Dim
    height: int
    onto: Dim


def add_rows(
    task: TaskWriter, cut: Panels, rows: Access, start: Dim, many: Dim, columns: Dim, spare: Room, weighing: Weighing
) -> None:
    """Add ``many`` weighted rows of a matrix from row ``start`` on to sums as wide as all its panels."""
    e, origin = task.e, rows.at + start * rows.strides[0]

    def panel(source: Operand, vectors: int, column: Dim) -> None:
        with task.loop("i", 0, weighing.tiles) as i:
            first = i * weighing.height
            sums = Operand(weighing.sums.buffer, weighing.sums.at + first * cut.width + column, (cut.width, dim(1)))
            weights = weighing.weights
            left = Operand(weights.buffer, weights.at + first * weights.strides[0], weights.strides)
            tile = (weighing.height, vectors, cut.lanes)
            e.append(ProductTile(*tile, sums, left, source, many, source.at, weighing.onto))

    def in_place(column: Dim) -> None:
        panel(Operand(rows.buffer, origin + column, (rows.strides[0], dim(1))), cut.vectors, column)

    def copied(column: Dim) -> None:
        width = cut.rest * cut.lanes
        source = Operand(rows.buffer, origin + column * rows.strides[1], rows.strides)
        valid = bind(e, "valid", minimum(columns - column, width))
        e.append(PackPanel(cut.rest, cut.lanes, spare.buffer, spare.at, source, many, valid))
        panel(Operand(spare.buffer, spare.at, (dim(width), dim(1))), cut.rest, column)

    parts: list[tuple[str, Dim, Dim, int, Callable[[Dim], None]]] = [
        ("panel", cut.whole, dim(0), cut.vectors, in_place),
        ("rest", cut.rests, cut.whole * (cut.vectors * cut.lanes), cut.rest, copied),
    ]
    for stem, count, begin, vectors, visit in parts:
        if count != 0:
            with task.loop(stem, 0, count) as number:
                visit(bind(e, "column", begin + number * (vectors * cut.lanes)))
