"""Fusion: operations that one kernel can compute together become one ``fused`` node with a closed body.

A *group* has a kind and an iteration space, the shape over which its kernel runs:

* ``loops``: elementwise operations of one shape;
* ``rows``: the same, with reductions of the trailing axes and what is computed from their results;
* ``columns``: a reduction of leading or inner axes with what precedes it;
* ``product``: a matrix product with the elementwise operations behind it;
* ``scatter``: a scatter with the index maps in front of it.

Index maps (broadcast, transpose, slice, literals ...) belong to no group: each group that reads through one gets its
own copy, and one is computed on its own only where its value itself is needed. Groups grow greedily in program order:
an operation joins the latest group that computes one of its operands at the same place, unless a path through another
group leads back (groups must stay acyclic).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from zenith.ir.builder import Builder
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Data, Elements, Fold, HostCall, Scalar, Scatter, Tile, View
from zenith.ir.primitive import get

MAX_MEMBERS = 64  # longer groups compile slowly and spill registers

Shape = tuple[Dim, ...]


@dataclass(slots=True)
class Group:
    """Nodes that one kernel computes; ``outer`` is the number of leading axes that a rows group does not reduce."""

    kind: str
    space: Shape
    outer: int
    members: list[int] = field(default_factory=list)

    def level(self, shape: Shape) -> str | None:
        """Whether a value of ``shape`` lives at every element of the space, once a row, or not in this space."""
        if shape == self.space:
            return "element"
        if self.kind == "rows" and shape == self.space[: self.outer]:
            return "row"
        return None


@dataclass(frozen=True, slots=True)
class Read:
    """A computed value that a node reads, directly (``same``), repeated along a row (``spread``) or otherwise."""

    value: Value
    access: str


def fuse(graph: Graph) -> Graph:
    """The graph with kernels' worth of operations gathered into ``fused`` nodes."""
    return _Emitter(_Grouping(graph)).emit()


