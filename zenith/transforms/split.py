"""Splitting a graph into what can be computed now and what waits for inputs that come later.

``linearize`` and ``vjp`` compute a function's values at once and its tangents or cotangents when they are asked for.
What the later part needs of the earlier one is handed over as *residuals*, or computed again from them, whichever is
cheaper (:mod:`zenith.ir.cut`): an element that is kept is written and read again, one that is computed again costs the
operations that its primitive declares. Only elementwise operations and index maps are ever computed twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zenith.ir.builder import Builder
from zenith.ir.cut import cheapest_cut
from zenith.ir.dims import product
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Data, Elements, Scalar, View
from zenith.ir.types import ArrayType, Type
from zenith.trace.recorder import Kept, current_recorder

Place = tuple[int, int]
TRAFFIC = 2  # operations that moving a byte to memory and back is worth
TYPICAL = 64  # stands for a size that is not known


@dataclass(frozen=True, slots=True)
class Split:
    """``known`` takes the inputs that are there and gives the outputs that follow from them, then ``residuals`` more.

    ``unknown`` takes those residuals, then the inputs that come later, and gives the other outputs. ``waits`` says of
    each output of the whole graph which of the two gives it.
    """

    known: Graph
    unknown: Graph
    residuals: int
    waits: tuple[bool, ...]
    again: tuple[Node, ...]  # what the later part computes a second time

    @property
    def kept(self) -> tuple[Value, ...]:
        """The residuals, as values of ``known``."""
        return self.known.outputs[len(self.known.outputs) - self.residuals :]

    def merge(self, known: Sequence[Any], unknown: Sequence[Any] = ()) -> list[Any]:
        """The outputs of the whole graph in order, from those of its parts; None for those that are not there yet."""
        now, later = iter(known), iter(unknown)
        return [next(later, None) if wait else next(now) for wait in self.waits]


def split(
    graph: Graph, late: Sequence[bool], there: Iterable[Value] | None = None, same: Collection[int] | None = None
) -> Split:
    """Split ``graph``; ``late`` says which inputs come later.

    Values that are ``there`` (by default the inputs and outputs) cost nothing to hand over. When the parts run in
    loops, ``same`` inputs (by number) are the same in all steps: what follows from these alone costs nothing to compute
    again, since it leaves the loop. When they run in one program, what is computed again is kept from being merged with
    what was computed before.
    """
    waiting = _waiting(graph, late)
    kept_anyway = (*graph.inputs, *graph.outputs) if there is None else there
    handed, again = _Choice(graph, waiting, kept_anyway, same or ()).made()
    known, moved = Graph(graph.name), dict[Place, Value]()
    for value, is_late in zip(graph.inputs, late, strict=True):
        if not is_late:
            moved[value.node, 0] = known.add_input(value.type, graph.node(value.node).params["name"])
    copy_nodes(graph, known, moved, {number for number, _ in graph.nodes()} - waiting)
    now = [(v.node, v.output) for v in graph.outputs if v.node not in waiting]
    known.set_outputs(moved[place] for place in [*now, *handed])
    unknown, moved = Graph(graph.name), {}
    for i, (node, output) in enumerate(handed):
        moved[node, output] = unknown.add_input(graph.node(node).types[output], f"kept{i}")
    for value, is_late in zip(graph.inputs, late, strict=True):
        if is_late:
            moved[value.node, 0] = unknown.add_input(value.type, graph.node(value.node).params["name"])
    sources = {(a.node, a.output) for number in again for a in graph.args(number)} & {*handed}
    later = dict(moved)
    if same is None:
        later.update({place: Builder(unknown).again(moved[place]) for place in sorted(sources)})
    copy_nodes(graph, unknown, later, again)
    moved.update({place: value for place, value in later.items() if place[0] in again})
    copy_nodes(graph, unknown, moved, waiting)
    unknown.set_outputs(moved[v.node, v.output] for v in graph.outputs if v.node in waiting)
    twice = tuple(graph.node(number) for number in sorted(again) if operations_again(graph.node(number)))
    return Split(known, unknown, len(handed), tuple(v.node in waiting for v in graph.outputs), twice)


def split_for_way_back(graph: Graph, late: Sequence[bool], *options: Any) -> Split:
    """Split a derivative in reverse mode, and tell the trace in progress what is kept: ``explain()`` shows it."""
    parts = split(graph, late, *options)
    _tell(graph.name, [(v.type, parts.known.node(v.node)) for v in parts.kept], parts.again)
    return parts


def thrifty(graph: Graph, primals: int) -> Graph:
    """A derivative in reverse mode that computes again what is not worth keeping; told to the trace in progress.

    The first ``primals`` outputs are the function's own. What these follow from is the way forward; the way back stays
    where it is, and what it reads of the way forward is kept, or computed again in front of its first reader.
    """
    forward = graph.behind(v.node for v in graph.outputs[:primals])
    back = {number for number, _ in graph.nodes()} - forward
    handed, again = _Choice(graph, back, (*graph.inputs, *graph.outputs), ()).made()
    new, moved, twice = Graph(graph.name), dict[Place, Value](), dict[Place, Value]()
    b = Builder(new)

    def second(place: Place) -> Value:
        pending, needed = [place], set[Place]()
        while pending:
            at = pending.pop()
            if at not in twice and at not in needed:
                needed.add(at)
                pending += [(a.node, a.output) for a in graph.args(at[0])] if at[0] in again else []
        for at in sorted(needed):  # in program order
            if at[0] in again:
                args = [twice[a.node, a.output] for a in graph.args(at[0])]
                (twice[at],) = b.transplant(graph, graph.node(at[0]), args)
            else:
                twice[at] = b.again(moved[at])
        return twice[place]

    for number, node in graph.nodes():
        if node.primitive.name == "input":
            moved[number, 0] = new.add_input(node.types[0], str(node.params["name"]))
            continue
        places = [(a.node, a.output) for a in graph.args(number)]
        args = [second(p) if number in back and p[0] in again else moved[p] for p in places]
        moved.update({(number, i): value for i, value in enumerate(b.transplant(graph, node, args))})
    new.set_outputs(moved[v.node, v.output] for v in graph.outputs)
    kept = [(graph.node(n).types[i], graph.node(n)) for n, i in handed]
    _tell(graph.name, kept, [graph.node(n) for n in sorted(again) if operations_again(graph.node(n))])
    return new


def _tell(name: str, kept: Sequence[tuple[Type, Node]], again: Sequence[Node]) -> None:
    recorder = current_recorder()
    if recorder is not None:
        values = tuple((str(type), node.line) for type, node in kept if node.primitive.name != "input")
        recorder.kept.append(Kept(name, values, tuple((n.primitive.name, n.line) for n in again)))


def _waiting(graph: Graph, late: Sequence[bool]) -> set[int]:
    """The nodes that depend on a late input, these included, and what is computed again for these alone."""
    waiting = _after(graph, {v.node for v, is_late in zip(graph.inputs, late, strict=True) if is_late})
    second = _after(graph, {number for number, node in graph.nodes() if node.primitive.name == "again"})
    return waiting | (second - graph.behind(v.node for v in graph.outputs if v.node not in waiting))


def _after(graph: Graph, first: set[int]) -> set[int]:
    """Nodes, and all that depend on them."""
    found = set(first)
    for number, _ in graph.nodes():
        if any(a.node in found for a in graph.args(number)):
            found.add(number)
    return found


class _Choice:
    """Which values are handed over, and which nodes computed again."""

    def __init__(self, graph: Graph, waiting: set[int], there: Iterable[Value], same: Collection[int]) -> None:
        self.graph, self.waiting = graph, waiting
        self.there = {(v.node, v.output) for v in there}
        self.same = {graph.inputs[i].node for i in same}
        for number, node in graph.nodes() if same else ():
            fixed = node.primitive.name != "input" and not node.primitive.effect and not node.bodies
            if fixed and {a.node for a in graph.args(number)} <= self.same:
                self.same.add(number)

    def made(self) -> tuple[list[Place], set[int]]:
        """Places to hand over, in program order, and numbers of nodes."""
        read = {(a.node, a.output) for number in self.waiting for a in self.graph.args(number)}
        wanted = {place for place in read if place[0] not in self.waiting}
        known = [(n, i) for n, node in self.graph.nodes() if n not in self.waiting for i in range(len(node.types))]
        again = {place: cost for place in known if (cost := self._again(*place)) is not None}
        reads = {(n, i): [(a.node, a.output) for a in self.graph.args(n)] for n, i in again}
        kept = cheapest_cut(wanted, {place: self._keep(*place) for place in known}, again, reads)
        pending, numbers = [place for place in wanted if place not in kept], set[int]()
        while pending:
            place = pending.pop()
            if place[0] not in numbers:
                numbers.add(place[0])
                pending += [source for source in reads[place] if source not in kept]
        return sorted(kept), numbers

    def _keep(self, number: int, output: int) -> int:
        """What keeping a value costs, in operations; of a value and what index maps make of it, the value."""
        node = self.graph.node(number)
        type = node.types[output]
        if (number, output) in self.there or not isinstance(type, ArrayType):
            return 0
        return TRAFFIC * elements(type) * type.dtype.itemsize + (operations_again(node) == 0)

    def _again(self, number: int, output: int) -> int | None:
        """What computing a value again costs, in operations; None for one that is not computed again."""
        node = self.graph.node(number)
        cost = operations_again(node)
        if number in self.same and node.primitive.name != "input":
            return 0
        return None if cost is None or output else cost


def operations_again(node: Node) -> int | None:
    """The operations of a node that may be computed again where its result is read; None for others."""
    how, (type, *others) = node.primitive.lowering, node.types or (None,)
    if node.primitive.name == "input" or node.primitive.effect or others or not isinstance(type, ArrayType):
        return None
    if isinstance(how, Scalar):
        return how.cost * elements(type)
    cheap = isinstance(how, View | Data) or (isinstance(how, Elements) and how.cheap)
    return 0 if cheap else None


def elements(type: ArrayType) -> int:
    """About how many elements an array has."""
    total = product(type.shape)
    return max(1, total.evaluate(dict.fromkeys(total.symbols(), TYPICAL)))


def copy_nodes(graph: Graph, new: Graph, moved: dict[Place, Value], nodes: set[int]) -> None:
    """Append some nodes to another graph; ``moved`` knows where the values are that they read, and what they give."""
    builder = Builder(new)
    for number, node in graph.nodes():
        if number in nodes and node.primitive.name != "input":
            args = [moved[a.node, a.output] for a in graph.args(number)]
            results = builder.transplant(graph, node, args)
            moved.update({(number, i): value for i, value in enumerate(results)})
