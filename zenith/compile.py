"""The straight line: Graph -> passes -> plan -> kernels -> Executable."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import zenith.ir.ops  # noqa: F401  (fills the registry of primitives)
from zenith.backends.donation import Donation
from zenith.backends.engines import registered
from zenith.backends.routines import is_outside
from zenith.backends.weights import WeightTable
from zenith.cached import cached_property
from zenith.config import config
from zenith.errors import UnsupportedError
from zenith.ir.graph import Graph, Node
from zenith.ir.interpret import interpret
from zenith.ir.lowering import HostCall, NativeCall
from zenith.ir.target import EXACT, Numerics, Target
from zenith.ir.text import print_graph
from zenith.ir.types import ArrayType
from zenith.passes.pipeline import PassReport, passes_for, run

BACKENDS = ("cpu", "cuda", "lanes", "reference")


@dataclass(slots=True)
class Report:
    """What compiling did: passes with their milliseconds, groups, kernels, milliseconds of linking.

    ``cached`` says that the program was on disk, in the cache or saved, so that no pass ran.
    """

    passes: list[PassReport] = field(default_factory=list)
    groups: dict[str, int] = field(default_factory=dict)
    kernels: list[tuple[str, float]] = field(default_factory=list)
    link_ms: float = 0.0
    cached: bool = False


class Reference:
    """The ``reference`` backend: the interpreter behind the interface of an executable."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.weights = graph, WeightTable.of(graph)
        self.report = Report()
        self.stages = {
            "optimized": print_graph(graph, with_lines=True),
            "plan": "interpreted node by node",
            "kernels": "",
        }

    def run(self, arrays: Sequence[Any], adapters: Sequence[Any], sizes: Mapping[str, int], results: Any) -> list[Any]:
        """Interpret the graph and return its results in arrays made by ``results``."""
        args = [d.numpy(a) for a, d in zip(arrays, adapters, strict=True)]
        values = interpret(self.graph, *args, sizes=sizes, weights=self.weights.snapshot())
        out = []
        for value, spec in zip(values, self.graph.outputs, strict=True):
            if value is not None:
                out.append(results.empty(value.shape, spec.dtype))
                results.numpy(out[-1])[...] = value
        return out


@dataclass(frozen=True)
class Lowering:
    """What passes and planning give; ``plan`` is None for the ``reference`` backend."""

    graph: Graph
    passes: list[PassReport]
    plan: Any


@dataclass
class LoweredGraph:
    """A traced graph on its way to machine code.

    ``stored`` is its program from the cache on disk. Then passes and planner run only if somebody asks what they give.
    """

    traced: Graph
    backend: str
    made_of: dict[str, str] | None = None  # what the program follows from; None when it is not to be cached
    stored: Any = None
    device: int | None = None  # the GPU of the program; None is the driver's current one when it is needed
    numerics: Numerics = EXACT  # what kernels may do

    @cached_property
    def lowering(self) -> Lowering:
        """The graph after all passes and its plan; backends are imported when they are used."""
        if self.backend == "reference":
            return Lowering(self.traced, [], None)
        from zenith.backends.plan import plan

        target = self.target()
        optimized, passes = run(self.traced, passes_for(target))
        return Lowering(optimized, passes, plan(optimized, target))

    def target(self) -> Target:
        """What passes and planner may know of the machine and of what is allowed."""
        if self.backend == "cuda":
            from zenith.backends.cuda.libraries import LIBRARIES
            from zenith.backends.cuda.link import planned_arch
            from zenith.backends.cuda.target import cuda_target

            allowed = self.numerics
            return cuda_target(planned_arch(self.device), allowed.tf32, allowed.repeatable, LIBRARIES)
        from zenith.backends.cpu.target import cpu_target

        return cpu_target(error_budget=self.numerics.error_budget)

    @property
    def graph(self) -> Graph:
        """The graph after all passes."""
        return self.lowering.graph

    @property
    def plan(self) -> Any:
        """The plan; None for the ``reference`` backend."""
        return self.lowering.plan


def compile_graph(graph: Graph, backend: str = "cpu") -> Any:
    """Compile a graph; the result's ``run`` executes it, ``stages`` holds texts, ``report`` says what was done."""
    return link_graph(lower_graph(graph, backend))


def lower_graph(graph: Graph, backend: str, device: int | None = None, numerics: Numerics = EXACT) -> LoweredGraph:
    """Run the passes and plan the kernels, unless the cache has the program; ``device`` is a GPU's number."""
    if backend not in BACKENDS:
        raise UnsupportedError(f"there is no backend {backend!r}", fix=f"choose one of {', '.join(BACKENDS)}")
    lowered = LoweredGraph(graph, backend, device=device, numerics=numerics)
    if backend == "cpu" and _is_cacheable(graph):
        from zenith.backends.cpu import stored

        lowered.made_of = stored.identity(graph, lowered.target())
        lowered.stored = stored.find(graph, lowered.made_of)
    if lowered.stored is None:
        lowered.lowering  # noqa: B018  (now, so that errors come from here)
    return lowered


