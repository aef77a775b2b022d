"""Products of float32 whose operands are rounded to bfloat16, where ``precision="bf16"`` allows it.

A product of bfloat16 takes two terms at once, or a GPU's tensor cores, and its matrices half the memory. Sums stay
float32, and so does everything that is no matrix product: results are rounded nowhere but on their way into the next
product. It runs when attention has been found, whose products stay exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, bfloat16, float32
from zenith.passes.rewrite import Rewriter, rebuild
from zenith.passes.widenings import is_widening


def bfloat16_products(graph: Graph) -> Graph:
    """The graph with such products."""
    return rebuild(graph, _visit, inner=bfloat16_products)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    (type, *_) = node.types or (None,)
    if node.primitive is not get("matmul") or not isinstance(type, ArrayType) or type.dtype != float32:
        return None
    return b.copy(node, [rounded(b, value) for value in args])


def rounded(b: Rewriter, value: Value) -> Value:
    """A value rounded to bfloat16, and widened again; what is only moved is rounded where it is computed."""
    if is_widening(b.so_far, value.node):
        return value
    if b.definition(value).primitive.name in ("reshape", "transpose", "broadcast"):
        (source,) = b.operands(value)
        (moved,) = b.copy(b.definition(value), [rounded(b, source)])
        return moved
    result: Value = b.cast(b.cast(value, dtype=bfloat16), dtype=float32)
    return result


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
