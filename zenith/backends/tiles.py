"""The kernel IR's statements on tiles: blocks of matrices in vectors, shared memory, or the registers of warps.

========================  ==========================================================================
``ProductTile``           the register tile of a matrix product
``ScaledTile``            that of a block-scaled product
``PackPanel``             a packed copy of a panel of a right operand
``SharedProduct``         a tile of a matrix product that a team of threads computes
``SoftmaxTile``           a step of an online softmax in vectors
``RegisterMatrix``        a matrix, or a number a row, in the registers of a team's warps
``FoldRegisters``         join the elements of each row
``StageTile``             a copy of a tile of a matrix, for products on tensor cores
``RegisterProduct``       such a product, whose sums stay in registers
========================  ==========================================================================

A printer writes most of them as a call of one function.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from zenith.backends.expressions import Number
from zenith.backends.tensor_core_tiles import MatrixInstruction, MatrixTile
from zenith.ir.dims import Dim, dim
from zenith.ir.types import DType, float32

STAGED = 16  # terms of a shared product that a team has in shared memory at a time
BAND = 16  # rows of a register matrix that one warp has
NOWHERE = dim(0)  # the offset of the only tile of a buffer


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix inside a buffer: where it starts and the strides of its two axes, in elements."""

    buffer: str
    at: Dim
    strides: tuple[Dim, Dim]

    def position(self, row: Dim, column: Dim) -> Dim:
        """The position of an element in the buffer."""
        return self.at + row * self.strides[0] + column * self.strides[1]

    def even(self, axis: int) -> tuple[Dim, ...]:
        """The numbers that must be multiples of n for aligned vectors of n neighbours along an axis."""
        return self.at, self.strides[1 - axis]


@dataclass(frozen=True, slots=True)
class Digits:
    """An axis of a matrix that is several axes of a buffer, outermost first: a number from ``first`` on has digits.

    >>> from zenith.ir.dims import dims
    >>> Digits(dim(2), dims((4, 5)), dims((100, 1))).position(dim(6))
    103
    """

    first: Dim
    extents: tuple[Dim, ...]
    steps: tuple[Dim, ...]

    def position(self, number: Dim) -> Dim:
        """The offset of an element along the axis from the matrix' first element."""
        at, rest = dim(0), self.first + number
        for extent, step in zip(self.extents[:0:-1], self.steps[:0:-1], strict=True):
            at, rest = at + rest % extent * step, rest // extent
        return at + rest * self.steps[0]


@dataclass(frozen=True, slots=True)
class Folded:
    """A matrix inside a buffer of more than two axes, as implicit im2col reads one (see :class:`Operand`)."""

    buffer: str
    at: Dim
    axes: tuple[Digits, Digits]

    @property
    def strides(self) -> tuple[Dim, Dim]:
        """The strides between neighbours that differ in their last digit only."""
        return self.axes[0].steps[-1], self.axes[1].steps[-1]

    def position(self, row: Dim, column: Dim) -> Dim:
        """The position of an element in the buffer."""
        return self.at + self.axes[0].position(row) + self.axes[1].position(column)

    def even(self, axis: int) -> tuple[Dim, ...]:
        """The numbers that must be multiples of n for aligned vectors of n neighbours along an axis."""
        own, other = self.axes[axis], self.axes[1 - axis]
        last = own.extents[-1:] if len(own.extents) > 1 else ()
        return self.at, *other.steps, *own.steps[:-1], own.first, *last


@dataclass(frozen=True, slots=True)
class Gathered:
    """An operand whose terms are gathered in ``segments`` chunks of equal length; chunk p is at ``offsets[first + p]``.

    The table ``rows`` has the positions of its rows. The operand's first stride is then the first row's index in that
    table; after a tile's rows it has as many more, which are prefetched.
    """

    offsets: str
    first: Dim
    segments: Dim
    rows: str


@dataclass(frozen=True, slots=True)
class ProductTile:
    """``target[r, j] = sum over k of a[r, k] * b[k, j]`` for a register tile of literal ``rows`` x ``vectors``.

    Unless ``onto`` is 0, the sums are added to the target's elements. Meanwhile b is prefetched from position
    ``ahead`` on, so many cache ``lines`` every few terms. Terms of a that are not evenly spaced are ``gathered``.
    ``terms`` counts elements of a: words of several terms where both operands have these (:class:`PackPanel`).
    """

    rows: int
    vectors: int
    lanes: int
    target: Operand
    a: Operand
    b: Operand
    terms: Dim
    ahead: Dim
    onto: Dim = field(default=dim(0))
    gathered: Gathered | None = None
    lines: int = 1


