"""Save or recompute: the cheapest set of values to save so that others can be computed from them.

A value that a program computes early and reads late can be saved, which costs memory traffic, or recomputed from other
saved values, which costs operations. The cheapest choice is a minimum cut of a network that has an edge for
each (L. R. Ford and D. R. Fulkerson, Maximal flow through a network, Canadian Journal of Mathematics 8, 1956).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def cheapest_cut(
    wanted: Iterable[T], save: Mapping[T, int], recompute: Mapping[T, int], reads: Mapping[T, Sequence[T]]
) -> set[T]:
    """The values to save, so that the ``wanted`` ones can be computed from them at the least total cost.

    ``save`` is the cost of saving a value, ``recompute`` that of computing it from the values that it ``reads``; one
    without the latter must be saved if it is needed, one without the former recomputed. Of equally cheap choices, the
    one that recomputes less.

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
        network.add_edge((value, "in"), (value, "out"), **({"capacity": save[value]} if value in save else {}))
        network.add_edge("made", (value, "in"), **({"capacity": recompute[value]} if value in recompute else {}))
        for source in reads[value] if value in recompute else ():
            network.add_edge((source, "out"), (value, "in"))
            if source not in seen:
                seen.add(source)
                pending.append(source)
    if not seen:
        return set()
    _, (_, sinks) = nx.minimum_cut(network, "made", "read")
    return {value for value in seen if (value, "out") in sinks and (value, "in") not in sinks}
