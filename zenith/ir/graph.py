"""The Graph: a dataflow program on a NetworkX MultiDiGraph.

Nodes are integers; a frozen :class:`Node` record (primitive, parameters, result types, source line) is the node's
attribute, and an edge carries ``(output, argument)``: which result of its source feeds which argument of its target.
The arguments in order are kept beside the record as well, since every pass asks for them; the verifier compares both.
So ``x * x`` has two edges, and nodes may have several outputs. A graph is built front to back: an argument exists
before it is used, hence the numbers are a topological order. Passes never change a graph, they build a new one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from zenith.errors import SourceLine
from zenith.ir import params as params_
from zenith.ir.dims import Dim
from zenith.ir.primitive import Primitive, get
from zenith.ir.types import ArrayType, DType, Type, dtype_of


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


@dataclass(frozen=True, slots=True)
class Node:
    """What a node computes. ``line`` is no part of equality."""

    primitive: Primitive
    params: Mapping[str, Any]
    types: tuple[Type, ...]
    line: SourceLine | None = field(compare=False)

    @property
    def params_text(self) -> str:
        """The canonical text of the parameters (a subgraph stands as its whole text)."""
        return params_.text(self.primitive.params, self.params) + "".join(f"\n{body}" for body in self.bodies)

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """The subgraphs among the parameters, in order."""
        found: list[Graph] = []
        for name, kind in self.primitive.params.items():
            if kind in params_.SUBGRAPHS:
                found += self.params[name] if kind == "graphs" else [self.params[name]]
        return tuple(found)

    def with_bodies(self, change: Callable[[Graph], Graph]) -> Node:
        """The same node with every subgraph changed; itself when none does."""
        kinds = self.primitive.params
        if params_.SUBGRAPHS.isdisjoint(kinds.values()):
            return self
        params = dict(self.params)
        for name, value in self.params.items():
            if kinds[name] == "graph":
                params[name] = change(value)
            elif kinds[name] == "graphs":
                params[name] = tuple(map(change, value))
        record = Node(self.primitive, params, self.types, self.line)
        same = all(a is b for a, b in zip(record.bodies, self.bodies, strict=True))
        return self if same else record


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition ``left relation right`` on sizes under which the graph is valid.

    An *assumption* (``assume``) is a branch that the program took: when it is false the program is traced again. A
    *requirement* (``require``) is what the user must keep: when it is false the call is an error with ``reason``.
    """

    kind: str
    left: Dim
    relation: str
    right: Dim
    reason: str = field(compare=False, default="")
    line: SourceLine | None = field(compare=False, default=None)

    def __str__(self) -> str:
        return f"{self.kind}({self.left} {self.relation} {self.right})"

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the condition is true for these sizes."""
        a, b = self.left.evaluate(sizes), self.right.evaluate(sizes)
        return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[self.relation]


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
        self.networkx = nx.MultiDiGraph()
        self.inputs: list[Value] = []
        self.outputs: tuple[Value, ...] = ()
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.weights: dict[str, np.ndarray[Any, Any]] = {}  # one table, shared by a graph and what passes make of it
        self.guards: tuple[Guard, ...] = ()

    def add_input(self, type: Type, name: str, line: SourceLine | None = None) -> Value:
        """Append an input; names are identifiers, unique within the graph."""
        record = Node(get("input"), {"name": name}, (type,), line)
        value = Value(self._new_node(record), 0, type)
        self.inputs.append(value)
        return value

    def add(
        self,
        primitive: Primitive,
        args: Iterable[Value],
        params: Mapping[str, Any] | None = None,
        line: SourceLine | None = None,
    ) -> tuple[Value, ...]:
        """Append a node after its arguments and return its results; raises ZenithError when types do not fit."""
        args = tuple(args)
        normal = params_.normalize(primitive.params, params or {})
        types = primitive.typing([a.type for a in args], normal)
        return self.add_record(Node(primitive, normal, types, line), args)

    def add_record(self, record: Node, args: tuple[Value, ...]) -> tuple[Value, ...]:
        """Append a record as it is, on arguments of the types it was typed for: a copy from another graph."""
        number = self._new_node(record, args)
        for position, arg in enumerate(args):
            self.networkx.add_edge(arg.node, number, output=arg.output, argument=position)
        return tuple(Value(number, i, t) for i, t in enumerate(record.types))

    def add_constant(self, array: np.ndarray[Any, Any], line: SourceLine | None = None) -> Value:
        """Append an array that is part of the program; equal contents are stored once (a snapshot is taken)."""
        frozen = np.array(array, order="C", copy=True)
        frozen.setflags(write=False)
        dtype = dtype_of(frozen.dtype)
        assert dtype is not None, f"no element type for {frozen.dtype}"
        key = content_hash(frozen)
        self.constants.setdefault(key, frozen)
        return self.add(get("constant"), (), {"id": key, "dtype": dtype, "shape": frozen.shape}, line)[0]

    def add_weight(self, name: str, array: np.ndarray[Any, Any], line: SourceLine | None = None) -> Value:
        """Append an array that is known by its name: held by reference, and no part of the program's text."""
        dtype = dtype_of(array.dtype)
        assert dtype is not None, f"no element type for {array.dtype}"
        self.weights[name] = array
        return self.add(get("weight"), (), {"name": name, "dtype": dtype, "shape": array.shape}, line)[0]

    def stored(self, node: Node) -> np.ndarray[Any, Any] | None:
        """The array of a constant or a weight; None when it is not stored with the graph."""
        table = self.weights if node.primitive.name == "weight" else self.constants
        return table.get(stored_name(node))

    def set_outputs(self, outputs: Iterable[Value]) -> None:
        """Say what the program returns."""
        self.outputs = tuple(outputs)

    def node(self, number: int) -> Node:
        """The record of a node."""
        record: Node = self.networkx.nodes[number]["record"]
        return record

    def nodes(self) -> Iterator[tuple[int, Node]]:
        """All nodes in topological order, inputs included."""
        for number in sorted(self.networkx.nodes):
            yield number, self.node(number)

    def walk(self) -> Iterator[Node]:
        """Every record, those of subgraphs behind the node that holds them."""
        for _, node in self.nodes():
            yield node
            for body in node.bodies:
                yield from body.walk()

    def args(self, number: int) -> tuple[Value, ...]:
        """The arguments of a node, in order."""
        found: tuple[Value, ...] = self.networkx.nodes[number]["args"]
        return found

    def users(self, number: int) -> tuple[tuple[int, int, int], ...]:
        """Who reads a node: ``(output, user, argument)`` in order."""
        edges = self.networkx.out_edges(number, data=True)
        return tuple(sorted((d["output"], v, d["argument"]) for _, v, d in edges))

    def behind(self, numbers: Iterable[int]) -> set[int]:
        """Nodes, and all that they follow from."""
        found = set(numbers)
        pending = list(found)
        while pending:
            fresh = {a.node for a in self.args(pending.pop())} - found
            found |= fresh
            pending += fresh
        return found

    def symbols(self) -> tuple[str, ...]:
        """The names of the sizes that the inputs' types mention, in order of appearance."""
        found: dict[str, None] = {}
        for value in self.inputs:
            if isinstance(value.type, ArrayType):
                for size in value.type.shape:
                    found.update(dict.fromkeys(sorted(size.symbols())))
        return tuple(found)

    def _new_node(self, record: Node, args: tuple[Value, ...] = ()) -> int:
        number: int = self.networkx.number_of_nodes()
        self.networkx.add_node(number, record=record, args=args)
        return number

    def __len__(self) -> int:
        return int(self.networkx.number_of_nodes())

    def __str__(self) -> str:
        from zenith.ir.text import print_graph

        return print_graph(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def to_dot(self) -> str:
        """The graph in Graphviz's language."""
        from zenith.ir.picture import to_dot

        return to_dot(self)

    def to_svg(self) -> str:
        """The graph as an SVG picture (drawn by Zenith itself, no Graphviz needed)."""
        from zenith.ir.picture import to_svg

        return to_svg(self)

    def _repr_svg_(self) -> str:
        return self.to_svg()


def stored_name(node: Node) -> str:
    """The name under which a graph stores the array of a constant or a weight."""
    name: str = node.params["name" if node.primitive.name == "weight" else "id"]
    return name


def content_hash(array: np.ndarray[Any, Any]) -> str:
    """A name for an array's type, shape and bytes."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return "c" + digest.hexdigest()[:16]
