"""The arena: one block of memory for all values that are live between the steps of a call, divided into slots.

Slots are planned, not allocated: an offset and a length, as formulas of the sizes. A slot that is given back is reused
for an array that provably fits in it, unless it is much too long: another array will need it. One that is a little
too short grows, since offsets are only known in the end: that costs the difference and not another slot. Inputs whose
memory the program may reuse are like slots once they are dead, but for their length, which nobody can change.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from zenith.backends.steps import ALIGN, Allocation, Slot
from zenith.ir.bounds import extremes
from zenith.ir.dims import Dim, dim, maximum, prove_at_least
from zenith.ir.types import DType

WORKSPACE_ALIGN = 256  # bytes: the alignment that CUDA's libraries require
TOO_LONG = 2  # times the length of an array


@dataclass(slots=True)
class Arena:
    """The slots of a plan by their lengths, the inputs whose memory it may reuse, and those of both that are free.

    ``wanted`` are lengths of the workspace: scratch memory of one step at a time, the same memory for all steps. What
    an iteration of a loop needs is planned for the largest it can be; ``last`` are the last indices of loops.

    >>> from zenith.ir.types import float32
    >>> arena = Arena()
    >>> first = arena.allocate(dim(3), float32)
    >>> arena.give_back(first)
    >>> arena.allocate(dim(5), float32) == first, [str(slot.length) for slot in arena.slots()]
    (True, ['64'])
    """

    lengths: dict[str, Dim] = field(default_factory=dict)
    reusable: dict[str, Dim] = field(default_factory=dict)
    free: list[Allocation] = field(default_factory=list)
    wanted: list[Dim] = field(default_factory=list)
    last: dict[str, Dim] = field(default_factory=dict)

    def allocate(self, size: Dim, dtype: DType) -> Allocation:
        """Memory for an array of ``size`` elements: a free slot that fits, or a new one."""
        size = self.largest(size)
        length = _bytes(size, dtype)
        found = self._reusable(size * dtype.itemsize) or self._fitting(length) or self._growing(length)
        if found is None:
            return self.extend(size, dtype)
        self.free.remove(found)
        return found

    def allow_reuse(self, name: str, size: Dim, dtype: DType) -> None:
        """Note that the memory of an input may be reused; :meth:`give_back` says from when on."""
        self.reusable[name] = size * dtype.itemsize

    def extend(self, size: Dim, dtype: DType) -> Allocation:
        """Memory for an array that nothing else has used before."""
        name = f"t{len(self.lengths)}"
        self.lengths[name] = _bytes(self.largest(size), dtype)
        return Allocation("slot", name)

    def note_index(self, index: str, last: Dim) -> None:
        """Note that sizes may contain the index of a loop, which is ``last`` at most."""
        if index:
            self.last[index] = last

    def largest(self, size: Dim) -> Dim:
        """What a size is at most, whatever the indices of loops and the numbers that the program computes are."""
        if not size.symbols() & self.last.keys():
            return size
        most = extremes(size, self.last)[1]
        return most if prove_at_least(most, 0) else maximum(most, 0)

    def workspace(self, length: Dim) -> Allocation:
        """Memory of so many bytes for one step, which has no contents before and after it."""
        if length not in self.wanted:
            self.wanted.append(length)
        return Allocation("slot", "workspace")

    def give_back(self, allocation: Allocation) -> None:
        """Free an allocation, if others may have its memory."""
        if self.owns(allocation):
            assert allocation not in self.free, f"{allocation} was given back before"
            self.free.append(allocation)

    def owns(self, allocation: Allocation) -> bool:
        """Whether it is a slot, or an input whose memory may be reused."""
        return allocation.kind == "slot" or (allocation.kind == "input" and allocation.name in self.reusable)

    def slots(self) -> tuple[Slot[Dim], ...]:
        """All slots, one after the other, once all steps are known; the workspace is the last."""
        found, top = list[Slot[Dim]](), dim(0)
        for name, length in self.lengths.items():
            found.append(Slot(name, top, length))
            top = top + length
        if self.wanted:
            start = (top + (WORKSPACE_ALIGN - 1)) // WORKSPACE_ALIGN * WORKSPACE_ALIGN
            found.append(Slot("workspace", start, functools.reduce(maximum, self.wanted)))
        return tuple(found)

    def _reusable(self, length: Dim) -> Allocation | None:
        """The shortest free input that is long enough: exactly, since what follows it in memory is not ours."""
        fitting = [a for a in self.free if a.kind == "input" and prove_at_least(self.reusable[a.name], length)]
        return min(fitting, key=lambda a: self.reusable[a.name].typical(), default=None)

    def _fitting(self, length: Dim) -> Allocation | None:
        """The shortest free slot that is long enough."""
        most = TOO_LONG * length.typical()
        fitting = [s for s in self._slots() if self._length(s) <= most and prove_at_least(self.lengths[s.name], length)]
        return min(fitting, key=self._length, default=None)

    def _growing(self, length: Dim) -> Allocation | None:
        """The longest free slot that is a little too short, now as long as an array."""
        least = length.typical() / TOO_LONG
        short = [s for s in self._slots() if self._length(s) >= least and prove_at_least(length, self.lengths[s.name])]
        found = max(short, key=self._length, default=None)
        if found is not None:
            self.lengths[found.name] = length
        return found

    def _slots(self) -> list[Allocation]:
        return [a for a in self.free if a.kind == "slot"]

    def _length(self, slot: Allocation) -> int:
        return self.lengths[slot.name].typical()


def _bytes(size: Dim, dtype: DType) -> Dim:
    """The length of an array, rounded up to ``ALIGN``; terms that are multiples of it stay outside of the division."""
    length = size * dtype.itemsize
    whole = Dim({monomial: count for monomial, count in length.terms if count % ALIGN == 0})
    return whole + (length - whole + (ALIGN - 1)) // ALIGN * ALIGN
