"""Selection in place of sorting: of rows that are sorted for a few of their elements, these alone are found.

A median needs two elements of a sorted row, and the last one, which tells whether there is nan; ``partition(x, k)[k]``
needs one. Finding some takes two readings of a row, sorting it one for each byte of an element, and writes. Short rows
are sorted in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zenith.ir.dims import dim, product
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import int64
from zenith.passes.rewrite import Rewriter, rebuild

MOST = 16  # elements that are selected from a row at most
LEAST = 2048  # elements of rows that are worth it


@dataclass(frozen=True, slots=True)
class _Reader:
    """A node that reads a few elements of sorted rows: a slice, or those that a vector of indices takes."""

    number: int
    node: Node
    count: int


def selection(graph: Graph) -> Graph:
    """The graph with such sorts replaced."""
    found = dict[int, Value]()  # by the number of a reader what replaces it

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.primitive.name == "sort":
            readers = _readers(graph, b.number)
            if readers:
                found.update(_selected(b, args[0], readers))
        return (found[b.number],) if b.number in found else None

    return rebuild(graph, visit, inner=selection)


def _readers(graph: Graph, number: int) -> list[_Reader]:
    """The readers of sorted rows; none where another node reads them, or they have too many elements."""
    size = graph.results(number)[0].shape[-1].static
    if graph.node(number).params["descending"] or (size is not None and size <= LEAST):
        return []
    users = {user for _, user, _ in graph.users(number)}
    if number in {v.node for v in graph.outputs} or not users:
        return []
    found = [_reader(graph, number, user) for user in sorted(users)]
    readers = [reader for reader in found if reader is not None]
    few = sum(reader.count for reader in readers) <= MOST
    return readers if few and len(readers) == len(found) else []


def _reader(graph: Graph, number: int, user: int) -> _Reader | None:
    """A node as a reader of rows that ``number`` sorts."""
    node, args = graph.node(user), graph.args(user)
    if args[0] != graph.results(number)[0] or any(a.node == number for a in args[1:]):
        return None
    if node.primitive.name == "slice":
        (shape,) = (value.shape for value in graph.results(user))
        whole = all(shape[a] == n for a, n in enumerate(args[0].shape[:-1]))
        count = shape[-1].static
        return _Reader(user, node, count) if whole and count else None  # one that reads nothing asks for no ranks
    if node.primitive.name != "take" or node.params["axis"] != len(args[0].shape) - 1:
        return None
    count = product(args[1].shape).static
    late = number in graph.ancestors([args[1].node])
    return None if late or not count else _Reader(user, node, count)


def _selected(b: Rewriter, x: Value, readers: Sequence[_Reader]) -> dict[int, Value]:
    """What replaces each reader: its part of the elements that all of them read."""
    copies = dict[int, tuple[Value, ...]]()
    elements = b.order_statistics(x, b.concat(*(_ranks(b, reader, copies) for reader in readers), axis=0))
    lead, first = x.shape[:-1], dim(0)
    found = dict[int, Value]()
    for reader in readers:
        start, stop = (*[dim(0)] * len(lead), first), (*lead, first + reader.count)
        part = b.slice(elements, start=start, stop=stop, step=(1,) * len(start))
        found[reader.number] = b.reshape(part, shape=b.old.results(reader.number)[0].shape)
        first += reader.count
    return found


def _ranks(b: Rewriter, reader: _Reader, copies: dict[int, tuple[Value, ...]]) -> Value:
    """The ranks that a reader reads, a vector of int64."""
    if reader.node.primitive.name == "take":
        indices = b.copy_in_front(b.old.args(reader.number)[1], copies)
        return b.reshape(b.cast(indices, dtype=int64), shape=(reader.count,))
    start, step = reader.node.params["start"][-1], reader.node.params["step"][-1]
    numbers = (b.size(value=start + i * step) for i in range(reader.count))
    return b.concat(*(b.reshape(n, shape=(1,)) for n in numbers), axis=0)
