"""What ``torch.compile`` made of the models of this process: graphs, steps of PyTorch, graph breaks, recompilations."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch._dynamo import utils as dynamo

from zenith.api.tables import Shown, table
from zenith.torch.dynamo.graphs import CompiledGraph
from zenith.torch.steps import warned

if TYPE_CHECKING:
    from rich.console import RenderableType

_graphs: list[weakref.ref[CompiledGraph]] = []


def remember(graph: CompiledGraph) -> CompiledGraph:
    """Have reports tell of a graph while it lives."""
    _graphs[:] = [known for known in _graphs if known() is not None] + [weakref.ref(graph)]
    return graph


def forget() -> None:
    """Begin anew: reports tell of no graph, and warnings that were given can be given again."""
    _graphs.clear()
    warned.clear()


def graphs() -> list[CompiledGraph]:
    """The graphs that TorchDynamo handed to Zenith since ``torch.compiler.reset()`` and still uses, the oldest first.

    Each tells of its program: ``show()``, ``explain()``, ``cache_info()``, ``graph``.
    """
    gc.collect()  # what TorchDynamo dropped may hang in cycles
    return [graph for graph in (known() for known in _graphs) if graph is not None]


def explain() -> Report:
    """What ``torch.compile(..., backend="zenith")`` made in this process, as tables.

    Its graphs with what they compiled, the operators that PyTorch computes in them, and TorchDynamo's own graph breaks
    and recompilations, each with the user's line. ``torch.compiler.reset()`` forgets them all.

    >>> import torch, zenith
    >>> torch.compiler.reset()
    >>> double = torch.compile(lambda x: x * 2, backend="zenith")
    >>> double(torch.ones(3))
    tensor([2., 2., 2.])
    >>> print(zenith.torch.explain().steps)
    []
    """
    return Report()


class Report(Shown):
    """The state of this process when it was made.

    Attributes
    ----------
    graphs: a row for each graph: name, calls, programs, operators, kernels, seconds of tracing and compiling.
    steps: a row for each operator that PyTorch computes: operator, how often, in which graph, why, where.
    breaks, recompilations: rows of TorchDynamo's: why, where.
    """

    def __init__(self) -> None:
        found = graphs()
        self.graphs = [_row(graph) for graph in found]
        self.steps = [row for graph in found for row in _steps(graph)]
        self.breaks = [(b.reason, _place(b.user_stack)) for b in dynamo.graph_break_reasons if b.graph_break]
        self.recompilations = list(_recompilations())

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        return Group(
            table("graphs", ("graph", "calls", "programs", "operators", "kernels", "s"), self.graphs),
            table("computed by PyTorch", ("operator", "times", "graph", "why", "where"), self.steps),
            table("graph breaks", ("why", "where"), self.breaks),
            table("recompilations", ("why", "where"), self.recompilations),
        )


def _row(graph: CompiledGraph) -> tuple[Any, ...]:
    programs = graph._specializer.specializations()
    kernels = sum(len(s.executable.report.kernels) for s in programs)
    seconds = sum(sum(s.seconds) for s in programs)
    return graph.__name__, graph.calls, len(programs), graph.operators, kernels, f"{seconds:.2f}"


def _steps(graph: CompiledGraph) -> Iterator[tuple[Any, ...]]:
    for step, times in Counter(graph.steps).items():
        why = "draws from PyTorch's generator" if step.draws else step.why
        yield step.name, times, graph.__name__, why, "" if step.line is None else step.line.describe()


def _recompilations() -> Iterator[tuple[str, str]]:
    for metrics in dynamo.get_compilation_metrics():
        if metrics.recompile_reason:
            place = f"{metrics.co_filename}:{metrics.co_firstlineno} in {metrics.co_name}"
            yield metrics.recompile_reason.strip(), place


def _place(stack: Any) -> str:
    if not stack:
        return ""
    last = stack[-1]
    return f"{last.filename}:{last.lineno} in {last.name}" + (f":  {last.line}" if last.line else "")
