"""What passes and lowering may know of the machine: one record, filled in by a backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from zenith.ir.types import DType

NARROWEST = 16  # columns of a guarded tile: neighbouring threads should find neighbours


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
    where they lie. All memory that a team shares has ``shared`` bytes at most.
    """

    rows: int
    panel: int
    block: int
    shared: int

    def narrowed(self, columns: int | None) -> GuardedTile:
        """The tile for so many columns, when they are known: half as wide, as long as they fit."""
        panel = self.panel
        while columns is not None and panel // 2 >= max(columns, NARROWEST):
            panel //= 2
        return replace(self, panel=panel)


@dataclass(frozen=True, slots=True)
class Target:
    """A target: its name, and the tile for products of an element type (and of so many columns, when known).

    ``threads`` is how many threads it wants at work, where those are thousands.
    """

    name: str
    product_tile: Callable[[DType, int | None], TileShape | GuardedTile]
    threads: int | None = None
