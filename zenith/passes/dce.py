"""Dead code elimination: nodes that reach neither a result nor an effect are left out, and their constants too."""

from __future__ import annotations

from zenith.ir.graph import Graph, Node
from zenith.passes.rewrite import rebuild


def dce(graph: Graph) -> Graph:
    """The graph without unused nodes; inputs and effects stay."""
    live = {v.node for v in graph.outputs}
    live.update(number for number, node in graph.nodes() if has_effect(node))
    return rebuild(graph, lambda b, node, args: None, inner=dce, keep=graph.ancestors(live))


def has_effect(node: Node) -> bool:
    """Whether a node, or anything in its subgraphs, must happen even if nobody reads its results."""
    return node.primitive.effect or any(map(_has_effects, node.bodies))


def _has_effects(body: Graph) -> bool:
    return any(node.primitive.effect for node in body.walk())
