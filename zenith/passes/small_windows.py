"""Reductions of small windows, written out: one elementwise operation of strided slices for each element of a window.

A row of nine elements is too short for lanes. Written out, a window's elements are slices of the array, and the windows
themselves are the lanes, in one loop with what follows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as every

from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Fold, Scalar
from zenith.passes.rewrite import Rewriter, rebuild

MAX_TERMS = 32  # half of what a group may have, so that what is around the windows still finds room
_JOINS = {"reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "maximum", "reduce_min": "minimum"}


def small_windows(graph: Graph) -> Graph:
    """The graph with reductions of windows of a few elements written out."""
    return rebuild(graph, _written_out)


def _written_out(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if not isinstance(node.primitive.lowering, Fold) or node.primitive.name not in _JOINS:
        return None
    (operand,), axes = args, node.params["axes"]
    first = len(operand.shape) - len(axes)
    sizes = [n.static or 0 for n in operand.shape[first:]]
    terms = 1
    for n in sizes:
        terms *= n
    if axes != tuple(range(first, len(operand.shape))) or not 1 <= terms <= MAX_TERMS:
        return None
    if not _has_windows(b, operand, first) or not _is_made_of_windows(b, operand, first):
        return None
    join = getattr(b, _JOINS[node.primitive.name])
    return [_joined(join, [_element(b, operand, first, place) for place in every(*map(range, sizes))])]


def _is_made_of_windows(b: Rewriter, value: Value, first: int) -> bool:
    """Whether a value is computed, element by element, from windows of its axes from ``first`` on, and numbers."""
    node = b.definition(value)
    if isinstance(node.primitive.lowering, Scalar):
        return all(_is_made_of_windows(b, a, first) for a in b.operands(value))
    if node.primitive.name == "broadcast":
        return all(axis < first for axis in node.params["axes"])
    return _is_windows(node, value, first)


def _has_windows(b: Rewriter, value: Value, first: int) -> bool:
    node = b.definition(value)
    if isinstance(node.primitive.lowering, Scalar):
        return any(_has_windows(b, a, first) for a in b.operands(value))
    return _is_windows(node, value, first)


def _is_windows(node: Node, value: Value, first: int) -> bool:
    """Whether a node's windows are the axes from ``first`` on, and their strides numbers."""
    if node.primitive.name != "windows" or len(value.shape) - len(node.params["window"]) != first:
        return False
    return all(stride.static is not None for stride in node.params["stride"])


def _element(b: Rewriter, value: Value, first: int, place: Sequence[int]) -> Value:
    """One element of each window: the value at a place of its axes from ``first`` on, without these axes."""
    node, shape = b.definition(value), value.shape[:first]
    if isinstance(node.primitive.lowering, Scalar):
        parts = [_element(b, a, first, place) for a in b.operands(value)]
        return b.graph.add(node.primitive, parts, node.params, node.line)[0]
    (source,) = b.operands(value)
    if node.primitive.name == "broadcast":
        same = source.shape == shape
        found: Value = source if same else b.broadcast(source, shape=shape, axes=node.params["axes"])
        return found
    return _slice(b, node, source, shape, place)


def _slice(b: Rewriter, node: Node, source: Value, shape: Sequence[Dim], place: Sequence[int]) -> Value:
    lead = len(source.shape) - len(place)
    start: list[Dim] = [dim(0)] * lead
    stop, step = list(source.shape[:lead]), [1] * lead
    for at, stride, apart, count in zip(
        place, node.params["stride"], node.params["dilation"], shape[lead:], strict=True
    ):
        start.append(dim(at * apart))
        stop.append((count - 1) * stride + (at * apart + 1))
        step.append(stride.static or 1)
    found: Value = b.slice(source, start=tuple(start), stop=tuple(stop), step=tuple(step))
    return found


def _joined(join: Callable[[Value, Value], Value], parts: list[Value]) -> Value:
    """Neighbours joined, then what they gave: short ways from every element to the result."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [join(x, y) for x, y in pairs] + parts[len(parts) // 2 * 2 :]
    return parts[0]
