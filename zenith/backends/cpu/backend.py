"""The record of the ``cpu`` backend. Numba is imported when a program is compiled, not with the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zenith.backends.backend import Backend, CacheableCall, CachedCall, DeferredLowering, Files, Lower, group_counts
from zenith.backends.cache import store
from zenith.backends.donation import Donation
from zenith.backends.engines import registered
from zenith.backends.routines import calls_outside
from zenith.backends.target import Target
from zenith.backends.terms import with_named_terms
from zenith.backends.weights import WeightTable
from zenith.config import config
from zenith.ir.graph import Graph
from zenith.ir.numerics import Numerics
from zenith.ir.text import print_graph

if TYPE_CHECKING:
    from zenith.backends.cpu.executable import Executable
    from zenith.backends.cpu.stored import CacheEntry, Stored


def _target(device: int | None, numerics: Numerics) -> Target:
    from zenith.backends.cpu.target import cpu_target

    return cpu_target(error_budget=numerics.error_budget, precision=numerics.precision)


def _entry(graph: Graph, target: Target, reusable: Sequence[str]) -> CacheEntry | None:
    """None unless a program follows from its graph's text and Zenith's sources alone: engines of a user differ."""
    if config.debug or config.engines or registered() or store() is None or calls_outside(graph):
        return None
    from zenith.backends.cpu.stored import CacheEntry

    return CacheEntry.of(graph, target, reusable)


def _link(lowered: DeferredLowering, donated: Sequence[bool], written: Mapping[int, int]) -> Executable:
    """Link the program that the cache has, or else what the planner gives, which the cache has from then on."""
    entry = lowered.entry
    stored = _stored(lowered) if entry is None or entry.stored is None else entry.stored
    executable = _executable(stored, WeightTable.of(lowered.traced))
    if entry is not None and entry.stored is None:
        entry.store(stored)
    executable.donation = Donation.of(stored.program, lowered.traced, donated, written)
    return executable


def _stored(lowered: DeferredLowering) -> Stored:
    from zenith.backends.cpu.program import kernel_sources, program_of
    from zenith.backends.cpu.stored import Stored

    program, plan = program_of(lowered.plan), lowered.plan
    optimized = print_graph(lowered.graph, with_lines=True)
    stages = {"plan": with_named_terms(f"{plan}\n{program}"), "kernels": kernel_sources(plan), "optimized": optimized}
    return Stored(program, stages, group_counts(lowered.graph))


def _executable(stored: Stored, weights: WeightTable) -> Executable:
    from zenith.backends.cpu.executable import Executable

    executable = Executable(stored.program, weights)
    executable.stages, executable.groups = stored.stages, stored.groups
    return executable


def _save(executable: Executable, graph: Graph, numerics: Numerics) -> Stored:
    from zenith.backends.cpu.closed import closed_program

    return closed_program(executable)


def _reader(path: Path, lower: Lower) -> Callable[[str, Stored], Executable]:
    """Links closed programs of a file, and open ones of a folder, which have weights."""
    from zenith.backends.cpu.closed import adopted

    def link(text: str, stored: Stored) -> Executable:
        with adopted(stored):
            return _executable(stored, WeightTable(stored.weights))

    return link


def _inline_cache(executable: Executable, call: CacheableCall) -> CachedCall | None:
    from zenith.backends.cpu.inline_cache import inline_cache

    return inline_cache(executable, call)


CPU = Backend(
    "cpu",
    "Kernels that Numba compiles to machine code, run by one team of threads.",
    _link,
    _target,
    _entry,
    Files(_save, _reader),
    inline_cache=_inline_cache,
)
