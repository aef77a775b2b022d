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
from zenith.ir.dims import Dim, dim, prove_at_least, symbol
from zenith.ir.guards import Guard
from zenith.ir.types import int64


@dataclass(frozen=True, slots=True)
class Counter:
    """A symbol, and what it is at least and at most while its loop's body runs; None where that is not known.

    ``high`` is at least ``factor`` times the symbol, as a dividend is of its quotient.
    """

    symbol: str
    low: Dim | None
    high: Dim | None
    factor: int = 1

    def least(self, value: Dim) -> Dim | None:
        """An expression without the symbol, not above a multiple of the linear ``value``; None where none is known."""
        coefficient = _coefficient(value, self.symbol)
        if coefficient is None:
            return None
        bound, factor = (self.low, 1) if coefficient > 0 else (self.high, self.factor)
        return None if bound is None else (value - symbol(self.symbol) * coefficient) * factor + bound * coefficient


def is_exact(value: Dim) -> bool:
    """Whether an integer in 64 bits is what an expression of sizes and counters, which no program brings to 2**31, is.

    Products of two of them have factors below 2**31, so that what wraps has a larger one.
    """
    return all(abs(factor) < 1 << 31 for _, factor in value.terms)


@dataclass(slots=True)
class Intervals:
    """The counters of the loops around the current statement, outermost first, and the names that are known."""

    counters: list[Counter] = field(default_factory=list)
    facts: tuple[Dim, ...] = ()  # what is at least 0
    known: dict[str, Dim] = field(default_factory=dict)

    @contextmanager
    def within(self, *counters: Counter) -> Iterator[None]:
        """The body of a loop with counters, whose names are known in it."""
        before, depth = dict(self.known), len(self.counters)
        self.counters += counters
        try:
            yield
        finally:
            del self.counters[depth:]
            self.known = before

    def note_quotient(self, expr: Expr, dividend: Dim | None, divisor: Dim | None) -> None:
        """Note that a name is a floor quotient of an integer that is not negative: a symbol from here on."""
        if isinstance(expr, Name) and dividend is not None and divisor is not None and expr.name not in self.known:
            factor = divisor.static
            if factor is not None and factor > 0 and self.is_at_least_zero(dividend):
                self.counters.append(Counter(expr.name, dim(0), dividend, factor))
                self.known[expr.name] = symbol(expr.name)

    def note(self, expr: Expr, value: Dim | None) -> None:
        """Note what a name's value is, as an expression of sizes and counters that no overflow changes."""
        if isinstance(expr, Name) and expr.dtype == int64 and value is not None and is_exact(value):
            self.known[expr.name] = value

    def note_remainder(self, expr: Expr, divisor: Dim | None) -> None:
        """Note that a name is a remainder: a symbol from here on."""
        if isinstance(expr, Name) and divisor is not None and expr.name not in self.known:
            self.counters.append(Counter(expr.name, dim(0), divisor - 1))
            self.known[expr.name] = symbol(expr.name)

    def larger(self, a: Dim | None, b: Dim | None) -> Dim | None:
        """The larger one of two integers, where it is known which that is."""
        if a is None or b is None:
            return None
        return a if self.is_at_least_zero(a - b) else b if self.is_at_least_zero(b - a) else None

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
                least = counter.least(value)
                if least is None:
                    return False
                value = least
        return self._follows(value)

    def _follows(self, value: Dim) -> bool:
        """Whether an expression is at least 0, or as large as a fact, by sizes alone: counters may be negative."""
        counters = {counter.symbol for counter in self.counters}
        runs = [c.high - c.low for c in self.counters if c.low is not None and c.high is not None]
        differences = (value - fact for fact in (dim(0), *self.facts, *runs))
        return any(prove_at_least(d, 0) is True for d in differences if not d.symbols() & counters)

    @contextmanager
    def where(self, fact: Dim | None) -> Iterator[None]:
        """A branch, in which something may be at least 0: what is noted in it holds in it alone."""
        before = self.facts
        self.facts = before if fact is None else (*before, fact)
        with self.within():
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


def _coefficient(value: Dim, symbol: str) -> int | None:
    """The coefficient of a symbol in a linear expression; None where it is not linear in the symbol."""
    found: int | None = None
    for monomial, coefficient in value.terms:
        if symbol in {s for atom in monomial for s in ([atom] if isinstance(atom, str) else _symbols(atom))}:
            if monomial != (symbol,):
                return None
            found = coefficient
    return found


def _symbols(atom: object) -> set[str]:
    left, right = (getattr(atom, side) for side in ("left", "right"))
    return set(left.symbols()) | set(right.symbols())
