"""Expansion: composite primitives are written out in terms of others, so that no later stage knows them."""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Composite
from zenith.ir.ops.common import results_of
from zenith.ir.types import ArrayType
from zenith.passes.rewrite import Rewriter, rebuild


def expand(graph: Graph) -> Graph:
    """The graph without composite primitives."""
    return rebuild(graph, expansion, again=True)


def expansion(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    """What a composite is in terms of other primitives; None for other nodes."""
    how = node.primitive.lowering
    if not isinstance(how, Composite):
        return None
    if how.parts is not None and any(isinstance(a.type, ArrayType) and a.dtype.is_complex for a in args):
        return results_of(how.parts.write(b, *args, **node.params))
    results: Sequence[Value] = how.expand(b, args, node.params)
    return results
