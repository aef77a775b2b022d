"""Derivatives of checkpointed functions: marked values are residuals of the forward pass, all others of the function
are recomputed in the backward pass.
"""

from __future__ import annotations

from zenith.ir.graph import Graph, Value
from zenith.transforms.residuals import ValueKey
from zenith.transforms.split import copy_nodes

_MARKS = ("saved", "checkpoint_name")  # identities


def split_at_marks(joint: Graph, primals: int, results: int) -> tuple[Graph, Graph]:
    """The forward pass and the backward pass of a derivative in reverse mode, ``joint``.

    Its first inputs are the function's, its first outputs the function's ``results``. The forward pass takes the
    primals and returns the results, then the marked values that the backward pass needs; that takes the primals, those
    values and the cotangents, and returns the other outputs.
    """
    marked = {_unmarked(joint, number) for number, node in joint.nodes() if node.primitive.name == "saved"}
    recomputed, residuals = _needed(joint, [(v.node, v.output) for v in joint.outputs[results:]], marked)
    forward, moved = _start(joint, joint.inputs[:primals], [])
    needed = joint.ancestors([*(v.node for v in joint.outputs[:results]), *(key[0] for key in residuals)])
    copy_nodes(joint, forward, moved, needed)
    forward.set_outputs(moved[k] for k in [*((v.node, v.output) for v in joint.outputs[:results]), *residuals])
    backward, moved = _start(joint, joint.inputs, residuals)
    backward.inputs[:] = [
        *backward.inputs[:primals],
        *backward.inputs[len(joint.inputs) :],
        *backward.inputs[primals : len(joint.inputs)],
    ]
    copy_nodes(joint, backward, moved, recomputed)
    backward.set_outputs(moved[v.node, v.output] for v in joint.outputs[results:])
    return forward, backward


def _unmarked(graph: Graph, number: int) -> ValueKey:
    """The value that a mark, or a chain of them, is applied to."""
    while graph.node(number).primitive.name in _MARKS:
        (value,) = graph.args(number)
        number, output = value.node, value.output
    return number, output


def _needed(graph: Graph, wanted: list[ValueKey], marked: set[ValueKey]) -> tuple[set[int], list[ValueKey]]:
    """The ancestors of some values up to marked ones, and the marked values that these read."""
    nodes, residuals, pending = set[int](), set[ValueKey](), wanted
    while pending:
        key = pending.pop()
        if key in marked:
            residuals.add(key)
        elif key[0] not in nodes:
            nodes.add(key[0])
            pending += [(a.node, a.output) for a in graph.args(key[0])]
    return nodes, sorted(residuals)


def _start(graph: Graph, inputs: list[Value], residuals: list[ValueKey]) -> tuple[Graph, dict[ValueKey, Value]]:
    """A new graph with some inputs of another, and further ones for residuals."""
    new, moved = Graph(graph.name), dict[ValueKey, Value]()
    for value in inputs:
        moved[value.node, 0] = new.add_input(value.type, str(graph.node(value.node).params["name"]))
    for i, (node, output) in enumerate(residuals):
        moved[node, output] = new.add_input(graph.node(node).types[output], f"saved{i}")
    return new, moved