@dataclass(frozen=True, slots=True)
class ScaledTile:
    """The register tile of ``scaled_matmul``, of literal ``rows`` x ``vectors``.

    ``a`` has int8, neighbours in a row next to each other, and ``b`` is a dense panel of words of levels of ``bits``
    bits; both have ``groups`` of ``group`` terms. ``a_scales`` has a row of scales for each row, at any strides, and
    ``b_scales``, a dense panel, one for each group. Unless ``onto`` is 0, the sums are added to the target's elements.
    """

    rows: int
    vectors: int
    lanes: int
    bits: int
    target: Operand
    a: Operand
    a_scales: Operand
    b: Operand
    b_scales: Operand
    group: int
    groups: Dim
    onto: Dim = field(default=dim(0))


@dataclass(frozen=True, slots=True)
class PackPanel:
    """Copy ``terms`` rows of ``columns`` elements of ``source`` into a dense panel of ``vectors`` * ``lanes`` columns.

    The panel is the buffer ``target`` from position ``at`` on; the rest of its rows becomes zero. In one of uint32 an
    element is a word of neighbours in a column: two bfloat16, to which float32 is rounded, or four bytes.
    """

    vectors: int
    lanes: int
    target: str
    at: Dim
    source: Operand
    terms: Dim
    columns: Dim


@dataclass(frozen=True, slots=True)
class SharedProduct:
    """``target[r, j] = sum over k of a[r, k] * b[k, j]`` for ``r < height`` and ``j < width``, by a team of threads.

    The literals ``rows`` and ``columns`` are the most that height and width can be. Operands have any alignment and
    strides, and the left one may be folded; nothing outside of height and width is read or written. An element's terms
    are added in order, from zero; unless ``onto`` is 0, the sums are added to the target's elements. The team stages up
    to ``STAGED`` terms of the tile's rows and of its columns in memory that its threads share.

    With a ``schedule`` warps compute it on tensor cores: operands are rounded as its instruction does, an element's
    terms are added in some order. A scratch target's elements outside of height and width are lost then; until the sums
    are written to it, its memory may stage operands.
    """

    rows: int
    columns: int
    height: Dim
    width: Dim
    target: Operand
    a: Operand | Folded
    b: Operand
    terms: Dim
    onto: Dim = field(default=dim(0))
    schedule: MatrixTile | None = None


@dataclass(frozen=True, slots=True)
class SoftmaxTile:
    """One step of an online softmax for ``lanes`` columns of ``scores``, whose rows are ``keys``.

    Scores become weights, ``exp`` of their difference to the running maximum times ``scale``, which is positive.
    ``state`` names the buffers of the maxima, the sums of weights and the factors by which those were rescaled, each
    for the columns from ``offset`` on.
    """

    lanes: int
    scores: Operand
    keys: Dim
    scale: Number
    state: tuple[str, str, str]
    offset: Dim


@dataclass(frozen=True, slots=True)
class StageTile:
    """Copy ``height`` x ``width`` elements to a scratch tile of ``rows`` x ``columns``, the rest of which becomes zero.

    The printer chooses the tile's layout: only a :class:`RegisterProduct` reads it. With ``ahead`` copies are
    asynchronous: threads begin all of them before they wait for one. A scratch buffer may have several tiles, this one
    at offset ``at``. Those ``in_turns`` are multi-buffered: written for the next iteration while others are read. One
    that ``meets`` begins an iteration with a barrier: threads wait for each other, and for what they copied.
    """

    target: str
    rows: int
    columns: int
    source: Operand
    height: Dim
    width: Dim
    ahead: bool
    at: Dim = NOWHERE
    in_turns: bool = False
    meets: bool = False


@dataclass(frozen=True, slots=True)
class RegisterProduct:
    """``target[r, j] = sum over k of a[r, k] * b[j, k]``, ``b[k, j]`` where it is ``transposed``, on tensor cores.

    ``b`` is a staged tile at offset ``at``. ``a`` is another tile or, with ``a_in_registers``, a register matrix, whose
    elements are rounded as the instruction's operands are. With ``onto`` the sums are added to the target's elements.
    """

    instruction: MatrixInstruction
    target: str
    rows: int
    columns: int
    terms: int
    a: str
    a_in_registers: bool
    b: str
    transposed: bool
    onto: bool
    at: Dim = NOWHERE


@dataclass(frozen=True, slots=True)
class RegisterMatrix:
    """A row-major float32 matrix in the registers of a team's warps, ``BAND`` of its rows in each.

    Without ``columns`` it is one number a row. Only the statements that follow touch it.
    """

    name: str
    rows: int
    columns: int
    dtype: DType = float32


@dataclass(frozen=True, slots=True)
class FoldRegisters:
    """Join the elements of each row of the register matrix ``source`` onto the row's element of ``target``."""

    target: str
    source: str
    rows: int
    columns: int
    initial: float
    combine: str


TileCall = ProductTile | ScaledTile | PackPanel | SharedProduct | SoftmaxTile | StageTile | RegisterProduct
