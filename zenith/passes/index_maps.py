"""Index maps: what a node reads through those that are copied into their readers.

An index map (broadcast, transpose, slice, literals ...) that is *virtual* is copied into each of its readers; one whose
value itself is needed is *materialized*: stored, and computed on its own. The widening of a 16-bit float is virtual,
too: every reader widens for itself. So is that of a byte which is only summed, or only read by products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Elements, Fold, HostCall, NativeCall, Region, Scalar, Tile, View
from zenith.ir.ops.blocked_convolution import word_of
from zenith.ir.primitive import get
from zenith.passes.borders import written_borders
from zenith.passes.widenings import is_widening, makes_float_of_byte, widens_byte


@dataclass(frozen=True, slots=True)
class Read:
    """A computed value that a node reads, directly (``same``), repeated along a row (``spread``) or otherwise."""

    value: Value
    access: str


class IndexMaps:
    """Which nodes of a graph are virtual, and who reads what through them; kernels of products may read bytes."""

    def __init__(self, graph: Graph, products_read_bytes: bool = True) -> None:
        self.graph, self._products_read_bytes = graph, products_read_bytes
        self.args = {number: graph.args(number) for number, _ in graph.nodes()}
        self.users: dict[int, set[int]] = {number: set() for number in self.args}
        for number, args in self.args.items():
            for a in args:
                self.users[a.node].add(number)
        self.borders = written_borders(graph)
        self.materialized = {v.node for v in graph.outputs}
        self._virtual: dict[int, bool] = {}  # valid until more nodes are found to be materialized
        self._found: dict[tuple[Value, str], tuple[Read, ...]] = {}
        self._reads: dict[int, tuple[Read, ...]] = {}
        for number, node in graph.nodes():
            if needed := self._needed_whole(number, node) - self.materialized:
                self.materialized |= needed
                self._virtual.clear()

    def is_virtual(self, number: int) -> bool:
        """Whether a node is copied into its readers: an index map, or a number computed from literals and sizes."""
        if number not in self._virtual:
            maps = number not in self.materialized and (self.is_map(number) or self.widens(number))
            self._virtual[number] = maps
        return self._virtual[number]

    def widens(self, number: int) -> bool:
        """Whether a node widens for its readers: a 16-bit float for all, a byte for sums, or as float for products."""
        if is_widening(self.graph, number):
            return True
        if number in self.materialized:
            return False
        readers = [self.graph.node(user).primitive for user in self.users[number]]
        if widens_byte(self.graph, number):
            return all(isinstance(reader.lowering, Fold) for reader in readers)
        if not self._products_read_bytes or not makes_float_of_byte(self.graph, number):
            return False
        return all(reader is get("matmul") for reader in readers)

    def is_map(self, number: int) -> bool:
        """Whether a node only maps indices, or is a number computed from literals and sizes."""
        node = self.graph.node(number)
        lowering = node.primitive.lowering
        if number in self.borders:
            return False
        if isinstance(lowering, Scalar) and not Value(number, 0, node.types[0]).shape:
            return all(self.is_virtual(a.node) for a in self.args[number])
        return (isinstance(lowering, Elements) and lowering.cheap) or node.primitive is get("literal")

    def _needed_whole(self, number: int, node: Node) -> set[int]:
        """The arguments that must be in memory: all of what no kernel computes, of a tile those it cannot stride."""
        operands = {a.node for a in self.args[number]}
        if isinstance(node.primitive.lowering, (View, HostCall, NativeCall, Region)):
            return operands
        if isinstance(node.primitive.lowering, Tile):
            matrices = self.args[number][: node.primitive.lowering.matrices]
            needed = {a.node for a in matrices if not self._is_strided(a.node)}
            is_convolution = node.primitive.lowering.kernel == "convolution"
            return needed | (self._scattered_words(matrices[0]) if is_convolution else set())
        return set()

    def _scattered_words(self, value: Value) -> set[int]:
        """What a convolution reads in words of neighbours, where these are none in memory."""
        read = self.read_from(value)
        is_scattered = word_of(read.dtype) > 1 and read.shape[-1] != 1 and self._moves_last(read.node)
        return {read.node} if is_scattered else set()

    def _moves_last(self, number: int) -> bool:
        """Whether a virtual node is a transpose, perhaps moved further, of an array with another last axis."""
        while self.is_virtual(number) and self.args[number]:
            node = self.graph.node(number)
            if node.primitive is get("transpose") and node.params["axes"][-1] != len(node.params["axes"]) - 1:
                return True
            number = self.args[number][0].node
        return False

    def _is_strided(self, number: int) -> bool:
        while self.is_virtual(number):
            lowering = self.graph.node(number).primitive.lowering
            strided = isinstance(lowering, Elements) and lowering.strided
            if not strided and not self.widens(number):
                return False
            number = self.args[number][0].node
        return True

    def reads(self, number: int) -> tuple[Read, ...]:
        """The values that a node reads through index maps."""
        if number not in self._reads:
            self._reads[number] = tuple(read for value in self.args[number] for read in self.leaves(value))
        return self._reads[number]

    def leaves(self, value: Value, access: str = "same") -> tuple[Read, ...]:
        """Each array that a value is copied from, once for each access: maps that share operands are many paths."""
        if (value, access) not in self._found:
            self._found[value, access] = tuple(dict.fromkeys(self._leaves_of(value, access)))
        return self._found[value, access]

    def _leaves_of(self, value: Value, access: str) -> Iterator[Read]:
        if not self.is_virtual(value.node):
            yield Read(value, access)
            return
        node = self.graph.node(value.node)
        if self.widens(value.node):
            yield from self.leaves(self.args[value.node][0], access)
            return
        spreads = access == "same" and node.primitive is get("broadcast")
        for arg in self.args[value.node]:
            plain = spreads and node.params["axes"] == tuple(range(len(arg.shape))) and not self.is_virtual(arg.node)
            yield from self.leaves(arg, "spread" if plain else "other")

    def read_from(self, value: Value) -> Value:
        """What a value widens, else the value itself."""
        widens = self.is_virtual(value.node) and self.widens(value.node)
        return self.args[value.node][0] if widens else value

    def readers_of(self, number: int) -> set[int]:
        """The readers of a node; those of a widening instead of the widening."""
        copied = {u for u in self.users[number] if self.is_virtual(u) and self.widens(u)}
        return self.users[number] - copied | {reader for u in copied for reader in self.users[u]}
