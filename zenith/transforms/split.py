"""Splitting a graph into what can be computed now and what waits for inputs that come later.

``linearize`` and ``vjp`` compute a function's values at once and its tangents or cotangents when they are asked for.
What the later part needs of the earlier one is handed over as *residuals* or computed again from them
(:mod:`zenith.transforms.residuals`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Node, Value
from zenith.transforms.residuals import Allocation, choose_residuals, recomputed_operations, report_residuals, waiting


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
    again: tuple[Node, ...]  # what the later part computes a second time

    @property
    def kept(self) -> tuple[Value, ...]:
        """The residuals, as values of ``known``."""
        return self.known.outputs[len(self.known.outputs) - self.residuals :]

    def merge(self, known: Sequence[Any], unknown: Sequence[Any] = ()) -> list[Any]:
        """The outputs of the whole graph in order, from those of its parts; None for those that are not there yet."""
        now, later = iter(known), iter(unknown)
        return [next(later, None) if wait else next(now) for wait in self.waits]


def split(
    graph: Graph, late: Sequence[bool], there: Iterable[Value] | None = None, same: Collection[int] | None = None
) -> Split:
    """Split ``graph``; ``late`` says which inputs come later.

    Values that are ``there`` (by default the inputs and outputs) cost nothing to hand over. When the parts run in
    loops, ``same`` inputs (by number) are the same in all steps: what follows from these alone costs nothing to compute
    again, since it leaves the loop. When they run in one program, what is computed again is kept from being merged with
    what was computed before.
    """
    waits = waiting(graph, late)
    kept_anyway = (*graph.inputs, *graph.outputs) if there is None else there
    handed, again = choose_residuals(graph, waits, kept_anyway, same or ())
    known, moved = Graph(graph.name), dict[Allocation, Value]()
    for value, is_late in zip(graph.inputs, late, strict=True):
        if not is_late:
            moved[value.node, 0] = known.add_input(value.type, graph.node(value.node).params["name"])
    copy_nodes(graph, known, moved, {number for number, _ in graph.nodes()} - waits)
    now = [(v.node, v.output) for v in graph.outputs if v.node not in waits]
    known.set_outputs(moved[place] for place in [*now, *handed])
    unknown, moved = Graph(graph.name), {}
    for i, (node, output) in enumerate(handed):
        moved[node, output] = unknown.add_input(graph.node(node).types[output], f"kept{i}")
    for value, is_late in zip(graph.inputs, late, strict=True):
        if is_late:
            moved[value.node, 0] = unknown.add_input(value.type, graph.node(value.node).params["name"])
    sources = {(a.node, a.output) for number in again for a in graph.args(number)} & {*handed}
    later = dict(moved)
    if same is None:
        later.update({place: Builder(unknown).optimization_barrier(moved[place]) for place in sorted(sources)})
    copy_nodes(graph, unknown, later, again)
    moved.update({place: value for place, value in later.items() if place[0] in again or place in sources})
    copy_nodes(graph, unknown, moved, waits)
    unknown.set_outputs(moved[v.node, v.output] for v in graph.outputs if v.node in waits)
    twice = tuple(graph.node(number) for number in sorted(again) if recomputed_operations(graph.node(number)))
    return Split(known, unknown, len(handed), tuple(v.node in waits for v in graph.outputs), twice)


def split_for_backward(graph: Graph, late: Sequence[bool], *options: Any) -> Split:
    """Split a derivative in reverse mode, and tell the trace in progress what is kept: ``explain()`` shows it."""
    parts = split(graph, late, *options)
    report_residuals(graph.name, [(v.type, parts.known.node(v.node)) for v in parts.kept], parts.again)
    return parts


def copy_nodes(graph: Graph, new: Graph, moved: dict[Allocation, Value], nodes: set[int]) -> None:
    """Append some nodes to another graph; ``moved`` knows where the values are that they read, and what they give."""
    builder = Builder(new)
    for number, node in graph.nodes():
        if number in nodes and node.primitive.name != "input":
            args = [moved[a.node, a.output] for a in graph.args(number)]
            results = builder.transplant(graph, node, args)
            moved.update({(number, i): value for i, value in enumerate(results)})
