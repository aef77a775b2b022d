"""The builder that derivative and batching rules write with: it can transform subgraphs too."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from zenith.ir.builder import Builder, SubgraphBuilder
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Value

if TYPE_CHECKING:
    from zenith.transforms.split import Split


class RuleBuilder(SubgraphBuilder):
    """A builder for rules of primitives that hold subgraphs."""

    def on(self, graph: Graph) -> RuleBuilder:
        """A builder of another graph, for the same line of the user."""
        return RuleBuilder(graph, self.line)

    def split(
        self,
        graph: Graph,
        late: Sequence[bool],
        there: Sequence[Value] | None = None,
        same: Collection[int] | None = None,
        index: str = "",
    ) -> Split:
        """See :func:`~zenith.transforms.split.split_for_backward`."""
        from zenith.transforms.split import split_for_backward

        return split_for_backward(graph, late, there, same, index)

    def split_at_marks(self, joint: Graph, primals: int, results: int) -> tuple[Graph, Graph]:
        """See :func:`~zenith.transforms.marks.split_at_marks`."""
        from zenith.transforms.marks import split_at_marks

        return split_at_marks(joint, primals, results)

    def jvp_of(self, graph: Graph, active: Sequence[bool]) -> Graph:
        """See :func:`~zenith.transforms.forward.jvp_graph`."""
        from zenith.transforms.forward import jvp_graph

        return jvp_graph(graph, active)

    def vjp_of(self, graph: Graph, wanted: Sequence[bool], seeded: Sequence[bool]) -> Graph:
        """See :func:`~zenith.transforms.reverse.vjp_graph`."""
        from zenith.transforms.reverse import vjp_graph

        return vjp_graph(graph, wanted, seeded)

    def batched_of(self, graph: Graph, size: Dim, inputs: Sequence[bool] | None = None) -> Graph:
        """The graph for ``size`` examples with all results batched; ``inputs`` says which inputs are (default all)."""
        from zenith.transforms.batching import batched_graph

        new, batched = batched_graph(graph, inputs or [True] * len(graph.inputs), size)
        builder = Builder(new)
        outputs = [
            value if flag
            else builder.broadcast(value, shape=(size, *value.shape), axes=tuple(range(1, len(value.shape) + 1)))
            for value, flag in zip(new.outputs, batched, strict=True)
        ]  # fmt: skip
        new.set_outputs(outputs)
        return new
