"""The record of the ``lanes`` backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zenith.backends.backend import Backend, DeferredLowering, group_counts
from zenith.backends.cpu.backend import CPU
from zenith.backends.terms import with_named_terms
from zenith.backends.weights import WeightTable
from zenith.ir.text import print_graph

if TYPE_CHECKING:
    from zenith.backends.lanes.executable import LanesExecutable


def _link(lowered: DeferredLowering, donated: Sequence[bool], written: Mapping[int, int]) -> LanesExecutable:
    from zenith.backends.cpu.texts import TILE_FUNCTIONS
    from zenith.backends.lanes.executable import LanesExecutable

    executable = LanesExecutable(lowered.plan, TILE_FUNCTIONS, WeightTable.of(lowered.traced))
    optimized, kernels = print_graph(lowered.graph, with_lines=True), "\n".join(executable.sources.values())
    executable.stages = {"plan": with_named_terms(str(lowered.plan)), "kernels": kernels, "optimized": optimized}
    executable.groups = group_counts(lowered.graph)
    return executable


LANES = Backend("lanes", "The CPU's kernels as NumPy code, each lanes loop one array operation.", _link, CPU.target)
