"""Reductions of small windows, written out: one elementwise operation of strided slices for each element of a window.

A row of nine elements is too short for lanes. Written out, a window's elements are slices of the array, and the windows
themselves are the lanes, in one loop with the operations that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as every

from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Fold, Scalar
from zenith.passes.rewrite import Rewriter, rebuild

MAX_TERMS = 32  # half of what a group may have, so that the operations around the windows still fit
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
    if not _are_windows(b, _sources(b, operand), first):
        return None
    join = getattr(b, _JOINS[node.primitive.name])
    return [_joined(join, [_Elements(b, first, offsets).of(operand) for offsets in every(*map(range, sizes))])]


def _are_windows(b: Rewriter, sources: Sequence[Value], first: int) -> bool:
    """Whether values are windows of the axes from ``first`` on, one or more, and values constant within a window."""
    found = False
    for value in sources:
        node = b.definition(value)
        if _is_windows(node, value, first):
            found = True
        elif node.primitive.name != "broadcast" or any(axis >= first for axis in node.params["axes"]):
            return False
    return found


def _sources(b: Rewriter, value: Value) -> list[Value]:
    """The values that a value is computed from element by element, each once, however many paths lead there."""
    seen, rest, found = {value}, [value], []
    while rest:
        at = rest.pop()
        if isinstance(b.definition(at).primitive.lowering, Scalar):
            operands = [a for a in dict.fromkeys(b.operands(at)) if a not in seen]
            seen.update(operands)
            rest += operands
        else:
            found.append(at)
    return found


def _is_windows(node: Node, value: Value, first: int) -> bool:
    """Whether a node's windows are the axes from ``first`` on, and their strides numbers."""
    if node.primitive.name != "windows" or len(value.shape) - len(node.params["window"]) != first:
        return False
    return all(stride.static is not None for stride in node.params["stride"])


class _Elements:
    """One element of each window: values at an index of their axes from ``first`` on, without these axes."""

    def __init__(self, b: Rewriter, first: int, offsets: Sequence[int]) -> None:
        self._b, self._first, self._offsets = b, first, offsets
        self._made: dict[Value, Value] = {}

    def of(self, value: Value) -> Value:
        """The element of a value, made once."""
        if value not in self._made:
            self._made[value] = self._make(value)
        return self._made[value]

    def _make(self, value: Value) -> Value:
        b, node, shape = self._b, self._b.definition(value), value.shape[: self._first]
        if isinstance(node.primitive.lowering, Scalar):
            operands = [self.of(a) for a in b.operands(value)]
            return b.graph.add(node.primitive, operands, node.params, node.line)[0]
        (source,) = b.operands(value)
        if node.primitive.name == "broadcast":
            same = source.shape == shape
            found: Value = source if same else b.broadcast(source, shape=shape, axes=node.params["axes"])
            return found
        return _slice(b, node, source, shape, self._offsets)


def _slice(b: Rewriter, node: Node, source: Value, shape: Sequence[Dim], offsets: Sequence[int]) -> Value:
    lead = len(source.shape) - len(offsets)
    start: list[Dim] = [dim(0)] * lead
    stop, step = list(source.shape[:lead]), [1] * lead
    for offset, stride, dilation, count in zip(
        offsets, node.params["stride"], node.params["dilation"], shape[lead:], strict=True
    ):
        start.append(dim(offset * dilation))
        stop.append((count - 1) * stride + (offset * dilation + 1))
        step.append(stride.static or 1)
    found: Value = b.slice(source, start=tuple(start), stop=tuple(stop), step=tuple(step))
    return found


def _joined(join: Callable[[Value, Value], Value], terms: list[Value]) -> Value:
    """The terms combined as a balanced tree: neighbours first, then their results."""
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        terms = [join(x, y) for x, y in pairs] + terms[len(terms) // 2 * 2 :]
    return terms[0]
