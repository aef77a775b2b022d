"""Batching: a graph for one example becomes a graph for many, each node by its primitive's own rule.

A batched value has the examples on a new leading axis; a value that is the same for all examples has none, and results
of such values alone are computed once.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.errors import ZenithError
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import ArrayType
from zenith.transforms.rules import RuleBuilder


def batched_graph(graph: Graph, batched: Sequence[bool], size: Dim) -> tuple[Graph, list[bool]]:
    """The graph for ``size`` examples, and which of its outputs are batched; ``batched`` says which inputs are.

    Raises ZenithError with the user's line for an operation that cannot be batched.

    >>> from zenith.ir.text import parse
    >>> from zenith.ir.dims import symbol
    >>> graph = parse("def f(x: f32[3], y: f32[3]) -> (f32):\\n    v2 = mul(x, y)\\n"
    ...               "    v3 = reduce_sum(v2, axes=(0,))\\n    return (v3,)")
    >>> print(batched_graph(graph, [True, False], symbol("n"))[0])
    def f(x: f32[n, 3], y: f32[3]) -> (f32[n]):
        v2 = broadcast(y, shape=(n, 3), axes=(1,))
        v3 = mul(x, v2)
        v4 = reduce_sum(v3, axes=(1,))
        return (v4,)
    """
    new = Graph(graph.name)
    builder = RuleBuilder(new)
    moved: dict[tuple[int, int], Value] = {}
    flags: dict[tuple[int, int], bool] = {}
    for value, flag in zip(graph.inputs, batched, strict=True):
        type = value.type
        if flag:
            assert isinstance(type, ArrayType), "tokens are not batched"
            type = type.with_shape((size, *type.shape))
        moved[value.node, 0] = new.add_input(type, graph.node(value.node).params["name"])
        flags[value.node, 0] = flag
    for number, node in graph.nodes():
        if node.primitive.name == "input":
            continue
        builder.line = node.line
        keys = [(a.node, a.output) for a in graph.args(number)]
        args, which = [moved[key] for key in keys], [flags[key] for key in keys]
        results = _batch(builder, node, args, which, size) if any(which) else builder.transplant(graph, node, args)
        moved.update({(number, i): value for i, value in enumerate(results)})
        flags.update({(number, i): any(which) for i in range(len(results))})
    outputs = [(v.node, v.output) for v in graph.outputs]
    new.set_outputs(moved[key] for key in outputs)
    return new, [flags[key] for key in outputs]


def _batch(b: RuleBuilder, node: Node, args: Sequence[Value], batched: Sequence[bool], size: Dim) -> Sequence[Value]:
    try:
        results: Sequence[Value] = node.primitive.batch(b, args, batched, size, node.params)
    except ZenithError as error:
        raise error.at(node.line) from None
    return results
