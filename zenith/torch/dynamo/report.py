"""What ``torch.compile`` made of the models of this process: graphs, steps of PyTorch, graph breaks, recompilations."""

from __future__ import annotations

import gc
import os
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from traceback import FrameSummary
from typing import TYPE_CHECKING

import torch
from torch._dynamo import utils as dynamo

from zenith.api.tables import Shown, table
from zenith.torch.dynamo.eager_graphs import EagerGraph
from zenith.torch.dynamo.graphs import CompiledGraph
from zenith.torch.steps import warned

if TYPE_CHECKING:
    from rich.console import RenderableType

_TORCH = os.path.dirname(torch.__file__) + os.sep
Graph = CompiledGraph | EagerGraph
_graphs: list[weakref.ref[Graph]] = []
_begun = [0]  # when reports began, in microseconds


def remember(graph: Graph) -> Graph:
    """Have reports list a graph while it lives."""
    _graphs[:] = [known for known in _graphs if known() is not None] + [weakref.ref(graph)]
    return graph


def forget() -> None:
    """Begin anew: reports list no graph, and warnings that were given can be given again."""
    _graphs.clear()
    warned.clear()
    _begun[0] = time.time_ns() // 1000


def graphs() -> list[CompiledGraph]:
    """The graphs that TorchDynamo passed to Zenith since ``torch.compiler.reset()`` and still uses, the oldest first.

    Each describes its program: ``show()``, ``explain()``, ``cache_info()``, ``graph``.
    """
    return [graph for graph in _living() if isinstance(graph, CompiledGraph)]


def _living() -> list[Graph]:
    gc.collect()  # what TorchDynamo dropped may hang in cycles
    return [graph for graph in (known() for known in _graphs) if graph is not None]


def explain() -> Report:
    """What ``torch.compile(..., backend="zenith")`` made in this process, as tables.

    Its graphs with what they compiled, the operators that PyTorch computes in them, and TorchDynamo's own graph breaks,
    functions that it left to Python, and recompilations, each with the user's line. ``torch.compiler.reset()`` forgets
    them all.

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
    left: a row for each function that TorchDynamo left to Python, of which no graph was made: function, why, where.
    """

    def __init__(self) -> None:
        found = _living()
        self.graphs = [_row(graph) for graph in found]
        self.steps = [row for graph in found for row in _steps(graph)]
        self.breaks = [(b.reason, _location(b.user_stack)) for b in dynamo.graph_break_reasons if b.graph_break]
        self.left = list(dict.fromkeys(_left()))
        self.recompilations = list(_recompilations())

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        return Group(
            table("graphs", ("graph", "calls", "programs", "operators", "kernels", "s"), self.graphs),
            table("computed by PyTorch", ("operator", "times", "graph", "why", "where"), self.steps),
            table("graph breaks", ("why", "where"), self.breaks),
            table("left to Python", ("function", "why", "where"), self.left),
            table("recompilations", ("why", "where"), self.recompilations),
        )


def _row(graph: Graph) -> tuple[object, ...]:
    programs = graph._specializer.specializations() if isinstance(graph, CompiledGraph) else []
    kernels = sum(len(s.executable.report.kernels) for s in programs)
    seconds = sum(sum(s.seconds) for s in programs)
    return graph.__name__, graph.calls, len(programs), graph.operators, kernels, f"{seconds:.2f}"


def _steps(graph: Graph) -> Iterator[tuple[object, ...]]:
    for step, times in Counter(graph.steps).items():
        why = "draws from PyTorch's generator" if step.draws else step.why
        yield step.name, times, graph.__name__, why, "" if step.line is None else step.line.describe()


def _compilations() -> Iterator[dynamo.CompilationMetrics]:
    """What TorchDynamo noted about each attempt to compile a function since reports began."""
    return (m for m in dynamo.get_compilation_metrics() if (m.start_time_us or 0) >= _begun[0])


def _recompilations() -> Iterator[tuple[str, str]]:
    for metrics in _compilations():
        if metrics.recompile_reason and metrics.co_name:
            yield metrics.recompile_reason.strip(), f"{_begin(metrics)} in {metrics.co_name}"


def _left() -> Iterator[tuple[str | None, str, str]]:
    """The attempts that failed; one beyond the limit of recompilations has the function's number alone."""
    named: dict[str, dynamo.CompilationMetrics] = {}
    for metrics in _compilations():
        own = metrics if metrics.co_name else named.get(_number(metrics))
        if own is not None:
            named[_number(metrics)] = own
        if metrics.fail_type is not None:
            at = f"{metrics.fail_user_frame_filename}:{metrics.fail_user_frame_lineno}"
            where = at if metrics.fail_user_frame_filename else "" if own is None else _begin(own)
            yield "?" if own is None else own.co_name, _why(metrics.fail_reason or metrics.fail_type), where


def _number(metrics: dynamo.CompilationMetrics) -> str:
    """TorchDynamo's number of a function, without that of the attempt."""
    return str(metrics.compile_id).rpartition("/")[0]


def _begin(metrics: dynamo.CompilationMetrics) -> str:
    return f"{metrics.co_filename}:{metrics.co_firstlineno}"


def _why(reason: str) -> str:
    """TorchDynamo's reason and what it explains, without hints."""
    lines = reason.strip().splitlines()
    explained = (line.strip().removeprefix("Explanation: ") for line in lines[1:] if "Explanation: " in line)
    return ": ".join([lines[0].strip(), *explained])


def _location(stack: Sequence[FrameSummary] | None) -> str:
    """The innermost line that is not PyTorch's."""
    own = [frame for frame in stack or () if not frame.filename.startswith(_TORCH)] or stack
    if not own:
        return ""
    last = own[-1]
    return f"{last.filename}:{last.lineno} in {last.name}" + (f":  {last.line}" if last.line else "")
