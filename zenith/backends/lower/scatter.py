"""Scatter: a copy of the first operand, to which the updates are added in index order, so that sums are repeatable.

The trailing axes, which no index array places, are independent: a task is one element of them and goes through all
updates, neighbours in lanes. So a row is added as a vector, and the gradient of an embedding is work for many threads.
Without such axes there is one task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zenith.backends.kernel import Apply, Kernel, Load, Loop, Store
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.elements import ElementBuilder, Index, IndexBuilder
from zenith.backends.lower.nest import Interface, decode_into, element_loops, find_loops, scalar_cost
from zenith.backends.lower.overwrite import copy_kernel, with_used_buffers
from zenith.ir.dims import Dim, dim, product, row_major, symbol
from zenith.ir.graph import Graph, Value

Groups = list[list[int]]

TOGETHER = 64  # neighbours of a chunk: each chunk goes through all index arrays


@dataclass(frozen=True, slots=True)
class ScatterGroup:
    """A scatter's operands; ``lead`` are the axes of the updates that count them, ``rest`` those of one update."""

    face: Interface
    x: Value
    updates: Value
    indices: tuple[Value, ...]

    @classmethod
    def of(cls, body: Graph) -> ScatterGroup:
        """The scatter of a body, its one result."""
        x, updates, *indices = body.args(body.outputs[0].node)
        return cls(Interface.of(body), x, updates, tuple(indices))

    @property
    def lead(self) -> tuple[Dim, ...]:
        return self.indices[0].shape

    @property
    def rest(self) -> tuple[Dim, ...]:
        return self.updates.shape[len(self.lead) :]

    def places(self, e: ElementBuilder, index: Index) -> Index:
        """The index of an update as the leading index of where it is added."""
        (result,) = self.face.body.outputs
        builder = IndexBuilder(e, self.face.body.node(result.node).line, ())
        pairs = zip(self.indices, self.x.shape, strict=False)
        return tuple(builder.checked(e.element(i, index), size) for i, size in pairs)

    def add(self, e: ElementBuilder, places: Index, index: Index) -> Dim:
        """Add the update's element at an index; returns the position."""
        (out,), dtype = self.face.outputs, self.x.dtype
        at = row_major(self.x.shape, (*places, *index[len(self.lead) :]))
        total = Apply("x + y", (Load(out, at, dtype), e.element(self.updates, index)), dtype)
        e.append(Store(out, at, total))
        return at

    def loops(self) -> tuple[Groups, Groups]:
        """The axes that can be one loop: those of ``lead`` and those of ``rest``, each counted from its first."""
        written: list[Dim] = []

        def visit(e: ElementBuilder, index: Index) -> None:
            written.append(self.add(e, self.places(e, index[:count]), index))

        count = len(self.lead)
        groups = find_loops(self.face, self.updates.shape, visit, lambda index: written)
        outer = [[a for a in g if a < count] for g in groups]
        inner = [[a - count for a in g if a >= count] for g in groups]
        return [g for g in outer if g], [g for g in inner if g]

    def number(self, e: ElementBuilder, outer: Groups, u: Dim) -> Index:
        """Update ``u`` as an index of ``lead``, with its variables named in the innermost loop."""
        return spread(outer, len(self.lead), decode_into(e, u, sizes(self.lead, outer)))

    def kernels(self, adding: Kernel) -> list[Kernel]:
        """The copy, and what adds to it."""
        return [copy_kernel(self.face, self.x), with_used_buffers(adding)]


def lower_scatter(body: Graph) -> list[Kernel]:
    """The copy, and a task for each element of an update."""
    group = ScatterGroup.of(body)
    outer, inner = group.loops()
    e = group.face.builder()
    u = e.fresh("u")
    e.open(u)
    number = group.number(e, outer, symbol(u))

    def add(index: Index) -> None:
        group.add(e, group.places(e, number), (*number, *index))

    if group.rest:
        element_loops(e, group.rest, inner, add)
    else:
        add(())
    e.append(Loop(u, dim(0), product(group.lead), False, e.close()))
    adding = group.face.kernel(product(group.rest), product(group.lead) * scalar_cost(body), e)
    return group.kernels(replace(adding, together=TOGETHER))
