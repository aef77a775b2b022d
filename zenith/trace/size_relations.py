"""What a trace knows about sizes, and the questions about them.

Questions are answered for the sizes of this call (the *hints*) and recorded as guards: an assumption is a branch that
the program took, a requirement is a rule that callers must obey. Sizes found equal are unified at once, so that a
question is asked once; the guards themselves stay in the symbols of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zenith.errors import ShapeError, SourceLine, TraceError, ZenithError, user_line
from zenith.ir import dims as dims_
from zenith.ir.bounds import extremes
from zenith.ir.computed_sizes import evaluate
from zenith.ir.dims import Dim, DimLike, dim
from zenith.ir.graph import Value
from zenith.ir.guards import Guard

if TYPE_CHECKING:
    from zenith.trace.data_dependent import DataDependentSize

Relation = tuple[Dim, str, Dim]  # a size, an order such as "<", and another size

NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(slots=True)
class Counter:
    """The input of a loop's body that counts its turns, up to ``last``.

    ``index`` is the size that is the turn's number, once the body has used it as one.
    """

    value: Value
    last: Dim
    index: str = ""


class VaryingSize(TraceError):
    """What is asked of a size differs from turn to turn of a loop, or depends on values: it has no one answer."""


class SizeRelations:
    """Relations of sizes: known, assumed and required ones.

    Sizes in ``last`` are known in a part of the program only, and are that at most: turns of loops, and numbers
    ``from_values``. A question about a formula in them has one answer for all turns, or it is a VaryingSize.
    """

    def __init__(self, hints: dict[str, int]) -> None:
        self.hints = hints
        self.last: dict[str, Dim] = {}
        self.from_values: set[str] = set()  # of the sizes in ``last`` those that are no turns
        self.counter: Counter | None = None  # of the loop whose body this is
        self.data_dependent_sizes: list[DataDependentSize] = []  # those that are known from some node of this trace on
        # Relations that computed sizes must fulfil, and why, by index.
        self.demands: dict[str, dict[tuple[str, Dim | Value], str]] = {}
        self.definitions: dict[str, str] = {}  # of sizes that Python computes
        self.guards: list[Guard] = []
        self.specialized: list[tuple[Dim, SourceLine | None]] = []
        self.equal: dict[str, Dim] = {}
        self._known: dict[Dim, bool] = {}  # difference of two sizes -> whether it is zero
        self._lower: dict[Dim, int] = {}  # formula without constant term -> its lower bound

    def share_relations(self, other: SizeRelations) -> None:
        """Share all that is known about sizes with ``other``."""
        self.hints, self.guards, self.specialized = other.hints, other.guards, other.specialized
        self.equal, self._known, self._lower = other.equal, other._known, other._lower
        self.definitions, self.last, self.from_values = other.definitions, other.last, other.from_values

    def check_alive(self) -> None:
        """TraceError when questions come too late."""
        raise NotImplementedError

    def assumptions(self) -> Callable[[], Callable[[], None]]:
        """A function that forgets what is asked of sizes from now on, for a trace that is given up.

        It gives a function that remembers it again.
        """
        lists = [(known, len(known)) for known in (self.guards, self.specialized)]
        tables = [(known, dict(known)) for known in (self.equal, self._known, self._lower)]

        def forget() -> Callable[[], None]:
            later = [(known, known[length:]) for known, length in lists]
            full = [(table, dict(table)) for table, _ in tables]
            for known, length in lists:
                del known[length:]
            _refill(tables)

            def remember() -> None:
                for known, rest in later:
                    known.extend(rest)  # type: ignore[arg-type]
                _refill(full)

            return remember

        return forget

    def canonical(self, size: Dim) -> Dim:
        """A size with everything substituted that is known to be equal."""
        return size.substitute(self.equal) if self.equal else size

    def hint(self, size: DimLike) -> int:
        """A size in this call; of a formula in indices of loops that in their last turns."""
        size = dim(size)
        while indices := size.symbols() & self.last.keys():
            size = size.substitute({index: self.canonical(self.last[index]) for index in indices})
        return size.evaluate(self.hints)

    def index(self) -> Dim:
        """The number of the turn as a size, in the body of a loop that counts them."""
        assert self.counter is not None
        self.counter.index = self.counter.index or self.new_index("turn", self.counter.last)
        return dims_.symbol(self.counter.index)

    def new_index(self, stem: str, last: Dim) -> str:
        """The name of a size that is between 0 and ``last``, and known in a part of the program only."""
        number = len(self.last)
        while (name := f"{stem}{number}") in self.hints or name in self.last:
            number += 1
        self.last[name] = last
        return name

    def why_varying(self, size: Dim) -> str:
        """What a size depends on that is known only when the program runs, in words."""
        return "depends on values" if size.symbols() & self.from_values else "differs from turn to turn of a loop"

    def varies(self, size: DimLike) -> bool:
        """Whether a size may differ from turn to turn of a loop, or depends on values."""
        return bool(dim(size).symbols() & self.last.keys())

    def extremes(self, size: Dim) -> tuple[Dim, Dim]:
        """What a size is at least and at most, in every turn and for all values."""
        return extremes(size, {name: self.canonical(most) for name, most in self.last.items()})

    def define(self, name: str, source: str) -> None:
        """Define the size ``name`` as an expression of others in Python, :mod:`zenith.ir.computed_sizes`."""
        if name in self.hints:
            return
        number = evaluate(source, self.hints)
        if number < 0:
            raise ShapeError(f"{source} is {number} in this call, and a size is at least 0", where=user_line(),
                             fix="change the sizes")  # fmt: skip
        self.hints[name], self.definitions[name] = number, source

    def computed(self, source: str) -> Dim:
        """The size that Python computes by an expression in the names of others."""
        name = next((known for known, definition in self.definitions.items() if definition == source), "")
        if not name:
            name = "size"
            while name in self.hints:
                name += "_"
            self.define(name, source)
        return dims_.symbol(name)

    def holds(self, left: DimLike, relation: str, right: DimLike, unify: bool = True) -> bool:
        """Whether ``left relation right``: proven, or answered for this call and recorded as an assumption.

        ``unify``: two sizes that the program computes are taken to be one, which it checks.
        """
        self.check_alive()
        a, b = self._sides(left, right)
        proven = self._prove(a, relation, b)
        if proven is not None:
            return proven
        if self.varies(a - b):
            return self._holds_in_all_turns(a, relation, b, unify)
        answer = Guard("assume", a, relation, b).holds(self.hints)
        self._add_guard("assume", a, relation if answer else NEGATED[relation], b, "", user_line())
        return answer

    def _holds_in_all_turns(self, a: Dim, relation: str, b: Dim, unify: bool = True) -> bool:
        """The answer for all turns of loops, assumed of the extremes in them; VaryingSize where there is none."""
        if relation in ("==", "!="):
            if unify and self._unified(a, b):
                return relation == "=="
            least, most = self.extremes(a - b)
            for bound, sign in ((least, ">"), (most, "<")):
                if self._is_now(bound, sign, dim(0)) and self.holds(bound, sign, 0):
                    return relation == "!="
        else:
            rest, number = _at_least_zero(a, relation, b)
            least, most = self.extremes(rest + number)
            if self._is_now(least, ">=", dim(0)) and self.holds(least, ">=", 0):
                return True
            if self._is_now(most, "<", dim(0)) and self.holds(most, "<", 0):
                return False
        in_loop = "choose slices whose bounds lie inside of the array in all turns, and sizes that are the same arrays'"
        by_values = "keep the shape of the array: numpy.where(mask, x, 0)"
        raise VaryingSize(f"whether {a} {relation} {b} {self.why_varying(a - b)}", where=user_line(),
                          fix=by_values if (a - b).symbols() & self.from_values else in_loop)  # fmt: skip

    def _sides(self, left: DimLike, right: DimLike) -> tuple[Dim, Dim]:
        """Both sides of a relation; what they have in common is left out where it varies."""
        a, b = self.canonical(dim(left)), self.canonical(dim(right))
        return (a, b) if not (self.varies(a) or self.varies(b)) else _positive_sides(a - b)

    def _holds_or_is_checked(self, a: Dim, relation: str, b: Dim, reason: str) -> bool:
        """The answer for all turns and values; where only the program knows, it checks that a size is large enough."""
        try:
            return self._holds_in_all_turns(a, relation, b)
        except VaryingSize:
            if not self.is_demanded(a, relation, b, reason):
                raise
            return True

    def is_demanded(self, left: DimLike, relation: str, right: DimLike, reason: str) -> bool:
        """Have the program check a relation, if it says that a computed size is large enough."""
        if relation in ("==", "!="):
            return False
        rest, number = _at_least_zero(dim(left), relation, dim(right))
        for size in self.data_dependent_sizes:
            least = dims_.symbol(size.index) - rest - number
            if not self.varies(least):
                self.demands.setdefault(size.index, {})[">=", least] = reason
                return True
        return False

    def _unified(self, a: Dim, b: Dim) -> bool:
        """Whether two sizes that the program computes are one; from now on they are the same symbol."""
        raise NotImplementedError

    def _is_now(self, a: Dim, relation: str, b: Dim) -> bool:
        return Guard("assume", a, relation, b).holds(self.hints)

    def require(
        self, left: DimLike, relation: str, right: DimLike, reason: str, error: type[ZenithError] = ShapeError
    ) -> None:
        """Demand ``left relation right`` of every call; ``error`` with ``reason`` when it fails in this one."""
        self.check_alive()
        a, b = self._sides(left, right)
        proven = self._prove(a, relation, b)
        if proven is None and self.varies(a - b):
            proven = self._holds_or_is_checked(a, relation, b, reason)
        if proven:
            return
        line = user_line()
        if proven is False or not Guard("require", a, relation, b).holds(self.hints):
            text = f"{a} {relation} {b}"
            known = (
                ""
                if a.static is not None and b.static is not None
                else f" ({self.hint(a)} and {self.hint(b)} in this call)"
            )
            raise error(f"{reason}: {text} does not hold{known}", where=line, fix="change the sizes")
        self._add_guard("require", a, relation, b, reason, line, error)

    def nonzero(self, size: Dim) -> list[Relation]:
        """What follows from a size that is not 0: of a number that may be negative nothing."""
        size = self.canonical(size)
        return [(size, ">", dim(0))] if dims_.prove_at_least(self.extremes(size)[0], 0) else []

    @contextmanager
    def granted(self, left: Dim, relation: str, right: Dim) -> Iterator[None]:
        """Take an order of sizes for granted, in a part of the program that runs only where it holds."""
        rest, number = _at_least_zero(self.canonical(left), relation, self.canonical(right))
        before = self._lower.get(rest)
        self._lower[rest] = max(-number, -number if before is None else before)
        try:
            yield
        finally:
            del self._lower[rest]
            if before is not None:
                self._lower[rest] = before

    def specialize(self, size: Dim) -> int:
        """The number that a size is in this call, and from now on the only one this trace is valid for."""
        self.check_alive()
        size = self.canonical(size)
        if size.static is not None:
            return size.static
        if self.varies(size):
            raise VaryingSize(f"the size {size} {self.why_varying(size)}, and is used as a number",
                              where=user_line(), fix="let it be a size of arrays")  # fmt: skip
        value, line = self.hint(size), user_line()
        self.specialized.append((size, line))
        self._add_guard("assume", size, "==", dim(value), "", line)
        return value

    def _prove(self, left: Dim, relation: str, right: Dim) -> bool | None:
        """The answer, if it follows from the sizes' formulas or from the guards so far."""
        proven = prove(left, relation, right)
        if proven is not None:
            return proven
        if relation in ("==", "!="):
            return (relation == "==") == self._known[left - right] if left - right in self._known else None
        return self._follows(*_at_least_zero(left, relation, right))

    def _follows(self, rest: Dim, number: int) -> bool | None:
        """Whether ``rest + number >= 0`` follows from known bounds."""
        if self._lower.get(rest, -number - 1) >= -number:
            return True
        smaller = dims_.operands_of_minimum(rest)
        if smaller and all(self._prove(size, ">=", dim(-number)) for size in smaller):
            return True
        opposite = self._lower.get(-rest)
        return False if opposite is not None and -opposite + number < 0 else None

    def _add_guard(
        self, kind: str, left: Dim, relation: str, right: Dim, reason: str, line: SourceLine | None,
        error: type[ZenithError] = ShapeError,
    ) -> None:  # fmt: skip
        difference = left - right
        if relation in ("==", "!="):
            self._known[difference] = self._known[-difference] = relation == "=="
            if relation == "==":
                self._unify(difference)
        else:
            rest, number = _at_least_zero(left, relation, right)
            self._lower[rest] = -number
            left, relation, right = _as_read(rest + number)
        self.guards.append(Guard(kind, left, relation, right, reason, line, error))

    def _unify(self, difference: Dim) -> None:
        solution = dims_.solve(difference)
        if solution is not None:
            self._replace(*solution)

    def _replace(self, name: str, value: Dim) -> None:
        """From now on a size is another one."""
        self.equal.update({s: v.substitute({name: value}) for s, v in self.equal.items()} | {name: value})


