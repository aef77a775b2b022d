"""Scatter for thousands of threads, owner computes: each owns some rows, walks all indices, and joins its updates.

A task is a range of rows of the result and one element of an update. It joins in index order, so sums are bitwise what
:mod:`zenith.backends.lower.scatter.in_order` gives, without atomics. Walking the indices costs little where
neighbouring threads read the same one; of the updates a task reads only its own.
"""

from __future__ import annotations

from zenith.backends.kernel import Bind, Branch, Kernel, Loop, TaskLoop
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.nest import bind, decode_into, scalar_cost
from zenith.backends.lower.scatter.in_order import ScatterGroup
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import dim, maximum, product, row_major, symbol
from zenith.ir.graph import Graph


def lower_owned_scatter(body: Graph, threads: int) -> list[Kernel]:
    """The copy, and a kernel of about ``threads`` tasks that join, at most one for each element of the result."""
    group = ScatterGroup.of(body)
    rows, outer, inner = product(group.x.shape[: len(group.indices)]), *group.loops()
    share = maximum(1, quotient_up(product(group.x.shape), threads))  # rows of a task
    e = group.face.builder()
    length = bind(e, "share", share)
    row, lane, u, own = (e.fresh(stem) for stem in ("row", "i", "u", "own"))
    e.open(row)
    e.open(lane)
    index = spread(inner, len(group.rest), decode_into(e, symbol(lane), sizes(group.rest, inner)))
    e.open(u)
    found = group.coordinates(e, group.number(e, outer, symbol(u)))
    distance = bind(e, "offset", row_major(group.x.shape[: len(found)], found) // length - symbol(row))
    e.open(own)
    e.append(Bind(own, symbol(u)))  # a name of its own, so that the update's element is read in here only
    group.join(e, found, (*group.number(e, outer, symbol(own)), *index))
    e.append(Branch(distance, 0, (e.close(),)))
    e.append(Loop(u, dim(0), product(group.lead), False, e.close()))
    each, before = e.close(), e.close()
    tasks, extent = product(group.rest) * quotient_up(rows, share), product(group.rest)
    along = TaskLoop(lane, extent, row, before, each, True)
    e.append(along if group.rest else TaskLoop(row, tasks, None, (), before + each, False))
    return group.kernels(group.face.kernel(tasks, product(group.lead) * scalar_cost(body), e))
