"""Borders around what a kernel computes: it writes its results inside them."""

from __future__ import annotations

from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Scalar, Tile
from zenith.passes.widenings import is_widening


def written_borders(graph: Graph) -> set[int]:
    """The nodes that put a border of one number around what is computed, element by element, from a convolution or for
    one: its backward pass reads cotangents inside a border.
    """
    convolved, found = set[int](), set[int]()
    for number, node in graph.nodes():
        lowering, args = node.primitive.lowering, graph.args(number)
        if isinstance(lowering, Tile):
            if lowering.kernel == "convolution":
                convolved.add(number)
                read = graph.args(args[0].node)[0] if is_widening(graph, args[0].node) else args[0]
                found |= {read.node} if _borders_what_is_computed(graph, read) else set()
        elif isinstance(lowering, Scalar) and any(a.node in convolved for a in args):
            convolved.add(number)
        elif args and args[0].node in convolved and _is_border(graph, number):
            found.add(number)
    return found


def _borders_what_is_computed(graph: Graph, value: Value) -> bool:
    if not _is_border(graph, value.node):
        return False
    source = graph.args(value.node)[0].node
    return isinstance(graph.node(source).primitive.lowering, Scalar) and not is_widening(graph, source)


def _is_border(graph: Graph, number: int) -> bool:
    node = graph.node(number)
    if node.primitive.name != "pad" or any(node.params["interior"]):
        return False
    return graph.node(graph.args(number)[1].node).primitive.name == "literal"
