"""Sums of float32 that are added in float64: of products, convolutions, and elements along axes.

Each result is rounded to float32 once. It is no pass of the pipeline: a tolerance that float32's own sums exceed asks
for it (:mod:`zenith.quantization.tolerances`).

>>> from zenith.ir.text import parse
>>> print(float64_sums(parse("def f(x: f32[n]) -> (f32):\\n    v1 = reduce_sum(x, axes=(0,))\\n    return (v1,)")))
def f(x: f32[n]) -> (f32):
    v1 = cast(x, dtype=f64)
    v2 = reduce_sum(v1, axes=(0,))
    v3 = cast(v2, dtype=f32)
    return (v3,)
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import ArrayType, float32, float64
from zenith.passes.rewrite import Rewriter, rebuild

SUMS = frozenset({"matmul", "conv", "reduce_sum", "cumsum"})


def float64_sums(graph: Graph) -> Graph:
    """The graph with such sums, inside of loops and branches as well."""
    return rebuild(graph, _visit, inner=float64_sums)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.primitive.name not in SUMS:
        return None
    (type,) = node.types
    if not isinstance(type, ArrayType) or type.dtype != float32:
        return None
    (found,) = b.copy(node, [b.cast(value, dtype=float64) for value in args])
    return [b.cast(found, dtype=float32)]
