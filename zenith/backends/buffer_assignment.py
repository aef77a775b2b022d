"""Buffer assignment: the allocation of each of a graph's values while the graph is planned, and until when it is live.

Outputs are computed in the memory in which they are returned, and so are the values that they overwrite in place. Every
other value gets a slot of the arena, which goes to a result that overwrites it in place, or is free once its last
reader has run. A view shares its source's allocation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zenith.backends.arena import Arena
from zenith.backends.in_place import in_place_ancestors, is_last_reader, overwritten
from zenith.backends.outputs import root_of
from zenith.backends.steps import Allocation
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import View
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType


class BufferAssignment:
    """The allocations that values have so far, by node and output.

    ``invariant`` are those that are the same in all iterations, where the graph is the body of a loop; elsewhere None.
    """

    def __init__(self, graph: Graph, arena: Arena, invariant: Iterable[Allocation] | None = None) -> None:
        self.graph, self.arena = graph, arena
        self._invariant = None if invariant is None else {a.name for a in invariant}
        self.returned = tuple(v for v in graph.outputs if isinstance(v.type, ArrayType))
        self.at: dict[tuple[int, int], Allocation] = {}
        self._bound: set[tuple[int, int]] = set()  # values that outlive this graph
        self.passed_on: set[tuple[int, int]] = set()  # values whose memory another one has taken in place
        self._last_use = self._last_uses()

    def _last_uses(self) -> dict[tuple[int, int], int]:
        last: dict[tuple[int, int], int] = {}
        for number, node in self.graph.nodes():
            if isinstance(node.primitive.lowering, View):
                continue
            for arg in self.graph.args(number):
                root = root_of(self.graph, arg)
                last[root.node, root.output] = max(number, last.get((root.node, root.output), number))
        return last

    def of(self, value: Value) -> Allocation:
        """The allocation of a value; a view's is its source's."""
        root = root_of(self.graph, value)
        return self.at[root.node, root.output]

    def known(self, number: int, output: int = 0) -> Allocation | None:
        """The allocation of a node's result; None while it has none."""
        return self.at.get((number, output))

    def is_any_known(self, number: int) -> bool:
        """Whether some result of a node has an allocation already."""
        return any((number, i) in self.at for i in range(len(self.graph.node(number).types)))

    def put(self, number: int, allocation: Allocation, output: int = 0) -> Allocation:
        """Assign an allocation to a node's result."""
        self.at[number, output] = allocation
        return allocation

    def put_outputs(self, allocations: Iterable[Allocation]) -> None:
        """Assign the outputs' allocations to them, and to the values that they overwrite in place."""
        arrays = [(root_of(self.graph, v), a) for v, a in zip(self.returned, allocations, strict=False)]
        for root, allocation in arrays:
            self.at[root.node, root.output] = allocation
        for root, allocation in arrays:
            for value in in_place_ancestors(self.graph, root):
                if (value.node, value.output) in self.at:
                    break
                self.at[value.node, value.output] = allocation

    def bind(
        self, inputs: Iterable[Allocation], outputs: Iterable[Allocation], between: Mapping[Value, Allocation]
    ) -> None:
        """Give a body's inputs, outputs and values ``between`` them the allocations that the graph around it has."""
        self.at.update(((v.node, 0), a) for v, a in zip(self.graph.inputs, inputs, strict=True))
        self.at.update(((v.node, v.output), a) for v, a in between.items())
        self.put_outputs(outputs)
        self._bound = set(self.at)

    def put_results(self, number: int) -> list[Allocation]:
        """The allocations of the arrays that a node defines, new ones where they have none yet."""
        types = self.graph.node(number).types
        arrays = [(i, type) for i, type in enumerate(types) if isinstance(type, ArrayType)]
        for i, type in arrays:
            if (number, i) not in self.at:
                self.at[number, i] = self.arena.allocate(type.size, type.dtype)
        return [self.at[number, i] for i, _ in arrays]

    def reuse(self, number: int) -> None:
        """Let results take the memory of the operands that they overwrite, where nobody reads these any more."""
        for i, type in enumerate(self.graph.node(number).types):
            operand = None if (number, i) in self.at else overwritten(self.graph, Value(number, i, type))
            if operand is None:
                continue
            root = root_of(self.graph, operand)
            allocation = self.of(root)
            ours = (root.node, root.output) not in self._bound and not self.are_invariant([allocation])
            if self.arena.owns(allocation) and ours and is_last_reader(self.graph, root, number):
                self.at[number, i] = allocation
                self.passed_on.add((root.node, root.output))

    def is_in_place(self, number: int) -> bool:
        """Whether a node's first result has the memory of the operand that it overwrites, or that has no contents."""
        operand = overwritten(self.graph, Value(number, 0, self.graph.node(number).types[0]))
        if operand is None:
            return False
        is_empty = self.graph.node(root_of(self.graph, operand).node).primitive is get("empty")
        return is_empty or self.known(number) == self.of(operand)

    def release(self, number: int) -> None:
        """Free the slots whose last reader was this node, and those of results that nobody reads.

        Results that were hoisted out of a loop stay: every iteration reads them.
        """
        roots = {(r.node, r.output) for r in (root_of(self.graph, a) for a in self.graph.args(number))}
        own = {(number, i) for i in range(len(self.graph.node(number).types))}
        for key in sorted((roots | own) - self._bound - self.passed_on):
            slot = self.at.get(key)
            if slot is not None and self._last_use.get(key, key[0]) == number and not self.are_invariant([slot]):
                self.arena.give_back(slot)

    @property
    def is_loop(self) -> bool:
        """Whether the graph is the body of a loop."""
        return self._invariant is not None

    def are_invariant(self, allocations: Iterable[Allocation]) -> bool:
        """Whether allocations are the same in all iterations of the loop whose body the graph is."""
        return self._invariant is not None and self._invariant.issuperset(a.name for a in allocations)

    def add_invariant(self, allocation: Allocation) -> None:
        """Note an allocation that is the same in all iterations of the loop."""
        assert self._invariant is not None, "the graph is not the body of a loop"
        self._invariant.add(allocation.name)
