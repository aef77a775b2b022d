"""The straight line: Graph -> passes -> plan -> kernels -> Executable."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import zenith.ir.ops  # noqa: F401  (fills the registry of primitives)
from zenith.backends.weights import WeightTable
from zenith.errors import UnsupportedError, ZenithError
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.text import print_graph
from zenith.ir.types import COMPUTE_DTYPES, ArrayType
from zenith.passes.pipeline import PassReport, run

BACKENDS = ("cpu", "lanes", "reference")


@dataclass(slots=True)
class Report:
    """What compiling did: passes with their milliseconds, groups, kernels, milliseconds of linking."""

    passes: list[PassReport] = field(default_factory=list)
    groups: dict[str, int] = field(default_factory=dict)
    kernels: list[tuple[str, float]] = field(default_factory=list)
    link_ms: float = 0.0


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


@dataclass(frozen=True, slots=True)
class LoweredGraph:
    """A graph after all passes, and its plan (None for the ``reference`` backend): all but machine code."""

    graph: Graph
    backend: str
    passes: list[PassReport]
    plan: Any


def compile_graph(graph: Graph, backend: str = "cpu") -> Any:
    """Compile a graph; the result's ``run`` executes it, ``stages`` holds texts, ``report`` says what was done."""
    return link_graph(lower_graph(graph, backend))


def lower_graph(graph: Graph, backend: str) -> LoweredGraph:
    """Run the passes and plan the kernels; backends are imported when they are used."""
    if backend not in BACKENDS:
        raise ZenithError(f"there is no backend {backend!r}", fix=f"choose one of {', '.join(BACKENDS)}")
    if backend == "reference":
        return LoweredGraph(graph, backend, [], None)
    from zenith.backends.cpu.target import cpu_target
    from zenith.backends.plan import plan

    _refuse_uncomputed_types(graph)
    optimized, passes = run(graph)
    return LoweredGraph(optimized, backend, passes, plan(optimized, cpu_target()))


def link_graph(lowered: LoweredGraph) -> Any:
    """The executable of a lowered graph."""
    if lowered.backend == "reference":
        return Reference(lowered.graph)
    started = time.perf_counter()
    executable = _link(lowered)
    kinds = [n.params["anchor"] for _, n in lowered.graph.nodes() if n.primitive.name == "fused"]
    executable.report = Report(
        lowered.passes,
        {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        [(k.name, k.milliseconds) for k in executable.kernels.values()] if lowered.backend == "cpu" else [],
        (time.perf_counter() - started) * 1e3,
    )
    executable.stages["optimized"] = print_graph(lowered.graph, with_lines=True)
    return executable


def _refuse_uncomputed_types(graph: Graph) -> None:
    """Float16 and bfloat16 exist as types; kernels do not compute with them yet."""
    for _, node in graph.nodes():
        for type in node.types:
            if isinstance(type, ArrayType) and type.dtype not in COMPUTE_DTYPES:
                raise UnsupportedError(
                    f"no kernel computes with {type.dtype} yet", where=node.line, types=(type,),
                    fix='cast to float32 first, or use backend="reference"',
                )  # fmt: skip


def _link(lowered: LoweredGraph) -> Any:
    executable: Any
    if lowered.backend == "cpu":
        from zenith.backends.cpu.executable import Executable

        executable = Executable(lowered.plan, WeightTable.of(lowered.graph))
        kernels = executable.kernel_text()
    else:
        from zenith.backends.cpu.link import TILE_FUNCTIONS
        from zenith.backends.lanes import LanesExecutable

        executable = LanesExecutable(lowered.plan, TILE_FUNCTIONS, WeightTable.of(lowered.graph))
        kernels = "\n".join(executable.sources.values())
    executable.stages.update(plan=str(lowered.plan), kernels=kernels)
    return executable
