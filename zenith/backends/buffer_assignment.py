"""The places of a graph's values: where each stands in memory while the graph is planned, and until when.

Results are made where they are returned, and so is what they are made of in place. What is left gets a slot of the
arena, which goes to what is made of it in place, or to anybody once the last reader has run. A view stands where its
source does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zenith.backends.arena import Arena
from zenith.backends.in_place import is_last_reader, made_of, overwritten
from zenith.backends.outputs import root_of
from zenith.backends.steps import Allocation
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import View
from zenith.ir.types import ArrayType


class BufferAssignment:
    """The places that values have so far, by node and output.

    ``still`` are the places that are the same in all steps, where the graph is the body of a loop; elsewhere None.
    """

    def __init__(self, graph: Graph, arena: Arena, still: Iterable[Allocation] | None = None) -> None:
        self.graph, self.arena = graph, arena
        self._still = None if still is None else {place.name for place in still}
        self.returned = tuple(v for v in graph.outputs if isinstance(v.type, ArrayType))
        self.at: dict[tuple[int, int], Allocation] = {}
        self._bound: set[tuple[int, int]] = set()  # what lives longer than this graph
        self.passed_on: set[tuple[int, int]] = set()  # values in whose memory another one stands
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
        """Where a value stands."""
        root = root_of(self.graph, value)
        return self.at[root.node, root.output]

    def known(self, number: int, output: int = 0) -> Allocation | None:
        """Where a result of a node is to stand, if that is known yet."""
        return self.at.get((number, output))

    def is_any_known(self, number: int) -> bool:
        """Whether it is known of some result of a node where it is to stand."""
        return any((number, i) in self.at for i in range(len(self.graph.node(number).types)))

    def put(self, number: int, place: Allocation, output: int = 0) -> Allocation:
        """Let a result of a node stand at a place."""
        self.at[number, output] = place
        return place

    def put_outputs(self, places: Iterable[Allocation]) -> None:
        """Let results be made where they are returned, and so what they are made of in place."""
        arrays = [(root_of(self.graph, v), p) for v, p in zip(self.returned, places, strict=False)]
        for root, place in arrays:
            self.at[root.node, root.output] = place
        for root, place in arrays:
            for value in made_of(self.graph, root):
                if (value.node, value.output) in self.at:
                    break
                self.at[value.node, value.output] = place

    def bind(
        self, inputs: Iterable[Allocation], outputs: Iterable[Allocation], between: Mapping[Value, Allocation]
    ) -> None:
        """Let a body's inputs and outputs, and values ``between`` them, stand where the graph around it says."""
        self.at.update(((v.node, 0), place) for v, place in zip(self.graph.inputs, inputs, strict=True))
        self.at.update(((v.node, v.output), place) for v, place in between.items())
        self.put_outputs(outputs)
        self._bound = set(self.at)

    def put_results(self, number: int) -> list[Allocation]:
        """Places for the arrays that a node gives, where they have none yet."""
        types = self.graph.node(number).types
        arrays = [(i, type) for i, type in enumerate(types) if isinstance(type, ArrayType)]
        for i, type in arrays:
            if (number, i) not in self.at:
                self.at[number, i] = self.arena.allocate(type.size, type.dtype)
        return [self.at[number, i] for i, _ in arrays]

    def reuse(self, number: int) -> None:
        """Let results stand in the memory of what they are made of, where nobody reads that any more."""
        for i, type in enumerate(self.graph.node(number).types):
            operand = None if (number, i) in self.at else overwritten(self.graph, Value(number, i, type))
            if operand is None:
                continue
            root = root_of(self.graph, operand)
            place = self.of(root)
            ours = (root.node, root.output) not in self._bound and not self.are_still([place])
            if place.kind == "slot" and ours and is_last_reader(self.graph, root, number):
                self.at[number, i] = place
                self.passed_on.add((root.node, root.output))

    def is_in_place(self, number: int) -> bool:
        """Whether a node's first result stands where the operand does that it is made of."""
        operand = overwritten(self.graph, Value(number, 0, self.graph.node(number).types[0]))
        return operand is not None and self.known(number) == self.of(operand)

    def release(self, number: int) -> None:
        """Give back the slots whose last reader was this node, and those of results that nobody reads.

        What was made ahead of a loop stays: every step reads it.
        """
        roots = {(r.node, r.output) for r in (root_of(self.graph, a) for a in self.graph.args(number))}
        own = {(number, i) for i in range(len(self.graph.node(number).types))}
        for key in sorted((roots | own) - self._bound - self.passed_on):
            place = self.at.get(key)
            if place is not None and self._last_use.get(key, key[0]) == number and not self.are_still([place]):
                self.arena.give_back(place)

    def are_still(self, places: Iterable[Allocation]) -> bool:
        """Whether places are the same in all steps of the loop whose body the graph is."""
        return self._still is not None and self._still.issuperset(place.name for place in places)

    def hold_still(self, place: Allocation) -> None:
        """Let a place be the same in all steps of the loop."""
        assert self._still is not None, "the graph is not the body of a loop"
        self._still.add(place.name)
