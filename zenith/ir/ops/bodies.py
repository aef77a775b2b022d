"""Bodies of loops and branches that rules make, and the lists of values that these take and give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from zenith.ir.builder import SubgraphBuilder, Values
from zenith.ir.graph import Graph, Value
from zenith.ir.types import Type

T = TypeVar("T")


def subgraph(
    b: SubgraphBuilder, name: str, types: Sequence[Type], write: Callable[[SubgraphBuilder, list[Value]], Values]
) -> Graph:
    """The graph of ``write(builder, inputs)`` for inputs of these types."""
    graph = Graph(name)
    inputs = [graph.add_input(type, f"a{i}") for i, type in enumerate(types)]
    graph.set_outputs(write(b.on(graph), inputs))
    return graph


def divided(values: Sequence[T], *counts: int) -> list[list[T]]:
    """Values cut into runs of these lengths, and the rest."""
    found, rest = [], list(values)
    for count in counts:
        found.append(rest[:count])
        rest = rest[count:]
    return [*found, rest]


def chosen(values: Sequence[T | None], flags: Sequence[bool]) -> list[T]:
    """The values where ``flags`` are true, of which none is None there."""
    return [cast(T, v) for v, flag in zip(values, flags, strict=True) if flag]


def or_none(flags: Sequence[bool], values: Values) -> list[Value | None]:
    """The values in order where ``flags`` are true, None elsewhere."""
    found = iter(values)
    return [next(found) if flag else None for flag in flags]
