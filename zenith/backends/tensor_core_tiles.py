"""The tilings of products and attention for tensor cores: what a schedule is made of, and what it needs of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zenith.ir.types import DType

LANES = 32  # of a warp
REGISTER = 4  # bytes
BANK_SHIFT = 8  # elements of 4 bytes: four rows, eight elements each, are the 32 banks of shared memory
MIN_SPLIT_TERMS = 128  # terms of a slice in split-K at least: writing and reading its sums takes less than summing them


@dataclass(frozen=True, slots=True)
class MatrixInstruction:
    """An instruction by which the ``LANES`` lanes of a warp multiply small matrices, ``D = A B + C`` with float32 sums.

    ``element`` is what A and B are in memory, ``type`` what they are rounded to (its name in PTX), ``rows`` x ``terms``
    and ``terms`` x ``columns`` their shapes; GPUs have it from compute capability ``since`` on.
    """

    element: DType
    type: str
    rows: int
    columns: int
    terms: int
    since: tuple[int, int]

    @property
    def name(self) -> str:
        """The name that kernel sources use."""
        return f"mma_{self.shape}_{self.type}"

    @property
    def shape(self) -> str:
        """The shape as PTX writes it."""
        return f"m{self.rows}n{self.columns}k{self.terms}"

    @property
    def left_words(self) -> int:
        """The registers of a lane for its fragment of A."""
        return self.rows * self.terms * self.element.itemsize // (LANES * REGISTER)

    @property
    def right_words(self) -> int:
        """The registers of a lane for its fragment of B."""
        return self.columns * self.terms * self.element.itemsize // (LANES * REGISTER)

    @property
    def sums(self) -> int:
        """The registers of a lane for its fragment of C."""
        return self.rows * self.columns // LANES

    @property
    def rounds(self) -> bool:
        """Whether elements are rounded before they are multiplied."""
        return self.type != self.element.name


@dataclass(frozen=True, slots=True)
class MatrixTile:
    """The tiling of a product for such an instruction: a schedule, known by its name.

    A block of threads computes a tile of ``rows`` x ``panel`` elements, each of its warps ``warp_rows`` x
    ``warp_columns`` of them in registers. Operands come through shared memory, ``depth`` terms at a time, in
    ``stages`` buffers: all but one in flight while one is multiplied, where the GPU copies ``ahead``. An accumulator
    takes ``block`` terms. There should be ``tasks`` tiles at least, or tiles' terms are split (split-K).
    """

    name: str
    instruction: MatrixInstruction
    rows: int
    panel: int
    warp_rows: int
    warp_columns: int
    depth: int
    stages: int
    ahead: bool
    block: int
    tasks: int

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.rows // self.warp_rows * (self.panel // self.warp_columns) * LANES

    @property
    def line(self) -> int:
        """The stride, in sums, between rows of the tile: lanes that write several rows access different banks."""
        return self.panel + BANK_SHIFT

    @property
    def staged(self) -> int:
        """Bytes of shared memory for the operands."""
        return self.stages * (self.rows + self.panel) * self.depth * self.instruction.element.itemsize


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """The memory that a kernel of attention needs on a GPU: ``element`` is the type of its operands.

    Of each operand pair, so many columns wide, one tile of own rows and one of a block of other rows are ``staged``; in
    registers are so many matrices of ``scores``, a block wide, and of ``sums``, so many columns wide.
    """

    element: DType
    staged: tuple[int, ...]
    scores: int
    sums: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """The tiling of attention for an instruction: a task has ``rows`` own rows and reads ``block`` others at a time.

    Where the GPU copies ``ahead``, threads need not wait for each copy. There are buffers for ``stages`` blocks: one is
    copied while another is used.
    """

    instruction: MatrixInstruction
    rows: int
    block: int
    ahead: bool
    stages: int


ProductShape = tuple[int | None, int | None, int | None, int | None]
"""How many products there are, their rows, columns and terms, where these are known."""

Pick = Callable[[Sequence[MatrixTile], ProductShape], MatrixTile]
"""Which schedule a product gets; autotuning replaces the target's, and looks up a measured schedule by its name."""
