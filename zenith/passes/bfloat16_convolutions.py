"""Convolutions of float32 whose operands are rounded to bfloat16, where ``precision="bf16"`` allows it.

What holds for matrix products (:mod:`zenith.passes.bfloat16_products`) holds here. It runs before convolutions are
brought into blocks of channels, which are whole words of bfloat16 then. A border is rounded with what is inside of it,
so that whoever computes that writes it into the border. Convolutions of each channel by itself are no products.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.blocked_convolution import is_by_channels
from zenith.ir.primitive import get
from zenith.ir.types import bfloat16, float32
from zenith.passes.bfloat16_products import rounded
from zenith.passes.rewrite import Rewriter, rebuild


def bfloat16_convolutions(graph: Graph) -> Graph:
    """The graph with such convolutions."""
    return rebuild(graph, _visit, inner=bfloat16_convolutions)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.primitive is not get("conv") or args[0].dtype != float32:
        return None
    x, w = args
    if is_by_channels(x.shape[1], w.shape[0], w.shape[2:], node.params["groups"]):
        return None
    return rounded_operands(b, node, args)


def rounded_operands(b: Rewriter, node: Node, args: Sequence[Value]) -> Sequence[Value]:
    """A product or convolution with operands rounded to bfloat16 and sums in float32, of any type of floats."""
    left, right = (v if v.dtype == float32 else b.cast(v, dtype=float32) for v in args)
    (found,) = b.copy(node, [_rounded_inside(b, left), rounded(b, right)])
    return [found if args[0].dtype == float32 else b.cast(found, dtype=args[0].dtype)]


def _rounded_inside(b: Rewriter, x: Value) -> Value:
    """An array rounded inside of its border, where it has one."""
    made = b.definition(x)
    if made.primitive is not get("pad"):
        return rounded(b, x)
    source, number = b.operands(x)
    inside, border = (b.cast(value, dtype=bfloat16) for value in (source, number))
    (bordered,) = b.copy(made, [inside, border])
    result: Value = b.cast(bordered, dtype=float32)
    return result
