"""Writing tasks whose scores and sums are register-resident: tiles, loops over register matrices, products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zenith.backends.expressions import Apply, Expr, Position
from zenith.backends.kernel import ForEachRegister, Scratch
from zenith.backends.lower.attention.task_writer import TaskWriter, Workspace
from zenith.backends.lower.nest import bind
from zenith.backends.lower.operand import OperandAccess
from zenith.backends.tensor_core_tiles import AttentionTile
from zenith.backends.tiles import FoldRegisters, Operand, RegisterMatrix, RegisterProduct, StageTile
from zenith.ir.dims import Dim, dim, minimum, symbol
from zenith.ir.types import DType, bool_

NARROWEST, LINE = 16, 64  # columns of a tile: a power of two up to a line, whole lines beyond


def padded(columns: int) -> int:
    """The columns of a tile for ``columns`` of an operand."""
    width = NARROWEST
    while width < min(columns, LINE):
        width *= 2
    return width if columns <= LINE else -(-columns // LINE) * LINE


class RegisterWriter(TaskWriter):
    """The statements of a task of ``tile.rows`` rows."""

    tile: AttentionTile
    element: DType

    def fits(self, length: int) -> bool:
        """There are no workspaces in other memory."""
        return False

    def register_matrix(self, stem: str, columns: int = 0) -> Workspace:
        """A matrix of the task's rows in registers, or one number a row."""
        name = self.e.fresh(stem)
        self.e.levels[0].statements.append(RegisterMatrix(name, self.tile.rows, columns))
        return Workspace(name, dim(0))

    def scratch(self, stem: str, rows: int, columns: int) -> str:
        """A tile for an operand in the memory that the team shares."""
        name = self.e.fresh(stem)
        self.e.levels[0].statements.append(Scratch(name, self.element, rows * columns))
        return name

    def stage(
        self, tile: str, rows: int, columns: int, operand: OperandAccess, start: Dim, height: Dim, width: Dim
    ) -> None:
        """Copy rows of an operand from row ``start`` on to a tile."""
        source = Operand(operand.buffer, operand.at + start * operand.strides[0], operand.strides)
        self.e.append(StageTile(tile, rows, columns, source, height, width, self.tile.ahead))

    def block_tiles(self, stem: str, columns: int) -> str:
        """Tiles for a block of other rows, as many as there are stages."""
        return self.scratch(stem, self.tile.stages * self.tile.block, columns)

    def stage_ahead(
        self, tiles: Sequence[tuple[str, int, OperandAccess, Dim]], iteration: Dim, first: Dim, rows: Dim
    ) -> None:
        """Begin to copy the other rows of an iteration, a block of the ``rows`` from row ``first`` on, if any.

        ``tiles`` are names, columns, operands that are copied to them, and the columns of these.
        """
        block, begin = self.tile.block, bind(self.e, "begin", iteration * self.tile.block)
        height = bind(self.e, "height", minimum(rows, begin + block) - minimum(rows, begin))
        for number, (tile, columns, operand, width) in enumerate(tiles):
            source = Operand(operand.buffer, operand.at + (first + begin) * operand.strides[0], operand.strides)
            at = self.offset(iteration, columns)
            copy = StageTile(tile, block, columns, source, height, width, self.tile.ahead, at, True, number == 0)
            self.e.append(copy)

    def offset(self, iteration: Dim, columns: int) -> Dim:
        """The offset of an iteration's tile among those of the stages."""
        return iteration % self.tile.stages * (self.tile.block * columns)

    def scores(self, target: Workspace, a: str, b: str, terms: int, iteration: Dim) -> None:
        """Products of the own rows in one tile with the iteration's other rows in another."""
        shape, at = (self.tile.rows, self.tile.block, terms), self.offset(iteration, terms)
        self.e.append(RegisterProduct(self.tile.instruction, target.buffer, *shape, a, False, b, False, False, at))

    def gather(self, target: Workspace, weights: Workspace, rows: str, columns: int, step: Dim) -> None:
        """Add the step's other rows in a tile, weighted, to sums of ``columns`` columns."""
        i, shape, at = self.tile.instruction, (self.tile.rows, columns, self.tile.block), self.offset(step, columns)
        self.e.append(RegisterProduct(i, target.buffer, *shape, weights.buffer, True, rows, True, True, at))

    def fold(self, target: Workspace, source: Workspace, initial: float, combine: str) -> None:
        """Join each row of scores onto the row's number."""
        shape = (self.tile.rows, self.tile.block)
        self.e.append(FoldRegisters(target.buffer, source.buffer, *shape, initial, combine))

    def each_row(self, visit: Callable[[Dim], None], height: Dim | None = None) -> None:
        """Visit every row, those before ``height`` where that is given."""
        self._each(0, visit, None, height, None)

    def each_element(
        self, columns: int, visit: Callable[[Dim, Dim], None], before: Callable[[Dim], None] | None = None,
        height: Dim | None = None, width: Dim | None = None,
    ) -> None:  # fmt: skip
        """Visit every element of register matrices, after ``before`` once a row."""
        self._each(columns, before, visit, height, width)

    def _each(
        self, columns: int, before: Callable[[Dim], None] | None, visit: Callable[[Dim, Dim], None] | None,
        height: Dim | None, width: Dim | None,
    ) -> None:  # fmt: skip
        e, rows = self.e, self.tile.rows
        row, column = e.fresh("r"), e.fresh("c")
        e.open(row)
        if before is not None:
            before(symbol(row))
        e.open(column)
        if visit is not None:
            visit(symbol(row), symbol(column))
        body = e.close()
        limits = dim(rows) if height is None else height, dim(columns) if width is None else width
        e.append(ForEachRegister(rows, columns, row, column, *limits, e.close(), body))

    def below(self, at: Dim, limit: Dim, most: int) -> Expr | None:
        """Whether an index is below a limit; None where it always is."""
        return None if limit == most else self.put(Apply("x < y", (Position(at), Position(limit)), bool_))
