"""The outline of a graph: its operations as a tree, each level of which is small enough to be drawn.

Operations stay in the order of their numbers, which is a topological one: whatever is a run of it can be one box
without a cycle of boxes. Runs are made, in this order, of

* a module: operations with the same beginning of their module's path;
* equal neighbours: runs that compute the same (:mod:`.repeats`), of which one is drawn;
* a source line, and last, where a level still has too many, consecutive boxes.

A level of few operations is left as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from zenith.ir.graph import Graph, Node
from zenith.ir.lowering import Data
from zenith.ir.pictures.repeats import Repeats, Unit, between
from zenith.ir.pictures.words import quoted

FEW = 20  # boxes of a level
MANY = 8  # inputs: more stand as text where they are read, as weights do

# What has one argument and computes nothing: of a weight or a number, it stands beside it as text.
_VIEWS = frozenset({"broadcast", "reshape", "transpose", "cast", "slice"})


@dataclass(frozen=True, slots=True)
class Step:
    """One operation."""

    number: int


@dataclass(frozen=True, slots=True)
class Part:
    """Operations behind one title: a module, a line, or neighbours."""

    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Runs of operations that compute the same, each from the one before or from the same values.

    ``items`` outline the first; ``runs`` are the numbers of all. ``stored`` says what they read of the program, such as
    ``own weights`` or ``the same weights``; it is empty where they read nothing of it.
    """

    title: str
    items: tuple[Item, ...]
    runs: tuple[tuple[int, ...], ...]
    stored: str


Item = Step | Part | Repeat


@dataclass(frozen=True, slots=True)
class Outline:
    """``items`` have every operation once; ``asides`` are the nodes without a box, text where they are read."""

    items: tuple[Item, ...]
    asides: frozenset[int]


def outline(graph: Graph) -> Outline:
    """The outline of a graph's operations: all nodes but inputs, weights, constants and literals."""
    asides = frozenset(_asides(graph))
    numbers = tuple(n for n, node in graph.nodes() if not is_data(node))
    return Outline(_Outliner(graph, asides).level(numbers, 0), asides)


def is_data(node: Node) -> bool:
    """Whether a node is no operation: an input, a weight, a constant or a literal."""
    return isinstance(node.primitive.lowering, Data)


def numbers_of(item: Item) -> Iterator[int]:
    """The operations of an item, in order."""
    if isinstance(item, Step):
        yield item.number
    elif isinstance(item, Part):
        for inner in item.items:
            yield from numbers_of(inner)
    else:
        yield from itertools.chain(*item.runs)


def _asides(graph: Graph) -> Iterator[int]:
    """What is in the program, sizes, many inputs, and operations that only give these another shape or type."""
    found: set[int] = set()
    for number, node in graph.nodes():
        if is_data(node):
            stands = node.primitive.name != "input" or len(graph.inputs) > MANY
        else:
            name = node.primitive.name
            stands = name == "size" or (name in _VIEWS and graph.args(number)[0].node in found)
        if stands:
            found.add(number)
            yield number


