"""Fusion: operations that one kernel can compute together become one ``fused`` node with a closed body.

Which operations these are is decided in ``grouping``; this pass writes the graph: each group as a node whose body has
the group's operations and its own copies of the index maps through which it reads.
"""

from __future__ import annotations

from functools import partial

from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Value
from zenith.ir.primitive import get
from zenith.ir.topological import by_priority
from zenith.passes.grouping import Grouping
from zenith.passes.groups import Group


def fuse(graph: Graph, grow: bool = True) -> Graph:
    """The graph with kernels' worth of operations gathered into ``fused`` nodes.

    Where groups do not ``grow``, each operation is a kernel of its own, with the index maps through which it reads: the
    same program, slower, to find out whether fusion changed a result.
    """
    return _Emitter(Grouping(graph, grow)).emit()


def fuse_without_bytes(graph: Graph) -> Graph:
    """The same where kernels of products read no bytes: what is to be float32 in them is so in memory."""
    return _Emitter(Grouping(graph, products_read_bytes=False)).emit()


class _Emitter:
    """Writes the fused graph: units in dependency order, each group as one ``fused`` node."""

    def __init__(self, grouping: Grouping) -> None:
        self.g = grouping
        self.source = grouping.graph
        self.target = Graph(self.source.name)
        self.values: dict[tuple[int, int], Value] = {}

    def emit(self) -> Graph:
        self.target.guards = self.source.guards
        self.target.constants, self.target.weights = dict(self.source.constants), self.source.weights
        for value in self.source.inputs:
            node = self.source.node(value.node)
            self.values[value.node, 0] = self.target.add_input(value.type, node.params["name"], node.line)
        needed = self._needed_outside()
        for unit in by_priority(self.g.units.deps, self._priority):
            if unit in self.g.groups:
                self._emit_group(self.g.groups[unit], needed)
            else:
                self._copy(self.g.units.first[unit])
        self.target.set_outputs(self.values[v.node, v.output] for v in self.source.outputs)
        return self.target

    def _priority(self, unit: int) -> tuple[bool, int]:
        """Program order, but a group that changes an array waits for its other readers, to change it in place."""
        group = self.g.groups.get(unit)
        if group is None or group.kind not in ("update", "scatter"):
            return False, self.g.units.first[unit]
        array = self.g.args[max(group.members)][0]
        return bool(self.g.maps.users[array.node] - {*group.members}), self.g.units.first[unit]

    def _needed_outside(self) -> set[tuple[int, int]]:
        needed = {(v.node, v.output) for v in self.source.outputs}
        for number, unit in self.g.units.of.items():
            for read in self.g.reads(number):
                if self.g.units.of[read.value.node] != unit:
                    needed.add((read.value.node, read.value.output))
        return needed

    def _copy(self, number: int) -> None:
        node = self.source.node(number)
        if node.primitive is get("input"):
            return
        args = [self.values[a.node, a.output] for a in self.g.args[number]]
        results = self.target.add_record(node.with_bodies(partial(fuse, grow=self.g.grow)), tuple(args))
        self.values.update({(number, i): r for i, r in enumerate(results)})

    def _emit_group(self, group: Group, needed: set[tuple[int, int]]) -> None:
        body = _Body(self.g, group)
        candidates = [(m, i) for m in sorted(group.members) for i in range(len(self.source.node(m).types))]
        outputs = [result for result in candidates if result in needed]
        body.graph.set_outputs(body.values[o] for o in outputs)
        args = [self.values[a.node, a.output] for a in body.arguments]
        builder = Builder(self.target, self.source.node(max(group.members)).line)
        results = self.target.add(get("fused"), args, {"body": body.graph, "anchor": group.kind}, builder.line)
        self.values.update(dict(zip(outputs, results, strict=True)))


class _Body:
    """The closed subgraph of a group: members, own copies of the index maps they read through, the rest as inputs."""

    def __init__(self, grouping: Grouping, group: Group) -> None:
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
