"""Producer duplication: sums of columns compute their terms themselves, where these would be stored for nobody else.

A kernel that sums leading or inner axes has no result but the sum. Elementwise operations in front of it are computed
there when only this sum reads them; of two sums of one array, or one of an array that is computed together with others,
each would read its terms from memory. The mean and the variance of a batch and the two sums of their derivative are of
this kind. Computing terms twice takes less than storing them: so each sum gets copies of the operations, if they
read about as much as they would store.

Comparisons, rounding and their like are never computed twice: two kernels may round their operands differently.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Scalar
from zenith.passes.dce import dce
from zenith.passes.grouping import Grouping
from zenith.passes.groups import Group
from zenith.passes.precision import DISCRETE
from zenith.passes.rewrite import Rewriter, rebuild

MAX_COST = 24  # simple operations of a term that may be computed twice
READS = 2  # how many times the bytes of a term it may read


def producer_duplication(graph: Graph) -> Graph:
    """The graph with copies of elementwise operations in front of such sums."""
    found = _sums_with_terms(graph) if any(_is_sum_of_columns(graph, n) for n, _ in graph.nodes()) else {}

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        if b.number not in found:
            return None
        terms = _Copy(b, graph, found[b.number]).of(graph.args(b.number)[0], args[0])
        return b.graph.add(node.primitive, [terms], node.params, node.line)

    changed = rebuild(graph, visit, inner=producer_duplication)
    return dce(changed) if found else changed


def _is_sum_of_columns(graph: Graph, number: int) -> bool:
    node = graph.node(number)
    if node.primitive.name != "reduce_sum":
        return False
    (operand,), axes = graph.args(number), node.params["axes"]
    trailing = tuple(range(len(operand.shape) - len(axes), len(operand.shape)))
    return axes != trailing and isinstance(graph.node(operand.node).primitive.lowering, Scalar)


def _sums_with_terms(graph: Graph) -> dict[int, set[int]]:
    """The sums that get copies of operations, and which operations."""
    grouping, found = Grouping(graph), {}
    for number, _ in graph.nodes():
        if not _is_sum_of_columns(graph, number):
            continue
        (operand,) = graph.args(number)
        group = grouping.group_of(operand.node)
        if group is None or group.kind != "loops" or group.space != operand.shape:
            continue
        if not _is_stored(graph, operand, group) and (terms := _terms(graph, operand, group)):
            found[number] = terms
    return found


def _is_stored(graph: Graph, value: Value, group: Group) -> bool:
    """Whether anything but the group itself and sums of columns reads a value, so that it is stored in any case."""
    readers = {user for _, user, _ in graph.users(value.node)} - {*group.members}
    return value in graph.outputs or not all(_is_sum_of_columns(graph, user) for user in readers)


def _terms(graph: Graph, operand: Value, group: Group) -> set[int] | None:
    """The operations of a group that compute an operand; None where copying them gains nothing."""
    chain, leaves, pending = set[int](), set[Value](), [operand]
    while pending:
        value = pending.pop()
        node = graph.node(value.node)
        if value.node not in group.members:
            if node.primitive.name not in ("broadcast", "literal"):
                leaves.add(value)
        elif _is_discontinuous(node):
            if not _is_stored(graph, value, group):
                return None
            leaves.add(value)
        elif value.node not in chain:
            chain.add(value.node)
            pending += graph.args(value.node)
    cost = sum(low.cost for n in chain if isinstance(low := graph.node(n).primitive.lowering, Scalar))
    read = sum(leaf.dtype.itemsize for leaf in leaves)
    return chain if cost <= MAX_COST and read <= READS * operand.dtype.itemsize else None


def _is_discontinuous(node: Node) -> bool:
    discrete = node.primitive.name in DISCRETE or any(t.dtype.kind != "f" for t in node.types)  # type: ignore[union-attr]
    return discrete or not isinstance(node.primitive.lowering, Scalar)


class _Copy:
    """Copies of operations of the old graph, on the operands that the new one has."""

    def __init__(self, b: Rewriter, graph: Graph, chain: set[int]) -> None:
        self.b, self.graph, self.chain = b, graph, chain
        self.made: dict[Value, Value] = {}

    def of(self, old: Value, new: Value) -> Value:
        """A copy of the operations that compute ``old``, which is ``new`` in the new graph."""
        if old.node not in self.chain:
            return new
        if old not in self.made:
            pairs = zip(self.graph.args(old.node), self.b.operands(new), strict=True)
            node = self.graph.node(old.node)
            args = [self.of(*pair) for pair in pairs]
            self.made[old] = self.b.graph.add(node.primitive, args, node.params, node.line)[old.output]
        return self.made[old]