def _is_cacheable(graph: Graph) -> bool:
    """Whether a program follows from its graph's text and Zenith's sources alone: not with engines of the user's."""
    from zenith.backends.cache import store

    own_choice = not registered() and not config.engines
    return not config.debug and own_choice and store() is not None and not calls_outside(graph)


def calls(graph: Graph) -> list[Node]:
    """The nodes of a program that no kernel computes: Python and native functions, and routines of libraries."""
    return [node for node in graph.walk() if isinstance(node.primitive.lowering, HostCall | NativeCall)]


def calls_outside(graph: Graph) -> bool:
    """Whether a program calls functions of this process, the user's Python or native ones."""
    return any(map(is_outside, calls(graph)))


def link_graph(lowered: LoweredGraph, donated: Sequence[bool] = (), written: Mapping[int, int] | None = None) -> Any:
    """The executable of a lowered graph; compiled ones may put results in the memory of ``donated`` inputs.

    ``written`` has results that are new contents of an input, by number.
    """
    if lowered.backend == "reference":
        return Reference(lowered.traced)
    started = time.perf_counter()
    executable = {"cpu": _link_cpu, "cuda": _link_cuda, "lanes": _link_lanes}[lowered.backend](lowered)
    if lowered.backend in ("cpu", "cuda") and (any(donated) or written):
        program = executable.program if lowered.backend == "cpu" else executable.plan
        types = [cast(ArrayType, v.type) for v in lowered.traced.inputs]
        inputs = list(zip(program.inputs, types, strict=True))
        executable.donation = Donation(program.steps, inputs, program.outputs, donated, written)
    executable.report.link_ms = (time.perf_counter() - started) * 1e3
    return executable


def _link_cpu(lowered: LoweredGraph) -> Any:
    from zenith.backends.cpu.program import kernel_sources, program_of
    from zenith.backends.cpu.stored import Stored, keep

    stored = lowered.stored
    if stored is None:
        program, plan = program_of(lowered.plan), lowered.plan
        stages = {"plan": f"{plan}\n{program}", "kernels": kernel_sources(plan), "optimized": _text(lowered.graph)}
        stored = Stored(program, stages, _groups(lowered.graph))
    executable = _executable(stored, WeightTable.of(lowered.traced))
    if lowered.stored is not None:
        executable.report.cached = True
        return executable
    executable.report.passes = lowered.lowering.passes
    if lowered.made_of is not None:
        keep(lowered.traced, lowered.made_of, stored)
    return executable


def link_closed(spelled: Any, arrays: Sequence[Any]) -> Any:
    """The executable of a program that was saved (:mod:`zenith.backends.cpu.closed`); open ones have weights."""
    from zenith.backends.cpu.closed import put_in

    weights = {name: arrays[number] for name, number in spelled.get("weights", {}).items()}
    with put_in(spelled, arrays) as stored:
        executable = _executable(stored, WeightTable(weights))
    executable.report.cached = True
    return executable


def _executable(stored: Any, weights: WeightTable) -> Any:
    from zenith.backends.cpu.executable import Executable

    executable = Executable(stored.program, weights)
    executable.stages = stored.stages
    kernels = [(k.name, k.milliseconds) for k in executable.kernels.values()]
    executable.report = Report(groups=stored.groups, kernels=kernels)
    return executable


def link_closed_cuda(text: str, spelled: Any, reader: Any) -> Any:
    """The executable of a saved program of a GPU; ``reader`` is a :class:`zenith.backends.cuda.closed.Reader`."""
    closed = reader.put_in(text, spelled)
    lowered = lower_graph(closed.graph, "cuda", closed.device, closed.numerics)
    closed.check(lowered.plan)
    executable = _link_cuda(lowered, closed.code)
    executable.report.cached = True
    return executable


def _link_cuda(lowered: LoweredGraph, compile: Any = None) -> Any:
    from zenith.backends.cuda.link import link

    executable = link(lowered.plan, lowered.traced, lowered.device, compile)
    executable.stages = {"plan": str(lowered.plan), "kernels": executable.sources, "optimized": _text(lowered.graph)}
    executable.report = Report(lowered.lowering.passes, _groups(lowered.graph), executable.kernels)
    return executable


def _link_lanes(lowered: LoweredGraph) -> Any:
    from zenith.backends.cpu.texts import TILE_FUNCTIONS
    from zenith.backends.lanes import LanesExecutable

    executable = LanesExecutable(lowered.plan, TILE_FUNCTIONS, WeightTable.of(lowered.traced))
    kernels = "\n".join(executable.sources.values())
    executable.stages = {"plan": str(lowered.plan), "kernels": kernels, "optimized": _text(lowered.graph)}
    executable.report = Report(lowered.lowering.passes, _groups(lowered.graph))
    return executable


def _text(graph: Graph) -> str:
    return print_graph(graph, with_lines=True)


def _groups(optimized: Graph) -> dict[str, int]:
    kinds = [n.params["anchor"] for n in optimized.walk() if n.primitive.name == "fused"]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}
