"""Splitting of reductions: each reduces trailing axes only, or does not reduce the last axis.

Kernels know these two shapes: rows that are reduced to numbers, and slabs that are combined element by element. A
reduction over both kinds of axes does the trailing ones first, which read memory in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Fold
from zenith.passes.rewrite import Rewriter, rebuild


def split_reductions(graph: Graph) -> Graph:
    """The graph with every mixed reduction written as two."""
    return rebuild(graph, _split)


def _split(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if not isinstance(node.primitive.lowering, Fold):
        return None
    axes, first = node.params["axes"], len(args[0].shape)
    while first - 1 in axes:
        first -= 1
    trailing, others = tuple(a for a in axes if a >= first), tuple(a for a in axes if a < first)
    if not trailing or not others:
        return None
    reduce = getattr(b, node.primitive.name)
    return [reduce(reduce(args[0], axes=trailing), axes=others)]
