"""Rematerialisation: a derivative whose way back computes again what is not worth keeping that long.

The choice is that of :mod:`zenith.transforms.residuals`, on the graph of value and gradient together (after the
partitioning of joint graphs in PyTorch's AOTAutograd; T. Chen et al., Training deep nets with sublinear memory cost,
2016).
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Value
from zenith.transforms.residuals import (
    Allocation,
    choose_residuals,
    descendants,
    recomputed_operations,
    report_residuals,
    waiting,
)


def rematerialize(graph: Graph, late: Sequence[bool]) -> Graph:
    """A derivative in reverse mode that computes again what is not worth keeping; told to the trace in progress.

    ``late`` inputs are cotangents. What depends on them is the way back, which stays where it is; what it reads of the
    rest is kept, or computed again in front of its first reader.
    """
    back = _backward_pass(graph, late)
    handed, again = choose_residuals(graph, back, (*graph.inputs, *graph.outputs))
    sources = {(a.node, a.output) for number in again for a in graph.args(number)}
    new, moved, twice = Graph(graph.name), dict[Allocation, Value](), dict[Allocation, Value]()
    b = Builder(new)

    def second(place: Allocation) -> Value:
        pending, needed = [place], set[Allocation]()
        while pending:
            at = pending.pop()
            if at not in twice and at not in needed:
                needed.add(at)
                pending += [(a.node, a.output) for a in graph.args(at[0])] if at[0] in again else []
        for at in sorted(needed):  # in program order
            if at[0] in again:
                args = [twice[a.node, a.output] for a in graph.args(at[0])]
                (twice[at],) = b.transplant(graph, graph.node(at[0]), args)
            else:
                twice[at] = b.optimization_barrier(moved[at])
        return twice[place]

    for number, node in graph.nodes():
        if node.primitive.name == "input":
            moved[number, 0] = new.add_input(node.types[0], str(node.params["name"]))
            continue
        places = [(a.node, a.output) for a in graph.args(number)]
        args = [second(p) if number in back and (p[0] in again or p in sources) else moved[p] for p in places]
        moved.update({(number, i): value for i, value in enumerate(b.transplant(graph, node, args))})
    new.set_outputs(moved[v.node, v.output] for v in graph.outputs)
    kept = [(graph.node(n).types[i], graph.node(n)) for n, i in handed]
    report_residuals(graph.name, kept, [graph.node(n) for n in sorted(again) if recomputed_operations(graph.node(n))])
    return new


def _backward_pass(graph: Graph, late: Sequence[bool]) -> set[int]:
    """The nodes that depend on cotangents, and of what rules compute for these alone all that is never done twice.

    The rest of it, a slope such as ``1 - y * y``, is kept or computed again like what the way forward computes.
    """
    back = waiting(graph, late)
    forward = graph.ancestors(v.node for v in graph.outputs if v.node not in back)
    fixed = {n for n, node in graph.nodes() if node.primitive.name != "input" and recomputed_operations(node) is None}
    back |= descendants(graph, fixed - forward)
    for number, node in reversed(list(graph.nodes())):
        users = {user for _, user, _ in graph.users(number)}
        if number not in forward and users and users <= back and recomputed_operations(node) == 0:
            back.add(number)  # an index map is where it is read
    return back
