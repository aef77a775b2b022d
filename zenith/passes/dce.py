"""Dead code elimination: nodes that reach neither a result nor an effect are left out, and their constants too."""

from __future__ import annotations

from zenith.ir.graph import Graph
from zenith.passes.rewrite import rebuild


def dce(graph: Graph) -> Graph:
    """The graph without unused nodes; inputs and effects stay."""
    return rebuild(graph, lambda b, node, args: None, inner=dce, keep=graph.live())
