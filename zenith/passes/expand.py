"""Expansion: composite primitives are written out in terms of others, so that no later stage sees them."""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Composite, HostCall, Tile
from zenith.passes.rewrite import Rewriter, rebuild


def expand(graph: Graph) -> Graph:
    """The graph without composite primitives, and without calls of Python in the place of which inner loops are."""
    return rebuild(graph, _expansion_of_calls, revisit=True)


def expand_tiles(graph: Graph) -> Graph:
    """The same, without tiles that other primitives may take the place of."""
    return rebuild(graph, _expansion_of_tiles, revisit=True)


def _expansion_of_calls(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    lowering = node.primitive.lowering
    if isinstance(lowering, HostCall) and isinstance(lowering.inner_loops, Composite):
        return lowering.inner_loops.expand(b, args, node.params)
    return expansion(b, node, args)


def _expansion_of_tiles(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    lowering = node.primitive.lowering
    if isinstance(lowering, Tile) and lowering.expand is not None:
        return lowering.expand(b, args, node.params)
    return expansion(b, node, args)


def expansion(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    """A composite in terms of other primitives; None for other nodes."""
    if not isinstance(node.primitive.lowering, Composite):
        return None
    results: Sequence[Value] = node.primitive.lowering.expand(b, args, node.params)
    return results
