"""The arena: one block of memory for everything that a call keeps between its steps, cut into slots.

Slots are planned, not allocated: an offset and a length, as formulas of the sizes. A slot that is given back is used
again for an array of provably equal length.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from zenith.backends.steps import ALIGN, Place, Slot
from zenith.ir.dims import Dim, dim, maximum, prove_equal
from zenith.ir.types import DType

WORKSPACE_ALIGN = 256  # bytes: what libraries of CUDA's ask for


@dataclass(slots=True)
class Arena:
    """The slots of a plan, those of them that are free, and the length of all.

    ``wanted`` are lengths of the workspace: what a step writes to only while it runs is the same memory for all steps.

    >>> from zenith.ir.types import float32
    >>> arena = Arena()
    >>> first = arena.allocate(dim(3), float32)
    >>> arena.give_back(first)
    >>> arena.allocate(dim(5), float32) == first, str(arena.top)
    (True, '64')
    """

    slots: list[Slot] = field(default_factory=list)
    free: list[Slot] = field(default_factory=list)
    top: Dim = field(default_factory=lambda: dim(0))
    wanted: list[Dim] = field(default_factory=list)

    def allocate(self, size: Dim, dtype: DType) -> Place:
        """Memory for an array of ``size`` elements, maybe some that was given back."""
        length = _bytes(size, dtype)
        found = next((slot for slot in self.free if prove_equal(slot.length, length)), None)
        if found is None:
            return self.extend(size, dtype)
        self.free.remove(found)
        return Place("slot", found.name)

    def extend(self, size: Dim, dtype: DType) -> Place:
        """Memory for an array that nothing else has used before."""
        slot = Slot(f"t{len(self.slots)}", self.top, _bytes(size, dtype))
        self.slots.append(slot)
        self.top = self.top + slot.length
        return Place("slot", slot.name)

    def workspace(self, length: Dim) -> Place:
        """Memory of so many bytes for one step, which has no contents before and after it."""
        if length not in self.wanted:
            self.wanted.append(length)
        return Place("slot", "workspace")

    def add_workspace(self) -> None:
        """Place the workspace behind everything else, once all steps are known."""
        if self.wanted:
            start = (self.top + (WORKSPACE_ALIGN - 1)) // WORKSPACE_ALIGN * WORKSPACE_ALIGN
            self.slots.append(Slot("workspace", start, functools.reduce(maximum, self.wanted)))
            self.top = start + self.slots[-1].length

    def give_back(self, place: Place) -> None:
        """Let others have the memory of a place, if it is the arena's."""
        if place.kind == "slot":
            slot = next(s for s in self.slots if s.name == place.name)
            assert slot not in self.free, f"{place} was given back before"
            self.free.append(slot)


def _bytes(size: Dim, dtype: DType) -> Dim:
    return (size * dtype.itemsize + (ALIGN - 1)) // ALIGN * ALIGN
