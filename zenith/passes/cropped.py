"""The border of a convolution is not computed where a slice cuts it off.

The gradient of a convolution by its array covers the zeros around the array, too, and is then cut to the array: an
eighth of the work for windows of 3 x 3 on 32 x 32 points. With steps of 1, a slice of the result is the convolution of
a slice, and one of padded zeros leaves fewer zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.dims import prove_at_least
from zenith.ir.graph import Graph, Node, Value
from zenith.passes.rewrite import Rewriter, number_of, rebuild


def cropped(graph: Graph) -> Graph:
    """The graph with slices of convolutions of padded arrays as convolutions of arrays that are padded less."""

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.primitive.name != "slice" or any(n != 1 for n in node.params["step"]):
            return None
        found, (before,) = b.definition(args[0]), graph.args(b.number)
        only_reader = len([*graph.users(before.node)]) == 1 and before not in graph.outputs
        if found.primitive.name != "conv" or not only_reader or any(n != 1 for n in found.params["strides"]):
            return None
        return _padded_less(b, node, args[0])

    return rebuild(graph, visit, inner=cropped)


def _padded_less(b: Rewriter, node: Node, whole: Value) -> Sequence[Value] | None:
    """The slice of a convolution that a node takes; None where it cuts off more than padded zeros."""
    convolution, (x, w) = b.definition(whole), b.operands(whole)
    made = b.definition(x)
    if made.primitive.name != "pad" or number_of(b, b.operands(x)[1]) != 0:
        return None
    cut = node.params["start"], [n - stop for n, stop in zip(whole.shape, node.params["stop"], strict=True)]
    if any(n != 0 for sides in cut for n in sides[:2]):
        return None
    low, high = (
        tuple(n - c for n, c in zip(made.params[side], sides, strict=True))
        for side, sides in zip(("low", "high"), cut, strict=True)
    )
    if not all(prove_at_least(n, 0) for n in (*low, *high)):
        return None
    less = b.pad(*b.operands(x), low=low, high=high, interior=made.params["interior"])
    return (b.conv(less, w, **convolution.params),)
