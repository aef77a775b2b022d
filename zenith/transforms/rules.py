"""The builder that derivative and batching rules write with: it can transform subgraphs too."""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.builder import Builder
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph


class RuleBuilder(Builder):
    """A builder for rules of primitives that hold subgraphs."""

    def jvp_of(self, graph: Graph, active: Sequence[bool]) -> Graph:
        """See :func:`~zenith.transforms.forward.jvp_graph`."""
        from zenith.transforms.forward import jvp_graph

        return jvp_graph(graph, active)

    def vjp_of(self, graph: Graph, wanted: Sequence[bool], seeded: Sequence[bool]) -> Graph:
        """See :func:`~zenith.transforms.reverse.vjp_graph`."""
        from zenith.transforms.reverse import vjp_graph

        return vjp_graph(graph, wanted, seeded)

    def batched_of(self, graph: Graph, size: Dim) -> Graph:
        """A graph all of whose inputs and results are batched; see :mod:`zenith.transforms.batching`."""
        from zenith.transforms.batching import batched_graph

        new, batched = batched_graph(graph, [True] * len(graph.inputs), size)
        builder = Builder(new)
        outputs = [
            value if flag
            else builder.broadcast(value, shape=(size, *value.shape), axes=tuple(range(1, len(value.shape) + 1)))
            for value, flag in zip(new.outputs, batched, strict=True)
        ]  # fmt: skip
        new.set_outputs(outputs)
        return new
