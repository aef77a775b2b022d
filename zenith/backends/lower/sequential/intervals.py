"""Where integers of a sequential kernel lie: counters of loops as symbols with bounds, and what follows from them.

An index that is proven to be inside of its axis is neither wrapped nor checked, and is an affine expression of the
loops' counters, which a compiler understands. The proof substitutes the bounds of the counters, innermost first, since
the inner ones' bounds may depend on the outer counters (interval arithmetic over affine loop bounds, as in the
polyhedral model: P. Feautrier, *Dataflow analysis of array and scalar references*, 1991).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from zenith.backends.expressions import Expr, Name, Number, Position
from zenith.ir.dims import Dim, dim, prove_at_least
from zenith.ir.graph import Guard
from zenith.ir.types import int64


@dataclass(frozen=True, slots=True)
class Counter:
    """A symbol, and what it is at least and at most while its loop's body runs; None where that is not known."""

    symbol: str
    low: Dim | None
    high: Dim | None


@dataclass(slots=True)
class Intervals:
    """The counters of the loops around the current statement, outermost first, and the names that are known."""

    counters: list[Counter] = field(default_factory=list)
    facts: tuple[Dim, ...] = ()  # what is at least 0
    known: dict[str, Dim] = field(default_factory=dict)

    @contextmanager
    def within(self, *counters: Counter) -> Iterator[None]:
        """The body of a loop with counters, whose names are known in it."""
        before = dict(self.known)
        self.counters += counters
        try:
            yield
        finally:
            del self.counters[len(self.counters) - len(counters) :]
            self.known = before

    def note(self, expr: Expr, value: Dim | None) -> None:
        """Note what a name's value is, as an expression of sizes and counters."""
        if isinstance(expr, Name) and expr.dtype == int64 and value is not None:
            self.known[expr.name] = value

    def value(self, expr: Expr) -> Dim | None:
        """The value of an integer as an expression of sizes and counters; None where it is none."""
        if expr.dtype != int64:
            return None
        if isinstance(expr, Number):
            return dim(int(expr.value))
        if isinstance(expr, Position):
            return expr.at
        return self.known.get(expr.name) if isinstance(expr, Name) else None

    def is_inside(self, value: Dim, size: Dim) -> bool:
        """Whether an index is at least 0 and below a size, whatever the counters are."""
        return self.is_at_least_zero(value) and self.is_at_least_zero(size - 1 - value)

    def is_at_least_zero(self, value: Dim) -> bool:
        """Whether an expression is not negative, whatever the counters are."""
        for counter in reversed(self.counters):
            if counter.symbol in value.symbols():
                if self._follows(value):
                    return True
                rising = _direction(value, counter.symbol)
                bound = None if rising is None else counter.low if rising else counter.high
                if bound is None:
                    return False
                value = value.substitute({counter.symbol: bound})
        return self._follows(value)

    def _follows(self, value: Dim) -> bool:
        """Whether an expression is at least 0, or as large as a fact, by sizes alone: counters may be negative."""
        counters = {counter.symbol for counter in self.counters}
        differences = (value - fact for fact in (dim(0), *self.facts))
        return any(prove_at_least(d, 0) is True for d in differences if not d.symbols() & counters)

    @contextmanager
    def where(self, fact: Dim | None) -> Iterator[None]:
        """A branch in which something is at least 0."""
        before = self.facts
        self.facts = before if fact is None else (*before, fact)
        try:
            yield
        finally:
            self.facts = before


def facts_of(guards: Sequence[Guard]) -> tuple[Dim, ...]:
    """What guards say is at least 0."""
    found: list[Dim] = []
    for guard in guards:
        difference = guard.left - guard.right if guard.relation in (">=", ">") else guard.right - guard.left
        if guard.relation not in ("==", "!="):
            found.append(difference - 1 if guard.relation in ("<", ">") else difference)
    return tuple(found)


def _direction(value: Dim, symbol: str) -> bool | None:
    """Whether a linear expression rises with a symbol; None where it may do either, or is not linear."""
    signs: set[bool] = set()
    for monomial, coefficient in value.terms:
        if symbol in {s for atom in monomial for s in ([atom] if isinstance(atom, str) else _symbols(atom))}:
            if monomial != (symbol,):
                return None
            signs.add(coefficient > 0)
    return signs.pop() if len(signs) == 1 else None


def _symbols(atom: object) -> set[str]:
    left, right = (getattr(atom, side) for side in ("left", "right"))
    return set(left.symbols()) | set(right.symbols())
