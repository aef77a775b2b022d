"""The straight line: Graph -> passes -> plan -> kernels -> Executable."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import zenith.ir.ops  # noqa: F401  (fills the registry of primitives)
from zenith.backends.backend import Backend, CompilationReport, Entry, Executable
from zenith.backends.table import backend_of
from zenith.backends.target import Target
from zenith.cached import cached_property
from zenith.ir.graph import Graph
from zenith.ir.numerics import EXACT, Numerics
from zenith.passes.pipeline import PassReport, passes_for, run
from zenith.progress import current

if TYPE_CHECKING:
    from zenith.backends.plan import Plan


@dataclass(frozen=True)
class Lowering:
    """The result of passes and planning; ``plan`` is None for a backend without a target, which interprets."""

    graph: Graph
    passes: list[PassReport]
    plan: Plan | None


@dataclass
class LoweredGraph:
    """A traced graph on its way to machine code.

    ``entry`` is its entry in the cache on disk; if the program is there, passes and planner run when somebody asks
    for their results. ``device`` is a GPU's number; None is the current one when it is needed.
    """

    traced: Graph
    backend: Backend
    device: int | None = None
    numerics: Numerics = EXACT  # what kernels may do
    reusable: tuple[str, ...] = ()  # inputs whose memory is the program's once it has read them
    entry: Entry | None = None

    @cached_property
    def target(self) -> Target | None:
        """What passes and planner may know of the machine and of what is allowed."""
        return None if self.backend.target is None else self.backend.target(self.device, self.numerics)

    @cached_property
    def lowering(self) -> Lowering:
        """The graph after all passes and its plan."""
        if self.target is None:
            return Lowering(self.traced, [], None)
        from zenith.backends.planner import plan  # not for a program that is on disk

        optimized, passes = run(self.traced, passes_for(self.target))
        current().begin("plan")
        return Lowering(optimized, passes, plan(optimized, self.target, self.reusable))

    @property
    def is_cached(self) -> bool:
        """Whether the program is on disk."""
        return self.entry is not None and self.entry.stored is not None

    @property
    def graph(self) -> Graph:
        """The graph after all passes."""
        return self.lowering.graph

    @property
    def plan(self) -> Any:
        """The plan; None for a backend that interprets."""
        return self.lowering.plan


def compile_graph(graph: Graph, backend: str = "cpu") -> Executable:
    """Compile a graph; the result's ``run`` executes it, ``stages`` holds texts, ``report`` says what was done."""
    return link_graph(lower_graph(graph, backend))


def lower_graph(
    graph: Graph,
    backend: str,
    device: int | None = None,
    numerics: Numerics = EXACT,
    reusable: Sequence[str] = (),
) -> LoweredGraph:
    """Run the passes and plan the kernels, unless the cache has the program; ``device`` is a GPU's number."""
    lowered = LoweredGraph(graph, backend_of(backend), device, numerics, tuple(reusable))
    if lowered.target is not None and lowered.backend.entry is not None:
        lowered.entry = lowered.backend.entry(graph, lowered.target, lowered.reusable)
    if not lowered.is_cached:
        lowered.lowering  # noqa: B018  (now, so that errors come from here)
    return lowered


def link_graph(
    lowered: LoweredGraph, donated: Sequence[bool] = (), written: Mapping[int, int] | None = None
) -> Executable:
    """The executable of a lowered graph; compiled ones may put results in the memory of ``donated`` inputs.

    ``written`` has results that are new contents of an input, by number.
    """
    started, cached = time.perf_counter(), lowered.is_cached
    current().begin("kernels")  # which the backend counts
    executable = lowered.backend.link(lowered, donated, written or {})
    passes, linked = ([] if cached else lowered.lowering.passes), (time.perf_counter() - started) * 1e3
    executable.report = CompilationReport(passes, executable.groups, list(executable.linked), linked, cached)
    return executable
