"""Residuals: what a later part of a computation keeps of an earlier one, and what it computes again.

Whichever is cheaper (:mod:`zenith.ir.cut`): an element that is kept is written and read again, one that is computed
again costs the operations that its primitive declares. Only elementwise operations and index maps are ever computed
twice; in loops also what is the same in all steps, since it leaves the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from zenith.ir.cut import cheapest_cut
from zenith.ir.dims import product
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Data, Elements, Scalar, View
from zenith.ir.target import TRAFFIC
from zenith.ir.types import ArrayType, Type
from zenith.trace.recorder import ResidualReport, current_recorder

Allocation = tuple[int, int]


def choose_residuals(
    graph: Graph, later: set[int], there: Iterable[Value], same: Collection[int] = ()
) -> tuple[list[Allocation], set[int]]:
    """The places that the nodes ``later`` are handed, in program order, and the nodes that are computed again for them.

    Values ``there`` cost nothing to hand over; ``same`` inputs, by number, are the same in all steps of a loop.
    """
    return _Choice(graph, later, there, same).made()


def waiting(graph: Graph, late: Sequence[bool]) -> set[int]:
    """The nodes that depend on a ``late`` input, these included, and what is computed again for these alone."""
    found = descendants(graph, {v.node for v, is_late in zip(graph.inputs, late, strict=True) if is_late})
    second = descendants(
        graph, {number for number, node in graph.nodes() if node.primitive.name == "optimization_barrier"}
    )
    return found | (second - graph.ancestors(v.node for v in graph.outputs if v.node not in found))


def descendants(graph: Graph, first: set[int]) -> set[int]:
    """Nodes, and all that depend on them."""
    found = set(first)
    for number, _ in graph.nodes():
        if any(a.node in found for a in graph.args(number)):
            found.add(number)
    return found


def report_residuals(name: str, residuals: Sequence[tuple[Type, Node]], again: Sequence[Node]) -> None:
    """Tell the trace in progress what a derivative in reverse mode keeps: ``explain()`` shows it."""
    recorder = current_recorder()
    if recorder is not None:
        values = tuple((str(type), node.line) for type, node in residuals if node.primitive.name != "input")
        recorder.residuals.append(ResidualReport(name, values, tuple((n.primitive.name, n.line) for n in again)))


class _Choice:
    """The costs of keeping values and of computing them again, and the cheapest choice."""

    def __init__(self, graph: Graph, later: set[int], there: Iterable[Value], same: Collection[int]) -> None:
        self.graph, self.later = graph, later
        recorder = current_recorder()
        self.traffic = TRAFFIC["cpu"] if recorder is None else recorder.traffic
        self.there = {(v.node, v.output) for v in there}
        self.same = {graph.inputs[i].node for i in same}
        for number, node in graph.nodes() if same else ():
            fixed = node.primitive.name != "input" and not node.primitive.effect and not node.bodies
            if fixed and {a.node for a in graph.args(number)} <= self.same:
                self.same.add(number)

    def made(self) -> tuple[list[Allocation], set[int]]:
        """Places to hand over, in program order, and numbers of nodes."""
        read = {(a.node, a.output) for number in self.later for a in self.graph.args(number)}
        wanted = {place for place in read if place[0] not in self.later}
        known = [(n, i) for n, node in self.graph.nodes() if n not in self.later for i in range(len(node.types))]
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
        return self.traffic * elements(type) * type.dtype.itemsize + (recomputed_operations(node) == 0)

    def _again(self, number: int, output: int) -> int | None:
        """What computing a value again costs, in operations; None for one that is not computed again."""
        node = self.graph.node(number)
        cost = recomputed_operations(node)
        if number in self.same and node.primitive.name != "input":
            return 0
        return None if cost is None or output else cost


def recomputed_operations(node: Node) -> int | None:
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
    return max(1, product(type.shape).typical())
