"""Traces inside traces: a function as a closed graph, and a graph's nodes recorded where the trace stands.

A transform of a function (a derivative, a batched version) traces it into a graph of its own, makes another graph of
that, and *replays* the result: in the trace around it when there is one, else at once, with NumPy. So transforms nest
in each other and in ``jit`` to any depth, and what a function takes from the trace around it becomes an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Value
from zenith.ir.interpret import interpret
from zenith.ir.types import ArrayType
from zenith.trace.bind import graph_value
from zenith.trace.recorder import Recorder, current_recorder, recording
from zenith.trace.tracer import Tracer, is_weak
from zenith.trace.tracing import call_user, output_value


@dataclass(frozen=True, slots=True)
class Inner:
    """A function as a graph; its inputs are the function's own arguments and behind them what it ``captured``."""

    graph: Graph
    captured: tuple[Tracer, ...]
    outputs_weak: tuple[bool, ...]


def trace_inner(
    function: Callable[..., Sequence[Any]], types: Sequence[ArrayType], weak: Sequence[bool], name: str
) -> Inner:
    """The graph of ``function``, which takes arrays of ``types`` and returns a flat sequence of arrays.

    ``weak`` says of each argument whether it is a Python number. Raises TraceError as :func:`~zenith.trace.trace` does.
    """
    import zenith.numpy  # noqa: F401  fills the tables that tracers ask

    recorder = Recorder(name, (), current_recorder())
    with recording(recorder):
        inputs = [recorder.graph.add_input(type, f"x{i}") for i, type in enumerate(types)]
        outputs = call_user(function, [Tracer(recorder, v, w) for v, w in zip(inputs, weak, strict=True)])
        results = [output_value(recorder, output) for output in outputs]
    recorder.graph.set_outputs(results)
    captured = tuple(tracer for tracer, _ in recorder.captured.values())
    return Inner(recorder.graph, captured, tuple(map(is_weak, outputs)))


def replay(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """The results of ``graph`` on arrays: recorded when one of them is traced, computed at once otherwise."""
    recorder = current_recorder()
    if recorder is None or not (any(isinstance(a, Tracer) for a in args) or graph.symbols()):
        arrays = [np.asarray(a) for a in args]
        return interpret(graph, *arrays)
    values = [graph_value(recorder, a) for a in args]
    return [Tracer(recorder, v) for v in _record(recorder, graph, values)]


def _record(recorder: Recorder, graph: Graph, args: Sequence[Value]) -> list[Value]:
    """Append the nodes with their own lines; effects join the chain of the trace."""
    builder = Builder(recorder.graph)
    moved: dict[tuple[int, int], Value] = {(v.node, 0): a for v, a in zip(graph.inputs, args, strict=True)}
    for number, node in graph.nodes():
        if node.primitive.name in ("input", "token"):
            continue
        if node.primitive.effect:
            operands = [moved[a.node, a.output] for a in graph.args(number)[1:]]
            results = (None, *recorder.add(node.primitive, operands, node.params))
        else:
            operands = [moved[a.node, a.output] for a in graph.args(number)]
            results = builder.transplant(graph, node, operands)
        moved.update({(number, i): value for i, value in enumerate(results) if value is not None})
    return [moved[v.node, v.output] for v in graph.outputs]
