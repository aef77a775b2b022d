"""Grouping for fusion: which operations of a graph one kernel computes together (:mod:`zenith.passes.groups`).

Index maps and widenings of 16-bit floats that are copied into their readers belong to no group (see
:mod:`zenith.passes.index_maps`). Of those whose value itself is needed, a transpose that leaves rows contiguous is
the layout in which a product or attention stores its result, and so is a border around the result of a convolution; a
result of attention that is rounded to 16 bits is stored so.

Groups grow greedily in program order: an operation joins the latest group that computes one of its operands at the same
indices, and merges it with the other groups that do, unless a path through another group leads back (groups must stay
acyclic).
"""

from __future__ import annotations

from collections.abc import Iterable

from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import (
    Data,
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
from zenith.passes.groups import ATTENTION, BORDERED, JOINED, SIDE_BY_SIDE, TILES, Group, Shape
from zenith.passes.index_maps import IndexMaps, Read
from zenith.passes.units import Units

MAX_MEMBERS = 64  # longer groups compile slowly and spill registers


def is_slice_written(graph: Graph, value: Value, number: int) -> bool:
    """Whether a value is the slice of an array that the ``update_slice`` of that number overwrites."""
    made, update = graph.node(value.node), graph.node(number)
    same = made.primitive is get("slice") and update.primitive is get("update_slice") and made.params == update.params
    return same and graph.args(value.node)[0] == graph.args(number)[0]


class Grouping:
    """Assigns every computed node to a group (a *unit*); nodes that no kernel computes are units of their own.

    Where groups do not ``grow``, each node has a group of its own.
    """

    def __init__(self, graph: Graph, grow: bool = True, products_read_bytes: bool = True) -> None:
        self.graph, self.grow = graph, grow
        self.maps = IndexMaps(graph, products_read_bytes)
        self.args = self.maps.args
        self.units = Units()
        self.groups: dict[int, Group] = {}
        # Results stored transposed or inside a border: nothing in their group reads them.
        self.transposed: set[int] = set()
        for number, _ in graph.nodes():
            if not self.maps.is_virtual(number):
                self._assign(number)

    def _assign(self, number: int) -> None:
        lowering = self.graph.node(number).primitive.lowering
        if isinstance(lowering, (View, HostCall, NativeCall, Region, Data)) and not self.maps.is_map(number):
            self.units.new(number, self._nodes_read(number))
        elif not self.grow or isinstance(lowering, Scatter):
            self._begin(number)
        elif isinstance(lowering, Fold):
            self._assign_fold(number)
        elif isinstance(lowering, Prefix):
            self._assign_prefix(number)
        elif isinstance(lowering, Tile):
            self._assign_tile(number, lowering)
        elif isinstance(lowering, Overwrite):
            self._assign_update(number)
        elif self._is_transposed_result(number) or self._is_bordered_result(number):
            self.transposed.add(number)
            self._add(number, self.units.of[self.args[number][0].node])
        elif self._is_rounded_result(number):
            self._add(number, self.units.of[self.args[number][0].node])
        elif not (isinstance(lowering, Scalar | Interleave) and self._join_any(number)):
            self._begin(number)

    def _begin(self, number: int) -> None:
        """A group of one node, of the kind that follows from the node."""
        node, shape, along = self.graph.node(number), self._shape(number), None
        kind, outer = "loops", 0
        match node.primitive.lowering:
            case Fold():
                shape, trailing = self._reduced(number)
                kind, outer = ("columns", 0) if trailing is None else ("rows", trailing)
            case Prefix():
                along = node.params["axis"], node.params["reverse"]
                kind, outer = self._prefix_kind(number)
            case Tile(kernel=kernel):
                kind = kernel
            case Scatter():
                kind = "scatter"
            case Overwrite():
                kind = "update"
        unit = self.units.new(number, self._nodes_read(number))
        self.groups[unit] = Group(kind, shape, outer, [number], along)

    def _assign_tile(self, number: int, lowering: Tile) -> None:
        """A tile kernel begins a group, or takes over the one that computes row sums for it alone."""
        summed = None if lowering.summed is None else self.args[number][lowering.summed].node
        group = None if summed is None else self.group_of(summed)
        if summed is None or group is None or not self._only_sums(group, summed, number):
            self._begin(number)
            return
        group.kind, group.space = lowering.kernel, self._shape(number)
        self._add(number, self.units.of[summed])

    def _only_sums(self, group: Group, number: int, reader: int) -> bool:
        """Whether a group sums rows for one reader, and does nothing else."""
        members = {*group.members}
        folds = [m for m in members if isinstance(self.graph.node(m).primitive.lowering, Fold)]
        inside = all(self.maps.readers_of(m) <= members for m in members - {number})
        returned = {v.node for v in self.graph.outputs} & members
        only = folds == [number] and self.maps.readers_of(number) == {reader}
        return group.kind == "rows" and only and inside and not returned

    def _is_transposed_result(self, number: int) -> bool:
        """Whether a transpose of a tile kernel's result leaves its rows contiguous, and alone reads it.

        Attention's result may have other readers: it is then stored twice, which takes less than reading it once more.
        """
        node = self.graph.node(number)
        if node.primitive is not get("transpose"):
            return False
        (source,), last = self.args[number], len(node.params["axes"]) - 1
        kind = self._kind_of(source)
        if source.node in self.transposed or kind not in TILES or node.params["axes"][last] != last:
            return False
        only_reader = self.maps.users[source.node] == {number} and source.node not in self.maps.materialized
        return only_reader or (kind in ATTENTION and not self._users_of(source) & self.transposed)

    def _is_bordered_result(self, number: int) -> bool:
        """Whether a result is stored inside a border; it may have other readers, and is stored twice."""
        if number not in self.maps.borders or self._kind_of(self.args[number][0]) not in BORDERED:
            return False
        source = self.args[number][0]
        return source.node not in self.transposed and not self._users_of(source) & self.transposed

    def _has_border(self, group: Group) -> bool:
        """Whether a group writes a result inside a border; its kind then does not change."""
        return any(member in self.maps.borders and member in self.transposed for member in group.members)

    def _is_rounded_result(self, number: int) -> bool:
        """Whether a node casts a result of attention to a 16-bit float, and is its only reader."""
        node, (source, *_) = self.graph.node(number), (*self.args[number], None)
        if source is None or node.primitive is not get("cast") or self._kind_of(source) not in ATTENTION:
            return False
        only_reader = self._users_of(source) == {number} and source not in self.graph.outputs
        return only_reader and node.params["dtype"].is_narrow

    def _kind_of(self, value: Value) -> str:
        """The kind of the group that computes a value."""
        group = self.group_of(value.node)
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
        """Whether a node interleaves its operands in memory: its readers load them from there."""
        return isinstance(self.graph.node(number).primitive.lowering, Interleave)

    def group_of(self, number: int) -> Group | None:
        """The group of a node that a kernel computes."""
        return self.groups.get(self.units.of[number]) if number in self.units.of else None

    def reads(self, number: int) -> tuple[Read, ...]:
        """The values that a node reads through index maps."""
        return self.maps.reads(number)

    def _nodes_read(self, number: int) -> set[int]:
        return {read.value.node for read in self.reads(number)}

    def _add(self, number: int, unit: int) -> None:
        self.units.add(number, unit, self._nodes_read(number))
        self.groups[unit].members.append(number)

    def _join_any(self, number: int) -> bool:
        """Join a group that computes an operand at the same indices, and merge it with the others that do.

        What is computed from rows' values alone, such as their product with a vector, is left to who reads it: joined
        to the rows it would be stored, an array from two vectors.
        """
        reads = self.reads(number)
        if reads and all(read.access != "same" for read in reads):
            return False
        joined: int | None = None
        for unit in self._candidates(reads):
            if joined is None and self._fits(number, reads, unit) and not self._leads_back(reads, unit):
                self._add(number, unit)
                joined = unit
            elif joined is not None and unit in self.groups:
                joined = self._merge(joined, unit, number)
        return joined is not None

    def _candidates(self, reads: Iterable[Read]) -> list[int]:
        units = {self.units.of[r.value.node] for r in reads if r.access != "other"}
        return sorted(units & self.groups.keys(), key=lambda u: -self.units.last[u])

    def _leads_back(self, reads: Iterable[Read], unit: int) -> bool:
        """Whether a value read from another unit depends on ``unit``, which its reader can then not join."""
        return self.units.reaches({self.units.of[r.value.node] for r in reads} - {unit}, unit)

    def _merge(self, unit: int, other: int, number: int) -> int:
        """Merge two groups that ``number`` connects, if one kernel can compute both; return its unit."""
        if self.groups[unit].kind == "loops":
            unit, other = other, unit
        group, guest = self.groups[unit], self.groups[other]
        fits = self._are_alike(group, guest) and self._fits_merged({unit, other}, group, guest)
        if not fits or self.units.has_detour(unit, other):
            return self.units.of[number]
        self.units.unite(unit, other, guest.members)
        group.members += guest.members
        group.along = group.along or guest.along
        del self.groups[other]
        return unit

    def _are_alike(self, group: Group, guest: Group) -> bool:
        """Whether a kernel of the first group's kind can compute what the second one does, in the same loops."""
        if group.kind not in JOINED or group.space != guest.space:
            return False
        if len(group.members) + len(guest.members) > MAX_MEMBERS:
            return False
        if None not in (group.along, guest.along) and group.along != guest.along:
            return False
        if group.kind not in SIDE_BY_SIDE and any(map(self._is_interleaved, guest.members)):
            return False
        if group.kind == guest.kind:
            return group.outer == guest.outer if group.kind == "rows" else group.kind in ("loops", "prefix")
        return guest.kind == "loops" and not self._has_border(guest)

    def _fits_merged(self, units: set[int], group: Group, guest: Group) -> bool:
        """Whether each value that one of the groups reads from the other is then in a register."""
        for member in (*group.members, *guest.members):
            level = group.level(self._shape(member))
            across = [r for r in self.reads(member) if self.units.of[r.value.node] in units - {self.units.of[member]}]
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
        return all(self.reads_in_place(r, group, level) for r in reads if self.units.of[r.value.node] == unit)

    def reads_in_place(self, read: Read, group: Group, level: str) -> bool:
        """Whether a read finds its value in a register, for a result at ``level`` of the group."""
        if read.value.node in self.transposed or self._is_interleaved(read.value.node):
            return False
        source = group.level(read.value.shape)
        if read.access == "same":
            return source == level
        return read.access == "spread" and level == "element" and source == "row"

    def _reduced(self, number: int) -> tuple[Shape, int | None]:
        """The shape that a reduction reads, and the number of axes in front of the reduced ones, if these trail."""
        shape, axes = self.maps.read_from(self.args[number][0]).shape, self.graph.node(number).params["axes"]
        outer = len(shape) - len(axes)
        return shape, outer if axes == tuple(range(outer, len(shape))) else None

    def _assign_fold(self, number: int) -> None:
        operand, (_, outer) = self.maps.read_from(self.args[number][0]), self._reduced(number)
        if outer is None:
            self._assign_columns(number, operand)
            return
        group = self.group_of(operand.node)
        if group is not None and operand.shape == group.space and len(group.members) < MAX_MEMBERS:
            if group.kind == "loops" and not self._has_border(group):
                group.kind, group.outer = "rows", outer
            if group.kind == "rows" and group.outer == outer:
                self._add(number, self.units.of[operand.node])
                return
        self._begin(number)

    def _prefix_kind(self, number: int) -> tuple[str, int]:
        """The kind of a prefix's group, and the number of its leading axes whose points are rows."""
        last = len(self._shape(number)) - 1
        return ("rows", last) if self.graph.node(number).params["axis"] == last else ("prefix", 0)

    def _assign_prefix(self, number: int) -> None:
        """A prefix joins the latest group that computes an operand at the same indices, and gives it its kind."""
        node, reads = self.graph.node(number), self.reads(number)
        along, (kind, outer) = (node.params["axis"], node.params["reverse"]), self._prefix_kind(number)
        for unit in self._candidates(reads):
            group = self.groups[unit]
            fits = group.kind == "loops" and not self._has_border(group)
            fits = fits or (group.kind == kind and group.outer == outer)
            fits = fits and group.along in (None, along)
            fits = fits and (kind in SIDE_BY_SIDE or not any(map(self._is_interleaved, group.members)))
            if fits and self._fits(number, reads, unit) and not self._leads_back(reads, unit):
                group.kind, group.outer, group.along = kind, outer, along
                self._add(number, unit)
                return
        self._begin(number)

    def _assign_columns(self, number: int, operand: Value) -> None:
        """A reduction of other axes takes over the group in front of it when nobody else needs its values."""
        unit = self._taken_over(number, operand)
        if unit is None:
            self._begin(number)
        else:
            self.groups[unit].kind = "columns"
            self._add(number, unit)

    def _assign_update(self, number: int) -> None:
        """An update takes over the group that computes its slice, unless that reads the array at other indices."""
        array, update, *_ = self.args[number]
        unit, arrays = self._taken_over(number, update), {r.value.node for r in self.maps.leaves(array)}
        own = set() if unit is None else {*self.groups[unit].members}
        read = own | {r.value.node for member in own for r in self.reads(member)}
        moved = bool(arrays & read) and not self._reads_where_written(number, own)
        if unit is None or moved or self._leads_back(self.reads(number), unit):
            self._begin(number)
        else:
            self.groups[unit].kind, self.groups[unit].space = "update", self._shape(number)
            self._add(number, unit)

    def _reads_where_written(self, number: int, own: set[int]) -> bool:
        """Whether nodes read the array of an update only at the element that the update then writes."""
        array = self.args[number][0]
        if self.maps.is_virtual(array.node) or array.node in own:
            return False
        reading = [
            operand for member in own for operand in self.args[member]
            if array.node in {leaf.value.node for leaf in self.maps.leaves(operand)}
        ]  # fmt: skip
        return all(self.maps.is_virtual(r.node) and is_slice_written(self.graph, r, number) for r in reading)

    def _taken_over(self, number: int, operand: Value) -> int | None:
        """The unit of the elementwise group that computes an operand for this node alone; else None."""
        group = self.group_of(operand.node)
        if group is None or group.kind != "loops" or operand.shape != group.space:
            return None
        others = {u for m in group.members for u in self.maps.readers_of(m)} - set(group.members) - {number}
        returned = {v.node for v in self.graph.outputs} & set(group.members)
        return None if others or returned else self.units.of[operand.node]
