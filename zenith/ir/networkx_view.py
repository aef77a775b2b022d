"""A graph as NetworkX sees it: a ``MultiDiGraph`` whose dictionaries are views of what the graph stores.

Nothing is copied: a view is made in microseconds, and nodes that are added later are in it. NetworkX's algorithms read
it as they read any graph; what would change it raises ``networkx.NetworkXError``, as a frozen graph does. ``copy()`` is
an ordinary ``MultiDiGraph`` that can be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx

if TYPE_CHECKING:
    from zenith.ir.graph import Graph

Edges = Mapping[int, Mapping[str, int]]  # the edges from one node to another by key, 0, 1, ...


class GraphView(nx.MultiDiGraph):  # type: ignore[misc]  # NetworkX has no types
    """Nodes by number, with their ``record``; edges with the ``output`` and the ``argument`` that they join."""

    def __init__(self, graph: Graph | None = None, **attributes: Any) -> None:
        super().__init__(**attributes)  # NetworkX makes empty ones for views of this one
        if graph is not None:
            self._node = _Nodes(graph)
            self._adj = _Neighbours(graph, _readers)
            self._pred = _Neighbours(graph, _operands)
            nx.freeze(self)

    def copy(self, as_view: bool = False) -> nx.MultiDiGraph:
        """An ordinary NetworkX graph of the same nodes and edges; with ``as_view`` NetworkX's view of this one."""
        return super().copy(as_view=True) if as_view else nx.MultiDiGraph(self)


class _Nodes(Mapping[int, Mapping[str, Any]]):
    """By number each node's attributes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __getitem__(self, number: int) -> Mapping[str, Any]:
        if number not in self:
            raise KeyError(number)
        return {"record": self._graph.node(number)}

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and 0 <= number < len(self._graph)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._graph)))

    def __len__(self) -> int:
        return len(self._graph)


class _Neighbours(Mapping[int, Mapping[int, Edges]]):
    """By number the nodes that ``find`` gives for a node, with the edges between the two."""

    def __init__(self, graph: Graph, find: Callable[[Graph, int], Mapping[int, Edges]]) -> None:
        self._graph, self._find = graph, find

    def __getitem__(self, number: int) -> Mapping[int, Edges]:
        if number not in self:
            raise KeyError(number)
        return self._find(self._graph, number)

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and 0 <= number < len(self._graph)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._graph)))

    def __len__(self) -> int:
        return len(self._graph)


def _operands(graph: Graph, number: int) -> Mapping[int, Edges]:
    """The nodes that a node reads, with its edges in the order of its arguments."""
    found: dict[int, dict[int, dict[str, int]]] = {}
    for argument, (node, output, _) in enumerate(graph.args(number)):
        edges = found.setdefault(node, {})
        edges[len(edges)] = {"output": output, "argument": argument}
    return found


def _readers(graph: Graph, number: int) -> Mapping[int, Edges]:
    """The nodes that read a node, with their edges in the order of their arguments."""
    found: dict[int, dict[int, dict[str, int]]] = {}
    for user, argument, output in sorted([(u, a, o) for o, u, a in graph.users(number)]):
        edges = found.setdefault(user, {})
        edges[len(edges)] = {"output": output, "argument": argument}
    return found
