"""What passes and lowering may know of the machine: one record, filled in by a backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from zenith.errors import ArgumentError
from zenith.ir.types import DType

LANES = 32  # of a warp
REGISTER = 4  # bytes
BANK_SHIFT = 8  # elements of 4 bytes: four rows, eight elements each, are the 32 banks of shared memory
PART = 128  # terms of a part of a cut sum at least: writing and reading its sums takes less than summing them
TRAFFIC = {"cpu": 2, "cuda": 16}  # by backend: operations that moving a byte to memory and back takes as long as, about
NARROWEST = 16  # rows or columns of a guarded tile: neighbouring threads should find neighbours


class TileShape(Protocol):
    """The cut of a product: a register tile of ``rows`` x (``vectors`` * ``lanes``) that sums ``block`` terms at once.

    A task has ``row_block`` rows at most, and there should be ``tasks`` of them at least. ``panel`` is the columns of a
    tile; while it computes, a tile fetches ``ahead`` elements a term of the next block.
    """

    @property
    def rows(self) -> int: ...

    @property
    def vectors(self) -> int: ...

    @property
    def lanes(self) -> int: ...

    @property
    def ahead(self) -> int: ...

    @property
    def panel(self) -> int: ...

    @property
    def block(self) -> int: ...

    @property
    def row_block(self) -> int: ...

    @property
    def tasks(self) -> int: ...


@dataclass(frozen=True, slots=True)
class GuardedTile:
    """The cut of a product whose tiles are computed by teams of threads, which leave out what lies outside.

    A task is one tile of at most ``rows`` x ``panel`` elements, which sums ``block`` terms at once; operands are read
    where they lie. All memory that a team shares has ``shared`` bytes at most. There should be ``tasks`` of them at
    least, or tiles' terms are cut.
    """

    rows: int
    panel: int
    block: int
    shared: int
    tasks: int

    def fitting(self, rows: int | None, columns: int | None) -> GuardedTile:
        """The tile for so many rows and columns, where they are known: halved as long as they fit."""
        return replace(self, rows=_halved(self.rows, rows), panel=_halved(self.panel, columns))


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
        """The registers of a lane that hold its part of A."""
        return self.rows * self.terms * self.element.itemsize // (LANES * REGISTER)

    @property
    def right_words(self) -> int:
        """The registers of a lane that hold its part of B."""
        return self.columns * self.terms * self.element.itemsize // (LANES * REGISTER)

    @property
    def sums(self) -> int:
        """The registers of a lane that hold its part of C."""
        return self.rows * self.columns // LANES

    @property
    def rounds(self) -> bool:
        """Whether elements are rounded before they are multiplied."""
        return self.type != self.element.name


@dataclass(frozen=True, slots=True)
class MatrixTile:
    """The cut of a product for such an instruction: a schedule, known by its name.

    A block of threads computes a tile of ``rows`` x ``panel`` elements, each of its warps ``warp_rows`` x
    ``warp_columns`` of them in registers. Operands come through shared memory, ``depth`` terms at a time, of which
    there are ``stages`` parts: all but one on their way while one is multiplied, where the GPU copies ``ahead``. An
    accumulator takes ``block`` terms. There should be ``tasks`` tiles at least, or tiles' terms are cut.
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
        """The sums from a row of the tile to the next one: lanes that write several rows meet different banks."""
        return self.panel + BANK_SHIFT

    @property
    def staged(self) -> int:
        """Bytes of shared memory for the operands."""
        return self.stages * (self.rows + self.panel) * self.depth * self.instruction.element.itemsize


def _halved(most: int, needed: int | None) -> int:
    while needed is not None and most // 2 >= max(needed, NARROWEST):
        most //= 2
    return most


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """What a kernel of attention keeps on a GPU: ``element`` are its operands in memory.

    Of each operand pair, so many columns wide, one tile of own rows and one of a block of other rows are ``staged``;
    held are so many matrices of ``scores``, a block wide, and of ``sums``, so many columns wide.
    """

    element: DType
    staged: tuple[int, ...]
    scores: int
    sums: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """The cut of attention for an instruction: a task has ``rows`` own rows and takes ``block`` other rows at a time.

    Where the GPU copies ``ahead``, threads need not wait for each copy. There is room for ``stages`` blocks: one is
    copied while another is computed with.
    """

    instruction: MatrixInstruction
    rows: int
    block: int
    ahead: bool
    stages: int


ProductShape = tuple[int | None, int | None, int | None, int | None]
"""How many products there are, their rows, columns and terms, where these are known."""

Pick = Callable[[Sequence[MatrixTile], ProductShape], MatrixTile]
"""Which schedule a product gets. Who has measured puts another in the target's place, which finds one by its name."""


def _first(tiles: Sequence[MatrixTile], shape: ProductShape) -> MatrixTile:
    return tiles[0]


def _no_attention(shape: AttentionShape) -> AttentionTile | str:
    return "it has no tensor cores"


@dataclass(frozen=True, slots=True)
class Numerics:
    """What a user allows kernels to do for speed.

    On a GPU ``repeatable`` results have equal bits in equal calls, whatever runs beside them, as long as arguments are
    aligned alike; with ``tf32`` products of float32 may round their operands to TF32. On a CPU convolutions may have a
    relative error of ``error_budget``, which :mod:`zenith.backends.lower.convolution.winograd_transforms` defines.
    """

    repeatable: bool = True
    tf32: bool = False
    error_budget: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.error_budget < 1:
            raise ArgumentError(f"error_budget={self.error_budget!r} is no relative error",
                                fix="give a number such as 1e-5; 0 allows none")  # fmt: skip


EXACT = Numerics()


@dataclass(frozen=True, slots=True)
class Target:
    """A target: its name, and the tile for products of an element type (and of so many columns, when known).

    ``threads`` is how many threads it wants at work, where those are thousands. ``matrix_tiles`` are the schedules for
    products on tensor cores, among which ``pick`` chooses; with ``tf32`` they may round float32 operands to TF32.
    ``atomics`` are the element types to which tasks may add at the same time, in any order: none where results have to
    repeat bit for bit. ``libraries`` are the names of those that a program may call. ``attention_tile`` is the schedule
    for attention on tensor cores, or why there is none. Convolutions are fastest ``channels_last``, or not; they may
    have a relative error of ``error_budget`` where that makes them faster.
    """

    name: str
    product_tile: Callable[[DType, int | None], TileShape | GuardedTile]
    threads: int | None = None
    matrix_tiles: tuple[MatrixTile, ...] = ()
    pick: Pick = _first
    tf32: bool = False
    atomics: frozenset[DType] = frozenset()
    libraries: tuple[str, ...] = ()
    attention_tile: Callable[[AttentionShape], AttentionTile | str] = _no_attention
    channels_last: bool = False
    error_budget: float = 0.0
