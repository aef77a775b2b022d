"""Topological order of units that depend on each other, the first of those that are ready by a priority.

The algorithm is A. B. Kahn's (Topological sorting of large networks, Communications of the ACM 5, 1962) with a heap, as
in ``networkx.lexicographical_topological_sort``, whose import takes a third of a second of a first compilation.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def by_priority(dependencies: Mapping[T, Collection[T]], priority: Callable[[T], Any]) -> Iterator[T]:
    """Units after all of their dependencies, the least by priority first; those on a cycle and after one are absent.

    Priorities are compared when all dependencies of a unit were yielded; of equal ones, the units decide.

    >>> list(by_priority({"a": {"b"}, "b": (), "c": ()}, {"a": 1, "b": 2, "c": 3}.__getitem__))
    ['b', 'a', 'c']
    """
    missing = {unit: len(needed) for unit, needed in dependencies.items()}
    readers: dict[T, list[T]] = {unit: [] for unit in dependencies}
    for unit, needed in dependencies.items():
        for other in needed:
            readers[other].append(unit)
    ready = [(priority(unit), unit) for unit, count in missing.items() if not count]
    heapq.heapify(ready)
    while ready:
        _, unit = heapq.heappop(ready)
        yield unit
        for reader in readers[unit]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (priority(reader), reader))
