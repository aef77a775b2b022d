"""A graph as NetworkX sees it: a ``MultiDiGraph`` whose dictionaries are views of what the graph stores.

Nothing is copied: a view is made in microseconds, finds a node's neighbours when it is first asked for them, and has
nodes that are added later. NetworkX's algorithms read it as they read any graph. Changing nodes or edges raises
``networkx.NetworkXError``, as in a frozen graph, and changing their attributes TypeError; ``copy()`` is an ordinary
``MultiDiGraph`` that can be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeVar

import networkx as nx

if TYPE_CHECKING:
    from zenith.ir.graph import Graph

Found = TypeVar("Found")
Edges = Mapping[int, Mapping[str, Any]]  # the edges from one node to another by key, 0, 1, ...


class GraphView(nx.MultiDiGraph):  # type: ignore[misc]  # NetworkX has no types
    """Nodes by number, with their ``record``; edges with the ``output`` and the ``argument`` that they join."""

    def __init__(self, graph: Graph | None = None, **attributes: Any) -> None:
        super().__init__(**attributes)  # NetworkX makes empty ones for views of this one
        if graph is not None:
            self._node = _ByNumber(graph, _attributes)
            self._adj = _ByNumber(graph, _readers)
            self._pred = _ByNumber(graph, _operands)
            nx.freeze(self)

    def copy(self, as_view: bool = False) -> nx.MultiDiGraph:
        """An ordinary NetworkX graph of the same nodes and edges; with ``as_view`` NetworkX's view of this one."""
        return super().copy(as_view=True) if as_view else nx.MultiDiGraph(self)


class _Attributes(dict[str, Any]):
    """Attributes of a node or an edge, which cannot be changed; copies of them are ordinary dictionaries."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("attributes of a graph's nodes and edges cannot be changed: copy() the graph")

    __setitem__ = __delitem__ = update = setdefault = pop = popitem = clear = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return dict(self)


class _ByNumber(Mapping[int, Found]):
    """What ``find`` gives for the nodes of a graph; found once, until the graph gets more nodes."""

    def __init__(self, graph: Graph, find: Callable[[Graph, int], Found]) -> None:
        self._graph, self._find = graph, find
        self._found: dict[int, Found] = {}
        self._length = 0

    def __getitem__(self, number: int) -> Found:
        if self._length != len(self._graph):
            self._found, self._length = {}, len(self._graph)
        if number not in self._found:
            if number not in self:
                raise KeyError(number)
            self._found[number] = self._find(self._graph, number)
        return self._found[number]

    def __contains__(self, number: object) -> bool:
        return isinstance(number, SupportsIndex) and 0 <= index(number) < len(self._graph)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._graph)))

    def __len__(self) -> int:
        return len(self._graph)


def _attributes(graph: Graph, number: int) -> Mapping[str, Any]:
    """A node's attributes."""
    return _Attributes({"record": graph.node(number)})


def _operands(graph: Graph, number: int) -> Mapping[int, Edges]:
    """The nodes that a node reads, with its edges in the order of its arguments."""
    found: dict[int, dict[int, Mapping[str, Any]]] = {}
    for argument, (node, output, _) in enumerate(graph.args(number)):
        edges = found.setdefault(node, {})
        edges[len(edges)] = _Attributes({"output": output, "argument": argument})
    return found


def _readers(graph: Graph, number: int) -> Mapping[int, Edges]:
    """The nodes that read a node, with their edges in the order of their arguments."""
    found: dict[int, dict[int, Mapping[str, Any]]] = {}
    for user, argument, output in sorted([(u, a, o) for o, u, a in graph.users(number)]):
        edges = found.setdefault(user, {})
        edges[len(edges)] = _Attributes({"output": output, "argument": argument})
    return found
