"""Equal neighbours: runs of operations that are the same computation, one after the other.

Two runs are equal when their operations, in order, have the same primitives, parameters, subgraphs and types, and read
each other alike; numbers (literals) are equal, weights, constants and inputs have the same types. And from outside each
reads alike: what it reads is, in all of the runs,

* the same value, or a weight, a constant or an input;
* the same result of the run before it, as layers read the layer before (the first one reads a value of that type);
* a result of an earlier repeat's run: of the same one at each step forth, or at each step back, as derivatives do.

Others than the next run read the same results of each; of the last run they may also read what a next one would.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Data

CANDIDATES = 8  # periods that are tried: the most units of one kind in a run
LEAST = 3  # operations of a run that has no name, for which a fold is worth it

_Columns = tuple[Value, ...]  # what a run reads from outside, in order of first use
_Shape = tuple[tuple[object, ...], ...]
_Relation = tuple[object, ...]
_Result = tuple[object, ...]  # of a run: the place of an operation, and which of its results


@dataclass(frozen=True, slots=True)
class Unit:
    """A run of operations, under the title that ``names`` names of its module's path make, or another, or none."""

    title: str
    numbers: tuple[int, ...]
    names: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """A unit with its form, the values from outside, and the place of each operation."""

    unit: Unit
    shape: _Shape
    columns: _Columns
    places: dict[int, int]


