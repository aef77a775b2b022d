"""The straight line: Graph -> passes -> plan -> kernels -> Executable."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import zenith.ir.ops  # noqa: F401  (fills the registry of primitives)
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
        self.graph = graph
        self.report = Report()
        self.stages = {
            "optimized": print_graph(graph, with_lines=True),
            "plan": "interpreted node by node",
            "kernels": "",
        }

    def run(self, arrays: Sequence[Any], adapters: Sequence[Any], sizes: Mapping[str, int], results: Any) -> list[Any]:
        """Interpret the graph and return its results in arrays made by ``results``."""
        values = interpret(self.graph, *(d.numpy(a) for a, d in zip(arrays, adapters, strict=True)), sizes=sizes)
        out = []
        for value, spec in zip(values, self.graph.outputs, strict=True):
            if value is not None:
                out.append(results.empty(value.shape, spec.dtype))
                results.numpy(out[-1])[...] = value
        return out


def compile_graph(graph: Graph, backend: str = "cpu") -> Any:
    """Compile a graph; the result's ``run`` executes it, ``stages`` holds texts, ``report`` says what was done."""
    if backend not in BACKENDS:
        raise ZenithError(f"there is no backend {backend!r}", fix=f"choose one of {', '.join(BACKENDS)}")
    if backend == "reference":
        return Reference(graph)
    _refuse_uncomputed_types(graph)
    optimized, passes = run(graph)
    started = time.perf_counter()
    executable = _link(optimized, backend)
    kinds = [n.params["anchor"] for _, n in optimized.nodes() if n.primitive.name == "fused"]
    executable.report = Report(
        passes,
        {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        [(k.name, k.milliseconds) for k in executable.kernels.values()] if backend == "cpu" else [],
        (time.perf_counter() - started) * 1e3,
    )
    executable.stages["optimized"] = print_graph(optimized, with_lines=True)
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


def _link(optimized: Graph, backend: str) -> Any:
    """The executable of an optimized graph; backends are imported when they are used."""
    from zenith.backends.cpu.link import TILE_FUNCTIONS
    from zenith.backends.cpu.target import cpu_target
    from zenith.backends.plan import plan

    program = plan(optimized, cpu_target())
    executable: Any
    if backend == "cpu":
        from zenith.backends.cpu.executable import Executable

        executable = Executable(program)
        kernels = executable.kernel_text()
    else:
        from zenith.backends.lanes import LanesExecutable

        executable = LanesExecutable(program, TILE_FUNCTIONS)
        kernels = "\n".join(executable.sources.values())
    executable.stages.update(plan=str(program), kernels=kernels)
    return executable
