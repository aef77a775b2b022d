"""Scheduling: in which order the groups of a graph run, where its edges leave that open.

The operands of a reduction stay in memory until it has run. Derivatives record theirs after everything else, so that in
training the result of every convolution would be live until the end of the forward pass. A reduction therefore runs as
soon as its operands are computed: that lengthens no other live range, and its result is small. XLA
(``HloMemoryScheduler``) and LLVM (list scheduling for register pressure) choose among all nodes; here all others keep
the program's order. So do the bodies of loops and branches: what they update in place was decided for that order.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.backends.work import bytes_of
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Fold
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType

SMALLER = 8  # times: how much less memory a result takes than an operand of its group


def scheduled(graph: Graph) -> Graph:
    """The graph with reductions as early as their operands allow."""
    numbers = [number for number, _ in graph.nodes()]
    order = _order(graph)
    return graph if order == numbers else in_order(graph, order)


def in_order(graph: Graph, order: Sequence[int]) -> Graph:
    """The graph with its nodes in another order."""
    new, moved = Graph(graph.name), dict[tuple[int, int], Value]()
    for value in graph.inputs:
        node = graph.node(value.node)
        moved[value.node, 0] = new.add_input(value.type, node.params["name"], node.line)
    for number in order:
        if graph.node(number).primitive.name != "input":
            args = tuple(moved[a.node, a.output] for a in graph.args(number))
            moved.update({(number, v.output): v for v in new.add_record(graph.node(number), args)})
    new.set_outputs(moved[v.node, v.output] for v in graph.outputs)
    new.constants, new.weights, new.guards = dict(graph.constants), graph.weights, graph.guards
    return new


def _order(graph: Graph) -> list[int]:
    """The nodes in their order, but each reduction directly after the last of its operands."""
    waiting = {number: {a.node for a in graph.args(number)} for number, _ in graph.nodes() if _reduces(graph, number)}
    readers: dict[int, list[int]] = {}
    for number, operands in waiting.items():
        for operand in operands:
            readers.setdefault(operand, []).append(number)
    order: dict[int, None] = {}
    for first, _ in graph.nodes():
        pending = [first]
        while pending:
            number = pending.pop()
            if number in order:
                continue
            order[number] = None
            for reader in readers.get(number, ()):
                waiting[reader].discard(number)
                if not waiting[reader]:
                    pending.append(reader)
    return list(order)


def _reduces(graph: Graph, number: int) -> bool:
    """Whether all results of a group are reductions, which take much less memory than one of its operands."""
    node = graph.node(number)
    if node.primitive is not get("fused"):
        return False
    body = node.params["body"]
    if not all(isinstance(body.node(v.node).primitive.lowering, Fold) for v in body.outputs):
        return False
    operands = [a.type for a in graph.args(number) if isinstance(a.type, ArrayType)]
    largest = max((bytes_of([type]).typical() for type in operands), default=0)
    return bytes_of(t for t in node.types if isinstance(t, ArrayType)).typical() * SMALLER <= largest
