"""Reverse mode: a graph that computes how its outputs depend on chosen inputs, from the outputs back.

A *cotangent* says how much a number that is computed from a value changes with each of its elements. The graph computes
all values in program order, then goes back through the nodes that lie between the chosen inputs and the outputs; where
a value is read several times, its cotangents add up. After S. Linnainmaa, Taylor expansion of the accumulated rounding
error, BIT 16, 1976.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zenith.errors import ZenithError
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import WithResiduals
from zenith.ir.types import has_derivative
from zenith.transforms.rules import RuleBuilder

ValueKey = tuple[int, int]  # a value's node, and which of its results


def vjp_graph(graph: Graph, wanted: Sequence[bool], seeded: Sequence[bool]) -> Graph:
    """The graph with a further input for the cotangent of each ``seeded`` output, and gradients as further outputs.

    There is one for each ``wanted`` input, in order, zeros where no seeded output depends on it. Raises ZenithError
    with the user's line for an operation without derivative.

    >>> from zenith.ir.text import parse
    >>> graph = parse("def f(x: f32[n]) -> (f32[n]):\\n    v1 = sin(x)\\n    return (v1,)")
    >>> print(vjp_graph(graph, [True], [True]))
    def f(x: f32[n], ct0: f32[n]) -> (f32[n], f32[n]):
        v2 = sin(x)
        v3 = cos(x)
        v4 = mul(ct0, v3)
        return (v2, v4)
    """
    return _Reverse(graph, wanted).run(seeded)


class _Reverse:
    def __init__(self, graph: Graph, wanted: Sequence[bool]) -> None:
        self.old, self.new = graph, Graph(graph.name)
        self.b = RuleBuilder(self.new)
        self.primal: dict[ValueKey, Value] = {}
        self.cotangent: dict[ValueKey, Value] = {}
        self.residuals: dict[int, Any] = {}  # of each node whose rule has two halves
        self.wanted = [(v.node, 0) for v, flag in zip(graph.inputs, wanted, strict=True) if flag]
        self.active = self._reachable()

    def run(self, seeded: Sequence[bool]) -> Graph:
        for value in self.old.inputs:
            name = self.old.node(value.node).params["name"]
            self.primal[value.node, 0] = self.new.add_input(value.type, name)
        seeds = [v for v, flag in zip(self.old.outputs, seeded, strict=True) if flag]
        given = [self.new.add_input(v.type, f"ct{i}") for i, v in enumerate(seeds)]
        self._forward()
        for value, cotangent in zip(seeds, given, strict=True):
            self._accumulate((value.node, value.output), cotangent)
        self._backward()
        self.b.line = None
        outputs = [self.primal[v.node, v.output] for v in self.old.outputs]
        gradients = [self.cotangent.get(k) or self.b.zeros_like(self.primal[k]) for k in self.wanted]
        self.new.set_outputs([*outputs, *gradients])
        return self.new

    def _reachable(self) -> set[ValueKey]:
        """The floating-point values that depend on a wanted input."""
        found = set(self.wanted)
        for number, node in self.old.nodes():
            if any((a.node, a.output) in found for a in self.old.args(number)):
                found |= {(number, i) for i, type in enumerate(node.types) if has_derivative(type)}
        return found

    def _forward(self) -> None:
        for number, node in self.old.nodes():
            if node.primitive.name != "input":
                args = [self.primal[a.node, a.output] for a in self.old.args(number)]
                results = self._compute(number, node, args)
                self.primal.update({(number, i): value for i, value in enumerate(results)})

    def _compute(self, number: int, node: Node, args: Sequence[Value]) -> Sequence[Value]:
        """A node's results; where its rule has two halves and will be used, by the forward half."""
        rule, results = node.primitive.vjp, [(number, i) for i in range(len(node.types))]
        if not isinstance(rule, WithResiduals) or not any(key in self.active for key in results):
            return self.b.transplant(self.old, node, args)
        self.b.line = node.line
        try:
            values, self.residuals[number] = rule.forward(self.b, args, node.params)
        except ZenithError as error:
            raise error.at(node.line) from None
        return values

    def _backward(self) -> None:
        for number, node in reversed(list(self.old.nodes())):
            results = [(number, i) for i in range(len(node.types))]
            if node.primitive.name == "input" or not any(k in self.cotangent and k in self.active for k in results):
                continue
            args = [(a.node, a.output) for a in self.old.args(number)]
            if any(key in self.active for key in args):
                self.b.line = node.line
                for key, cotangent in zip(args, self._pull(number, node, args), strict=True):
                    if cotangent is not None and key in self.active:
                        self._accumulate(key, cotangent)

    def _pull(self, number: int, node: Node, args: Sequence[ValueKey]) -> Sequence[Value | None]:
        """The cotangents of a node's arguments."""
        results = [(number, i) for i in range(len(node.types))]
        primals, outputs = [self.primal[k] for k in args], [self.primal[k] for k in results]
        rule = node.primitive.vjp
        given: list[Any] = [self.cotangent.get(k) for k in results]  # None for some only where there are several
        if isinstance(rule, WithResiduals):
            given = [self.b.zeros_like(v) if c is None else c for c, v in zip(given, outputs, strict=True)]
        try:
            if isinstance(rule, WithResiduals):
                return rule.backward(self.b, primals, outputs, given, self.residuals[number], node.params)
            return rule(self.b, primals, outputs, given, node.params)
        except ZenithError as error:
            raise error.at(node.line) from None

    def _accumulate(self, key: ValueKey, cotangent: Value) -> None:
        before = self.cotangent.get(key)
        self.cotangent[key] = cotangent if before is None else self.b.add(before, cotangent)
