"""Value numbering: nodes of a trace that compute the same have one number, so that values compare at once.

Nodes are numbered in program order, each by its primitive, its parameters, and the numbers of its operands (J. Cocke
and J. T. Schwartz, "Programming languages and their compilers", 1970). Parameters are taken in the sizes that are known
to be equal by then; when more become known, all nodes are numbered anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from zenith.ir import params as params_
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Node, Value


class ValueNumbers:
    """The numbers of a growing graph's nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._numbers: list[int] = []
        self._first: dict[tuple[object, ...], int] = {}
        self._equal: Mapping[str, Dim] = {}

    def are_equal(self, a: Value, b: Value, equal: Mapping[str, Dim]) -> bool:
        """Whether two values are one, or computed alike from the same ones, where sizes are ``equal`` to others."""
        if a == b:
            return True
        self._update(equal)
        return a.output == b.output and self._numbers[a.node] == self._numbers[b.node]

    def _update(self, equal: Mapping[str, Dim]) -> None:
        """Number the nodes that are new."""
        if self._equal != equal:
            self._numbers, self._first, self._equal = [], {}, dict(equal)
        for number in range(len(self._numbers), len(self.graph)):
            node = self.graph.node(number)
            found = number
            if not node.primitive.effect and node.primitive.name not in ("input", "weight"):
                operands = ((self._numbers[a.node], a.output) for a in self.graph.args(number))
                found = self._first.setdefault((self._digest(node), *operands), number)
            self._numbers.append(found)

    def _digest(self, node: Node) -> bytes:
        """The same for equal parameters."""
        if self._equal.keys().isdisjoint(node.symbols):
            return node.digest
        params = params_.substitute(node.primitive.params, node.params, self._equal)
        return Node(node.primitive, params, node.types, node.line).digest
