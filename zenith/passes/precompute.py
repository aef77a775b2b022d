"""Products of a scan's slices leave the loop: all steps' products with one matrix are one product, computed before it.

A recurrent cell computes ``h @ u + x @ w``, where only ``h`` is carried. ``x @ w`` of all steps reads ``w`` once for
many rows instead of once a step. Elementwise operations of a step on such a product, other slices and captured values
leave the loop too; the body reads the result as one more slice.

The batching rules of the primitives write the product of all steps (appendix of J. Appleyard et al., "Optimizing
Performance of Recurrent Neural Networks on GPUs", 2016, describes it for cells).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Scalar, Tile, View
from zenith.ir.primitive import NoRule
from zenith.passes.rewrite import Rewriter, rebuild

GROWTH = 16  # a product that is known to have more columns than this many times its terms stays: it takes memory


def precompute(graph: Graph) -> Graph:
    """The graph with products of slices computed ahead of scans."""
    return rebuild(graph, _visit, inner=precompute)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.primitive.name != "scan" or node.params["index"]:
        return None  # sizes in a body that depend on its index are known in it alone
    body = _Body(node)
    moved = body.moved()
    if not moved:
        return None
    steps = _AllSteps(b, body, args)
    wholes = [steps.of(value)[0] for value in moved]
    params = {**node.params, "body": _reading(body.graph, moved)}
    return b.graph.add(node.primitive, (*args, *wholes), params, node.line)


class _Body:
    """The body of a scan, and which of its nodes depend on slices and captured values only."""

    def __init__(self, scan: Node) -> None:
        self.graph: Graph = scan.params["body"]
        self.length = scan.params["length"]
        first = scan.params["captured"]
        last = first + scan.params["carried"]
        numbers = [v.node for v in self.graph.inputs]
        self.slices = set(numbers[last:])  # nodes that follow from slices and captured values only
        self.captured = set(numbers[:first])  # nodes that follow from captured values only
        for number, node in self.graph.nodes():
            sources = {a.node for a in self.graph.args(number)}
            if node.primitive.name == "input" or node.primitive.effect or node.bodies or len(node.types) != 1:
                continue
            if sources <= self.captured:
                self.captured.add(number)
            elif sources <= self.captured | self.slices and not isinstance(node.primitive.batch, NoRule):
                self.slices.add(number)

    def moved(self) -> list[Value]:
        """The values computed ahead: the last ones on paths from products to nodes that need a carried value."""
        inside: set[int] = set()
        for number, node in self.graph.nodes():
            if number in self.slices and (self._is_product(number, node) or self._is_epilogue(number, node, inside)):
                inside.add(number)
        returned = {v.node for v in self.graph.outputs}
        users = {number: {user for _, user, _ in self.graph.users(number)} for number in inside}
        ends = [n for n in sorted(inside) if n in returned or users[n] - inside]
        return [Value(n, 0, self.graph.node(n).types[0]) for n in ends]

    def _is_product(self, number: int, node: Node) -> bool:
        """Whether many rows may share the right operand, a captured matrix."""
        if not isinstance(node.primitive.lowering, Tile) or node.primitive.name != "matmul":
            return False
        _, right = self.graph.args(number)
        terms, columns = (size.static for size in right.shape[-2:])
        large = terms is not None and columns is not None and columns > GROWTH * terms
        return len(right.shape) == 2 and right.node in self.captured and not large

    def _is_epilogue(self, number: int, node: Node, inside: set[int]) -> bool:
        """Whether a node is an elementwise operation or view on values that are computed ahead."""
        if not isinstance(node.primitive.lowering, Scalar | View):
            return False
        (type,) = node.types
        return any(a.node in inside and a.type == type for a in self.graph.args(number)) or (
            isinstance(node.primitive.lowering, View) and self.graph.args(number)[0].node in inside
        )


@dataclass(slots=True)
class _AllSteps:
    """Values of a body for all steps at once, written into the graph around it."""

    b: Rewriter
    body: _Body
    args: Sequence[Value]
    known: dict[tuple[int, int], tuple[Value, bool]] = field(init=False)

    def __post_init__(self) -> None:
        inputs = zip(self.body.graph.inputs, self.args, strict=True)
        self.known = {(v.node, 0): (arg, v.node in self.body.slices) for v, arg in inputs}

    def of(self, value: Value) -> tuple[Value, bool]:
        """A value for all steps along a new first axis, or, with False, one that all steps share."""
        key = value.node, value.output
        if key not in self.known:
            node = self.body.graph.node(value.node)
            args = [self.of(a) for a in self.body.graph.args(value.node)]
            values, batched = [a for a, _ in args], [flag for _, flag in args]
            if any(batched):
                (result,) = node.primitive.batch(self.b, values, batched, self.body.length, node.params)
            else:
                (result,) = self.b.graph.add(node.primitive, values, node.params, node.line)
            self.known[key] = result, any(batched)
        return self.known[key]


def _reading(body: Graph, moved: Sequence[Value]) -> Graph:
    """The body with some values as further inputs, which come last."""
    new = Graph(body.name)
    new.constants, new.weights = dict(body.constants), body.weights
    values = {(v.node, 0): new.add_input(v.type, str(body.node(v.node).params["name"])) for v in body.inputs}
    taken = {str(body.node(v.node).params["name"]) for v in body.inputs}
    names = (name for i in range(len(moved) + len(taken)) if (name := f"ahead{i}") not in taken)
    values.update({(v.node, v.output): new.add_input(v.type, name) for v, name in zip(moved, names, strict=False)})
    for number, node in body.nodes():
        if (number, 0) not in values and node.types:
            args = tuple(values[a.node, a.output] for a in body.args(number))
            values.update({(number, i): v for i, v in enumerate(new.add_record(node, args))})
    new.set_outputs(values[v.node, v.output] for v in body.outputs)
    return new
