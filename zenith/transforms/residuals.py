"""Residuals: which values of a computation are saved for a later one, and which are recomputed there.

The cheaper is chosen (:mod:`zenith.ir.cut`): an element that is saved is written and read once more, one that is
recomputed costs the operations that its primitive declares. Only elementwise operations and index maps are ever
recomputed; in loops also values that are the same in all steps, since these leave the loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from zenith.ir.cut import cheapest_cut
from zenith.ir.dims import product
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Data, Elements, Scalar, View
from zenith.ir.numerics import HOST_TRAFFIC
from zenith.ir.types import ArrayType, Type
from zenith.trace.recorder import ResidualReport, current_recorder

ValueKey = tuple[int, int]  # a value's node, and which of its results


def choose_residuals(
    graph: Graph, later: set[int], there: Iterable[Value], same: Collection[int] = (), index: str = ""
) -> tuple[list[ValueKey], set[int]]:
    """The residuals of the nodes ``later``, in program order, and the nodes that are recomputed for them.

    Values ``there`` cost nothing to save; ``same`` inputs, by number, are the same in all steps of a loop. Values whose
    sizes contain its ``index`` are recomputed, whatever they are: they have no place in an array of all steps.
    """
    return _Choice(graph, later, there, same, index).cheapest()


def waiting(graph: Graph, late: Sequence[bool]) -> set[int]:
    """The nodes that depend on a ``late`` input, these included, and nodes that are recomputed for these alone."""
    found = graph.descendants(v.node for v, is_late in zip(graph.inputs, late, strict=True) if is_late)
    second = graph.descendants(
        number for number, node in graph.nodes() if node.primitive.name == "optimization_barrier"
    )
    return found | (second - graph.ancestors(v.node for v in graph.outputs if v.node not in found))


def report_residuals(name: str, residuals: Sequence[tuple[Type, Node]], recomputed: Sequence[Node]) -> None:
    """Report the residuals of a derivative in reverse mode to the trace in progress: ``explain()`` shows them."""
    recorder = current_recorder()
    if recorder is not None:
        values = tuple((str(type), node.line) for type, node in residuals if node.primitive.name != "input")
        recorder.residuals.append(ResidualReport(name, values, tuple((n.primitive.name, n.line) for n in recomputed)))


class _Choice:
    """The costs of saving values and of recomputing them, and the cheapest choice."""

    def __init__(
        self, graph: Graph, later: set[int], there: Iterable[Value], same: Collection[int], index: str
    ) -> None:
        self.graph, self.later, self.index = graph, later, index
        self.varying = {number for number, node in graph.nodes() if index and index in node.symbols}
        recorder = current_recorder()
        self.traffic = HOST_TRAFFIC if recorder is None else recorder.traffic
        self.there = {(v.node, v.output) for v in there}
        self.same = {graph.inputs[i].node for i in same}
        for number, node in graph.nodes() if same else ():
            fixed = node.primitive.name != "input" and not node.primitive.effect and not node.bodies
            if fixed and number not in self.varying and {a.node for a in graph.args(number)} <= self.same:
                self.same.add(number)

    def cheapest(self) -> tuple[list[ValueKey], set[int]]:
        """The residuals, in program order, and the numbers of the nodes that are recomputed."""
        read = {(a.node, a.output) for number in self.later for a in self.graph.args(number)}
        wanted = {key for key in read if key[0] not in self.later}
        known = [(n, i) for n, node in self.graph.nodes() if n not in self.later for i in range(len(node.types))]
        costs = {key: cost for key in known if (cost := self._recomputation_cost(*key)) is not None}
        reads = {(n, i): [(a.node, a.output) for a in self.graph.args(n)] for n, i in costs}
        savings = {key: self._saving_cost(*key) for key in known}
        saved = cheapest_cut(wanted, {key: cost for key, cost in savings.items() if cost is not None}, costs, reads)
        pending, numbers = [key for key in wanted if key not in saved], set[int]()
        while pending:
            key = pending.pop()
            if key[0] not in numbers:
                numbers.add(key[0])
                pending += [source for source in reads[key] if source not in saved]
        return sorted(saved), numbers

    def _saving_cost(self, number: int, output: int) -> int | None:
        """The cost of saving a value, in operations; its index maps cost more, so that the value itself is saved.

        None for one that must not be.
        """
        node = self.graph.node(number)
        type = node.types[output]
        if isinstance(type, ArrayType) and any(self.index in size.symbols() for size in type.shape):
            return None
        if (number, output) in self.there or not isinstance(type, ArrayType):
            return 0
        return self.traffic * elements(type) * type.dtype.itemsize + (recomputed_operations(node) == 0)

    def _recomputation_cost(self, number: int, output: int) -> int | None:
        """The cost of recomputing a value, in operations; None for one that must not be."""
        node = self.graph.node(number)
        cost = recomputed_operations(node)
        if number in self.same and node.primitive.name != "input":
            return 0
        if number in self.varying and not node.primitive.effect:
            return cost or sum(elements(t) for t in node.types if isinstance(t, ArrayType))
        return None if cost is None or output else cost


def recomputed_operations(node: Node) -> int | None:
    """The operations of a node that may be recomputed where its result is read; None for others."""
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
