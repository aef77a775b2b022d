"""Delta in front of attention's backward pass: row-wise dot products, by a kernel of their own.

The backward pass reads for each query the dot product of its result and the cotangent (FlashAttention-2). If nothing
else needs delta, it belongs to the same group, so that a library finds attention's result there and computes delta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zenith.backends.kernel import Kernel
from zenith.backends.lower.reduce.rows import lower_rows
from zenith.backends.lower.subgraph import subgraph_of
from zenith.backends.target import Target
from zenith.backends.work import operations_of
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Fold

DELTA = "tile_means"  # the buffer of delta


def delta(body: Graph) -> Value | None:
    """The delta that the tile kernel of a body reads, where it is computed in the body."""
    folds = (n for n, node in body.nodes() if isinstance(node.primitive.lowering, Fold))
    return next((Value(n, 0, body.node(n).types[0]) for n in folds), None)


def with_delta(body: Graph, target: Target, lower: Callable[[Graph], list[Kernel]]) -> list[Kernel]:
    """The kernel that computes delta, if any, and those that ``lower`` gives for the body that has it as an input."""
    sums = delta(body)
    if sums is None:
        return lower(body)
    front, rest = subgraph_of(body, {}, [sums]), subgraph_of(body, {sums.node: DELTA}, body.outputs)
    (kernel,) = lower_rows(front, target, [DELTA])
    buffers = tuple(replace(b, role="temporary") if b.name == DELTA else b for b in kernel.buffers)
    operations = operations_of(front, (number for number, _ in front.nodes()))
    return [replace(kernel, buffers=buffers, operations=operations), *lower(rest)]
