"""Subgraphs of a group's body as bodies of their own: they compute some values from others that are in buffers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from zenith.ir.graph import Graph, Value


def reached(body: Graph, wanted: Iterable[Value], given: Collection[int]) -> set[int]:
    """The ancestors that values need where some nodes are given, these and the values included."""
    found: set[int] = set()
    waiting = [v.node for v in wanted]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [] if node in given else [a.node for a in body.args(node)]
    return found


def subgraph_of(body: Graph, given: Mapping[int, str], wanted: Sequence[Value]) -> Graph:
    """The body that computes values from nodes that are ``given``, each an input of this name."""
    graph, needed = Graph("body"), reached(body, wanted, given)
    known: dict[tuple[int, int], Value] = {}
    for number, node in body.nodes():
        if number not in needed:
            continue
        name = given.get(number) or (str(node.params["name"]) if node.primitive.name == "input" else None)
        if name is not None:
            known[number, 0] = graph.add_input(node.types[0], name)
        else:
            made = graph.add_record(node, tuple(known[a.node, a.output] for a in body.args(number)))
            known.update({(number, v.output): v for v in made})
    graph.set_outputs([known[v.node, v.output] for v in wanted])
    return graph
