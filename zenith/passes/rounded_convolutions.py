"""Convolutions of float32 whose operands are rounded to a 16-bit float, where ``precision`` allows it.

What holds for matrix products (:mod:`zenith.passes.rounded_products`) holds here. It runs before convolutions are
brought into blocks of channels, which are whole words of bfloat16 then. A border is rounded with what is inside of it,
so that whoever computes that writes it into the border. Convolutions of each channel by itself are no products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.blocked_convolution import is_by_channels
from zenith.ir.primitive import get
from zenith.ir.types import DType, float32
from zenith.passes.rewrite import Rewriter, rebuild
from zenith.passes.rounded_products import rounded_operands


def rounded_convolutions(dtype: DType) -> Callable[[Graph], Graph]:
    """The pass that rounds their operands to a type."""

    def rounded_convolutions(graph: Graph) -> Graph:
        return rebuild(graph, visit, inner=rounded_convolutions)

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.primitive is not get("conv") or args[0].dtype != float32:
            return None
        x, w = args
        if is_by_channels(x.shape[1], w.shape[0], w.shape[2:], node.params["groups"]):
            return None
        return rounded_operands(b, node, args, dtype)

    return rounded_convolutions
