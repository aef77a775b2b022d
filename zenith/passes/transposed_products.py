"""A product that is read only transposed, and transposes an operand itself: ``(a' b)' = b' a`` has one transpose less.

Gradients of weights are such products, where a layer multiplies by the transpose of its weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.passes.rewrite import Rewriter, rebuild


def transposed_products(graph: Graph) -> Graph:
    """The graph with such products transposed."""
    readers = Counter(v.node for v in graph.outputs)
    readers.update(a.node for number, _ in graph.nodes() for a in graph.args(number))
    found = {
        number: graph.args(number)[0].node
        for number, node in graph.nodes()
        if _swaps(node) and readers[graph.args(number)[0].node] == 1 and _is_transposable(graph, graph.args(number)[0])
    }
    products = set(found.values())

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        if b.number in products:
            left, right = args
            return (b.matmul(_swapped(b, right), _swapped(b, left)),)
        return args if b.number in found else None

    return rebuild(graph, visit, inner=transposed_products)


def _is_transposable(graph: Graph, value: Value) -> bool:
    """Whether a value is a product whose left operand is a transpose."""
    if graph.node(value.node).primitive.name != "matmul":
        return False
    return _swaps(graph.node(graph.args(value.node)[0].node))


def _swaps(node: Node) -> bool:
    """Whether a node transposes the last two axes and no others."""
    if node.primitive.name != "transpose":
        return False
    axes = tuple(node.params["axes"])
    rank = len(axes)
    return rank >= 2 and axes == (*range(rank - 2), rank - 1, rank - 2)


def _swapped(b: Rewriter, value: Value) -> Value:
    rank = len(value.shape)
    transposed: Value = b.transpose(value, axes=(*range(rank - 2), rank - 1, rank - 2))
    return transposed
