"""Expansion: composite primitives are written out in terms of others, so that no later stage sees them."""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Composite
from zenith.passes.rewrite import Rewriter, rebuild


def expand(graph: Graph) -> Graph:
    """The graph without composite primitives."""
    return rebuild(graph, expansion, revisit=True)


def expansion(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    """A composite in terms of other primitives; None for other nodes."""
    if not isinstance(node.primitive.lowering, Composite):
        return None
    results: Sequence[Value] = node.primitive.lowering.expand(b, args, node.params)
    return results
