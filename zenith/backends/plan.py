"""The plan: a fused graph as a list of steps on memory.

Every value gets a *place*: an input, an output, a constant, a weight, or a slot of the arena, memory that one call of
the program leases. Slots are shared by values of equal size whose lives do not meet; outputs are written where they are
returned. A step launches a kernel on places, or calls back into Python. What depends on constants and weights only is
*prepared*: launched once, and again when such a weight changes. Sizes stay symbolic throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zenith.backends.engines import Choice
from zenith.backends.kernel import Kernel, symbols_of
from zenith.backends.lower.groups import lower_group
from zenith.backends.work import NO_WORK, Work, work_of
from zenith.errors import SourceLine
from zenith.ir.dims import Dim, dim, prove_equal
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import HostCall, View
from zenith.ir.primitive import get
from zenith.ir.target import Target
from zenith.ir.types import ArrayType, DType, Type

KEPT_GROWTH = 4  # results that are larger, in terms of what they are made of, are not kept: each call computes them
FIXED = frozenset({"constant", "weight", "prepared"})  # kinds of places that are the same in every call
ALIGN = 64  # bytes: a vector of the widest instruction set, a cache line


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value lives: ``kind`` is input, output, constant, weight, prepared or slot; ``name`` says which."""

    kind: str
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a kernel; ``places`` are its buffers in order, ``lines`` the user's lines it came from, ``work`` its cost."""

    kernel: Kernel
    places: tuple[Place, ...]
    lines: tuple[SourceLine, ...]
    work: Work = NO_WORK

    def __str__(self) -> str:
        moves = ", ".join(f"{b.name}={p}" for b, p in zip(self.kernel.buffers, self.places, strict=True))
        lines = ", ".join(dict.fromkeys(str(line) for line in self.lines))
        return f"launch {self.kernel.name}({moves}) over {self.kernel.tasks}" + (f"  # {lines}" if lines else "")


@dataclass(frozen=True, slots=True)
class Call:
    """Call back into Python with arrays at places."""

    node: Node
    places: tuple[Place, ...]
    types: tuple[ArrayType, ...]

    def __str__(self) -> str:
        return f"call {self.node.primitive.name}({', '.join(map(str, self.places))})"


Step = Launch | Call


@dataclass(frozen=True, slots=True)
class Slot:
    """A part of the arena, by name, offset and length in bytes."""

    name: str
    offset: Dim
    length: Dim


