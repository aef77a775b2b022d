"""Splitting a graph into what can be computed now and what waits for inputs that come later.

``linearize`` and ``vjp`` compute a function's values at once and its tangents or cotangents when they are asked for.
What the later part needs of the earlier one is handed over as *residuals*; numbers and places are made again instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Data

Place = tuple[int, int]
_MADE_AGAIN = frozenset({"broadcast", "iota", "size"})


@dataclass(frozen=True, slots=True)
class Split:
    """``known`` takes the inputs that are there and gives the outputs that follow from them, then ``residuals`` more.

    ``unknown`` takes those residuals, then the inputs that come later, and gives the other outputs. ``waits`` says of
    each output of the whole graph which of the two gives it.
    """

    known: Graph
    unknown: Graph
    residuals: int
    waits: tuple[bool, ...]

    def merge(self, known: Sequence[Any], unknown: Sequence[Any] = ()) -> list[Any]:
        """The outputs of the whole graph in order, from those of its parts; None for those that are not there yet."""
        now, later = iter(known), iter(unknown)
        return [next(later, None) if wait else next(now) for wait in self.waits]


def split(graph: Graph, late: Sequence[bool]) -> Split:
    """Split ``graph``; ``late`` says which inputs come later."""
    waiting = _waiting(graph, late)
    again = _made_again(graph, waiting)
    handed = _handed_over(graph, waiting, again)
    known, moved = Graph(graph.name), dict[Place, Value]()
    for value, is_late in zip(graph.inputs, late, strict=True):
        if not is_late:
            moved[value.node, 0] = known.add_input(value.type, graph.node(value.node).params["name"])
    _copy(graph, known, moved, {number for number, _ in graph.nodes()} - waiting)
    now = [(v.node, v.output) for v in graph.outputs if v.node not in waiting]
    known.set_outputs(moved[place] for place in [*now, *handed])
    unknown, moved = Graph(graph.name), {}
    for i, (node, output) in enumerate(handed):
        moved[node, output] = unknown.add_input(graph.node(node).types[output], f"kept{i}")
    for value, is_late in zip(graph.inputs, late, strict=True):
        if is_late:
            moved[value.node, 0] = unknown.add_input(value.type, graph.node(value.node).params["name"])
    _copy(graph, unknown, moved, waiting | again)
    unknown.set_outputs(moved[v.node, v.output] for v in graph.outputs if v.node in waiting)
    return Split(known, unknown, len(handed), tuple(v.node in waiting for v in graph.outputs))


def _waiting(graph: Graph, late: Sequence[bool]) -> set[int]:
    """The nodes that depend on a late input, these included."""
    found = {v.node for v, is_late in zip(graph.inputs, late, strict=True) if is_late}
    for number, _ in graph.nodes():
        if any(a.node in found for a in graph.args(number)):
            found.add(number)
    return found


def _made_again(graph: Graph, waiting: set[int]) -> set[int]:
    """Nodes that stand for numbers and places: made of nothing but themselves."""
    found: set[int] = set()
    for number, node in graph.nodes():
        data = isinstance(node.primitive.lowering, Data) and node.primitive.name != "input"
        cheap = data or node.primitive.name in _MADE_AGAIN
        if number not in waiting and cheap and all(a.node in found for a in graph.args(number)):
            found.add(number)
    return found


def _handed_over(graph: Graph, waiting: set[int], again: set[int]) -> list[Place]:
    """The values that waiting nodes read of the others, in program order."""
    read = {(a.node, a.output) for number in waiting for a in graph.args(number)}
    return sorted(place for place in read if place[0] not in waiting | again)


def _copy(graph: Graph, new: Graph, moved: dict[Place, Value], nodes: set[int]) -> None:
    builder = Builder(new)
    for number, node in graph.nodes():
        if number in nodes and node.primitive.name != "input":
            args = [moved[a.node, a.output] for a in graph.args(number)]
            results = builder.transplant(graph, node, args)
            moved.update({(number, i): value for i, value in enumerate(results)})
