"""Copies of graphs under another view: symbols as numbers, one node broken."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from zenith.ir import params as params_
from zenith.ir.graph import Graph, Value
from zenith.ir.guards import Guard
from zenith.ir.retype import retyped
from zenith.ir.types import ArrayType, Type


def specialize(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """The program for one choice of sizes: every symbol is replaced by its number."""

    def change_type(type: Type) -> Type:
        return type.with_shape([s.substitute(sizes) for s in type.shape]) if isinstance(type, ArrayType) else type

    copy = retyped(graph, change_type, lambda a: a, lambda p, values: params_.substitute(p.params, values, sizes))
    copy.guards = tuple(
        Guard(g.kind, g.left.substitute(sizes), g.relation, g.right.substitute(sizes), g.reason, g.line)
        for g in graph.guards
    )
    return copy


def damaged(graph: Graph, number: int, args: Sequence[Value] | None = None, **changes: Any) -> Graph:
    """The graph with other arguments or another record for one node, whether that makes sense or not."""
    copy = graph.beginning(number)
    for n in range(number, len(graph)):
        node = dataclasses.replace(graph.node(n), **(changes if n == number else {}))
        copy.add_record(node, tuple(args) if n == number and args is not None else graph.args(n))
    copy.inputs, copy.constants = list(graph.inputs), graph.constants
    copy.set_outputs(graph.outputs)
    return copy
