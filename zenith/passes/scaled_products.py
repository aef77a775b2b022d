"""Block-scaled products that no kernel computes, as products of floats by what their levels mean.

Those in float64 are, which checks compare with, and on targets whose kernels read no levels of few bits, all.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.scaled_product import written_out
from zenith.ir.types import float32
from zenith.passes.rewrite import Rewriter, rebuild


def scaled_products(graph: Graph) -> Graph:
    """The graph without block-scaled products in float64."""
    return rebuild(graph, _without_wide, inner=scaled_products)


def all_scaled_products(graph: Graph) -> Graph:
    """The graph without block-scaled products."""
    return rebuild(graph, _without_any, inner=all_scaled_products)


def _without_any(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    return [written_out(b, args, node.params)] if _is_one(node) else None


def _without_wide(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    return [written_out(b, args, node.params)] if _is_one(node) and args[-1].dtype != float32 else None


def _is_one(node: Node) -> bool:
    return node.primitive.name == "scaled_matmul"
