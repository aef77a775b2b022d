"""Scatter: a copy of the first operand, to which the updates are joined in index order, so that sums are repeatable.

The trailing axes, which have no index array, are independent: a task is one element of them and goes through all
updates, neighbours in lanes. So a row is added as a vector, and the gradient of an embedding is work for many threads.
Where an index array only counts an axis of the updates, their rows never collide, and a task is a row. Without either
there is one task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zenith.backends.expressions import Apply, Load
from zenith.backends.kernel import Kernel, Store
from zenith.backends.lower.collapse import sizes, spread
from zenith.backends.lower.elements import ElementBuilder, Index, IndexBuilder
from zenith.backends.lower.loops import loop, task_loop
from zenith.backends.lower.nest import (
    KernelInterface,
    decode_into,
    element_loops,
    find_loops,
    scalar_cost,
    with_used_buffers,
)
from zenith.backends.lower.pointwise.overwrite import copy_kernel
from zenith.ir.dims import Dim, product, row_major
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Scatter

Groups = list[list[int]]

TOGETHER = 64  # neighbours of a chunk: each chunk goes through all index arrays
FEW = 8  # rows below which they are too few to be the only tasks


@dataclass(frozen=True, slots=True)
class ScatterGroup:
    """A scatter's operands; ``lead`` are the axes of the updates that count them, ``rest`` those of one update."""

    face: KernelInterface
    x: Value
    updates: Value
    indices: tuple[Value, ...]

    @classmethod
    def of(cls, body: Graph) -> ScatterGroup:
        """The scatter of a body, its one result."""
        x, updates, *indices = body.args(body.outputs[0].node)
        return cls(KernelInterface.of(body), x, updates, tuple(indices))

    @property
    def lead(self) -> tuple[Dim, ...]:
        return self.indices[0].shape

    @property
    def rest(self) -> tuple[Dim, ...]:
        return self.updates.shape[len(self.lead) :]

    @property
    def lowering(self) -> Scatter:
        (result,) = self.face.body.outputs
        lowering = self.face.body.node(result.node).primitive.lowering
        assert isinstance(lowering, Scatter)
        return lowering

    def coordinates(self, e: ElementBuilder, index: Index) -> Index:
        """The leading coordinates in the result of the update at an index."""
        (result,) = self.face.body.outputs
        builder = IndexBuilder(e, self.face.body.node(result.node).line, ())
        pairs = zip(self.indices, self.x.shape, strict=False)
        return tuple(builder.checked(e.element(i, index), size) for i, size in pairs)

    def join(self, e: ElementBuilder, coordinates: Index, index: Index) -> Dim:
        """Join the update's element at an index to the result's; returns the position."""
        (out,), dtype = self.face.outputs, self.x.dtype
        at = row_major(self.x.shape, (*coordinates, *index[len(self.lead) :]))
        update = e.element(self.updates, index)
        if not self.lowering.overwrites:
            update = Apply(self.lowering.combine, (Load(out, at, dtype), update), dtype)
        e.append(Store(out, at, update))
        return at

    def loops(self) -> tuple[Groups, Groups]:
        """The axes that can be one loop: those of ``lead`` and those of ``rest``, each counted from its first."""
        written: list[Dim] = []

        def visit(e: ElementBuilder, index: Index) -> None:
            written.append(self.join(e, self.coordinates(e, index[:count]), index))

        count = len(self.lead)
        groups = find_loops(self.face, self.updates.shape, visit, lambda index: written)
        outer = [[a for a in g if a < count] for g in groups]
        inner = [[a - count for a in g if a >= count] for g in groups]
        return [g for g in outer if g], [g for g in inner if g]

    def number(self, e: ElementBuilder, outer: Groups, u: Dim) -> Index:
        """Update ``u`` as an index of ``lead``, with its variables named in the innermost loop."""
        return spread(outer, len(self.lead), decode_into(e, u, sizes(self.lead, outer)))

    def kernels(self, joining: Kernel) -> list[Kernel]:
        """The kernel that copies the operand, and the one that joins the updates."""
        return [copy_kernel(self.face, self.x), with_used_buffers(joining)]


def lower_scatter(body: Graph) -> list[Kernel]:
    """The copy, and a task for each row of updates with a result row of its own, else for each element of an update."""
    group = ScatterGroup.of(body)
    own = own_axes(body)
    return group.kernels(_by_rows(group, own) if own else _by_elements(group, scalar_cost(body)))


def own_axes(body: Graph) -> list[int]:
    """The axes of the updates along which all coordinates differ, since an index array counts them.

    Batches are such axes, and all axes but one of ``put_along_axis``. Fewer than ``FEW`` rows do not count.
    """
    _, _, *indices = body.args(body.outputs[0].node)
    found = {axis for index in indices if (axis := _counted(body, index)) is not None}
    count = product(indices[0].shape[a] for a in found).static
    return [] if count is not None and count < FEW else sorted(found)


def _counted(body: Graph, index: Value) -> int | None:
    """The axis of an index array along which it is 0, 1, 2 ..., and does not change along others."""
    node, axes = body.node(index.node), (0,)
    if node.primitive.name == "broadcast":
        axes, node = node.params["axes"], body.node(body.args(index.node)[0].node)
    return axes[0] if node.primitive.name == "iota" and node.params["size"] == index.shape[axes[0]] else None


def _by_rows(group: ScatterGroup, own: list[int]) -> Kernel:
    _, inner = group.loops()
    others = [a for a in range(len(group.lead)) if a not in own]
    e, tasks = group.face.builder(), product(group.lead[a] for a in own)
    with task_loop(e, tasks, "row") as row:
        mine = decode_into(e, row, [group.lead[a] for a in own])
        with loop(e, "u", 0, product(group.lead[a] for a in others)) as u:
            rest = decode_into(e, u, [group.lead[a] for a in others])
            pairs = {**dict(zip(own, mine, strict=True)), **dict(zip(others, rest, strict=True))}
            number = tuple(pairs[a] for a in range(len(group.lead)))
            coordinates = group.coordinates(e, number)
            if group.rest:
                with loop(e, "i", 0, product(group.rest), lanes=True) as lane:
                    index = spread(inner, len(group.rest), decode_into(e, lane, sizes(group.rest, inner)))
                    group.join(e, coordinates, (*number, *index))
            else:
                group.join(e, coordinates, number)
    return group.face.kernel(tasks, product(group.updates.shape[a] for a in others) * product(group.rest), e)


def _by_elements(group: ScatterGroup, cost: int) -> Kernel:
    outer, inner = group.loops()
    e = group.face.builder()
    with loop(e, "u", 0, product(group.lead)) as u:
        number = group.number(e, outer, u)

        def join(index: Index) -> None:
            group.join(e, group.coordinates(e, number), (*number, *index))

        if group.rest:
            element_loops(e, group.rest, inner, join)
        else:
            join(())
    joining = group.face.kernel(product(group.rest), product(group.lead) * cost, e)
    return replace(joining, together=TOGETHER)
