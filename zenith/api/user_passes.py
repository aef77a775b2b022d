"""Passes that users write: functions from graph to graph, which ``jit`` runs on a traced graph, before its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from zenith.errors import ValueTypeError, user_line
from zenith.ir.graph import Graph
from zenith.passes.pipeline import Pass, verify_after
from zenith.trace import TraceResult


def checked(passes: Iterable[Pass]) -> tuple[Pass, ...]:
    """The passes; ValueTypeError for anything but functions."""
    if not isinstance(passes, Iterable):
        raise _no_passes(f"passes is a {type(passes).__name__}")
    found = tuple(passes)
    for step in found:
        if not callable(step) or isinstance(step, type):
            raise _no_passes(f"passes has a {type(step).__name__}, and a pass is a function from graph to graph")
    return found


def _no_passes(what: str) -> ValueTypeError:
    return ValueTypeError(what, where=user_line(), fix="give a list of functions: jit(f, passes=[simplified])")


def apply(passes: Sequence[Pass], traced: TraceResult) -> TraceResult:
    """A trace whose graph went through all passes, each result of which is verified.

    Raises ValueTypeError for a result that is no graph or has other inputs or results than the traced one, and
    VerifyError for a malformed graph; both name the pass.
    """
    face = _face(traced.graph)  # before a pass that changes it in place
    for step in passes:
        name = getattr(step, "__name__", type(step).__name__)
        graph = step(traced.graph)
        if not isinstance(graph, Graph):
            raise ValueTypeError(f"the pass {name} returned a {type(graph).__name__}, not a graph",
                                 fix="return a zenith.ir.graph.Graph, the given one where nothing changes")  # fmt: skip
        verify_after(name, graph)
        if _face(graph) != face:
            raise ValueTypeError(f"the pass {name} changed the inputs or the types of the results: a program has those "
                                 "of its function", fix="keep inputs, their order, and the results' types")  # fmt: skip
        traced = replace(traced, graph=graph)
    return traced


def _face(graph: Graph) -> tuple[object, object]:
    inputs = [(graph.node(value.node).params["name"], value.type) for value in graph.inputs]
    return inputs, [value.type for value in graph.outputs]
