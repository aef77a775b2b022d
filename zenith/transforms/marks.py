"""Derivatives of checkpointed functions: marked values are handed from the way forward to the way back, all others of
the function are computed again there.
"""

from __future__ import annotations

from zenith.ir.graph import Graph, Value
from zenith.transforms.residuals import Allocation
from zenith.transforms.split import copy_nodes

_MARKS = ("saved", "checkpoint_name")  # they give their argument back


def split_at_marks(joint: Graph, primals: int, results: int) -> tuple[Graph, Graph]:
    """The way forward and the way back of a derivative in reverse mode, ``joint``.

    Its first inputs are the function's, its first outputs the function's ``results``. The way forward takes the
    primals and gives the results, then the marked values that the way back needs; that takes the primals, those values
    and the cotangents, and gives the other outputs.
    """
    marked = {_unmarked(joint, number) for number, node in joint.nodes() if node.primitive.name == "saved"}
    again, handed = _needed(joint, [(v.node, v.output) for v in joint.outputs[results:]], marked)
    forward, moved = _start(joint, joint.inputs[:primals], [])
    ahead = joint.ancestors([*(v.node for v in joint.outputs[:results]), *(place[0] for place in handed)])
    copy_nodes(joint, forward, moved, ahead)
    forward.set_outputs(moved[p] for p in [*((v.node, v.output) for v in joint.outputs[:results]), *handed])
    back, moved = _start(joint, joint.inputs, handed)
    back.inputs[:] = [
        *back.inputs[:primals],
        *back.inputs[len(joint.inputs) :],
        *back.inputs[primals : len(joint.inputs)],
    ]
    copy_nodes(joint, back, moved, again)
    back.set_outputs(moved[v.node, v.output] for v in joint.outputs[results:])
    return forward, back


def _unmarked(graph: Graph, number: int) -> Allocation:
    """The value that a mark stands on."""
    while graph.node(number).primitive.name in _MARKS:
        (value,) = graph.args(number)
        number, output = value.node, value.output
    return number, output


def _needed(graph: Graph, wanted: list[Allocation], marked: set[Allocation]) -> tuple[set[int], list[Allocation]]:
    """The nodes that some values follow from when marked ones are there, and the marked ones that they need."""
    nodes, handed, pending = set[int](), set[Allocation](), wanted
    while pending:
        place = pending.pop()
        if place in marked:
            handed.add(place)
        elif place[0] not in nodes:
            nodes.add(place[0])
            pending += [(a.node, a.output) for a in graph.args(place[0])]
    return nodes, sorted(handed)


def _start(graph: Graph, inputs: list[Value], handed: list[Allocation]) -> tuple[Graph, dict[Allocation, Value]]:
    """A new graph with some inputs of another, and further ones for values that are handed over."""
    new, moved = Graph(graph.name), dict[Allocation, Value]()
    for value in inputs:
        moved[value.node, 0] = new.add_input(value.type, str(graph.node(value.node).params["name"]))
    for i, (node, output) in enumerate(handed):
        moved[node, output] = new.add_input(graph.node(node).types[output], f"saved{i}")
    return new, moved
