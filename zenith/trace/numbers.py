"""Numbers that follow from sizes alone, ``0.8 * n`` or ``n / 2 > 1``: Python may ask for them while tracing."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.ir import params as params_
from zenith.ir.graph import Graph, Node
from zenith.ir.primitive import Interpreted
from zenith.ir.types import ArrayType
from zenith.trace.recorder import Recorder

_MOST = 64  # operations that such a number may take


def number_of_sizes(recorder: Recorder, node: int, output: int) -> Any:
    """The number that a node computes in this call, for whose sizes the trace is specialised; else None."""
    order = _made_of_sizes(recorder.graph, node)
    if order is None:
        return None
    graph = recorder.graph
    values: dict[int, tuple[Any, ...]] = {}
    for number in order:
        found = graph.node(number)
        if found.primitive.name == "size":
            values[number] = (np.asarray(recorder.specialize(found.params["value"])),)
        elif found.primitive.name == "constant":
            values[number] = (graph.stored(found),)
        else:
            args = [values[a.node][a.output] for a in graph.args(number)]
            params = params_.evaluate(found.primitive.params, found.params, recorder.hints)
            values[number] = tuple(map(np.asarray, found.primitive.evaluate(args, params)))
    return values[node][output][()]


def _made_of_sizes(graph: Graph, node: int) -> list[int] | None:
    """The nodes that one follows from, in order; None where one of them needs an argument's values."""
    found, rest = {node}, [node]
    while rest:
        number = rest.pop()
        if len(found) > _MOST or not _is_plain(graph.node(number)):
            return None
        before = {a.node for a in graph.args(number)} - found
        found |= before
        rest += before
    return sorted(found)


def _is_plain(node: Node) -> bool:
    plain = node.primitive.name not in ("input", "weight") and not node.primitive.effect
    return (
        plain
        and not isinstance(node.primitive.evaluate, Interpreted)
        and all(isinstance(t, ArrayType) and not t.shape for t in node.types)
    )
