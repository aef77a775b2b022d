"""Groups for fusion: which operations one kernel can compute together.

A *group* has a kind and an iteration space, the shape over which its kernel runs:

* ``loops``: elementwise operations of one shape;
* ``rows``: the same, with reductions of the trailing axes and what is computed from their results, and with prefixes
  of the last axis, in one direction;
* ``prefix``: elementwise operations of one shape and prefixes of another axis of it, in one direction;
* ``columns``: a reduction of leading or inner axes with what precedes it;
* ``product``: a matrix product with the elementwise operations behind it;
* ``convolution``: a convolution on blocks of channels, with the same behind it;
* ``convolution_weights``: a convolution's gradient by its weights;
* ``attention``: attention, whose mask is read through index maps;
* ``attention_vjp``: the way back through it, with the sums along rows that it alone reads;
* ``scatter``: a scatter with the index maps in front of it;
* ``update``: a part of an array written over, with the elementwise operations that compute it;
* ``sort``: the order of each row's elements, which are read through index maps;
* ``top_k``: the best of them.

Index maps (broadcast, transpose, slice, literals ...) belong to no group: each group that reads through one gets its
own copy, and one is computed on its own only where its value itself is needed; a transpose that keeps rows together is
then how a product or attention stores its result, and so is a border around that of a convolution. The widening of a
16-bit float is in no group either: every reader makes its own; what rounds a result of attention to one is how that is
stored.
Groups grow greedily in program order:
an operation joins the latest group that computes one of its operands at the same place, and unites it with the other
groups that do, unless a path through another group leads back (groups must stay acyclic).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import (
    Data,
    Elements,
    Fold,
    HostCall,
    Interleave,
    NativeCall,
    Overwrite,
    Prefix,
    Region,
    Scalar,
    Scatter,
    Tile,
    View,
)
from zenith.ir.primitive import get
from zenith.passes.borders import written_borders
from zenith.passes.widenings import is_widening

MAX_MEMBERS = 64  # longer groups compile slowly and spill registers
ATTENTION = ("attention", "attention_vjp")
TILES = ("product", "convolution", *ATTENTION)  # kinds whose kernels write a result tile by tile
JOINED = ("loops", "rows", "prefix", "product", "convolution")  # kinds behind which elementwise operations are computed
BORDERED = ("loops", "convolution")  # kinds whose kernels write results inside borders
SIDE_BY_SIDE = ("loops", "rows")  # those whose results may stand side by side

Shape = tuple[Dim, ...]


def is_slice_written(graph: Graph, value: Value, number: int) -> bool:
    """Whether a value is the slice of an array that the ``update_slice`` of that number writes over."""
    made, update = graph.node(value.node), graph.node(number)
    same = made.primitive is get("slice") and update.primitive is get("update_slice") and made.params == update.params
    return same and graph.args(value.node)[0] == graph.args(number)[0]


@dataclass(slots=True)
class Group:
    """Nodes that one kernel computes; ``outer`` is the number of leading axes that a rows group does not reduce.

    ``along`` is the axis of its prefixes and whether they go in reverse, None while there are none.
    """

    kind: str
    space: Shape
    outer: int
    members: list[int] = field(default_factory=list)
    along: tuple[int, bool] | None = None

    def level(self, shape: Shape) -> str | None:
        """Whether a value of ``shape`` lives at every element of the space, once a row, or not in this space."""
        if shape == self.space:
            return "element"
        if self.kind == "rows" and shape == self.space[: self.outer]:
            return "row"
        return None


@dataclass(frozen=True, slots=True)
class Read:
    """A computed value that a node reads, directly (``same``), repeated along a row (``spread``) or otherwise."""

    value: Value
    access: str


class Grouping:
    """Assigns every computed node to a group (a *unit*); nodes that no kernel computes are units of their own."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.args = {number: graph.args(number) for number, _ in graph.nodes()}
        self.users: dict[int, set[int]] = {number: set() for number in self.args}
        self.groups: dict[int, Group] = {}
        self.units = 0
        self.unit: dict[int, int] = {}
        self.deps, self.readers = dict[int, set[int]](), dict[int, set[int]]()
        self.top: dict[int, int] = {}  # the last node of a unit and of all that it depends on
        self.first, self.last = dict[int, int](), dict[int, int]()
        self.turned: set[int] = set()  # results stored transposed or inside a border: nothing in their group reads them
        for number, args in self.args.items():
            for a in args:
                self.users[a.node].add(number)
        self.borders = written_borders(graph)
        self.materialized = {v.node for v in graph.outputs}
        self._virtual: dict[int, bool] = {}  # what is known while nothing more is found to stand in memory
        self._found: dict[tuple[Value, str], tuple[Read, ...]] = {}
        self._reads: dict[int, tuple[Read, ...]] = {}
        for number, node in graph.nodes():
            if needed := self._needed_whole(number, node) - self.materialized:
                self.materialized |= needed
                self._virtual.clear()
        for number, _ in graph.nodes():
            if not self.is_virtual(number):
                self._place(number)

    def is_virtual(self, number: int) -> bool:
        """Whether a node is an index map, or a number made of literals and sizes, that is copied into its readers."""
        if number not in self._virtual:
            maps = number not in self.materialized and (self._is_map(number) or is_widening(self.graph, number))
            self._virtual[number] = maps
        return self._virtual[number]

    def _is_map(self, number: int) -> bool:
        node = self.graph.node(number)
        lowering = node.primitive.lowering
        if number in self.borders:
            return False
        if isinstance(lowering, Scalar) and not self._shape(number):
            return all(self.is_virtual(a.node) for a in self.args[number])
        return (isinstance(lowering, Elements) and lowering.cheap) or node.primitive is get("literal")

    def _needed_whole(self, number: int, node: Node) -> set[int]:
        """The arguments that must stand in memory: all of what no kernel computes, those a tile cannot stride over."""
        operands = {a.node for a in self.args[number]}
        if isinstance(node.primitive.lowering, (View, HostCall, NativeCall, Region)):
            return operands
        if isinstance(node.primitive.lowering, Tile):
            matrices = self.args[number][: node.primitive.lowering.matrices]
            return {a.node for a in matrices if not self._is_strided(a.node)}
        return set()

    def _is_strided(self, number: int) -> bool:
        while self.is_virtual(number):
            lowering = self.graph.node(number).primitive.lowering
            strided = isinstance(lowering, Elements) and lowering.strided
            if not strided and not is_widening(self.graph, number):
                return False
            number = self.args[number][0].node
        return True

    def reads(self, number: int) -> tuple[Read, ...]:
        """What a node reads once index maps are looked through."""
        if number not in self._reads:
            self._reads[number] = tuple(read for value in self.args[number] for read in self._leaves(value, "same"))
        return self._reads[number]

    def _leaves(self, value: Value, access: str) -> tuple[Read, ...]:
        """Each array that a value is copied from, once for each way: maps that share operands are many paths."""
        if (value, access) not in self._found:
            self._found[value, access] = tuple(dict.fromkeys(self._leaves_of(value, access)))
        return self._found[value, access]

    def _leaves_of(self, value: Value, access: str) -> Iterator[Read]:
        if not self.is_virtual(value.node):
            yield Read(value, access)
            return
        node = self.graph.node(value.node)
        if is_widening(self.graph, value.node):
            yield from self._leaves(self.args[value.node][0], access)
            return
        spreads = access == "same" and node.primitive is get("broadcast")
        for arg in self.args[value.node]:
            plain = spreads and node.params["axes"] == tuple(range(len(arg.shape))) and not self.is_virtual(arg.node)
            yield from self._leaves(arg, "spread" if plain else "other")

    def _read_from(self, value: Value) -> Value:
        """The 16-bit float that a value widens, else the value itself."""
        widens = self.is_virtual(value.node) and is_widening(self.graph, value.node)
        return self.args[value.node][0] if widens else value

    def _readers_of(self, number: int) -> set[int]:
        """Who reads a node, those behind a widening in its place."""
        copied = {u for u in self.users[number] if self.is_virtual(u) and is_widening(self.graph, u)}
        return self.users[number] - copied | {reader for u in copied for reader in self.users[u]}

    def _place(self, number: int) -> None:
        lowering = self.graph.node(number).primitive.lowering
        if isinstance(lowering, (View, HostCall, NativeCall, Region, Data)) and not self._is_map(number):
            self._new_unit(number, None)
        elif isinstance(lowering, Fold):
            self._place_fold(number)
        elif isinstance(lowering, Prefix):
            self._place_prefix(number)
        elif isinstance(lowering, Tile):
            self._place_tile(number, lowering)
        elif isinstance(lowering, Scatter):
            self._new_unit(number, Group("scatter", self._shape(number), 0))
        elif isinstance(lowering, Overwrite):
            self._place_update(number)
        elif self._is_turned_result(number) or self._is_bordered_result(number):
            self.turned.add(number)
            self._add(number, self.unit[self.args[number][0].node])
        elif self._is_rounded_result(number):
            self._add(number, self.unit[self.args[number][0].node])
        elif not (isinstance(lowering, Scalar | Interleave) and self._join_any(number)):
            self._new_unit(number, Group("loops", self._shape(number), 0))

    def _place_tile(self, number: int, lowering: Tile) -> None:
        """A tile kernel begins a group, or takes over the one that sums rows for it alone."""
        value = None if lowering.summed is None else self.args[number][lowering.summed]
        unit = None if value is None else self.unit.get(value.node)
        group = None if unit is None else self.groups.get(unit)
        if value is None or unit is None or group is None or not self._only_sums(group, value.node, number):
            self._new_unit(number, Group(lowering.kernel, self._shape(number), 0))
            return
        group.kind, group.space = lowering.kernel, self._shape(number)
        self._add(number, unit)

    def _only_sums(self, group: Group, number: int, reader: int) -> bool:
        """Whether a group sums rows for one reader, and does nothing else."""
        members = {*group.members}
        folds = [m for m in members if isinstance(self.graph.node(m).primitive.lowering, Fold)]
        inside = all(self._readers_of(m) <= members for m in members - {number})
        returned = {v.node for v in self.graph.outputs} & members
        only = folds == [number] and self._readers_of(number) == {reader}
        return group.kind == "rows" and only and inside and not returned

    def _is_turned_result(self, number: int) -> bool:
        """Whether a transpose of a tile kernel's result leaves its rows together, and is all that reads it.

        Attention's result may have other readers: it is then stored twice, which is less than to read it again.
        """
        node = self.graph.node(number)
        if node.primitive is not get("transpose"):
            return False
        (source,), last = self.args[number], len(node.params["axes"]) - 1
        kind = self._kind_of(source)
        if source.node in self.turned or kind not in TILES or node.params["axes"][last] != last:
            return False
        alone = self.users[source.node] == {number} and source.node not in self.materialized
        return alone or (kind in ATTENTION and not self._users_of(source) & self.turned)

    def _is_bordered_result(self, number: int) -> bool:
        """Whether a result is stored inside a border; it may have other readers, and is stored twice."""
        if number not in self.borders or self._kind_of(self.args[number][0]) not in BORDERED:
            return False
        source = self.args[number][0]
        return source.node not in self.turned and not self._users_of(source) & self.turned

    def _has_border(self, group: Group) -> bool:
        """Whether a group writes a result inside a border, which keeps its kind."""
        return any(member in self.borders and member in self.turned for member in group.members)

    def _is_rounded_result(self, number: int) -> bool:
        """Whether a cast to a 16-bit float is all that reads a result of attention."""
        node, (source, *_) = self.graph.node(number), (*self.args[number], None)
        if source is None or node.primitive is not get("cast") or self._kind_of(source) not in ATTENTION:
            return False
        alone = self._users_of(source) == {number} and source not in self.graph.outputs
        return alone and node.params["dtype"].is_narrow

    def _kind_of(self, value: Value) -> str:
        """The kind of the group that computes a value."""
        group = self.groups.get(self.unit[value.node]) if value.node in self.unit else None
        return "" if group is None else group.kind

    def _users_of(self, value: Value) -> set[int]:
        """The nodes that read one result of a node."""
        return {user for output, user, _ in self.graph.users(value.node) if output == value.output}

    def _shape(self, number: int) -> Shape:
        """The shape over which a node's result is computed."""
        if self._is_interleaved(number):
            return self.args[number][0].shape
        return Value(number, 0, self.graph.node(number).types[0]).shape

    def _is_interleaved(self, number: int) -> bool:
        """Whether a node's elements stand side by side in memory: those who read it find them there."""
        return isinstance(self.graph.node(number).primitive.lowering, Interleave)

    def _new_unit(self, number: int, group: Group | None) -> None:
        unit = self.units
        self.units += 1
        self.deps[unit], self.readers[unit] = set(), set()
        self.first[unit] = self.last[unit] = self.top[unit] = number
        if group is not None:
            self.groups[unit] = group
        self._add(number, unit)

    def _add(self, number: int, unit: int) -> None:
        self.unit[number] = unit
        self.last[unit] = max(self.last[unit], number)
        self.first[unit] = min(self.first[unit], number)
        if unit in self.groups:
            self.groups[unit].members.append(number)
        self._depend(unit, {self.unit[r.value.node] for r in self.reads(number)} - {unit})

    def _depend(self, unit: int, others: set[int]) -> None:
        """Note that a unit, which may have grown, reads others."""
        self.deps[unit] |= others
        for other in others:
            self.readers[other].add(unit)
        rising = [(unit, max([self.last[unit], *(self.top[other] for other in others)]))]
        while rising:
            current, top = rising.pop()
            if top > self.top[current]:
                self.top[current] = top
                rising += [(reader, top) for reader in self.readers[current] if top > self.top[reader]]

    def _join_any(self, number: int) -> bool:
        """Join a group that computes an operand in place, and unite it with the others that do."""
        reads = self.reads(number)
        joined: int | None = None
        for unit in self._candidates(reads):
            if joined is None and self._fits(number, reads, unit) and not self.reaches(self._others(reads, unit), unit):
                self._add(number, unit)
                joined = unit
            elif joined is not None and unit in self.groups:
                joined = self._unite(joined, unit, number)
        return joined is not None

    def _candidates(self, reads: Iterable[Read]) -> list[int]:
        units = {self.unit[r.value.node] for r in reads if r.access != "other"}
        return sorted(units & self.groups.keys(), key=lambda u: -self.last[u])

    def _others(self, reads: Iterable[Read], unit: int) -> set[int]:
        return {self.unit[r.value.node] for r in reads} - {unit}

    def _unite(self, unit: int, other: int, number: int) -> int:
        """Make one group of two whose elements ``number`` joins, if one kernel can compute both; return its unit."""
        group, guest = self.groups[unit], self.groups[other]
        if group.kind == "loops":
            unit, other, group, guest = other, unit, guest, group
        together = len(group.members) + len(guest.members)
        alike = guest.kind == "loops" or (group.kind == guest.kind == "rows" and group.outer == guest.outer)
        alike = alike or group.kind == guest.kind == "prefix"
        alike = alike and (group.along is None or guest.along in (None, group.along))
        joinable = group.kind in JOINED and alike and group.space == guest.space
        joinable = joinable and (group.kind == guest.kind or not self._has_border(guest))
        if group.kind not in SIDE_BY_SIDE and any(map(self._is_interleaved, guest.members)):
            return self.unit[number]
        if not joinable or together > MAX_MEMBERS or not self._fits_united({unit, other}, group, guest):
            return self.unit[number]
        if self.reaches(self.deps[unit] - {other}, other) or self.reaches(self.deps[other] - {unit}, unit):
            return self.unit[number]
        for member in guest.members:
            self.unit[member] = unit
        group.members += guest.members
        group.along = group.along or guest.along
        self.first[unit] = min(self.first[unit], self.first[other])
        self.last[unit] = max(self.last[unit], self.last[other])
        self._inherit(unit, other)
        del self.groups[other]
        return unit

    def _inherit(self, unit: int, other: int) -> None:
        """Let a unit stand where ``other`` stood."""
        for reader in self.readers.pop(other) - {unit}:
            self.deps[reader] = (self.deps[reader] - {other}) | {unit}
            self.readers[unit].add(reader)
        self.deps[unit].discard(other)
        self.readers[unit].discard(other)
        others = self.deps.pop(other) - {unit}
        for read in others:
            self.readers[read].discard(other)
        self._depend(unit, others)

    def _fits_united(self, units: set[int], group: Group, guest: Group) -> bool:
        """Whether everything that one of the groups reads from the other one is in a register then."""
        for member in (*group.members, *guest.members):
            level = group.level(self._shape(member))
            across = [r for r in self.reads(member) if self.unit[r.value.node] in units - {self.unit[member]}]
            in_place = isinstance(self.graph.node(member).primitive.lowering, Scalar | Interleave | Prefix)
            if across and not (in_place and level and all(self.reads_in_place(r, group, level) for r in across)):
                return False
        return True

    def _fits(self, number: int, reads: Iterable[Read], unit: int) -> bool:
        group = self.groups[unit]
        level = group.level(self._shape(number))
        kinds = SIDE_BY_SIDE if self._is_interleaved(number) else JOINED
        if level is None or group.kind not in kinds or len(group.members) >= MAX_MEMBERS:
            return False
        return all(self.reads_in_place(r, group, level) for r in reads if self.unit[r.value.node] == unit)

    def reads_in_place(self, read: Read, group: Group, level: str) -> bool:
        """Whether a read finds its value in a register, for a result at ``level`` of the group."""
        if read.value.node in self.turned or self._is_interleaved(read.value.node):
            return False
        source = group.level(read.value.shape)
        if read.access == "same":
            return source == level
        return read.access == "spread" and level == "element" and source == "row"

    def reaches(self, start: set[int], unit: int) -> bool:
        """Whether one of the units in ``start`` depends on ``unit``."""
        stack, seen = list(start), set(start)
        while stack:
            current = stack.pop()
            if current == unit:
                return True
            fresh = {u for u in self.deps[current] if self.top[u] >= self.first[unit]} - seen
            seen |= fresh
            stack.extend(fresh)
        return False

    def _place_fold(self, number: int) -> None:
        operand = self._read_from(self.args[number][0])
        axes = self.graph.node(number).params["axes"]
        rank = len(operand.shape)
        outer = rank - len(axes)
        if axes != tuple(range(outer, rank)):
            self._place_columns(number, operand)
            return
        unit = self.unit.get(operand.node)
        group = self.groups.get(unit) if unit is not None else None
        if unit is not None and group is not None and operand.shape == group.space and len(group.members) < MAX_MEMBERS:
            if group.kind == "loops" and not self._has_border(group):
                group.kind, group.outer = "rows", outer
            if group.kind == "rows" and group.outer == outer:
                self._add(number, unit)
                return
        self._new_unit(number, Group("rows", operand.shape, outer))

    def _place_prefix(self, number: int) -> None:
        """A prefix joins the latest group that computes one of its operands in place, as what it makes of it."""
        node, reads = self.graph.node(number), self.reads(number)
        space, along = self._shape(number), (node.params["axis"], node.params["reverse"])
        kind, outer = ("rows", len(space) - 1) if along[0] == len(space) - 1 else ("prefix", 0)
        for unit in self._candidates(reads):
            group = self.groups[unit]
            fits = group.kind == "loops" and not self._has_border(group)
            fits = fits or (group.kind == kind and group.outer == outer)
            fits = fits and group.along in (None, along)
            fits = fits and (kind in SIDE_BY_SIDE or not any(map(self._is_interleaved, group.members)))
            if fits and self._fits(number, reads, unit) and not self.reaches(self._others(reads, unit), unit):
                group.kind, group.outer, group.along = kind, outer, along
                self._add(number, unit)
                return
        self._new_unit(number, Group(kind, space, outer, along=along))

    def _place_columns(self, number: int, operand: Value) -> None:
        """A reduction of other axes takes over the group in front of it when nobody else needs its values."""
        unit = self._taken_over(number, operand)
        if unit is None:
            self._new_unit(number, Group("columns", operand.shape, 0))
        else:
            self.groups[unit].kind = "columns"
            self._add(number, unit)

    def _place_update(self, number: int) -> None:
        """What writes a part takes over the group that computes it, unless that reads the array at other places."""
        array, part, *_ = self.args[number]
        unit, arrays = self._taken_over(number, part), {r.value.node for r in self._leaves(array, "same")}
        own = set() if unit is None else {*self.groups[unit].members}
        read = own | {r.value.node for member in own for r in self.reads(member)}
        moved = bool(arrays & read) and not self._reads_where_written(number, own)
        if unit is None or moved or self.reaches(self._others(self.reads(number), unit), unit):
            self._new_unit(number, Group("update", self._shape(number), 0))
        else:
            self.groups[unit].kind, self.groups[unit].space = "update", self._shape(number)
            self._add(number, unit)

    def _reads_where_written(self, number: int, own: set[int]) -> bool:
        """Whether nodes read the array that an update changes at the very element that it then writes, and no other."""
        array = self.args[number][0]
        if self.is_virtual(array.node) or array.node in own:
            return False
        reading = [
            operand for member in own for operand in self.args[member]
            if array.node in {leaf.value.node for leaf in self._leaves(operand, "same")}
        ]  # fmt: skip
        return all(self.is_virtual(r.node) and is_slice_written(self.graph, r, number) for r in reading)

    def _taken_over(self, number: int, operand: Value) -> int | None:
        """The elementwise group that computes an operand for this node alone."""
        unit = self.unit.get(operand.node)
        group = self.groups.get(unit) if unit is not None else None
        if unit is None or group is None or group.kind != "loops" or operand.shape != group.space:
            return None
        others = {u for m in group.members for u in self._readers_of(m)} - set(group.members) - {number}
        returned = {v.node for v in self.graph.outputs} & set(group.members)
        return None if others or returned else unit
