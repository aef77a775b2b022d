"""Arenas: memory for what lives inside a call, which calls of all programs take in turn.

A call has an arena to itself. As many are kept as calls ran at a time, and each is as large as the largest program
that ran in it needs: a way forward and a way back share one.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from zenith.backends.steps import ALIGN


def aligned(length: int) -> tuple[Any, int]:
    """Memory of ``length`` bytes on an ``ALIGN`` boundary: its owner and its address."""
    owner = np.empty(length + ALIGN, np.uint8)
    return owner, (owner.ctypes.data + ALIGN - 1) // ALIGN * ALIGN


class Arena:
    """Memory of some bytes, and its address."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._owner, self.address = aligned(length)

    def close(self) -> None:
        """Let go of the memory, though programs know the arena that they ran in last."""
        self._owner = None


class Arenas:
    """Those that no call has now. They live as long as a program that ran in them last."""

    def __init__(self) -> None:
        self._free: list[weakref.ref[Arena]] = []

    def take(self, length: int) -> Arena:
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
        return Arena(length)

    def give_back(self, arena: Arena) -> None:
        """Let other calls have it."""
        self._free.append(weakref.ref(arena))


ARENAS = Arenas()
