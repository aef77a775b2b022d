"""Elementwise groups: every output element by itself, in one loop nest over the collapsed space."""

from __future__ import annotations

from collections.abc import Sequence

from zenith.backends.kernel import Kernel
from zenith.backends.lower.nest import Interface, element_loops, find_loops, scalar_cost, space_of, store_outputs
from zenith.ir.dims import product, row_major
from zenith.ir.graph import Graph


def lower_loops(body: Graph, named: Sequence[str] | None = None) -> list[Kernel]:
    """One kernel; its tasks are the elements. Outputs may be ``named`` (:meth:`Interface.of`)."""
    face = Interface.of(body, named)
    space = space_of(body, body.outputs[0])
    groups = find_loops(
        face, space, lambda trial, index: store_outputs(trial, face, index), lambda index: [row_major(space, index)]
    )
    e = face.builder()
    element_loops(e, space, groups, lambda index: store_outputs(e, face, index))
    return [face.kernel(product(space), scalar_cost(body), e)]
