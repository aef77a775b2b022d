"""Elementwise groups: every output element by itself, in one loop nest over the collapsed space.

An output with a border is written inside of it; another kernel fills the border
(:mod:`zenith.backends.lower.pointwise.borders`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zenith.backends.kernel import Kernel
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.loops import loop, task_loop
from zenith.backends.lower.nest import (
    KernelInterface,
    bind,
    decode_into,
    element_loops,
    find_loops,
    inside,
    position_of,
    scalar_cost,
    space_of,
    store_outputs,
)
from zenith.backends.lower.pointwise.segments import Cut, lower_segments
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, minimum, product, row_major
from zenith.ir.graph import Graph

SHORT = 64  # elements of a row, at most, so that a task has several rows
STRETCH = 64  # such rows of a task at most


def lower_loops(body: Graph, named: Sequence[str] | None = None, in_loops: bool = False) -> list[Kernel]:
    """One kernel; its tasks are the elements or, for a core, which runs them ``in_loops``, short rows or stretches.

    Outputs may be ``named`` (:meth:`KernelInterface.of`).
    """
    face = KernelInterface.of(body, named)
    space = space_of(body, body.outputs[0])
    bordered = [value for value in body.outputs if inside(body, value) is not None]
    groups = find_loops(
        face, space, lambda trial, index: store_outputs(trial, face, index),
        lambda index: [row_major(space, index), *(position_of(body, value, index) for value in bordered)],
    )  # fmt: skip
    e = face.builder()
    extents = sizes(space, groups)
    if in_loops and len(groups) > 1 and (extents[-1].static or SHORT + 1) <= SHORT:
        tasks = _short_rows(e, space, groups, lambda index: store_outputs(e, face, index))
        return [face.kernel(tasks, minimum(extents[-2], STRETCH) * extents[-1] * scalar_cost(body), e)]
    if in_loops and groups:
        cut = Cut(space, groups, lambda e, index: store_outputs(e, face, index))
        if (kernel := lower_segments(face, cut)) is not None:
            return [kernel]
    element_loops(e, space, groups, lambda index: store_outputs(e, face, index))
    return [face.kernel(product(space), scalar_cost(body), e)]


def _short_rows(
    e: ElementBuilder, space: Sequence[Dim], groups: Sequence[Sequence[int]], visit: Callable[[Index], None]
) -> Dim:
    """Run ``visit`` for the elements of some rows a task, and return how many tasks there are.

    Where a row begins is then computed by additions: the divisions that find it take longer than a short row.
    """
    *above, count, length = sizes(space, groups)
    stretches = quotient_up(count, STRETCH)
    tasks = product(above) * stretches
    with task_loop(e, tasks) as t:
        *outer, stretch = decode_into(e, t, [*above, stretches])
        start = bind(e, "start", stretch * STRETCH)
        stop = bind(e, "stop", minimum(start + STRETCH, count))
        with loop(e, "row", start, stop) as row, loop(e, "i", 0, length, lanes=True) as i:
            visit(spread(groups, len(space), [*outer, row, i]))
    return tasks
