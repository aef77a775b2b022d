"""Rematerialization: a derivative whose backward pass recomputes values that are not worth saving that long.

The choice is that of :mod:`zenith.transforms.residuals`, on the graph of value and gradient together (after the
partitioning of joint graphs in PyTorch's AOTAutograd; T. Chen et al., Training deep nets with sublinear memory cost,
2016).
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Value
from zenith.transforms.residuals import (
    ValueKey,
    choose_residuals,
    recomputed_operations,
    report_residuals,
    waiting,
)


def rematerialize(graph: Graph, late: Sequence[bool]) -> Graph:
    """A derivative in reverse mode that recomputes what is not worth saving; reported to the trace in progress.

    ``late`` inputs are cotangents. Their descendants are the backward pass, which stays as it is; the values that it
    reads of the rest are saved, or recomputed in front of their first reader.
    """
    backward = _backward_pass(graph, late)
    residuals, recomputed = choose_residuals(graph, backward, (*graph.inputs, *graph.outputs))
    sources = {(a.node, a.output) for number in recomputed for a in graph.args(number)}
    new, moved, twice = Graph(graph.name), dict[ValueKey, Value](), dict[ValueKey, Value]()
    b = Builder(new)

    def recompute(wanted: ValueKey) -> Value:
        pending, needed = [wanted], set[ValueKey]()
        while pending:
            key = pending.pop()
            if key not in twice and key not in needed:
                needed.add(key)
                pending += [(a.node, a.output) for a in graph.args(key[0])] if key[0] in recomputed else []
        for key in sorted(needed):  # in program order
            if key[0] in recomputed:
                args = [twice[a.node, a.output] for a in graph.args(key[0])]
                (twice[key],) = b.transplant(graph, graph.node(key[0]), args)
            else:
                twice[key] = b.optimization_barrier(moved[key])
        return twice[wanted]

    for number, node in graph.nodes():
        if node.primitive.name == "input":
            moved[number, 0] = new.add_input(node.types[0], str(node.params["name"]))
            continue
        keys = [(a.node, a.output) for a in graph.args(number)]
        args = [recompute(k) if number in backward and (k[0] in recomputed or k in sources) else moved[k] for k in keys]
        moved.update({(number, i): value for i, value in enumerate(b.transplant(graph, node, args))})
    new.set_outputs(moved[v.node, v.output] for v in graph.outputs)
    saved = [(graph.node(n).types[i], graph.node(n)) for n, i in residuals]
    report_residuals(
        graph.name, saved, [graph.node(n) for n in sorted(recomputed) if recomputed_operations(graph.node(n))]
    )
    return new


def _backward_pass(graph: Graph, late: Sequence[bool]) -> set[int]:
    """The nodes that depend on cotangents, and those that rules compute for these alone and that are never recomputed.

    The others that rules compute, slopes such as ``1 - y * y``, are saved or recomputed like those of the forward pass.
    """
    backward = waiting(graph, late)
    forward = graph.ancestors(v.node for v in graph.outputs if v.node not in backward)
    fixed = {n for n, node in graph.nodes() if node.primitive.name != "input" and recomputed_operations(node) is None}
    backward |= graph.descendants(fixed - forward)
    for number, node in reversed(list(graph.nodes())):
        users = {user for _, user, _ in graph.users(number)}
        if number not in forward and users and users <= backward and recomputed_operations(node) == 0:
            backward.add(number)  # an index map belongs to its readers
    return backward
