"""Bias gradients: row sums that are computed together with the product that gives the weight's gradient.

Both read one cotangent: ``dw = x.T @ dy``, and ``db`` is the sum of the rows of ``dy``. A library sums the rows of an
operand while it multiplies, so that memory is read once. For that the groups are scheduled next to each other
(:func:`arranged`), and their steps become the alternative of one step (:func:`pairs`, see the planner).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter

from zenith.backends.group_order import in_order
from zenith.backends.lower.product.library import summed_side
from zenith.backends.outputs import root_of
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import get
from zenith.ir.topological import by_priority
from zenith.ir.types import DType


@dataclass(frozen=True, slots=True)
class Pair:
    """The nodes that sum an array's rows and may round the sums, and the product that has the array as an operand.

    ``operand`` names the product's input that is the array; ``total`` is the value of the sums.
    """

    sums: tuple[int, ...]
    product: int
    operand: str
    total: Value

    @property
    def nodes(self) -> tuple[int, ...]:
        """All of them, in order."""
        return (*self.sums, self.product)

    @property
    def dtype(self) -> DType:
        """The type of the sums."""
        return self.total.dtype


def candidates(graph: Graph) -> Iterator[Pair]:
    """The pairs in a fused graph; no node is in two of them."""
    products = {number: node for number, node in graph.nodes() if node.params.get("anchor") == "product"}
    for number, node in graph.nodes():
        array = _summed(graph, number, node)
        if array is None:
            continue
        sums, total = _rounded(graph, number, node)
        for product in list(products):
            operand = _operand(graph, product, array)
            if operand is not None and not graph.ancestors([product]) & {*sums}:
                del products[product]
                yield Pair(sums, product, operand, total)
                break


def pairs(graph: Graph) -> dict[int, Pair]:
    """The pairs whose nodes are adjacent in the graph's order, by their products."""
    numbers = [number for number, _ in graph.nodes()]
    successor = dict(itertools.pairwise(numbers))
    found = candidates(graph)
    return {p.product: p for p in found if all(successor[a] == b for a, b in zip(p.nodes, p.nodes[1:], strict=False))}


def arranged(graph: Graph) -> Graph:
    """The graph with the nodes of pairs next to each other, where no other node must run between them."""
    units = {number: pair.nodes for pair in candidates(graph) for number in pair.nodes}
    order = _order(graph, units) if units else None
    return graph if order is None else in_order(graph, order)


def _summed(graph: Graph, number: int, node: Node) -> Value | None:
    """The array that a group sums over all axes but the last; None for other groups."""
    if node.params.get("anchor") != "columns":
        return None
    body, (array, *more) = node.params["body"], graph.args(number)
    fold = body.outputs[0]
    (source,) = body.args(fold.node)
    while body.node(source.node).primitive is get("cast"):
        (source,) = body.args(source.node)
    leading = tuple(range(len(array.shape) - 1))
    sums = body.node(fold.node)
    plain = sums.primitive is get("reduce_sum") and sums.params["axes"] == leading
    return array if plain and not more and body.node(source.node).primitive.name == "input" else None


def _rounded(graph: Graph, number: int, node: Node) -> tuple[tuple[int, ...], Value]:
    """The nodes that give the sums in the type in which they are read: a group may do nothing but round them."""
    total = Value(number, 0, node.types[0])
    users = {user for _, user, _ in graph.users(number)}
    if len(users) == 1 and all(v.node != number for v in graph.outputs):
        (user,) = users
        record = graph.node(user)
        if record.params.get("anchor") == "loops":
            computed = [n.primitive for _, n in record.params["body"].nodes() if n.primitive.name != "input"]
            if computed == [get("cast")]:
                return (number, user), Value(user, 0, record.types[0])
    return (number,), total


def _operand(graph: Graph, product: int, array: Value) -> str | None:
    """The input of a product that is an array whose rows run along its terms, so that the library can sum them."""
    body, root = graph.node(product).params["body"], root_of(graph, array)
    for inner, value in zip(body.inputs, graph.args(product), strict=True):
        name = str(body.node(inner.node).params["name"])
        if root_of(graph, value) == root and summed_side(body, name, array.shape[-1]) is not None:
            return name
    return None


def _order(graph: Graph, units: Mapping[int, tuple[int, ...]]) -> list[int] | None:
    """The nodes with units contiguous, each where its last node was; None where units depend on each other."""
    unit = {number: units.get(number, (number,)) for number, _ in graph.nodes()}
    dependencies = {
        nodes: {unit[a.node] for n in nodes for a in graph.args(n)} - {nodes} for nodes in dict.fromkeys(unit.values())
    }
    order = [number for nodes in by_priority(dependencies, itemgetter(-1)) for number in nodes]
    return order if len(order) == len(unit) else None