class Repeats:
    """The repeats of a graph, found from left to right: a later one may follow the runs of an earlier one."""

    def __init__(self, graph: Graph, asides: frozenset[int]) -> None:
        self.graph, self.asides = graph, asides
        self.returned = {(v.node, v.output) for v in graph.outputs}
        self.where: dict[int, tuple[int, int, int]] = {}  # of an operation: its repeat, run, and place in the run
        self.count = 0

    def folded(self, units: Sequence[Unit]) -> Iterator[Unit | list[Unit]]:
        """The units in order, equal neighbours (of one unit, or several joined) as a list."""
        words = [self._word(unit) for unit in units]
        positions: dict[object, list[int]] = {}
        for position, word in enumerate(words):
            positions.setdefault(word, []).append(position)
        at = 0
        while at < len(units):
            found: list[Unit] = []
            period = 1
            later = [p for p in positions[words[at]] if p > at][:CANDIDATES]
            for length in (position - at for position in later):
                runs = self._runs(units, words, at, length)
                if (len(runs) - 1) * length > (len(found) - 1) * period:
                    found, period = runs, length
            if found:
                self._note(found)
                yield found
                at += period * len(found)
            else:
                yield units[at]
                at += 1

    def stored(self, runs: Sequence[Unit]) -> str:
        """What runs read of the program: ``own weights``, or else ``the same inputs``, or the like, or nothing."""
        columns = list(zip(*(self._run(unit).columns for unit in runs), strict=True))
        read = [column for column in columns if all(map(self._kind, column))]
        own = [column for column in read if len(set(column)) > 1]
        kinds = " and ".join(sorted({f"{self._kind(column[0])}s" for column in own or read}, reverse=True))
        return kinds and ("own " if own else "the same ") + kinds

    def _word(self, unit: Unit) -> object:
        """What equal units have in common: names but for numbers, and form."""
        return re.sub(r"\d+", "0", unit.title), self._run(unit).shape

    def _runs(self, units: Sequence[Unit], words: Sequence[object], at: int, period: int) -> list[Unit]:
        """The equal runs of ``period`` units that begin at ``at``; none when they are not worth a fold."""
        found = [first := self._run(_joined(units[at : at + period]))]
        if sum(n not in self.asides for n in first.unit.numbers) < (2 if first.unit.title else LEAST):
            return []
        relations: list[_Relation] | None = None
        read = set[_Result]()
        for start in range(at + period, len(units) - period + 1, period):
            if words[start : start + period] != words[at : at + period]:
                break
            run, last = self._run(_joined(units[start : start + period])), found[-1]
            following, outside = self._relations(last, run), self._read(last, run)
            if run.shape != first.shape or following is None or relations not in (None, following):
                break
            if relations is not None and outside != read:
                break
            found.append(run)
            relations, read = following, outside
        if not self._read(found[-1]) <= read | {r[1:] for r in relations or () if r[0] == "before"}:
            found.pop()
        return [run.unit for run in found] if len(found) > 1 else []

    def _note(self, runs: Sequence[Unit]) -> None:
        """Note where the operations of a repeat are, in the outermost one."""
        for number, unit in enumerate(runs):
            for place, operation in enumerate(unit.numbers):
                self.where.setdefault(operation, (self.count, number, place))
        self.count += 1

    def _run(self, unit: Unit) -> _Run:
        places = {number: place for place, number in enumerate(unit.numbers)}
        columns: dict[Value, int] = {}
        shape = []
        for number in unit.numbers:
            node = self.graph.node(number)
            args = tuple(self._argument(arg, places, columns) for arg in self.graph.args(number))
            shape.append((node.digest, node.types, args))
        return _Run(unit, tuple(shape), tuple(columns), places)

    def _argument(self, arg: Value, places: dict[int, int], columns: dict[Value, int]) -> tuple[object, ...]:
        """An argument as equal runs have it."""
        if arg.node in places:
            return "inside", places[arg.node], arg.output
        node = self.graph.node(arg.node)
        if node.primitive.name == "literal":
            return "literal", node.digest
        return "outside", columns.setdefault(arg, len(columns)), arg.type

    def _kind(self, value: Value) -> str:
        """``weight``, ``constant`` or ``input``; an empty text for what is computed."""
        primitive = self.graph.node(value.node).primitive
        return primitive.name if isinstance(primitive.lowering, Data) else ""

    def _relations(self, before: _Run, run: _Run) -> list[_Relation] | None:
        """How each value from outside follows from the run before; None when one does not."""
        if len(before.columns) != len(run.columns):
            return None
        found = [self._relation(a, b, before) for a, b in zip(before.columns, run.columns, strict=True)]
        return None if None in found else [relation for relation in found if relation is not None]

    def _relation(self, a: Value, b: Value, before: _Run) -> _Relation | None:
        if self._kind(b) and self._kind(a) == self._kind(b):
            return ("stored",)
        if b.node in before.places:
            return "before", before.places[b.node], b.output
        if a == b:
            return ("same",)
        if a.node not in self.where or b.node not in self.where:
            return None
        (repeat, run, place), (other, later, same) = self.where[a.node], self.where[b.node]
        steps = later - run
        if (repeat, place, a.output) != (other, same, b.output) or abs(steps) > 1:
            return None
        return "repeat", repeat, place, a.output, steps

    def _read(self, run: _Run, following: _Run | None = None) -> set[_Result]:
        """The results of a run that others than itself and the following one read, or that are returned."""
        inside = run.places.keys() | (following.places.keys() if following is not None else ())
        users = ((n, output, user) for n in run.places for output, user, _ in self.graph.users(n))
        found = {(run.places[n], output) for n, output, user in users if user not in inside}
        return found | {(run.places[n], output) for n, output in self.returned if n in run.places}


def _joined(units: Sequence[Unit]) -> Unit:
    """Neighbours as one."""
    if len(units) == 1:
        return units[0]
    titles = [unit.title for unit in units if unit.title]
    title = between(titles[0], titles[-1]) if titles else ""
    return Unit(title, tuple(n for unit in units for n in unit.numbers))


def between(first: str, last: str) -> str:
    """Two titles as one.

    >>> between("layer.0", "layer.12"), between("model.py:7", "model.py:9"), between("dense", "dense")
    ('layer.0 to 12', 'model.py:7 to 9', 'dense')
    """
    if first == last:
        return first
    words, others = re.split(r"(?<=[.:])", first), re.split(r"(?<=[.:])", last)
    alike = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(words, others, strict=False)))
    return f"{first} to {''.join(others[alike:])}"
