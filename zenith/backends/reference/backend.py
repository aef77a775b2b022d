"""The record of the ``reference`` backend, and its executable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from zenith.backends.backend import Backend, CompilationReport, DeferredLowering
from zenith.backends.weights import WeightTable
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.text import print_graph

if TYPE_CHECKING:
    from zenith.arrays.adapter import Adapter

Given = TypeVar("Given")  # an array of an argument's library
Made = TypeVar("Made")  # of that of the results


class InterpretedGraph:
    """A graph as it was traced, which each call interprets node by node: the oracle of every test."""

    linked = ()

    def __init__(self, graph: Graph) -> None:
        self.graph, self.weights = graph, WeightTable.of(graph)
        self.report: CompilationReport | None = None
        self.groups: dict[str, int] = {}
        optimized = print_graph(graph, with_lines=True)
        self.stages = {"optimized": optimized, "plan": "interpreted node by node", "kernels": ""}

    def run(
        self,
        arrays: Sequence[Given],
        adapters: Sequence[Adapter[Given]],
        sizes: Mapping[str, int],
        results: Adapter[Made],
    ) -> list[Made]:
        """Interpret the graph and return its results in arrays made by ``results``."""
        args = [adapter.numpy(array) for array, adapter in zip(arrays, adapters, strict=True)]
        values = interpret(self.graph, *args, sizes=sizes, weights=self.weights.snapshot())
        out = []
        for value, spec in zip(values, self.graph.outputs, strict=True):
            if value is not None:
                out.append(results.empty(value.shape, spec.dtype))
                results.numpy(out[-1])[...] = value
        return out


def _link(lowered: DeferredLowering, donated: Sequence[bool], written: Mapping[int, int]) -> InterpretedGraph:
    return InterpretedGraph(lowered.traced)


REFERENCE = Backend("reference", "Interprets the traced graph with NumPy, node by node.", _link)
