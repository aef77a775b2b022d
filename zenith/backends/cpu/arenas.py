"""Arenas: memory for the values of a call, which calls of all programs reuse.

A call has an arena to itself, as large as the largest program that ran in it needs: a forward pass and its backward
pass share one. As many stay as calls ran at a time, up to ``IDLE`` bytes in addition to the one that was used last:
after a burst of calls in many threads most of the memory is free again.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from zenith.backends.steps import ALIGN

IDLE = 1 << 28  # bytes of arenas that no call has, not counting one


def aligned(length: int) -> tuple[Any, int]:
    """Memory of ``length`` bytes on an ``ALIGN`` boundary: its owner and its address."""
    owner = np.empty(length + ALIGN, np.uint8)
    return owner, (owner.ctypes.data + ALIGN - 1) // ALIGN * ALIGN


class ArenaMemory:
    """Memory of some bytes, and its address."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._owner, self.address = aligned(length)

    def close(self) -> None:
        """Free the memory, although programs still refer to the arena in which they ran last."""
        self._owner = None


class Arenas:
    """Those that no call has now. They live as long as a program that ran in them last."""

    def __init__(self) -> None:
        self._free: list[weakref.ref[ArenaMemory]] = []

    def take(self, length: int) -> ArenaMemory:
        """An arena of so many bytes at least; one that is smaller is given up for it."""
        while self._free:
            try:
                arena = self._free.pop()()
            except IndexError:
                break  # another thread took it
            if arena is not None and arena.length >= length:
                return arena
            if arena is not None:
                arena.close()
        return ArenaMemory(length)

    def give_back(self, arena: ArenaMemory) -> None:
        """Let other calls have it."""
        self._free.append(weakref.ref(arena))
        if len(self._free) > 1:
            self._trim()

    def _trim(self) -> None:
        """Close the arenas whose last use is longest ago, where too much is idle."""
        idle = [arena for free in self._free[:-1] if (arena := free()) is not None]
        surplus = sum(arena.length for arena in idle) - IDLE
        while surplus > 0:
            try:
                arena = self._free.pop(0)()
            except IndexError:
                break  # other threads took them all
            if arena is not None:
                surplus -= arena.length
                arena.close()


ARENAS = Arenas()
