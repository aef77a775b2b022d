"""A product that is read only transposed, and transposes an operand itself: ``(a' b)' = b' a`` has one transpose less.

Gradients of weights are such products, where a layer multiplies by the transpose of its weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.product import swap_last, swaps_last
from zenith.passes.rewrite import Rewriter, rebuild


def transposed_products(graph: Graph) -> Graph:
    """The graph with such products transposed."""
    readers = Counter(v.node for v in graph.outputs)
    readers.update(a.node for number, _ in graph.nodes() for a in graph.args(number))
    found = {
        number: graph.args(number)[0].node
        for number, node in graph.nodes()
        if swaps_last(node)
        and readers[graph.args(number)[0].node] == 1
        and _is_transposable(graph, graph.args(number)[0])
    }
    products = set(found.values())

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        if b.number in products:
            left, right = args
            return (b.matmul(swap_last(b, right), swap_last(b, left)),)
        return args if b.number in found else None

    return rebuild(graph, visit, inner=transposed_products)


def _is_transposable(graph: Graph, value: Value) -> bool:
    """Whether a value is a product whose left operand is a transpose."""
    if graph.node(value.node).primitive.name != "matmul":
        return False
    return swaps_last(graph.node(graph.args(value.node)[0].node))
