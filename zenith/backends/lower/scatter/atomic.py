"""Scatter by atomics: a task is one element of the updates and adds it to its element of the result.

No task waits for another, or walks the indices of others. The additions to an element run in any order of its tasks,
so sums of floats differ from run to run by rounding: only where the user allowed it.
"""

from __future__ import annotations

from zenith.backends.kernel import AtomicAdd, Kernel
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import element_loops, find_loops, scalar_cost
from zenith.backends.lower.scatter.in_order import ScatterGroup
from zenith.ir.dims import Dim, product, row_major
from zenith.ir.graph import Graph


def lower_atomic_scatter(body: Graph) -> list[Kernel]:
    """The kernel that copies the operand, and the one that adds the updates."""
    group = ScatterGroup.of(body)
    (out,), lead, space = group.face.outputs, len(group.lead), group.updates.shape
    written: list[Dim] = []

    def visit(e: ElementBuilder, index: Index) -> None:
        at = row_major(group.x.shape, (*group.coordinates(e, index[:lead]), *index[lead:]))
        e.append(AtomicAdd(out, at, e.element(group.updates, index)))
        written.append(at)

    groups = find_loops(group.face, space, visit, lambda index: written)
    e = group.face.builder()
    element_loops(e, space, groups, lambda index: visit(e, index))
    return group.kernels(group.face.kernel(product(space), scalar_cost(body), e))
