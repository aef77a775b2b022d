"""Mean changes in front of attention's way back: sums along rows, by a kernel of their own.

The way back reads for each query the sum of its averages times their cotangents. Where it alone needs these sums, they
belong to its group, so that a library finds the averages there, of which it makes the sums itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zenith.backends.kernel import Kernel
from zenith.backends.lower.reduce.rows import lower_rows
from zenith.backends.lower.subgraph import part_of
from zenith.backends.work import operations_of
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Fold
from zenith.ir.target import Target

MEANS = "tile_means"  # the buffer of the sums


def delta(body: Graph) -> Value | None:
    """The sums that the tile kernel of a body reads, where they are computed in the body."""
    folds = (n for n, node in body.nodes() if isinstance(node.primitive.lowering, Fold))
    return next((Value(n, 0, body.node(n).types[0]) for n in folds), None)


def with_delta(body: Graph, target: Target, lower: Callable[[Graph], list[Kernel]]) -> list[Kernel]:
    """The kernels that ``lower`` makes of a body in which the sums are an input, behind the one that computes them."""
    sums = delta(body)
    if sums is None:
        return lower(body)
    front, rest = part_of(body, {}, [sums]), part_of(body, {sums.node: MEANS}, body.outputs)
    (kernel,) = lower_rows(front, target, [MEANS])
    buffers = tuple(replace(b, role="temporary") if b.name == MEANS else b for b in kernel.buffers)
    operations = operations_of(front, (number for number, _ in front.nodes()))
    return [replace(kernel, buffers=buffers, operations=operations), *lower(rest)]
