"""The plan: a fused graph as a list of steps on memory.

Every value gets a *place* (:mod:`zenith.backends.buffer_assignment`): an input, an output, a constant, a weight, or a
slot of the arena, memory that one call of the program leases. A step launches a kernel on places, calls a routine, or
is a loop, branch or choice by sizes, with steps in the same arena. What depends on constants and weights only is
*prepared*: launched once, and again when such a weight changes. Sizes stay symbolic throughout.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from zenith.backends.arena import Arena
from zenith.backends.bias_gradient import Pair, arranged, pairs
from zenith.backends.buffer_assignment import BufferAssignment
from zenith.backends.control import PLANS
from zenith.backends.engines import Choice, Refusal
from zenith.backends.in_place import UPDATES
from zenith.backends.kernel import Buffer, Kernel
from zenith.backends.lower.groups import Lowered, lower_group, lower_with_row_sums, temporaries
from zenith.backends.lower.native import lower_native
from zenith.backends.lower.product.library import SUMS
from zenith.backends.memory_effects import symbols_of
from zenith.backends.outputs import copying_body, own_outputs
from zenith.backends.routines import Use
from zenith.backends.schedule import scheduled
from zenith.backends.steps import (
    COUNTERS,
    FIXED,
    Allocation,
    Call,
    Either,
    Launch,
    Prepared,
    Slot,
    Step,
    Weight,
    symbols_of_step,
    walk,
)
from zenith.backends.work import Work, bytes_of, work_of
from zenith.errors import SourceLine, UnsupportedError
from zenith.ir.dims import Dim, dim, maximum
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import HostCall, NativeCall
from zenith.ir.primitive import get
from zenith.ir.target import Target
from zenith.ir.types import ArrayType, DType, Type

PREPARED_GROWTH = 4  # results that are larger, in terms of what they are made of, are not kept: each call computes them


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """A fused group: who computes it, the names of its routines and kernels, and the user's lines."""

    choice: Choice
    kernels: tuple[str, ...]
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps and the memory they need. ``inputs`` and ``outputs`` are named places in the graph's order.

    ``constants`` and ``weights`` go by the names of their places; the weights' contents are no part of the plan.
    ``arena`` is in bytes; ``counters`` is how many there are.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, ArrayType], ...]
    constants: dict[str, Any]
    weights: dict[str, Weight]
    slots: tuple[Slot, ...]
    arena: Dim
    counters: Dim
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
        lines += [f"  counters {self.counters}"] if self.counters != 0 else []
        lines += [f"  {i:>2} {step}".replace("\n", "\n  ") for i, step in enumerate(self.steps)]
        lines += [f"  return {name}: {type}" for name, type in self.outputs]
        return "\n".join(lines)


def plan(graph: Graph, target: Target) -> Plan:
    """The plan of a fused graph."""
    own = scheduled(own_outputs(graph))
    return _Planner(arranged(own) if target.libraries else own, target).plan()


@dataclass(slots=True)
class _Shared:
    """What the plans of a graph and of the bodies in it have in common."""

    constants: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)
    prepared: list[Prepared] = field(default_factory=list)
    groups: list[PlannedGroup] = field(default_factory=list)
    lowered: dict[tuple[Any, ...], Lowered] = field(default_factory=dict)
    arena: Arena = field(default_factory=Arena)
    counters: Dim = field(default_factory=lambda: dim(0))
    kept: int = 0
    moving: int = 0


