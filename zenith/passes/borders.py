"""Borders around what convolutions compute: their kernels write results to the places inside."""

from __future__ import annotations

from zenith.ir.graph import Graph
from zenith.ir.lowering import Scalar, Tile


def borders_of_convolutions(graph: Graph) -> set[int]:
    """The nodes that put a border of one number around what is computed, element by element, from a convolution."""
    convolved, found = set[int](), set[int]()
    for number, node in graph.nodes():
        lowering, args = node.primitive.lowering, graph.args(number)
        if isinstance(lowering, Tile):
            convolved |= {number} if lowering.kernel == "convolution" else set()
        elif not convolved:
            continue
        elif isinstance(lowering, Scalar) and any(a.node in convolved for a in args):
            convolved.add(number)
        elif node.primitive.name == "pad" and args[0].node in convolved and not any(node.params["interior"]):
            found |= {number} if graph.node(args[1].node).primitive.name == "literal" else set()
    return found