class _Grouping:
    """Assigns every computed node to a group (a *unit*); nodes that no kernel computes are units of their own."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.args = {number: graph.args(number) for number, _ in graph.nodes()}
        self.users: dict[int, set[int]] = {number: set() for number in self.args}
        self.groups: dict[int, Group] = {}
        self.unit: dict[int, int] = {}
        self.deps: dict[int, set[int]] = {}
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for number, args in self.args.items():
            for a in args:
                self.users[a.node].add(number)
        self.materialized = {v.node for v in graph.outputs}
        for number, node in graph.nodes():
            self.materialized |= self._needed_whole(number, node)
        for number, _ in graph.nodes():
            if not self.is_virtual(number):
                self._place(number)

    def is_virtual(self, number: int) -> bool:
        """Whether a node is an index map, or a number made of literals and sizes, that is copied into its readers."""
        return number not in self.materialized and self._is_map(number)

    def _is_map(self, number: int) -> bool:
        node = self.graph.node(number)
        lowering = node.primitive.lowering
        if isinstance(lowering, Scalar) and not self._shape(number):
            return all(self.is_virtual(a.node) for a in self.args[number])
        return (isinstance(lowering, Elements) and lowering.cheap) or node.primitive is get("literal")

    def _needed_whole(self, number: int, node: Node) -> set[int]:
        """The arguments that must stand in memory: all of a view and a host call, those a tile cannot stride over."""
        operands = {a.node for a in self.args[number]}
        if isinstance(node.primitive.lowering, (View, HostCall)):
            return operands
        if isinstance(node.primitive.lowering, Tile):
            return {a for a in operands if not self._is_strided(a)}
        return set()

    def _is_strided(self, number: int) -> bool:
        while self.is_virtual(number):
            lowering = self.graph.node(number).primitive.lowering
            if not (isinstance(lowering, Elements) and lowering.strided):
                return False
            number = self.args[number][0].node
        return True

    def reads(self, number: int) -> Iterator[Read]:
        """What a node reads once index maps are looked through."""
        for value in self.args[number]:
            yield from self._leaves(value, "same")

    def _leaves(self, value: Value, access: str) -> Iterator[Read]:
        if not self.is_virtual(value.node):
            yield Read(value, access)
            return
        node = self.graph.node(value.node)
        spreads = access == "same" and node.primitive is get("broadcast")
        for arg in self.args[value.node]:
            plain = spreads and node.params["axes"] == tuple(range(len(arg.shape))) and not self.is_virtual(arg.node)
            yield from self._leaves(arg, "spread" if plain else "other")

    def _place(self, number: int) -> None:
        lowering = self.graph.node(number).primitive.lowering
        if isinstance(lowering, (View, HostCall, Data)) and not self._is_map(number):
            self._new_unit(number, None)
        elif isinstance(lowering, Fold):
            self._place_fold(number)
        elif isinstance(lowering, Tile):
            self._new_unit(number, Group("product", self._shape(number), 0))
        elif isinstance(lowering, Scatter):
            self._new_unit(number, Group("scatter", self._shape(number), 0))
        elif not (isinstance(lowering, Scalar) and self._join_any(number)):
            self._new_unit(number, Group("loops", self._shape(number), 0))

    def _shape(self, number: int) -> Shape:
        return Value(number, 0, self.graph.node(number).types[0]).shape

    def _new_unit(self, number: int, group: Group | None) -> None:
        unit = len(self.deps)
        self.deps[unit] = set()
        self.first[unit] = self.last[unit] = number
        if group is not None:
            self.groups[unit] = group
        self._add(number, unit)

    def _add(self, number: int, unit: int) -> None:
        self.unit[number] = unit
        self.last[unit] = max(self.last[unit], number)
        self.first[unit] = min(self.first[unit], number)
        if unit in self.groups:
            self.groups[unit].members.append(number)
        self.deps[unit] |= {self.unit[r.value.node] for r in self.reads(number)} - {unit}

    def _join_any(self, number: int) -> bool:
        reads = list(self.reads(number))
        candidates = {self.unit[r.value.node] for r in reads if r.access != "other"}
        for unit in sorted(candidates & self.groups.keys(), key=lambda u: -self.last[u]):
            if self._fits(number, reads, unit) and not self._closes_cycle(reads, unit):
                self._add(number, unit)
                return True
        return False

    def _fits(self, number: int, reads: Iterable[Read], unit: int) -> bool:
        group = self.groups[unit]
        level = group.level(self._shape(number))
        if level is None or group.kind not in ("loops", "rows", "product") or len(group.members) >= MAX_MEMBERS:
            return False
        return all(self._reads_in_place(r, group, level) for r in reads if self.unit[r.value.node] == unit)

    @staticmethod
    def _reads_in_place(read: Read, group: Group, level: str) -> bool:
        source = group.level(read.value.shape)
        if read.access == "same":
            return source == level
        return read.access == "spread" and level == "element" and source == "row"

    def _closes_cycle(self, reads: Iterable[Read], unit: int) -> bool:
        """Whether an operand from outside the group itself depends on the group."""
        stack = [self.unit[r.value.node] for r in reads if self.unit[r.value.node] != unit]
        seen = set(stack)
        while stack:
            current = stack.pop()
            if current == unit:
                return True
            fresh = {u for u in self.deps[current] if self.last[u] >= self.first[unit]} - seen
            seen |= fresh
            stack.extend(fresh)
        return False

    def _place_fold(self, number: int) -> None:
        (operand,) = self.args[number]
        axes = self.graph.node(number).params["axes"]
        rank = len(operand.shape)
        outer = rank - len(axes)
        if axes != tuple(range(outer, rank)):
            self._place_columns(number, operand)
            return
        unit = self.unit.get(operand.node)
        group = self.groups.get(unit) if unit is not None else None
        if unit is not None and group is not None and operand.shape == group.space and len(group.members) < MAX_MEMBERS:
            if group.kind == "loops":
                group.kind, group.outer = "rows", outer
            if group.kind == "rows" and group.outer == outer:
                self._add(number, unit)
                return
        self._new_unit(number, Group("rows", operand.shape, outer))

    def _place_columns(self, number: int, operand: Value) -> None:
        """A reduction of other axes takes over the group in front of it when nobody else needs its values."""
        unit = self.unit.get(operand.node)
        group = self.groups.get(unit) if unit is not None else None
        if unit is not None and group is not None and group.kind == "loops" and operand.shape == group.space:
            others = {u for m in group.members for u in self.users[m]} - set(group.members) - {number}
            returned = {v.node for v in self.graph.outputs} & set(group.members)
            if not others and not returned:
                group.kind = "columns"
                self._add(number, unit)
                return
        self._new_unit(number, Group("columns", operand.shape, 0))


class _Emitter:
    """Writes the fused graph: units in dependency order, each group as one ``fused`` node."""

    def __init__(self, grouping: _Grouping) -> None:
        self.g = grouping
        self.source = grouping.graph
        self.target = Graph(self.source.name)
        self.values: dict[tuple[int, int], Value] = {}

    def emit(self) -> Graph:
        self.target.guards = self.source.guards
        self.target.constants = dict(self.source.constants)
        for value in self.source.inputs:
            node = self.source.node(value.node)
            self.values[value.node, 0] = self.target.add_input(value.type, node.params["name"], node.line)
        needed = self._needed_outside()
        for unit in self._order():
            if unit in self.g.groups:
                self._emit_group(self.g.groups[unit], needed)
            else:
                self._copy(self.g.first[unit])
        self.target.set_outputs(self.values[v.node, v.output] for v in self.source.outputs)
        return self.target

    def _order(self) -> Iterator[int]:
        waiting = {u: len(d) for u, d in self.g.deps.items()}
        readers: dict[int, list[int]] = {u: [] for u in waiting}
        for unit, deps in self.g.deps.items():
            for d in deps:
                readers[d].append(unit)
        ready = [(self.g.first[u], u) for u, count in waiting.items() if not count]
        heapq.heapify(ready)
        while ready:
            _, unit = heapq.heappop(ready)
            yield unit
            for reader in readers[unit]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(ready, (self.g.first[reader], reader))

    def _needed_outside(self) -> set[tuple[int, int]]:
        needed = {(v.node, v.output) for v in self.source.outputs}
        for number, unit in self.g.unit.items():
            for read in self.g.reads(number):
                if self.g.unit[read.value.node] != unit:
                    needed.add((read.value.node, read.value.output))
        return needed

    def _copy(self, number: int) -> None:
        node = self.source.node(number)
        if node.primitive is get("input"):
            return
        args = [self.values[a.node, a.output] for a in self.g.args[number]]
        results = self.target.add_record(node, tuple(args))
        self.values.update({(number, i): r for i, r in enumerate(results)})

    def _emit_group(self, group: Group, needed: set[tuple[int, int]]) -> None:
        body = _Body(self.g, group)
        outputs = [(m, 0) for m in sorted(group.members) if (m, 0) in needed]
        body.graph.set_outputs(body.values[o] for o in outputs)
        args = [self.values[a.node, a.output] for a in body.arguments]
        builder = Builder(self.target, self.source.node(max(group.members)).line)
        results = self.target.add(get("fused"), args, {"body": body.graph, "anchor": group.kind}, builder.line)
        self.values.update(dict(zip(outputs, results, strict=True)))


class _Body:
    """The closed subgraph of a group: members, own copies of the index maps they read through, the rest as inputs."""

    def __init__(self, grouping: _Grouping, group: Group) -> None:
        self.g, self.group = grouping, group
        self.graph = Graph("body")
        self.arguments: list[Value] = []
        self.values: dict[tuple[int, int], Value] = {}
        members = sorted(group.members)
        inside = set(members)
        self.reads = [r.value for m in members for r in grouping.reads(m) if r.value.node not in inside]
        for value in self.reads:
            if (value.node, value.output) not in self.values:
                name = f"p{len(self.arguments)}"
                self.values[value.node, value.output] = self.graph.add_input(value.type, name)
                self.arguments.append(value)
        for member in members:
            self._copy(member)

    def _copy(self, number: int) -> None:
        node = self.g.graph.node(number)
        args = [self._value(a) for a in self.g.args[number]]
        for i, result in enumerate(self.graph.add_record(node, tuple(args))):
            self.values[number, i] = result

    def _value(self, value: Value) -> Value:
        if (value.node, value.output) not in self.values:
            self._copy(value.node)
        return self.values[value.node, value.output]
