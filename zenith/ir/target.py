"""What passes and lowering may know of the machine: one record, filled in by a backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from zenith.ir.types import DType

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


def _halved(most: int, needed: int | None) -> int:
    while needed is not None and most // 2 >= max(needed, NARROWEST):
        most //= 2
    return most


@dataclass(frozen=True, slots=True)
class Target:
    """A target: its name, and the tile for products of an element type (and of so many columns, when known).

    ``threads`` is how many threads it wants at work, where those are thousands. ``atomics`` are the element types to
    which tasks may add at the same time, in any order: none where results have to repeat bit for bit.
    """

    name: str
    product_tile: Callable[[DType, int | None], TileShape | GuardedTile]
    threads: int | None = None
    atomics: frozenset[DType] = frozenset()