class _Planner:
    """Plans a graph, or a body in the graph of the planner ``around``, whose inputs and outputs have places already.

    Launches of a loop's body that read nothing but places which are ``still``, the same in all steps, run ahead of the
    loop, in memory that nothing else in the loop uses.
    """

    def __init__(
        self, graph: Graph, target: Target, around: _Planner | None = None, still: Iterable[Allocation] | None = None
    ) -> None:
        self.graph, self.target, self.around = graph, target, around
        self.shared: _Shared = _Shared() if around is None else around.shared
        self.arena = self.shared.arena
        self.buffers = BufferAssignment(graph, self.arena, still)
        self.kept: list[Allocation] = []  # what launches ahead of the loop in progress have made for it
        self.steps: list[Step] = []
        self.pairs = pairs(graph) if target.libraries and around is None else {}
        self.begun: dict[int, int] = {}  # how many steps there were in front of a node's

    def plan(self) -> Plan:
        inputs = []
        for value in self.graph.inputs:
            name = str(self.graph.node(value.node).params["name"])
            inputs.append(name)
            self.buffers.put(value.node, Allocation("input", name))
        self.buffers.put_outputs([Allocation("output", f"result{i}") for i in range(len(self.graph.outputs))])
        steps = self._all_steps()
        returned = enumerate(self.buffers.returned)
        outputs = tuple((f"result{i}", v.type) for i, v in returned if isinstance(v.type, ArrayType))
        symbols = tuple(sorted({s for step in walk(steps) for s in symbols_of_step(step)} | self._outer_symbols()))
        shared, slots = self.shared, self.arena.slots()
        arena = slots[-1].end if slots else dim(0)
        return Plan(
            self.graph.name, tuple(inputs), outputs, shared.constants, shared.weights, slots,
            arena, shared.counters, symbols, tuple(shared.prepared), steps, tuple(shared.groups),
        )  # fmt: skip

    def _all_steps(self) -> tuple[Step, ...]:
        self.shared.constants.update(self.graph.constants)
        for number, node in self.graph.nodes():
            self.begun[number] = len(self.steps)
            self._visit(number, node)
            self.buffers.release(number)
        return tuple(self.steps)

    def body(
        self,
        graph: Graph,
        inputs: Sequence[Allocation],
        outputs: Sequence[Allocation],
        still: Iterable[Allocation] | None,
        between: Mapping[Value, Allocation],
    ) -> tuple[Step, ...]:
        """The steps of a body whose inputs and outputs live at these places, and so do values ``between`` them."""
        planner = _Planner(own_outputs(graph), self.target, self, still)
        planner.buffers.bind(inputs, outputs, between)
        return planner._all_steps()

    def _outer_symbols(self) -> set[str]:
        found = set(self.graph.symbols())
        for value in self.graph.outputs:
            if isinstance(value.type, ArrayType):
                found |= {s for size in value.shape for s in size.symbols()}
        return found

    def _visit(self, number: int, node: Node) -> None:
        if node.primitive is get("constant"):
            self.buffers.put(number, Allocation("constant", node.params["id"]))
        elif node.primitive is get("weight"):
            place = self.buffers.put(number, Allocation("weight", f"weight {node.params['name']}"))
            (type,) = node.types
            assert isinstance(type, ArrayType)
            self.shared.weights[place.name] = Weight(node.params["name"], type)
        elif node.primitive is get("fused"):
            self._launch(number, node)
        elif node.primitive.name in PLANS:
            self._control(number, node)
        elif isinstance(node.primitive.lowering, HostCall):
            self._call(number, node)
        elif isinstance(node.primitive.lowering, NativeCall):
            self._call_native(number, node)

    def _call(self, number: int, node: Node) -> None:
        if self.around is not None:
            what = f"{node.primitive.name} inside a loop or branch: the program runs these without Python"
            raise UnsupportedError(what, where=node.line, fix="return the values, and use them behind the loop")
        arrays = [a for a in self.graph.args(number) if isinstance(a.type, ArrayType)]
        results = self.buffers.put_results(number)
        types = [t for t in (*(a.type for a in arrays), *node.types) if isinstance(t, ArrayType)]
        places = (*map(self.buffers.of, arrays), *results)
        self.steps.append(Call.of(node, places, types, self.target.libraries))

    def _call_native(self, number: int, node: Node) -> None:
        """A kernel of its own, which finds the function's address among the program's constants."""
        function, args = node.params["function"], self.graph.args(number)
        address = Allocation("constant", f"address of {function.name}")
        self.shared.constants[address.name] = np.array([function.address])
        bound = {f"p{i}": self.buffers.of(a) for i, a in enumerate(args)}
        bound |= {f"out{i}": place for i, place in enumerate(self.buffers.put_results(number))}
        kernel = lower_native(function.label, [a.type for a in args], node.types, node.params["mapped"])
        held = [sum((b.size * b.dtype.itemsize for b in kernel.buffers if b.role == r), dim(0)) for r in ("in", "out")]
        lines = () if node.line is None else (node.line,)
        self._add_kernel(kernel, {**bound, kernel.buffers[-1].name: address}, lines, Work(dim(0), *held))

    def _control(self, number: int, node: Node) -> None:
        self.buffers.reuse(number)
        args, results = [self.buffers.of(a) for a in self.graph.args(number)], self.buffers.put_results(number)
        self.steps.append(PLANS[node.primitive.name](self, node, args, results))

    def _launch(self, number: int, node: Node) -> None:
        body = node.params["body"]
        if all(isinstance(t, ArrayType) and t.size == 0 for t in node.types):
            self.buffers.put_results(number)  # they never have an element: there is no kernel
            return
        bound = {str(body.node(v.node).params["name"]): self.buffers.of(a)
                 for v, a in zip(body.inputs, self.graph.args(number), strict=True)}  # fmt: skip
        fixed = {name for name, place in bound.items() if place.kind in FIXED or self._home([place]) is not self}
        self.buffers.reuse(number)
        by_libraries = any(place.kind not in FIXED for place in bound.values())  # what is prepared, kernels make
        in_place = self.buffers.is_in_place(number)
        lowered = self._lowered(body, node.params["anchor"], fixed, in_place, by_libraries)
        once = self._runs_once(number, node, lowered.kernels)
        home = self if once else self._home_of_group(number, lowered.kernels, bound.values())
        for i, type in enumerate(node.types):
            assert isinstance(type, ArrayType)
            place = self.buffers.known(number, i)
            if place is None:
                made = self._new_prepared() if once else self._make(home, type.size, type.dtype)
                place = self.buffers.put(number, made, i)
            bound[f"out{i}"] = place
        lines = tuple(dict.fromkeys(n.line for _, n in body.nodes() if n.line is not None))
        parts = (*(lowered.calls.parts if lowered.calls else ()), *lowered.kernels)
        self.shared.groups.append(PlannedGroup(lowered.choice, tuple(part.name for part in parts), lines))
        if lowered.calls is not None:
            self._add_either(home, lowered, bound, lines, body)
            if number in self.pairs and home is self:
                self._add_with_row_sums(self.pairs[number], lowered.choice, bound, lines, body)
            return
        for kernel in lowered.kernels:
            self._add_kernel(kernel, bound, lines, work_of(kernel, body))
        self._give_back(lowered.temporaries, bound)

    def _lowered(self, body: Graph, kind: str, fixed: Collection[str] = (), *others: bool) -> Lowered:
        """A group's kernels: where layers repeat, so do groups, and equal ones with equal lines are lowered once."""
        key = (str(body), tuple(node.line for node in body.walk()), kind, frozenset(fixed), others)
        if key not in self.shared.lowered:
            self.shared.lowered[key] = lower_group(body, kind, self.target, fixed, *others)
        return self.shared.lowered[key]

    def _give_back(self, temporaries: Iterable[Buffer], bound: Mapping[str, Allocation]) -> None:
        for place in (bound[b.name] for b in temporaries):
            if self._home([place]) is self:
                self.arena.give_back(place)

    def _add_either(
        self, home: _Planner, lowered: Lowered, bound: dict[str, Allocation], lines: tuple[SourceLine, ...], body: Graph
    ) -> None:
        """Calls of a library in some calls of the program, kernels in others."""
        calls = lowered.calls
        assert calls is not None
        first, second = (self._parts(home, p, bound, lines, body) for p in (calls.parts, lowered.kernels))
        home.steps.append(Either(calls.gain, calls.least, first, second, lines))

    def _add_with_row_sums(
        self, pair: Pair, choice: Choice, bound: dict[str, Allocation], lines: tuple[SourceLine, ...], body: Graph
    ) -> None:
        """The steps of a pair as one choice: sums and product by one call, or as they are."""
        assert isinstance(pair.total.type, ArrayType)
        calls, before = (
            lower_with_row_sums(body, self.target, choice, pair.operand, pair.total.type),
            self.begun[pair.sums[0]],
        )
        if isinstance(calls, Refusal):
            told = replace(choice, others=(*choice.others, (f"sums beside by {choice.engine}", calls.why)))
            self.shared.groups[-1] = replace(self.shared.groups[-1], choice=told)
            return
        places = {**bound, SUMS: self.buffers.of(pair.total)}
        first = self._parts(self, calls.parts, places, lines, body)
        self.steps[before:] = [Either(calls.gain, calls.least, first, tuple(self.steps[before:]), lines)]
        self.shared.groups.append(PlannedGroup(choice, tuple(part.name for part in calls.parts), lines))

    def _parts(
        self,
        home: _Planner,
        parts: Sequence[Use | Kernel],
        bound: Mapping[str, Allocation],
        lines: tuple[SourceLine, ...],
        body: Graph,
    ) -> tuple[Step, ...]:
        """The steps of parts of a group; what lives between them has places here."""
        places = dict(bound)
        for b in temporaries(parts):
            places[b.name] = self._make(home, b.size, b.dtype)
        found = tuple(self._part(part, places, lines, body) for part in parts)
        self._give_back(temporaries(parts), places)
        return found

    def _part(
        self, part: Use | Kernel, places: Mapping[str, Allocation], lines: tuple[SourceLine, ...], body: Graph
    ) -> Step:
        """A part of a group on the places of its buffers."""
        places = {**places, **self._counters(part)}
        found = tuple(places[b.name] for b in part.buffers)
        if isinstance(part, Kernel):
            return Launch(part, found, lines, work_of(part, body))
        read, written = ([b for b in part.buffers if (b.role == "in") == reads] for reads in (True, False))
        work = Work(part.operations, *(bytes_of(b.type for b in buffers) for buffers in (read, written)))
        if part.workspace != 0:
            found = (*found, self.arena.workspace(part.workspace))
        return Call(part.routine, found, tuple(b.type for b in part.buffers), len(written), lines, work)

    def copy(self, value: Value, source: Allocation, target: Allocation, line: SourceLine | None) -> None:
        """Copy an array of the type of ``value`` from one place to another."""
        lowered = self._lowered(copying_body(value), "loops")
        for kernel in lowered.kernels:
            bound = {"p0": source, "out0": target}
            self._add_kernel(kernel, bound, () if line is None else (line,), work_of(kernel, copying_body(value)))

    def _add_kernel(
        self, kernel: Kernel, bound: dict[str, Allocation], lines: tuple[SourceLine, ...], work: Work
    ) -> None:
        """Launch a kernel, ahead of all calls if it works on fixed places only; its temporaries get places here."""
        known = [bound[b.name] for b in kernel.buffers if b.name in bound]
        once = _is_static(kernel) and all(p.kind in FIXED for p in known)
        home = self if once or kernel.checks else self._home(known)
        bound |= self._counters(kernel)
        for b in kernel.buffers:
            if b.name not in bound:
                bound[b.name] = self._new_prepared() if once else self._make(home, b.size, b.dtype)
        launch = Launch(kernel, tuple(bound[b.name] for b in kernel.buffers), lines, work)
        if once:
            written = [b for b in kernel.buffers if b.role != "in"]
            results = tuple((bound[b.name].name, b.dtype, b.size.evaluate({})) for b in written)
            self.shared.prepared.append(Prepared(results, launch))
        else:
            home.steps.append(launch)

    def _counters(self, part: Use | Kernel) -> dict[str, Allocation]:
        """The places of a part's counters."""
        found = [b for b in part.buffers if b.role == "counter"]
        self.shared.counters = functools.reduce(maximum, (b.size for b in found), self.shared.counters)
        return {b.name: Allocation(COUNTERS, COUNTERS) for b in found}

    # --- ahead of loops ---

    def _home(self, places: Iterable[Allocation]) -> _Planner:
        """The outermost planner in which a launch that works on these places can run as well."""
        planner, moving = self, [p for p in places if p.kind not in FIXED]
        while planner.around is not None and planner.buffers.are_still(moving):
            planner = planner.around
        return planner

    def _home_of_group(self, number: int, kernels: Sequence[Kernel], reads: Iterable[Allocation]) -> _Planner:
        """Where a whole group runs. What may fail stays where it is: the loop may have no step."""
        return self if self.buffers.is_any_known(number) or any(k.checks for k in kernels) else self._home(reads)

    def _make(self, home: _Planner, size: Dim, dtype: DType) -> Allocation:
        """Memory for a result; of what runs ahead of a loop, memory that nothing else in the loop uses."""
        if home is self:
            return self.arena.allocate(size, dtype)
        place = self.arena.extend(size, dtype)
        planner = self
        while planner is not home:
            assert planner.around is not None
            planner.buffers.hold_still(place)
            planner = planner.around
        home.kept.append(place)
        return place

    def end_loop(self) -> None:
        """Let others have what was kept for the loop that has been planned."""
        for place in self.kept:
            self.arena.give_back(place)
        self.kept.clear()

    def _runs_once(self, number: int, node: Node, kernels: Sequence[Kernel]) -> bool:
        """Whether a group's results are prepared: made of fixed values only, and not much larger than these."""
        args = self.graph.args(number)
        if not args or not all(self.buffers.of(a).kind in FIXED for a in args) or not all(map(_is_static, kernels)):
            return False
        if self.buffers.is_any_known(number):
            return False  # the caller's results are written by every call
        if node.params["anchor"] in UPDATES:
            return False  # a result is prepared by one launch
        return _total_bytes(node.types) <= PREPARED_GROWTH * _total_bytes([a.type for a in args])

    def _new_prepared(self) -> Allocation:
        self.shared.kept += 1
        return Allocation("prepared", f"once{self.shared.kept}")

    def new_moving(self) -> Allocation:
        """A place that a loop moves."""
        self.shared.moving += 1
        return Allocation("moving", f"moving{self.shared.moving}")


def _is_static(kernel: Kernel) -> bool:
    """Whether a kernel does the same work in every call."""
    if any(b.size.static is None for b in kernel.buffers):
        return False
    return not kernel.sizes or symbols_of(kernel.body).isdisjoint(kernel.sizes)


def _total_bytes(types: Iterable[Type]) -> int:
    """The bytes of arrays of static sizes."""
    return sum(t.size.evaluate({}) * t.dtype.itemsize for t in types if isinstance(t, ArrayType))
