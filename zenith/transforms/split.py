"""Splitting a graph into what can be computed now and what waits for inputs that come later.

``linearize`` and ``vjp`` compute a function's values at once and its tangents or cotangents when they are asked for.
The values that the later half needs of the earlier one are *residuals*, or are recomputed from them
(:mod:`zenith.transforms.residuals`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Node, Value
from zenith.transforms.residuals import ValueKey, choose_residuals, recomputed_operations, report_residuals, waiting


@dataclass(frozen=True, slots=True)
class Split:
    """``known`` takes the known inputs and returns the outputs that depend on them alone, then ``residuals`` more.

    ``unknown`` takes those residuals, then the inputs that come later, and returns the other outputs. ``waits`` says
    for each output of the whole graph whether ``unknown`` returns it.
    """

    known: Graph
    unknown: Graph
    residuals: int
    waits: tuple[bool, ...]
    recomputed: tuple[Node, ...]  # what the later half computes a second time

    @property
    def residual_values(self) -> tuple[Value, ...]:
        """The residuals, as values of ``known``."""
        return self.known.outputs[len(self.known.outputs) - self.residuals :]

    def merge(self, known: Sequence[object], unknown: Sequence[object] = ()) -> list[Any]:
        """The outputs of the whole graph in order, from those of both halves; None for those not yet known."""
        now, later = iter(known), iter(unknown)
        return [next(later, None) if wait else next(now) for wait in self.waits]


def split(
    graph: Graph,
    late: Sequence[bool],
    there: Iterable[Value] | None = None,
    same: Collection[int] | None = None,
    index: str = "",
) -> Split:
    """Split ``graph``; ``late`` says which inputs come later.

    Values that are ``there`` (by default the inputs and outputs) cost nothing to save. When both halves run in loops,
    ``same`` inputs (by number) are the same in all steps: values that depend on these alone cost nothing to recompute,
    since they leave the loop; no value is saved whose sizes contain the loop's ``index``. When both halves run in one
    program, optimization barriers prevent that recomputed nodes are merged with the first ones.
    """
    waits = waiting(graph, late)
    saved_anyway = (*graph.inputs, *graph.outputs) if there is None else there
    residuals, recomputed = choose_residuals(graph, waits, saved_anyway, same or (), index)
    known, moved = Graph(graph.name), dict[ValueKey, Value]()
    for value, is_late in zip(graph.inputs, late, strict=True):
        if not is_late:
            moved[value.node, 0] = known.add_input(value.type, graph.node(value.node).params["name"])
    copy_nodes(graph, known, moved, {number for number, _ in graph.nodes()} - waits)
    now = [(v.node, v.output) for v in graph.outputs if v.node not in waits]
    known.set_outputs(moved[key] for key in [*now, *residuals])
    unknown, moved = Graph(graph.name), {}
    for i, (node, output) in enumerate(residuals):
        moved[node, output] = unknown.add_input(graph.node(node).types[output], f"residual{i}")
    for value, is_late in zip(graph.inputs, late, strict=True):
        if is_late:
            moved[value.node, 0] = unknown.add_input(value.type, graph.node(value.node).params["name"])
    sources = {(a.node, a.output) for number in recomputed for a in graph.args(number)} & {*residuals}
    later = dict(moved)
    if same is None:
        later.update({key: Builder(unknown).optimization_barrier(moved[key]) for key in sorted(sources)})
    copy_nodes(graph, unknown, later, recomputed)
    moved.update({key: value for key, value in later.items() if key[0] in recomputed or key in sources})
    copy_nodes(graph, unknown, moved, waits)
    unknown.set_outputs(moved[v.node, v.output] for v in graph.outputs if v.node in waits)
    twice = tuple(graph.node(number) for number in sorted(recomputed) if recomputed_operations(graph.node(number)))
    return Split(known, unknown, len(residuals), tuple(v.node in waits for v in graph.outputs), twice)


def split_for_backward(graph: Graph, late: Sequence[bool], *options: Any) -> Split:
    """Split a derivative in reverse mode, and report residuals to the trace in progress: ``explain()`` shows them."""
    halves = split(graph, late, *options)
    report_residuals(
        graph.name, [(v.type, halves.known.node(v.node)) for v in halves.residual_values], halves.recomputed
    )
    return halves


def copy_nodes(graph: Graph, new: Graph, moved: dict[ValueKey, Value], nodes: set[int]) -> None:
    """Append some nodes to another graph; ``moved`` maps the values that they read, and then their results, to it."""
    builder = Builder(new)
    for number, node in graph.nodes():
        if number in nodes and node.primitive.name != "input":
            args = [moved[a.node, a.output] for a in graph.args(number)]
            results = builder.transplant(graph, node, args)
            moved.update({(number, i): value for i, value in enumerate(results)})
