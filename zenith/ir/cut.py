"""Keeping or computing again: the cheapest set of values from which others follow.

What one part of a program reads of an earlier one can be kept, which costs memory traffic, or computed again from other
values that are kept, which costs operations. The cheapest choice is a minimum cut of a network that has an edge for
each (L. R. Ford and D. R. Fulkerson, Maximal flow through a network, Canadian Journal of Mathematics 8, 1956).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def cheapest_cut(
    wanted: Iterable[T], keep: Mapping[T, int], again: Mapping[T, int], reads: Mapping[T, Sequence[T]]
) -> set[T]:
    """The values to keep, so that the ``wanted`` ones can be computed from them at the least cost in all.

    ``keep`` is the cost of keeping a value, ``again`` that of computing it from the values that it ``reads``; a value
    without the latter must be kept if it is needed. Of equally cheap choices, the one that computes less again.

    >>> cheapest_cut(["c"], {"a": 2, "b": 8, "c": 8}, {"b": 1, "c": 1}, {"b": ["a"], "c": ["b"]})
    {'a'}
    >>> cheapest_cut(["c"], {"a": 2, "b": 8, "c": 8}, {"b": 1, "c": 20}, {"b": ["a"], "c": ["b"]})
    {'c'}
    """
    import networkx as nx

    network = nx.DiGraph()
    seen = set(wanted)
    for value in seen:
        network.add_edge((value, "out"), "read")
    pending = sorted(seen, key=str)
    while pending:
        value = pending.pop()
        network.add_edge((value, "in"), (value, "out"), capacity=keep[value])
        network.add_edge("made", (value, "in"), **({"capacity": again[value]} if value in again else {}))
        for source in reads[value] if value in again else ():
            network.add_edge((source, "out"), (value, "in"))
            if source not in seen:
                seen.add(source)
                pending.append(source)
    if not seen:
        return set()
    _, (_, behind) = nx.minimum_cut(network, "made", "read")
    return {value for value in seen if (value, "out") in behind and (value, "in") not in behind}
