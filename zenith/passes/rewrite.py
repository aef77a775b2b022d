"""The one sweep that all passes share: a new graph is built front to back, each node copied or replaced.

A pass gives a *visit* function. It sees a node with its arguments in the new graph and returns the values that replace
the node's results, or None to copy it. The old graph is never modified; user lines, guards, inputs, constants and
weights are carried over; subgraphs are rebuilt first. Unused nodes stay until dead code is removed.

Most passes find nothing to do in most graphs. So the new graph is begun at the first node that changes, with all nodes
in front of it as they are; where no node changes, the old graph is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import Primitive

MAX_REVISITS = 32


class Rewriter(Builder):
    """A builder that gives the nodes a pass emits to that pass a second time.

    Operands are in their final form before a node is seen, and a visit looks at operands only, so that one sweep
    reaches the fixpoint. ``MAX_REVISITS`` bounds how deep replacements of replacements go.
    """

    def __init__(self, old: Graph, visit: Visit, revisit: bool) -> None:
        super().__init__(old)
        self.old = old
        self.new: Graph | None = None  # not begun: so far the graph is the old one
        self.moved: list[Sequence[Value]] = []  # the results of the old nodes in the new graph, once it is begun
        self.visit = visit
        self.number = -1  # of the node in the old graph that is being visited
        self.depth = 0 if revisit else MAX_REVISITS

    @property
    def graph(self) -> Graph:
        """The new graph, to add to."""
        return self.begin()

    def begin(self) -> Graph:
        """The new graph: it has the nodes in front of the visited one, and not that node itself."""
        if self.new is None:
            self.new = self._graph = self.old.beginning(self.number)
            self.moved = [self.old.results(number) for number in range(self.number)]
        return self.new

    def _append(self, node: Node, args: tuple[Value, ...]) -> tuple[Value, ...]:
        """A node of the old graph, with the constant that it names."""
        graph = self.begin()
        if node.primitive.name == "input":
            return (graph.add_input(node.types[0], node.params["name"], node.line),)
        _carry_constant(self.old, graph, node)
        return graph.add_record(node, args)

    def _emit(self, primitive: Primitive, /, *args: Any, **params: Any) -> Any:
        emitted = super()._emit(primitive, *args, **params)
        results = (emitted,) if isinstance(emitted, Value) else emitted
        replaced = self._offer(results[0].node) if results else None
        if replaced is None:
            return emitted
        return replaced[0] if len(replaced) == 1 else tuple(replaced)

    def _offer(self, number: int) -> Sequence[Value] | None:
        if self.depth >= MAX_REVISITS:
            return None
        self.depth += 1
        try:
            return self.visit(self, self.so_far.node(number), self.so_far.args(number))
        finally:
            self.depth -= 1

    def copy(self, node: Node, args: Sequence[Value]) -> tuple[Value, ...]:
        """The node as it is, on new arguments."""
        return self.graph.add(node.primitive, args, node.params, node.line)

    def copy_in_front(self, value: Value, copies: dict[int, tuple[Value, ...]]) -> Value:
        """A value of the old graph, in the new one before its place is reached: equal ones are merged later.

        ``copies`` are the results of nodes that were copied so.
        """
        if value.node < self.number:
            self.begin()
            return self.moved[value.node][value.output]
        if value.node not in copies:
            node = self.old.node(value.node)
            args = [self.copy_in_front(a, copies) for a in self.old.args(value.node)]
            _carry_constant(self.old, self.graph, node)
            copies[value.node] = self.copy(node, args)
        return copies[value.node][value.output]

    def carry(self, node: Node, args: tuple[Value, ...]) -> tuple[Value, ...]:
        """The visited node on new arguments, with types inferred anew only if the arguments' types differ.

        A visit that returns it emits nothing more: where nothing has changed yet, this is the old node.
        """
        if self.new is None and node is self.old.node(self.number):
            return self.old.results(self.number)
        before = self.old.args(self.number)
        for a, b in zip(args, before, strict=True):
            if a.type is not b.type and a.type != b.type:
                return self.copy(node, args)
        return self._append(node, args)

    def arguments(self) -> tuple[Value, ...]:
        """The arguments of the visited node, as values of the new graph."""
        before = self.old.args(self.number)
        return before if self.new is None else tuple([self.moved[a.node][a.output] for a in before])

    def replace(self, results: Sequence[Value]) -> None:
        """Use ``results`` for those of the visited node; nothing changes if they are its own."""
        if self.new is None:
            own = self.old.results(self.number)
            if results is own or tuple(results) == own:
                return
        _carry_constant(self.old, self.begin(), self.old.node(self.number))
        self.moved.append(results)

    def leave_out(self) -> None:
        """Drop the visited node: it has no results in the new graph."""
        self.begin()
        self.moved.append(())

    def finished(self) -> Graph:
        """The new graph with its results; the old one where nothing changed and no constant is left over."""
        if self.old.constants:
            used = {n.params["id"] for _, n in self.old.nodes() if n.primitive.name == "constant"}
            if self.old.constants.keys() - used:
                self.number = len(self.old)
                self.begin()
        if self.new is not None:
            self.new.set_outputs(self.moved[v.node][v.output] for v in self.old.outputs)
        return self.so_far

    def definition(self, value: Value) -> Node:
        """The node that computes a value of the new graph."""
        return self._graph.node(value.node)

    def operands(self, value: Value) -> tuple[Value, ...]:
        """The arguments of the node that computes a value of the new graph."""
        return self._graph.args(value.node)


Visit = Callable[[Rewriter, Node, tuple[Value, ...]], "Sequence[Value] | None"]


def rebuild(
    graph: Graph,
    visit: Visit,
    *,
    revisit: bool = False,
    inner: Callable[[Graph], Graph] | None = None,
    keep: Collection[int] | None = None,
) -> Graph:
    """A graph of what ``visit`` returns, in one sweep: a new one, or the old one where that changes nothing.

    ``revisit`` gives the nodes that a visit emits to the visit too. ``inner`` rewrites subgraphs (the same sweep by
    default). ``keep`` names the nodes to retain and visit; inputs always stay.
    """

    def same_sweep(body: Graph) -> Graph:
        return rebuild(body, visit, revisit=revisit)

    builder = Rewriter(graph, visit, revisit)
    for number, old in graph.nodes():
        builder.line, builder.number = old.line, number
        is_input = old.primitive.name == "input"
        if keep is not None and number not in keep and not is_input:
            builder.leave_out()
            continue
        node, args, results = old, builder.arguments(), None
        if not is_input:
            node = old.with_bodies(inner or same_sweep) if old.primitive.subgraphs else old
            results = visit(builder, node, args)
        if results is not None or node is not old or builder.new is not None:
            builder.replace(builder.carry(node, args) if results is None else results)
    return builder.finished()


def _carry_constant(old: Graph, new: Graph, node: Node) -> None:
    if node.primitive.name == "constant" and node.params["id"] in old.constants:
        new.constants[node.params["id"]] = old.constants[node.params["id"]]


def number_of(b: Builder, value: Value) -> float | int | bool | None:
    """The real number that every element of a value of the new graph is, a literal or a broadcast one; else None."""
    return number_in(b.so_far, value)


def number_in(graph: Graph, value: Value) -> float | int | bool | None:
    """The real number that every element of a value of ``graph`` is; else None."""
    node = graph.node(value.node)
    if node.primitive.name == "broadcast" and not node.params["axes"]:
        node = graph.node(graph.args(value.node)[0].node)
    found: float | int | bool | None = node.params["value"] if node.primitive.name == "literal" else None
    return None if isinstance(found, complex) else found
