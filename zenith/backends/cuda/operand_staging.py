"""The operands of products on tensor cores in shared memory: the position of each element.

An operand keeps its layout of global memory in shared memory: along its terms, or along its rows (columns of the right
one), then transposed where it is read. It is copied 16 bytes at a time, a *chunk*. Chunks of a line are swizzled by an
exclusive or with a *key* of the line, so that the 8 lines that are read at once are in different banks.
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.tensor_core_tiles import MatrixInstruction, MatrixTile
from zenith.backends.tiles import Folded, Operand, SharedProduct
from zenith.ir.dims import Dim

CHUNK = 16  # bytes
SMALL = 8  # lines of a small matrix


def key(line: str, chunks: int) -> str:
    """The swizzle of a line, by which the numbers of its chunks are changed: 8 lines read at once cover all banks."""
    together = max(1, SMALL // chunks)  # lines side by side in all banks
    return f"{line} % {SMALL} // {together} % {min(chunks, SMALL)}"


@dataclass(frozen=True, slots=True)
class Side:
    """One operand in shared memory; its *lines* are rows of the left operand and columns of the right one.

    ``operand`` has the strides of lines and terms; a tile has ``lines``, ``count`` of them in the matrix; each warp has
    ``own``, from the line ``first`` on. A fragment of ``block`` lines takes ``words`` registers.
    """

    name: str
    operand: Operand | Folded
    lines: int
    count: Dim
    own: int
    first: str
    block: int
    words: int
    tile: MatrixTile

    @property
    def along_terms(self) -> bool:
        """Whether neighbours in shared memory are terms of a line, not lines of a term."""
        return not (self.operand.strides[0] == 1 and self.operand.strides[1] != 1)

    @property
    def instruction(self) -> MatrixInstruction:
        return self.tile.instruction

    @property
    def chunk(self) -> int:
        """Elements of a chunk."""
        return CHUNK // self.instruction.element.itemsize

    @property
    def width(self) -> int:
        """Elements of a line of shared memory."""
        return self.tile.depth if self.along_terms else self.lines

    @property
    def length(self) -> int:
        """Elements of a stage."""
        return self.lines * self.tile.depth

    @property
    def by_words(self) -> bool:
        """Whether fragments are read word by word: ``ldmatrix`` transposes elements of 2 bytes only."""
        return not self.along_terms and self.instruction.element.itemsize != 2

    @property
    def fragments(self) -> int:
        """The fragments of a warp for the terms of one instruction."""
        return self.own // self.block

    def key(self, line: str) -> str:
        """The swizzle of a line of shared memory, by which the numbers of its chunks are changed."""
        chunks = self.width // self.chunk
        return f"{line} % 4 * 2 % {chunks}" if self.by_words else key(line, chunks)

    def position(self, line: str, chunk: str, key: str) -> str:
        """The position of a chunk of a line in its stage."""
        return f"({line}) * {self.width} + (({chunk}) ^ ({key})) * {self.chunk}"


def sides(tile: SharedProduct) -> tuple[Side, Side]:
    """Both operands of a product."""
    s = tile.schedule
    assert s is not None
    i, b = s.instruction, tile.b
    transposed = Operand(b.buffer, b.at, b.strides[::-1])
    return (
        Side("a", tile.a, s.rows, tile.height, s.warp_rows, "tile_top", i.rows, i.left_words, s),
        Side("b", transposed, s.panel, tile.width, s.warp_columns, "tile_side", i.columns, i.right_words, s),
    )
