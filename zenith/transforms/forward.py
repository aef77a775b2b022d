"""Forward mode: a graph that computes tangents along with values, node by node in program order.

A tangent says how a value moves when the inputs move along given directions. Each primitive's record has the rule; a
tangent that is zero everywhere, or that no output follows from, is not computed. After R. E. Wengert, A simple
automatic derivative evaluation program, Communications of the ACM 7(8), 1964.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.errors import ZenithError
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import has_derivative
from zenith.transforms.rules import RuleBuilder


def jvp_graph(graph: Graph, active: Sequence[bool]) -> Graph:
    """The graph with a further input for the tangent of each ``active`` one, and tangents as further outputs.

    There is one for each floating-point output, in order, zeros where nothing moves it. Raises ZenithError with the
    user's line for an operation without derivative.

    >>> from zenith.ir.text import parse
    >>> print(jvp_graph(parse("def f(x: f32[n]) -> (f32[n]):\\n    v1 = sin(x)\\n    return (v1,)"), [True]))
    def f(x: f32[n], x_dot: f32[n]) -> (f32[n], f32[n]):
        v2 = sin(x)
        v3 = cos(x)
        v4 = mul(x_dot, v3)
        return (v2, v4)
    """
    new = Graph(graph.name)
    builder = RuleBuilder(new)
    names = [graph.node(v.node).params["name"] for v in graph.inputs]
    primal = {(v.node, 0): new.add_input(v.type, name) for v, name in zip(graph.inputs, names, strict=True)}
    tangent = {
        (v.node, 0): new.add_input(v.type, _fresh(f"{name}_dot", names))
        for v, name, moves in zip(graph.inputs, names, active, strict=True)
        if moves
    }
    used = graph.ancestors(v.node for v in graph.outputs)
    for number, node in graph.nodes():
        if node.primitive.name == "input":
            continue
        builder.line = node.line
        keys = [(a.node, a.output) for a in graph.args(number)]
        args = [primal[key] for key in keys]
        results = builder.transplant(graph, node, args)
        primal.update({(number, i): value for i, value in enumerate(results)})
        if number in used:
            found = _push(builder, node, args, [tangent.get(key) for key in keys], results)
            tangent.update({(number, i): value for i, value in enumerate(found) if value is not None})
    outputs = [(v.node, v.output) for v in graph.outputs]
    moving = [key for key, v in zip(outputs, graph.outputs, strict=True) if has_derivative(v.type)]
    tangents = [tangent.get(key) or builder.zeros_like(primal[key]) for key in moving]
    new.set_outputs([*(primal[key] for key in outputs), *tangents])
    return new


def _push(
    b: RuleBuilder, node: Node, args: Sequence[Value], tangents: Sequence[Value | None], results: Sequence[Value]
) -> Sequence[Value | None]:
    """The tangents of a node's results."""
    if all(t is None for t in tangents) or not any(has_derivative(r.type) for r in results):
        return [None] * len(results)
    try:
        found: Sequence[Value | None] = node.primitive.jvp(b, args, tangents, results, node.params)
    except ZenithError as error:
        raise error.at(node.line) from None
    return found


def _fresh(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name