class _Outliner:
    """Levels of one graph; repeats know those to their left."""

    def __init__(self, graph: Graph, asides: frozenset[int]) -> None:
        self.graph, self.asides = graph, asides
        self.repeats = Repeats(graph, asides)

    def level(self, numbers: Sequence[int], depth: int, prefix: str = "") -> tuple[Item, ...]:
        """The items of a run of operations in the same module, whose path has ``depth`` names.

        ``prefix`` are those of them that no box has as its title.
        """
        if self._visible(numbers) <= FEW:
            return tuple(map(Step, numbers))
        units = list(self._modules(numbers, depth, prefix))
        if len(units) == 1:
            return self.level(numbers, depth + units[0].names, f"{units[0].title}.")
        items = [self._item(found, depth) for found in self.repeats.folded(units)]
        if len(self._drawn(items)) > FEW and len(self._drawn(lines := list(self._by_line(items)))) > 1:
            items = lines
        while len(self._drawn(items)) > FEW:
            items = list(self._chunks(items))
        return tuple(items)

    def _item(self, found: Unit | Sequence[Unit], depth: int) -> Item:
        """What a unit, or the first of equal ones, is drawn as."""
        if isinstance(found, Unit):
            return self._part(found, depth)
        first, last = found[0], found[-1]
        inner = self._part(first, depth)
        items = inner.items if isinstance(inner, Part) else (inner,)
        title = between(first.title, last.title) or self._extent([*map(Step, first.numbers)])
        return Repeat(title, items, tuple(unit.numbers for unit in found), self.repeats.stored(found))

    def _part(self, unit: Unit, depth: int) -> Item:
        """A module as a box of its level; what is in it alone takes its place, with its title before its own."""
        if len(unit.numbers) == 1:
            return Step(unit.numbers[0])
        items = self.level(unit.numbers, depth + unit.names)
        if len(items) == 1 and isinstance(items[0], Repeat):
            return replace(items[0], title=f"{unit.title}.{items[0].title}".strip("."))
        return Part(unit.title, items)

    def _modules(self, numbers: Sequence[int], depth: int, prefix: str) -> Iterator[Unit]:
        """Runs in one module below the level's own, with the path that all of a run share; other operations alone."""
        paths = {n: _path(self.graph.node(n))[depth:] for n in numbers}
        for name, run in itertools.groupby(numbers, lambda n: paths[n][:1]):
            members = tuple(run)
            if name and self._visible(members) > 1:
                shared = _shared([paths[n] for n in members])
                yield Unit(prefix + ".".join(shared), members, len(shared))
            else:
                yield from (Unit("", (n,)) for n in members)

    def _by_line(self, items: Iterable[Item]) -> Iterator[Item]:
        """Neighbouring operations of one source line as one item."""
        for line, run in itertools.groupby(items, self._line):
            members = tuple(run)
            if not line or len(self._drawn(members)) < 2:
                yield from members
            else:
                yield self._bounded(line, members)

    def _bounded(self, title: str, items: tuple[Item, ...]) -> Part:
        while len(self._drawn(items)) > FEW:
            items = tuple(self._chunks(items))
        return Part(title, items)

    def _line(self, item: Item) -> str:
        line = self.graph.node(item.number).line if isinstance(item, Step) else None
        return "" if line is None else quoted(line)

    def _chunks(self, items: Sequence[Item]) -> Iterator[Item]:
        """Neighbours as one item: as many as a level has boxes, or a few less, alike for all."""
        drawn = len(self._drawn(items))
        size = -(-drawn // -(-drawn // FEW))
        before = itertools.accumulate((len(self._drawn((item,))) for item in items), initial=0)
        for _, run in itertools.groupby(zip(before, items, strict=False), lambda pair: pair[0] // size):
            members = tuple(item for _, item in run)
            yield Part(self._extent(members), members)

    def _extent(self, items: Sequence[Item]) -> str:
        """From which line to which; a single one with its code."""
        lines = [line for item in items for n in numbers_of(item) if (line := self.graph.node(n).line) is not None]
        if not lines:
            return f"{len(items)} operations"
        return quoted(lines[0]) if len(set(lines)) == 1 else between(str(lines[0]), str(lines[-1]))

    def _drawn(self, items: Iterable[Item]) -> list[Item]:
        """The items that have a box."""
        return [item for item in items if not isinstance(item, Step) or item.number not in self.asides]

    def _visible(self, numbers: Iterable[int]) -> int:
        return sum(n not in self.asides for n in numbers)


def _path(node: Node) -> tuple[str, ...]:
    """The names in the path of a node's module."""
    return tuple(node.line.module.split(".")) if node.line is not None and node.line.module else ()


def _shared(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The names with which all paths begin."""
    first, last = min(paths), max(paths)
    return tuple(a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