def _refill(tables: Sequence[tuple[dict[Any, Any], dict[Any, Any]]]) -> None:
    """Give tables what they held before."""
    for table, before in tables:
        table.clear()
        table.update(before)


def prove(left: Dim, relation: str, right: Dim) -> bool | None:
    """Whether a relation of sizes always or never holds, None when it depends on them."""
    if relation in ("==", "!="):
        equal = dims_.prove_equal(left, right)
        return equal if equal is None or relation == "==" else not equal
    if relation in (">", "<="):
        greater = dims_.prove_at_least(left, right + 1)
        return greater if greater is None or relation == ">" else not greater
    at_least = dims_.prove_at_least(left, right)
    return at_least if at_least is None or relation == ">=" else not at_least


def _at_least_zero(left: Dim, relation: str, right: Dim) -> tuple[Dim, int]:
    """An order relation as ``rest + number >= 0``, with ``rest`` free of a constant term."""
    difference = left - right if relation in (">", ">=") else right - left
    if relation in (">", "<"):
        difference = difference - 1
    number = next((c for monomial, c in difference.terms if monomial == ()), 0)
    return difference - number, number


def _as_read(difference: Dim) -> tuple[Dim, str, Dim]:
    """``difference >= 0`` with no minus sign: ``n >= 1``, ``n <= 4``, ``n + 2 >= m``."""
    positive, negative = _positive_sides(difference)
    return (negative, "<=", positive) if positive.static is not None else (positive, ">=", negative)


def _positive_sides(difference: Dim) -> tuple[Dim, Dim]:
    """Two sizes of this difference, with no minus sign."""
    return Dim({m: c for m, c in difference.terms if c > 0}), Dim({m: -c for m, c in difference.terms if c < 0})
