"""Common subexpressions: nodes of one primitive, parameters and arguments are computed once.

Effects are never merged. The operands of a commutative primitive may come in either order; maximum and minimum are
not among them, since their result for 0.0 and -0.0 may depend on the order.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.passes.rewrite import Rewriter, rebuild

COMMUTATIVE = frozenset({"add", "mul", "eq", "ne", "bit_and", "bit_or", "bit_xor"})


def cse(graph: Graph) -> Graph:
    """The graph with equal nodes merged; the first one's line stays."""
    known: dict[tuple[object, ...], Sequence[Value]] = {}

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.primitive.name == "token" or node.has_effect:
            return None
        operands = [(a.node, a.output) for a in args]
        if node.primitive.name in COMMUTATIVE and args[0].type == args[1].type:
            operands.sort()
        key = (node.primitive.name, node.digest if node.primitive.subgraphs else node.params_text, *operands)
        if key not in known:
            known[key] = b.carry(node, args)
        return known[key]

    return rebuild(graph, visit, inner=cse)
