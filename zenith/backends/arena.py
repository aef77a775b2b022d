"""The arena: one block of memory for everything that a call keeps between its steps, cut into slots.

Slots are planned, not allocated: an offset and a length, as formulas of the sizes. A slot that is given back is used
again for an array that provably fits in it, unless it is much too long: another array will need it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from zenith.backends.steps import ALIGN, Place, Slot
from zenith.ir.dims import Dim, dim, maximum, prove_at_least
from zenith.ir.types import DType

WORKSPACE_ALIGN = 256  # bytes: what libraries of CUDA's ask for
TYPICAL = 64  # a size for which lengths are compared
TOO_LONG = 2  # times the length of an array


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
        most = TOO_LONG * _typical(length)
        fitting = [s for s in self.free if _typical(s.length) <= most and prove_at_least(s.length, length)]
        if not fitting:
            return self.extend(size, dtype)
        found = min(fitting, key=lambda slot: _typical(slot.length))
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
    """The length of an array in whole lines; what is a number of lines as it is stays apart, so that it is seen."""
    length = size * dtype.itemsize
    whole = Dim({monomial: count for monomial, count in length.terms if count % ALIGN == 0})
    return whole + (length - whole + (ALIGN - 1)) // ALIGN * ALIGN


def _typical(length: Dim) -> int:
    return length.evaluate(dict.fromkeys(length.symbols(), TYPICAL))
