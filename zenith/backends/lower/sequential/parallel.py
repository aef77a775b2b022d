"""Loops whose turns are independent: each turn is a task (a DOALL loop).

Turns depend on each other by what they carry and by the elements that they write. A loop is parallel where all numbers
that a turn reads follow from its own number, and no turn touches an element that another one writes: on some axis
of each array that is written, all subscripts are one linear function of the turn's number. That is the strong SIV test
with distance 0 (K. Kennedy, R. Allen, *Optimizing Compilers for Modern Architectures*, 2001, section 3.3).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from zenith.backends.kernel import Fold, Loop, Statement, While, inner
from zenith.backends.lower.elements import Index
from zenith.backends.lower.sequential.intervals import Counter, Intervals
from zenith.ir.dims import Dim, dim, symbol

STATEMENT = 32  # the cost of a statement, in operations of vectorised work
UNKNOWN = 32  # turns of a loop that ends when the data say so


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store of an element of a buffer, as an array of some sizes."""

    buffer: str
    shape: tuple[Dim, ...]
    index: Index
    stores: bool


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of a loop with a known number of them: ``turn`` is its variable.

    ``known`` are the carried integers whose values follow from it. No turn reads other numbers of earlier turns where
    these are ``private``: each turn makes its own, and the last one's are the loop's.
    """

    turn: str
    length: Dim
    known: Mapping[str, Dim]
    private: bool


def dependence(turns: Turns | None, accesses: Iterable[Access], sizes: Collection[str]) -> str:
    """Why the turns of a loop may not run at the same time, or ""; ``sizes`` are the same in all of them."""
    if turns is None:
        return "its turns are not counted before the first"
    if not turns.private:
        return "a turn reads numbers of the turn before"
    by_buffer: dict[str, list[Access]] = {}
    for access in accesses:
        by_buffer.setdefault(access.buffer, []).append(access)
    written = [found for found in by_buffer.values() if any(a.stores for a in found)]
    if not all(_is_of_one_turn(found, turns.turn, {turns.turn, *sizes}) for found in written):
        return "turns may touch elements that others write"
    return ""


def _is_of_one_turn(accesses: Sequence[Access], turn: str, known: Collection[str]) -> bool:
    """Whether no two turns touch the same element of an array."""
    _, *others = {access.shape for access in accesses}
    axes = () if others else zip(*(access.index for access in accesses), strict=True)
    return any(len({*subscripts}) == 1 and _steps(subscripts[0], turn, known) for subscripts in axes)


def _steps(subscript: Dim, turn: str, known: Collection[str]) -> bool:
    """Whether a subscript changes by the same number from turn to turn, and by more than 0."""
    own = [c for monomial, c in subscript.terms if monomial == (turn,)]
    rest = subscript - sum((dim(c) for c in own), dim(0)) * Dim({(turn,): 1})
    return len(own) == 1 and turn not in rest.symbols() and rest.symbols() <= set(known)


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """A row that a loop over ``name`` writes in place: in each iteration one element, as ``access`` says.

    ``outside`` are the names that there were before the loop: whatever else a subscript rests on may change in it.
    """

    access: Access
    name: str
    outside: frozenset[str]

    def is_apart(self, read: Access, intervals: Intervals, names: set[str]) -> bool:
        """Whether an iteration reads nothing that another one writes; ``names`` are all of the kernel.

        It reads the very element that it writes itself, and no other iteration writes, or one whose index on some axis
        is none that is written.
        """
        if read.buffer != self.access.buffer:
            return True
        inside = names - self.outside - {self.name}
        own = read.index == self.access.index and any(_steps(i, self.name, i.symbols() - inside) for i in read.index)
        return read.shape == self.access.shape and (own or self._is_elsewhere(read, intervals, inside))

    def _is_elsewhere(self, read: Access, intervals: Intervals, inside: set[str]) -> bool:
        other = f"other_{self.name}"
        bounds = [Counter(other, c.low, c.high) for c in intervals.counters if c.symbol == self.name]
        with intervals.within(*bounds):
            for mine, written in zip(read.index, self.access.index, strict=True):
                distance = mine.substitute({self.name: symbol(other)}) - written
                differs = intervals.is_at_least_zero(distance - 1) or intervals.is_at_least_zero(-distance - 1)
                if differs and not (mine.symbols() | written.symbols()) & inside:
                    return True
        return False


def cost_of(statements: Iterable[Statement], turns: Turns, sizes: Collection[str]) -> Dim:
    """About what a turn costs."""
    total = dim(0)
    for statement in statements:
        own = cost_of(inner(statement), turns, sizes) + STATEMENT
        total += own * _repeated(statement, turns, sizes)
    return total


def _repeated(statement: Statement, turns: Turns, sizes: Collection[str]) -> Dim:
    """How often what is in a statement runs."""
    if isinstance(statement, While):
        return dim(UNKNOWN)
    if not isinstance(statement, Loop | Fold):
        return dim(1)
    count = (statement.stop - statement.start).substitute({turns.turn: turns.length})
    return count if count.symbols() <= set(sizes) else dim(UNKNOWN)
