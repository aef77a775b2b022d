"""The leaf operations of the kernel IR: what a kernel calls as one function, tiles of products above all."""

from __future__ import annotations

from dataclasses import dataclass, field

from zenith.backends.expressions import Number
from zenith.ir.dims import Dim, dim
from zenith.ir.target import MatrixInstruction, MatrixTile

STAGED = 16  # terms of a shared product that a team has at hand at a time
NOWHERE = dim(0)  # the place of the only tile of a buffer


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix inside a buffer: where it starts and the strides of its two axes, in elements."""

    buffer: str
    at: Dim
    strides: tuple[Dim, Dim]

    def position(self, row: Dim, column: Dim) -> Dim:
        """Where an element stands."""
        return self.at + row * self.strides[0] + column * self.strides[1]

    def even(self, axis: int) -> tuple[Dim, ...]:
        """What has to be multiples of a number so that so many neighbours along an axis begin at multiples of it."""
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
        """How far from the matrix' first element that of a number stands."""
        at, rest = dim(0), self.first + number
        for extent, step in zip(self.extents[:0:-1], self.steps[:0:-1], strict=True):
            at, rest = at + rest % extent * step, rest // extent
        return at + rest * self.steps[0]


@dataclass(frozen=True, slots=True)
class Folded:
    """A matrix inside a buffer that has more axes than two: what windows are gathered by (see :class:`Operand`)."""

    buffer: str
    at: Dim
    axes: tuple[Digits, Digits]

    @property
    def strides(self) -> tuple[Dim, Dim]:
        """Those of neighbours, where these differ in their last digit only."""
        return self.axes[0].steps[-1], self.axes[1].steps[-1]

    def position(self, row: Dim, column: Dim) -> Dim:
        """Where an element stands."""
        return self.at + self.axes[0].position(row) + self.axes[1].position(column)

    def even(self, axis: int) -> tuple[Dim, ...]:
        """What has to be multiples of a number so that so many neighbours along an axis begin at multiples of it."""
        own, other = self.axes[axis], self.axes[1 - axis]
        last = own.extents[-1:] if len(own.extents) > 1 else ()
        return self.at, *other.steps, *own.steps[:-1], own.first, *last


@dataclass(frozen=True, slots=True)
class Gathered:
    """Where the terms of an operand are: ``parts`` of as many terms, part p at element ``first + p`` of ``places``.

    Where its rows are stands in another table, ``rows``. As an operand's first stride then stands the first row's
    number in it; behind a tile's rows it has as many more, which are fetched into the cache.
    """

    places: str
    first: Dim
    parts: Dim
    rows: str


@dataclass(frozen=True, slots=True)
class ProductTile:
    """``target[r, j] = sum over k of a[r, k] * b[k, j]`` for a register tile of literal ``rows`` x ``vectors``.

    Unless ``onto`` is 0, the sums are added to what the target holds. Meanwhile what stands at position ``ahead`` of b
    is fetched into the cache, so many ``lines`` every few terms. Terms of a that do not follow each other are
    ``gathered``.
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
class PackPanel:
    """Copy ``terms`` rows of ``columns`` elements of ``source`` into a dense panel of ``vectors`` * ``lanes`` columns.

    The panel is the buffer ``target`` from position ``at`` on; the rest of its rows becomes zero.
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

    The literals ``rows`` and ``columns`` are the most that height and width can be. Operands lie anywhere, at any
    strides, and the left one may be folded; nothing outside of height and width is read or written. An element's terms
    are taken in order, from zero; unless ``onto`` is 0, the sums are added to what the target holds. Where all its
    threads find them, the team keeps up to ``STAGED`` terms of the tile's rows and of its columns.

    With a ``schedule`` warps compute it on tensor cores: operands are rounded as its instruction does, an element's
    terms are added in some order. What a scratch target holds outside of height and width is lost then; until the sums
    are written to it, it may hold operands.
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

    Scores become weights, ``exp`` of their difference to the largest so far times ``scale``, which is positive.
    ``state`` names the buffers of the largest scores, the sums of weights and the factors by which those shrank, each
    for the columns from ``place`` on.
    """

    lanes: int
    scores: Operand
    keys: Dim
    scale: Number
    state: tuple[str, str, str]
    place: Dim


@dataclass(frozen=True, slots=True)
class StageTile:
    """Copy ``height`` x ``width`` elements to a scratch tile of ``rows`` x ``columns``, the rest of which becomes zero.

    In what order the tile has them is the printer's business: only a :class:`RegisterProduct` reads it. ``ahead``,
    threads do not wait for what they copy before all have begun. A scratch buffer may have several tiles, of which this
    one is ``at`` a place; those ``in_turns`` are written for the next turn while others are read, and one that
    ``meets`` begins a turn: threads wait for each other, and for what they copied.
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

    ``b`` is a staged tile, ``at`` a place, and ``a`` another one or, ``a_in_registers``, a held matrix, whose elements
    are rounded as the instruction's operands are. With ``onto`` the sums are added to what the target holds.
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
class CallNative:
    """Call the native function whose address is the first element of the buffer ``function``.

    It takes the addresses of elements, each a buffer and a position, then ``sizes`` as 64-bit integers.
    """

    function: str
    elements: tuple[tuple[str, Dim], ...]
    sizes: tuple[Dim, ...]


Leaf = ProductTile | PackPanel | SharedProduct | SoftmaxTile | StageTile | RegisterProduct | CallNative
