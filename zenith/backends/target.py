"""The properties of a machine that the planner and lowering use: one record, filled in by a backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from zenith.backends.tensor_core_tiles import AttentionShape, AttentionTile, MatrixTile, Pick, ProductShape
from zenith.ir.types import DType

NARROWEST = 16  # rows or columns of a guarded tile: neighbouring threads should find neighbours


class TileShape(Protocol):
    """The tiling of a product: register tiles of ``rows`` x (``vectors`` * ``lanes``) that sum ``block`` terms at once.

    A task has ``row_block`` rows at most, and there should be ``tasks`` of them at least. ``panel`` is the columns of a
    tile; while it computes, a tile fetches ``ahead`` elements a term of the next block. An element of a panel is a word
    of ``terms`` neighbours in a column: the processor adds as many products to a sum at once.
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

    @property
    def terms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class GuardedTile:
    """The tiling of a product whose tiles are computed by teams of threads, with guards for elements that lie outside.

    A task is one tile of at most ``rows`` x ``panel`` elements, which sums ``block`` terms at once; operands are not
    packed. All memory that a team shares has ``shared`` bytes at most. There should be ``tasks`` of them at least, or
    tiles' terms are split (split-K).
    """

    rows: int
    panel: int
    block: int
    shared: int
    tasks: int

    def fitting(self, rows: int | None, columns: int | None) -> GuardedTile:
        """The tile for so many rows and columns, where they are known: halved as long as they fit."""
        return replace(self, rows=_halved(self.rows, rows), panel=_halved(self.panel, columns))


def _halved(most: int, needed: int | None) -> int:
    while needed is not None and most // 2 >= max(needed, NARROWEST):
        most //= 2
    return most


def _first(tiles: Sequence[MatrixTile], shape: ProductShape) -> MatrixTile:
    return tiles[0]


def _no_attention(shape: AttentionShape) -> AttentionTile | str:
    return "it has no tensor cores"


class ProductTiles(Protocol):
    """The tiling of products of an element type: of so many columns, of operands stored as these types, when known."""

    def __call__(
        self, dtype: DType, columns: int | None, stored: tuple[DType, DType] | None = None, /
    ) -> TileShape | GuardedTile: ...


@dataclass(frozen=True, slots=True)
class Target:
    """A target: its name, and the tile for products.

    ``threads`` is how many threads should run, where those are thousands. ``matrix_tiles`` are the schedules for
    products on tensor cores, among which ``pick`` chooses; with ``tf32`` they may round float32 operands to TF32.
    ``atomics`` are the element types to which tasks may add at the same time, in any order: none where results have to
    repeat bit for bit. ``libraries`` are the names of those that a program may call. ``attention_tile`` is the schedule
    for attention on tensor cores, or why there is none. Convolutions are fastest ``channels_last``, or not; they may
    have a relative error of ``error_budget`` where that makes them faster. Loops over scalars are one kernel where
    a core is fast on its own, ``sequential``. ``sized_loops`` says that sizes may differ from turn to turn of a loop,
    ``reduces_vectors`` that products with vectors are fastest as reductions, ``multiplies_bytes`` that products of
    8-bit integers are those of bytes without and with a sign, ``rounds_to`` the type to which
    products of float32 round their operands, ``inner_loops`` that kernels call those of NumPy's ufuncs.
    """

    name: str
    product_tile: ProductTiles
    threads: int | None = None
    matrix_tiles: tuple[MatrixTile, ...] = ()
    pick: Pick = _first
    tf32: bool = False
    atomics: frozenset[DType] = frozenset()
    libraries: tuple[str, ...] = ()
    attention_tile: Callable[[AttentionShape], AttentionTile | str] = _no_attention
    channels_last: bool = False
    error_budget: float = 0.0
    sequential: bool = False
    sized_loops: bool = False
    reduces_vectors: bool = False
    multiplies_bytes: bool = False
    rounds_to: DType | None = None
    inner_loops: bool = False
