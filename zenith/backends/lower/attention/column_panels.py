"""Matrices as panels of columns for the register tile: whole vectors in place, remaining columns in a copy.

Weighted sums of rows, as in attention, are products whose right operand has the user's memory layout. A register
tile reads it in place where columns are neighbours and fill vectors; others are copied into a panel first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zenith.backends.lower.attention.task_writer import TaskWriter, Workspace
from zenith.backends.lower.nest import bind
from zenith.backends.lower.operand import OperandAccess
from zenith.backends.tiles import Operand, PackPanel, ProductTile
from zenith.ir.dims import Dim, dim, minimum


@dataclass(frozen=True, slots=True)
class Panels:
    """The columns of a matrix: panels of ``vectors`` that are read in place, then ones of ``rest`` that are copied.

    ``whole`` and ``rests`` are their numbers, ``width`` is the columns of all, padding included.
    """

    whole: Dim
    vectors: int
    rests: Dim
    rest: int
    width: Dim
    lanes: int


def panels(columns: Dim, stride: Dim, lanes: int, most: int) -> Panels:
    """Panels of equal width, at most ``most`` vectors; where rows are not contiguous, all are copied."""
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

    Each takes ``terms`` weights, which are words where the copied rows are. Unless ``onto`` is 0, they are added to the
    sums in memory.
    """

    sums: Workspace
    weights: Operand
    terms: Dim
    tiles: Dim
    height: int
    onto: Dim


def add_rows(
    task: TaskWriter,
    cut: Panels,
    rows: OperandAccess,
    start: Dim,
    many: Dim,
    columns: Dim,
    copy: Workspace,
    sums: Weighing,
) -> None:
    """Add ``many`` weighted rows of a matrix from row ``start`` on to sums as wide as all its panels."""
    e, origin = task.e, rows.at + start * rows.strides[0]

    def panel(source: Operand, vectors: int, column: Dim) -> None:
        with task.loop("i", 0, sums.tiles) as i:
            first = i * sums.height
            target = Operand(sums.sums.buffer, sums.sums.at + first * cut.width + column, (cut.width, dim(1)))
            weights = sums.weights
            left = Operand(weights.buffer, weights.at + first * weights.strides[0], weights.strides)
            tile = (sums.height, vectors, cut.lanes)
            e.append(ProductTile(*tile, target, left, source, sums.terms, source.at, sums.onto))

    def in_place(column: Dim) -> None:
        panel(Operand(rows.buffer, origin + column, (rows.strides[0], dim(1))), cut.vectors, column)

    def copied(column: Dim) -> None:
        width = cut.rest * cut.lanes
        source = Operand(rows.buffer, origin + column * rows.strides[1], rows.strides)
        valid = bind(e, "valid", minimum(columns - column, width))
        e.append(PackPanel(cut.rest, cut.lanes, copy.buffer, copy.at, source, many, valid))
        panel(Operand(copy.buffer, copy.at, (dim(width), dim(1))), cut.rest, column)

    kinds: list[tuple[str, Dim, Dim, int, Callable[[Dim], None]]] = [
        ("panel", cut.whole, dim(0), cut.vectors, in_place),
        ("rest", cut.rests, cut.whole * (cut.vectors * cut.lanes), cut.rest, copied),
    ]
    for stem, count, begin, vectors, visit in kinds:
        if count != 0:
            with task.loop(stem, 0, count) as number:
                visit(bind(e, "column", begin + number * (vectors * cut.lanes)))
