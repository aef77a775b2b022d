"""The outputs of a graph to plan: each is a step's own result, written directly to the memory that is returned."""

from __future__ import annotations

from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import HostCall, NativeCall, Region, View
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType


def own_outputs(graph: Graph) -> Graph:
    """The graph with a copy before every output that is not the own result of a kernel, loop, branch or call.

    Inputs, constants, views of them and values returned twice are copied, so that no result shares memory with an
    argument, the program or another result; and so is a part of a value, for whose whole a result has no room.
    """
    taken: set[tuple[int, int]] = set()
    outputs: list[Value] = []
    result = copy_graph(graph)
    for value in graph.outputs:
        root = root_of(graph, value)
        made = isinstance(graph.node(root.node).primitive.lowering, (Region, HostCall, NativeCall))
        owned = made and (root.node, root.output) not in taken and not is_part(graph, value)
        taken.add((root.node, root.output))
        outputs.append(value if owned or not isinstance(value.type, ArrayType) else _copied(result, value))
    result.set_outputs(outputs)
    return result


def copy_graph(graph: Graph) -> Graph:
    """A graph with the same nodes under the same numbers, to which nodes can be added."""
    result = graph.beginning(len(graph))
    result.set_outputs(graph.outputs)
    return result


def _copied(graph: Graph, value: Value) -> Value:
    line = graph.node(value.node).line
    if value.dtype.is_complex:
        (value,) = graph.add(get("as_parts"), (value,), {}, line)
        return graph.add(get("of_parts"), (_copied(graph, value),), {}, line)[0]
    params = {"body": copying_body(value), "anchor": "loops"}
    return graph.add(get("fused"), (value,), params, line)[0]


def copying_body(value: Value) -> Graph:
    """The body of a group that copies the memory of a value of this type; kernels have no complex numbers."""
    body, type = Graph("body"), value.type
    if value.dtype.is_complex:
        type = ArrayType(value.dtype.real, (*value.shape, 2))
    body.set_outputs([body.add_input(type, "p0")])
    return body


def is_part(graph: Graph, value: Value) -> bool:
    """Whether a value is a view of the first elements of another one."""
    while isinstance(graph.node(value.node).primitive.lowering, View):
        if graph.node(value.node).primitive is get("prefix"):
            return True
        (value,) = graph.args(value.node)
    return False


def root_of(graph: Graph, value: Value) -> Value:
    """The value whose memory a view reads; a value that is no view itself."""
    while isinstance(graph.node(value.node).primitive.lowering, View):
        (value,) = graph.args(value.node)
    return value
