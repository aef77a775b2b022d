"""Rematerialisation: a derivative whose way back computes again what is not worth keeping that long.

The choice is that of :mod:`zenith.transforms.residuals`, on the graph of value and gradient together (after the
partitioning of joint graphs in PyTorch's AOTAutograd; T. Chen et al., Training deep nets with sublinear memory cost,
2016).
"""

from __future__ import annotations

from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Value
from zenith.transforms.residuals import Place, choose_residuals, operations_again, tell_kept


def rematerialize(graph: Graph, primals: int) -> Graph:
    """A derivative in reverse mode that computes again what is not worth keeping; told to the trace in progress.

    The first ``primals`` outputs are the function's own. What these follow from is the way forward; the way back stays
    where it is, and what it reads of the way forward is kept, or computed again in front of its first reader.
    """
    forward = graph.behind(v.node for v in graph.outputs[:primals])
    back = {number for number, _ in graph.nodes()} - forward
    handed, again = choose_residuals(graph, back, (*graph.inputs, *graph.outputs))
    new, moved, twice = Graph(graph.name), dict[Place, Value](), dict[Place, Value]()
    b = Builder(new)

    def second(place: Place) -> Value:
        pending, needed = [place], set[Place]()
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
                twice[at] = b.again(moved[at])
        return twice[place]

    for number, node in graph.nodes():
        if node.primitive.name == "input":
            moved[number, 0] = new.add_input(node.types[0], str(node.params["name"]))
            continue
        places = [(a.node, a.output) for a in graph.args(number)]
        args = [second(p) if number in back and p[0] in again else moved[p] for p in places]
        moved.update({(number, i): value for i, value in enumerate(b.transplant(graph, node, args))})
    new.set_outputs(moved[v.node, v.output] for v in graph.outputs)
    kept = [(graph.node(n).types[i], graph.node(n)) for n, i in handed]
    tell_kept(graph.name, kept, [graph.node(n) for n in sorted(again) if operations_again(graph.node(n))])
    return new
