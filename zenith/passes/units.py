"""Units: sets of nodes, and the dependences between them; before two are merged, a query shows whether that is cyclic.

Nodes that one kernel computes are a unit, and so is each node that no kernel computes. Two questions must be quick,
since fusion asks them for every edge: which units a unit reads, and whether one depends on another by any path.
"""

from __future__ import annotations

from collections.abc import Iterable


class Units:
    """The unit of every node; ``deps`` are the units that one reads, ``first`` and ``last`` the ends of its nodes."""

    def __init__(self) -> None:
        self.of: dict[int, int] = {}
        self.deps, self._readers = dict[int, set[int]](), dict[int, set[int]]()
        self.first, self.last = dict[int, int](), dict[int, int]()
        self._top: dict[int, int] = {}  # the last node of a unit and of all that it depends on
        self._count = 0

    def new(self, number: int, read: Iterable[int]) -> int:
        """A unit of one node, which reads other nodes."""
        unit = self._count
        self._count += 1
        self.deps[unit], self._readers[unit] = set(), set()
        self.first[unit] = self.last[unit] = self._top[unit] = number
        self.add(number, unit, read)
        return unit

    def add(self, number: int, unit: int, read: Iterable[int]) -> None:
        """Add a node, which reads other nodes, to a unit."""
        self.of[number] = unit
        self.last[unit] = max(self.last[unit], number)
        self.first[unit] = min(self.first[unit], number)
        self._depend(unit, {self.of[node] for node in read} - {unit})

    def unite(self, unit: int, other: int, members: Iterable[int]) -> None:
        """Merge another unit, whose nodes are ``members``, into a unit."""
        for member in members:
            self.of[member] = unit
        self.first[unit] = min(self.first[unit], self.first.pop(other))
        self.last[unit] = max(self.last[unit], self.last.pop(other))
        del self._top[other]
        for reader in self._readers.pop(other) - {unit}:
            self.deps[reader] = (self.deps[reader] - {other}) | {unit}
            self._readers[unit].add(reader)
        self.deps[unit].discard(other)
        self._readers[unit].discard(other)
        others = self.deps.pop(other) - {unit}
        for read in others:
            self._readers[read].discard(other)
        self._depend(unit, others)

    def _depend(self, unit: int, others: set[int]) -> None:
        """Record that a unit, which may have grown, reads others."""
        self.deps[unit] |= others
        for other in others:
            self._readers[other].add(unit)
        rising = [(unit, max([self.last[unit], *(self._top[other] for other in others)]))]
        while rising:
            current, top = rising.pop()
            if top > self._top[current]:
                self._top[current] = top
                rising += [(reader, top) for reader in self._readers[current] if top > self._top[reader]]

    def reaches(self, start: set[int], unit: int) -> bool:
        """Whether one of the units in ``start`` depends on ``unit``."""
        stack, seen = list(start), set(start)
        while stack:
            current = stack.pop()
            if current == unit:
                return True
            fresh = {u for u in self.deps[current] if self._top[u] >= self.first[unit]} - seen
            seen |= fresh
            stack.extend(fresh)
        return False

    def has_detour(self, unit: int, other: int) -> bool:
        """Whether one of two units reads a third one that depends on the other."""
        return self.reaches(self.deps[unit] - {other}, other) or self.reaches(self.deps[other] - {unit}, unit)
