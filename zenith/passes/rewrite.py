"""The one sweep that all passes share: a new graph is built front to back, each node copied or replaced.

A pass gives a *visit* function. It sees a node with its arguments in the new graph and answers with the values that
stand for the node's results, or with None to copy it. The old graph is never touched; user lines, guards, inputs,
constants and weights travel along; subgraphs are rebuilt first. What no longer feeds anything stays until dead code is
removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Node, Value

MAX_REVISITS = 32


class Rewriter(Builder):
    """A builder that offers the nodes a pass emits to that pass again.

    Operands are in their final form before a node is seen, and a visit looks at operands only, so that one sweep
    reaches the fixpoint. ``MAX_REVISITS`` bounds how deep replacements of replacements go.
    """

    def __init__(self, graph: Graph, visit: Visit, again: bool) -> None:
        super().__init__(graph)
        self.visit = visit
        self.number = -1  # of the node in the old graph that is being visited
        self.depth = 0 if again else MAX_REVISITS

    def __getattr__(self, name: str) -> Callable[..., Any]:
        emit = super().__getattr__(name)

        def offered(*args: Any, **params: Any) -> Any:
            emitted = emit(*args, **params)
            results = (emitted,) if isinstance(emitted, Value) else emitted
            replaced = self._offer(results[0].node) if results else None
            results = results if replaced is None else tuple(replaced)
            return results[0] if len(results) == 1 else results

        return offered

    def _offer(self, number: int) -> Sequence[Value] | None:
        if self.depth >= MAX_REVISITS:
            return None
        self.depth += 1
        try:
            return self.visit(self, self.graph.node(number), self.graph.args(number))
        finally:
            self.depth -= 1

    def copy(self, node: Node, args: Sequence[Value]) -> tuple[Value, ...]:
        """The node as it is, on new arguments."""
        return self.graph.add(node.primitive, args, node.params, node.line)

    def carry(self, node: Node, args: tuple[Value, ...], before: tuple[Value, ...]) -> tuple[Value, ...]:
        """The node on new arguments, typed again only if their types are not those of the arguments ``before``."""
        if all(a.type is b.type or a.type == b.type for a, b in zip(args, before, strict=True)):
            return self.graph.add_record(node, args)
        return self.copy(node, args)

    def definition(self, value: Value) -> Node:
        """The node that computes a value of the new graph."""
        return self.graph.node(value.node)

    def operands(self, value: Value) -> tuple[Value, ...]:
        """The arguments of the node that computes a value of the new graph."""
        return self.graph.args(value.node)


Visit = Callable[[Rewriter, Node, tuple[Value, ...]], "Sequence[Value] | None"]


def rebuild(
    graph: Graph,
    visit: Visit,
    *,
    again: bool = False,
    inner: Callable[[Graph], Graph] | None = None,
    keep: Collection[int] | None = None,
) -> Graph:
    """A new graph of ``visit``'s answers, in one sweep.

    ``again`` offers the nodes that a visit emits to the visit too. ``inner`` rewrites subgraphs (the same sweep
    unless told otherwise). ``keep`` names the nodes to look at; inputs always stay.
    """

    def same_sweep(body: Graph) -> Graph:
        return rebuild(body, visit, again=again)

    new = Graph(graph.name)
    new.guards, new.weights = graph.guards, graph.weights
    builder = Rewriter(new, visit, again)
    moved: dict[tuple[int, int], Value] = {}
    for number, node in graph.nodes():
        builder.line, builder.number = node.line, number
        if node.primitive.name == "input":
            moved[number, 0] = new.add_input(node.types[0], node.params["name"], node.line)
        elif keep is None or number in keep:
            before = graph.args(number)
            args = tuple(moved[a.node, a.output] for a in before)
            node = node.with_bodies(inner or same_sweep)
            results = visit(builder, node, args)
            results = builder.carry(node, args, before) if results is None else results
            _carry_constant(graph, new, node)
            moved.update({(number, i): value for i, value in enumerate(results)})
    new.set_outputs(moved[v.node, v.output] for v in graph.outputs)
    return new


def _carry_constant(old: Graph, new: Graph, node: Node) -> None:
    if node.primitive.name == "constant" and node.params["id"] in old.constants:
        new.constants[node.params["id"]] = old.constants[node.params["id"]]


def number_of(b: Builder, value: Value) -> float | int | bool | None:
    """The real number that every element of a value of the new graph is, a literal or a broadcast one; else None."""
    return number_in(b.graph, value)


def number_in(graph: Graph, value: Value) -> float | int | bool | None:
    """The same for a value of ``graph``."""
    node = graph.node(value.node)
    if node.primitive.name == "broadcast" and not node.params["axes"]:
        node = graph.node(graph.args(value.node)[0].node)
    found: float | int | bool | None = node.params["value"] if node.primitive.name == "literal" else None
    return None if isinstance(found, complex) else found
