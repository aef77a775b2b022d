"""The Graph: a dataflow program, stored as lists, and a NetworkX MultiDiGraph to whoever reads it.

Nodes are integers. By number a graph has a frozen :class:`Node` record (primitive, parameters, result types, source
line) and the :class:`Value` tuples that are the node's arguments, in order. A graph is built front to back: an argument
exists before it is used, hence the numbers are a topological order. Passes never change a graph, they build a new one;
one that changes little shares the records and tuples in front of the first change.

As a dataflow graph, :attr:`Graph.networkx`, the record is a node's attribute, and an edge carries ``(output,
argument)``: which result of its source feeds which argument of its target. So ``x * x`` has two edges, and nodes may
have several outputs. That is a view, which NetworkX's algorithms read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zenith.errors import SourceLine
from zenith.ir import params as params_
from zenith.ir.dims import Dim
from zenith.ir.guards import Guard
from zenith.ir.primitive import Params, Primitive, get
from zenith.ir.types import ArrayType, DType, NDArray, Type, dtype_of

if TYPE_CHECKING:
    import networkx as nx


class Value(NamedTuple):
    """One result of one node, with its type."""

    node: int
    output: int
    type: Type

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The symbolic shape of an array value."""
        assert isinstance(self.type, ArrayType)
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The element type of an array value."""
        assert isinstance(self.type, ArrayType)
        return self.type.dtype

    def __hash__(self) -> int:  # the type follows from the rest
        return hash(self[:2])


@dataclass(frozen=True, slots=True)
class Node:
    """The operation of a node. ``line`` does not take part in equality."""

    primitive: Primitive
    params: Params
    types: tuple[Type, ...]
    line: SourceLine | None = field(compare=False)
    _text: str | None = field(default=None, init=False, compare=False, repr=False)
    _symbols: frozenset[str] | None = field(default=None, init=False, compare=False, repr=False)
    _digest: bytes | None = field(default=None, init=False, compare=False, repr=False)
    _effect: bool | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def params_text(self) -> str:
        """The canonical text of the parameters but for subgraphs, made once."""
        text = self._text
        if text is None:
            text = params_.text(self.primitive.params, self.params)
            object.__setattr__(self, "_text", text)
        return text

    @property
    def digest(self) -> bytes:
        """The same for nodes with equal parameters and subgraphs, found once."""
        if self._digest is None:
            digest = hashlib.blake2b(f"{self.primitive.name}({self.params_text})".encode(), digest_size=16)
            for body in self.bodies:
                digest.update(body.digest())
            object.__setattr__(self, "_digest", digest.digest())
        assert self._digest is not None
        return self._digest

    @property
    def lines(self) -> tuple[SourceLine, ...]:
        """The user's line, where one is known."""
        return () if self.line is None else (self.line,)

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """The subgraphs among the parameters, in order."""
        if not self.primitive.subgraphs:
            return ()
        found: list[Graph] = []
        for name in self.primitive.subgraphs:
            value = self.params[name]
            found += [value] if isinstance(value, Graph) else value
        return tuple(found)

    @property
    def has_effect(self) -> bool:
        """Whether it, or anything in its subgraphs, must happen even if nobody reads its results; found once."""
        found = self._effect
        if found is None:
            inside = (node.has_effect for body in self.bodies for _, node in body.nodes())
            found = self.primitive.effect or any(inside)
            object.__setattr__(self, "_effect", found)
        return found

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols of the sizes in the result types and parameters, and in those of all nodes in subgraphs."""
        if self._symbols is None:
            object.__setattr__(self, "_symbols", frozenset(self._found_symbols()))
        assert self._symbols is not None
        return self._symbols

    def _found_symbols(self) -> set[str]:
        found = params_.symbols(self.primitive.params, self.params)
        for type in self.types:
            if isinstance(type, ArrayType):
                found.update(*(size.symbols() for size in type.shape))
        for body in self.bodies:
            found.update(*(node.symbols for _, node in body.nodes()))
        return found

    def with_bodies(self, change: Callable[[Graph], Graph]) -> Node:
        """The same node with every subgraph changed; itself when none does."""
        if not self.primitive.subgraphs:
            return self
        params = dict(self.params)
        for name in self.primitive.subgraphs:
            value = self.params[name]
            params[name] = change(value) if isinstance(value, Graph) else tuple(map(change, value))
        record = Node(self.primitive, params, self.types, self.line)
        same = all(a is b for a, b in zip(record.bodies, self.bodies, strict=True))
        return self if same else record


class Graph:
    """A pure program from inputs to outputs.

    >>> from zenith.ir.types import float32
    >>> g = Graph("double")
    >>> x = g.add_input(ArrayType(float32, ()), "x")
    >>> (y,) = g.add(get("add"), (x, x))
    >>> g.set_outputs((y,))
    >>> print(g)
    def double(x: f32) -> (f32):
        v1 = add(x, x)
        return (v1,)
    """

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.outputs: tuple[Value, ...] = ()
        self.constants: dict[str, NDArray] = {}
        self.weights: dict[str, NDArray] = {}  # one table, shared by a graph and those derived from it
        self.guards: tuple[Guard, ...] = ()
        self._records: list[Node] = []
        self._args: list[tuple[Value, ...]] = []
        self._results: list[tuple[Value, ...]] = []
        self._users: list[tuple[tuple[int, int, int], ...]] = []  # of as many nodes as there were at the last query

    def add_input(self, type: Type, name: str, line: SourceLine | None = None) -> Value:
        """Append an input; names are identifiers, unique within the graph."""
        (value,) = self.add_record(Node(get("input"), {"name": name}, (type,), line), ())
        self.inputs.append(value)
        return value

    def add(
        self,
        primitive: Primitive,
        args: Iterable[Value],
        params: Params | None = None,
        line: SourceLine | None = None,
    ) -> tuple[Value, ...]:
        """Append a node after its arguments and return its results; raises ZenithError when types do not fit."""
        args = tuple(args)
        normal = params_.normalize(primitive.params, params or {})
        types = primitive.typing([a.type for a in args], normal)
        return self.add_record(Node(primitive, normal, types, line), args)

    def add_record(self, record: Node, args: tuple[Value, ...]) -> tuple[Value, ...]:
        """Append a record as it is, on arguments of the types it was typed for: a copy from another graph."""
        number = len(self._records)
        results = tuple([Value(number, i, t) for i, t in enumerate(record.types)])
        self._records.append(record)
        self._args.append(args)
        self._results.append(results)
        return results

    def beginning(self, count: int) -> Graph:
        """A new graph of the first ``count`` nodes and their constants, without outputs, to add others to."""
        new = Graph(self.name)
        new._records, new._args, new._results = self._records[:count], self._args[:count], self._results[:count]
        new.inputs = [value for value in self.inputs if value.node < count]
        new.guards, new.weights = self.guards, self.weights
        for node in new._records if self.constants else ():
            if node.primitive.name == "constant" and stored_name(node) in self.constants:
                new.constants[stored_name(node)] = self.constants[stored_name(node)]
        return new

    def add_constant(self, array: NDArray, line: SourceLine | None = None) -> Value:
        """Append an array of the program, of which a snapshot is taken; equal contents are stored once."""
        frozen = np.array(array, order="C", copy=True)
        frozen.setflags(write=False)
        dtype = dtype_of(frozen.dtype)
        assert dtype is not None, f"no element type for {frozen.dtype}"
        key = content_hash(frozen)
        self.constants.setdefault(key, frozen)
        return self.add(get("constant"), (), {"id": key, "dtype": dtype, "shape": frozen.shape}, line)[0]

    def add_weight(self, name: str, array: NDArray, line: SourceLine | None = None) -> Value:
        """Append an array that is known by its name: a reference, whose contents are not in the program's text."""
        dtype = dtype_of(array.dtype)
        assert dtype is not None, f"no element type for {array.dtype}"
        self.weights[name] = array
        return self.add(get("weight"), (), {"name": name, "dtype": dtype, "shape": array.shape}, line)[0]

    def stored(self, node: Node) -> NDArray | None:
        """The array of a constant or a weight; None when it is not stored with the graph."""
        table = self.weights if node.primitive.name == "weight" else self.constants
        return table.get(stored_name(node))

    def set_outputs(self, outputs: Iterable[Value]) -> None:
        """Set the values that the program returns."""
        self.outputs = tuple(outputs)

    def node(self, number: int) -> Node:
        """The record of a node."""
        return self._records[number]

    def nodes(self) -> Iterator[tuple[int, Node]]:
        """All nodes in topological order, inputs included; not those that are added meanwhile."""
        return enumerate(tuple(self._records))

    def walk(self) -> Iterator[Node]:
        """Every record, those of subgraphs after the node that has them."""
        pending = [self.nodes()]
        while pending:
            for _, node in pending[-1]:
                yield node
                if node.primitive.subgraphs:
                    pending += [body.nodes() for body in reversed(node.bodies)]
                    break
            else:
                pending.pop()

    def digest(self) -> bytes:
        """The same for graphs of equal nodes, with equal arguments and outputs."""
        digest = hashlib.blake2b(digest_size=16)
        for number, node in self.nodes():
            args = [(a.node, a.output) for a in self._args[number]]
            digest.update(node.digest + f"{args} {', '.join(map(str, node.types))};".encode())
        digest.update(str([(v.node, v.output) for v in self.outputs]).encode())
        return digest.digest()

    def args(self, number: int) -> tuple[Value, ...]:
        """The arguments of a node, in order."""
        return self._args[number]

    def results(self, number: int) -> tuple[Value, ...]:
        """The results of a node, in order."""
        return self._results[number]

    def users(self, number: int) -> tuple[tuple[int, int, int], ...]:
        """Who reads a node: ``(output, user, argument)`` in order."""
        if len(self._users) < len(self):  # nodes were added since the last query
            users: list[list[tuple[int, int, int]]] = [[] for _ in self._records]
            for user, args in enumerate(self._args):
                for position, arg in enumerate(args):
                    users[arg.node].append((arg.output, user, position))
            self._users = [tuple(sorted(found)) for found in users]
        return self._users[number]

    @property
    def networkx(self) -> nx.MultiDiGraph:
        """The graph as NetworkX reads it, without a copy: :class:`zenith.ir.networkx_view.GraphView`."""
        from zenith.ir.networkx_view import GraphView  # NetworkX takes as long to import as NumPy

        return GraphView(self)

    def ancestors(self, numbers: Iterable[int]) -> set[int]:
        """Nodes, and all nodes that they follow from.

        NetworkX gives the same of :attr:`networkx` in 30 to 50 times as long, after an import of 0.3 s: every
        compilation asks. So for :meth:`descendants`.
        """
        found = set(numbers)
        pending = list(found)
        while pending:
            for arg in self._args[pending.pop()]:
                if arg.node not in found:
                    found.add(arg.node)
                    pending.append(arg.node)
        return found

    def live(self) -> set[int]:
        """The nodes that results or effects follow from."""
        ends = {v.node for v in self.outputs}
        return self.ancestors(ends.union(number for number, node in self.nodes() if node.has_effect))

    def descendants(self, numbers: Iterable[int]) -> set[int]:
        """Nodes, and all nodes that follow from them."""
        found = set(numbers)
        for number, args in enumerate(self._args):
            if any(arg.node in found for arg in args):
                found.add(number)
        return found

    def symbols(self) -> tuple[str, ...]:
        """The names of the sizes that the inputs' types mention, in order of appearance."""
        found: dict[str, None] = {}
        for value in self.inputs:
            if isinstance(value.type, ArrayType):
                for size in value.type.shape:
                    found.update(dict.fromkeys(sorted(size.symbols())))
        return tuple(found)

    def __len__(self) -> int:
        return len(self._records)

    def __str__(self) -> str:
        from zenith.ir.text import print_graph

        return print_graph(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def to_dot(self) -> str:
        """The whole graph in Graphviz's language."""
        from zenith.ir.pictures.graphviz import to_dot

        return to_dot(self)

    def to_svg(self) -> str:
        """The graph as an SVG picture, modules and equal layers as one box each; Graphviz is used where it is there."""
        from zenith.ir.pictures.svg import to_svg

        return to_svg(self)

    def to_html(self) -> str:
        """The picture as a part of an HTML page, in which a click on a box opens what it folds."""
        from zenith.ir.pictures.page import to_html

        return to_html(self)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _repr_html_(self) -> str:
        return self.to_html()


def stored_name(node: Node) -> str:
    """The name under which a graph stores the array of a constant or a weight."""
    name: str = node.params["name" if node.primitive.name == "weight" else "id"]
    return name


def content_hash(array: NDArray) -> str:
    """A name for an array's type, shape and bytes."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return "c" + digest.hexdigest()[:16]