@dataclass(frozen=True, slots=True)
class Weight:
    """An array that the program knows by name."""

    name: str
    type: ArrayType


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch on constants and weights, run when the program is linked and when one of those weights changes.

    ``results`` (name, type, elements) keep its work; a result is written by one launch only.
    """

    results: tuple[tuple[str, DType, int], ...]
    launch: Launch


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """A fused group: who computes it, its kernels' names, and the user's lines."""

    choice: Choice
    kernels: tuple[str, ...]
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps and the memory they need. ``inputs`` and ``outputs`` are named places in the graph's order.

    ``constants`` and ``weights`` go by the names of their places; the weights' contents are no part of the plan.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, ArrayType], ...]
    constants: dict[str, Any]
    weights: dict[str, Weight]
    slots: tuple[Slot, ...]
    arena: Dim
    symbols: tuple[str, ...]
    prepared: tuple[Prepared, ...]
    steps: tuple[Step, ...]
    groups: tuple[PlannedGroup, ...] = ()

    def __str__(self) -> str:
        lines = [f"plan {self.name}: sizes {', '.join(self.symbols) or 'none'}"]
        lines += [f"  constant {name}: {a.dtype}{list(a.shape)}" for name, a in self.constants.items()]
        lines += [f"  {place}: {weight.type}" for place, weight in self.weights.items()]
        lines += [f"  once {p.launch}" for p in self.prepared]
        lines += [f"  slot {s.name}: {s.length} bytes at {s.offset}" for s in self.slots]
        lines += [f"  arena {self.arena} bytes"]
        lines += [f"  {i:>2} {step}" for i, step in enumerate(self.steps)]
        lines += [f"  return {name}: {type}" for name, type in self.outputs]
        return "\n".join(lines)


def plan(graph: Graph, target: Target) -> Plan:
    """The plan of a fused graph."""
    return _Planner(own_outputs(graph), target).plan()


def own_outputs(graph: Graph) -> Graph:
    """The graph with a copy in front of every output that is not a kernel's own result.

    Inputs, constants, views of them and values returned twice are copied, so that no result shares memory with an
    argument, the program or another result.
    """
    taken: set[tuple[int, int]] = set()
    outputs: list[Value] = []
    result = copy_graph(graph)
    for value in graph.outputs:
        root = _root(graph, value)
        owned = graph.node(root.node).primitive is get("fused") and (root.node, root.output) not in taken
        taken.add((root.node, root.output))
        outputs.append(value if owned or not isinstance(value.type, ArrayType) else _copied(result, value))
    result.set_outputs(outputs)
    return result


def copy_graph(graph: Graph) -> Graph:
    """A graph with the same nodes under the same numbers, to which nodes can be added."""
    result = Graph(graph.name)
    result.networkx = graph.networkx.copy()
    result.inputs, result.outputs = list(graph.inputs), graph.outputs
    result.constants, result.weights, result.guards = dict(graph.constants), graph.weights, graph.guards
    return result


def _copied(graph: Graph, value: Value) -> Value:
    body = Graph("body")
    body.set_outputs([body.add_input(value.type, "p0")])
    line = graph.node(value.node).line
    return graph.add(get("fused"), (value,), {"body": body, "anchor": "loops"}, line)[0]


def _root(graph: Graph, value: Value) -> Value:
    """The value whose memory a view shows."""
    while isinstance(graph.node(value.node).primitive.lowering, View):
        (value,) = graph.args(value.node)
    return value


def _bytes(size: Dim, dtype: DType) -> Dim:
    return (size * dtype.itemsize + (ALIGN - 1)) // ALIGN * ALIGN


class _Planner:
    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target = graph, target
        self.weights: dict[str, Weight] = {}
        self.prepared: list[Prepared] = []
        self.kept = 0
        self.places: dict[tuple[int, int], Place] = {}
        self.slots: list[Slot] = []
        self.free: list[Slot] = []
        self.top = dim(0)
        self.steps: list[Step] = []
        self.groups: list[PlannedGroup] = []
        self.last_use = self._last_uses()

    def plan(self) -> Plan:
        inputs = []
        for value in self.graph.inputs:
            name = str(self.graph.node(value.node).params["name"])
            inputs.append(name)
            self.places[value.node, 0] = Place("input", name)
        self._place_outputs()
        for number, node in self.graph.nodes():
            self._visit(number, node)
            self._release(number)
        returned = [v for v in self.graph.outputs if isinstance(v.type, ArrayType)]
        outputs = tuple((f"result{i}", v.type) for i, v in enumerate(returned) if isinstance(v.type, ArrayType))
        symbols = tuple(sorted({s for step in self.steps for s in _symbols(step)} | self._outer_symbols()))
        return Plan(
            self.graph.name, tuple(inputs), outputs, dict(self.graph.constants), self.weights, tuple(self.slots),
            self.top, symbols, tuple(self.prepared), tuple(self.steps), tuple(self.groups),
        )  # fmt: skip

    def _outer_symbols(self) -> set[str]:
        found = set(self.graph.symbols())
        for value in self.graph.outputs:
            if isinstance(value.type, ArrayType):
                found |= {s for size in value.shape for s in size.symbols()}
        return found

    def _place_outputs(self) -> None:
        index = 0
        for value in self.graph.outputs:
            if isinstance(value.type, ArrayType):
                root = _root(self.graph, value)
                self.places[root.node, root.output] = Place("output", f"result{index}")
                index += 1

    def _last_uses(self) -> dict[tuple[int, int], int]:
        last: dict[tuple[int, int], int] = {}
        for number, node in self.graph.nodes():
            for arg in self.graph.args(number):
                root = _root(self.graph, arg)
                use = number
                if isinstance(node.primitive.lowering, View):
                    continue
                last[root.node, root.output] = max(use, last.get((root.node, root.output), use))
        return last

    def _place(self, value: Value) -> Place:
        root = _root(self.graph, value)
        return self.places[root.node, root.output]

    def _visit(self, number: int, node: Node) -> None:
        if node.primitive is get("constant"):
            self.places[number, 0] = Place("constant", node.params["id"])
        elif node.primitive is get("weight"):
            place = self.places[number, 0] = Place("weight", f"weight {node.params['name']}")
            (type,) = node.types
            assert isinstance(type, ArrayType)
            self.weights[place.name] = Weight(node.params["name"], type)
        elif node.primitive is get("fused"):
            self._launch(number, node)
        elif isinstance(node.primitive.lowering, HostCall):
            arrays = [a for a in self.graph.args(number) if isinstance(a.type, ArrayType)]
            types = tuple(a.type for a in arrays if isinstance(a.type, ArrayType))
            self.steps.append(Call(node, tuple(self._place(a) for a in arrays), types))

    def _launch(self, number: int, node: Node) -> None:
        body = node.params["body"]
        if all(isinstance(t, ArrayType) and t.size == 0 for t in node.types):
            self._place_nothing(number, node)
            return
        bound = {str(body.node(v.node).params["name"]): self._place(a)
                 for v, a in zip(body.inputs, self.graph.args(number), strict=True)}  # fmt: skip
        fixed = {name for name, place in bound.items() if place.kind in FIXED}
        lowered = lower_group(body, node.params["anchor"], self.target, fixed)
        once = self._runs_once(number, node, lowered.kernels)
        for i, type in enumerate(node.types):
            assert isinstance(type, ArrayType)
            if (number, i) not in self.places:
                self.places[number, i] = self._new_prepared() if once else self._allocate(type.size, type.dtype)
            bound[f"out{i}"] = self.places[number, i]
        lines = tuple(dict.fromkeys(n.line for _, n in body.nodes() if n.line is not None))
        self.groups.append(PlannedGroup(lowered.choice, tuple(k.name for k in lowered.kernels), lines))
        for kernel in lowered.kernels:
            self._add_kernel(kernel, bound, lines, work_of(kernel, body))
        for name in (b.name for b in lowered.temporaries):
            self._give_back(bound[name])

    def _place_nothing(self, number: int, node: Node) -> None:
        """Results that never have an element need a place, but no kernel."""
        for i, type in enumerate(node.types):
            assert isinstance(type, ArrayType)
            self.places.setdefault((number, i), self._allocate(type.size, type.dtype))

    def _add_kernel(self, kernel: Kernel, bound: dict[str, Place], lines: tuple[SourceLine, ...], work: Work) -> None:
        """Launch a kernel, ahead of all calls if it works on fixed places only; its temporaries get places here."""
        known = [bound[b.name] for b in kernel.buffers if b.name in bound]
        once = _is_static(kernel) and all(p.kind in FIXED for p in known)
        for b in kernel.buffers:
            if b.name not in bound:
                bound[b.name] = self._new_prepared() if once else self._allocate(b.size, b.dtype)
        launch = Launch(kernel, tuple(bound[b.name] for b in kernel.buffers), lines, work)
        if once:
            written = [b for b in kernel.buffers if b.role != "in"]
            results = tuple((bound[b.name].name, b.dtype, b.size.evaluate({})) for b in written)
            self.prepared.append(Prepared(results, launch))
        else:
            self.steps.append(launch)

    def _runs_once(self, number: int, node: Node, kernels: Sequence[Kernel]) -> bool:
        """Whether a group's results are prepared: made of fixed values only, and not much larger than these."""
        args = self.graph.args(number)
        if not args or not all(self._place(a).kind in FIXED for a in args) or not all(map(_is_static, kernels)):
            return False
        if any((number, i) in self.places for i in range(len(node.types))):
            return False  # the caller's results are written by every call
        return _total_bytes(node.types) <= KEPT_GROWTH * _total_bytes([a.type for a in args])

    def _new_prepared(self) -> Place:
        self.kept += 1
        return Place("prepared", f"once{self.kept}")

    def _allocate(self, size: Dim, dtype: DType) -> Place:
        length = _bytes(size, dtype)
        for slot in self.free:
            if prove_equal(slot.length, length):
                self.free.remove(slot)
                return Place("slot", slot.name)
        slot = Slot(f"t{len(self.slots)}", self.top, length)
        self.slots.append(slot)
        self.top = self.top + length
        return Place("slot", slot.name)

    def _give_back(self, place: Place) -> None:
        if place.kind == "slot":
            self.free.append(next(s for s in self.slots if s.name == place.name))

    def _release(self, number: int) -> None:
        """Return the slots whose last reader was this node, and those of results that nobody reads."""
        roots = {(r.node, r.output) for r in (_root(self.graph, a) for a in self.graph.args(number))}
        own = {(number, i) for i in range(len(self.graph.node(number).types))}
        for key in sorted(roots | own):
            if key in self.places and self.last_use.get(key, key[0]) == number:
                self._give_back(self.places[key])


def _is_static(kernel: Kernel) -> bool:
    """Whether a kernel does the same work in every call."""
    return all(b.size.static is not None for b in kernel.buffers) and not symbols_of(kernel.body) & {*kernel.sizes}


def _total_bytes(types: Iterable[Type]) -> int:
    """The bytes of arrays of static sizes."""
    return sum(t.size.evaluate({}) * t.dtype.itemsize for t in types if isinstance(t, ArrayType))


def _symbols(step: Step) -> set[str]:
    if isinstance(step, Launch):
        return set(step.kernel.sizes)
    return {s for t in step.types for size in t.shape for s in size.symbols()}
