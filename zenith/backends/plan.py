"""The plan: a fused graph as a list of steps on memory.

Every value gets an *allocation* (:mod:`zenith.backends.buffer_assignment`): an input, an output, a constant, a weight,
or a slot of the arena, memory that one call of the program leases. A step launches a kernel on allocations, calls a
routine, or is a loop, branch or choice by sizes, with steps in the same arena. What depends on constants and weights
only is *prepared*: launched once, and again when such a weight changes. Sizes stay symbolic throughout.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zenith.backends.arena import Arena
from zenith.backends.bias_gradient import Pair, arranged, pairs
from zenith.backends.buffer_assignment import BufferAssignment
from zenith.backends.control import PLANS
from zenith.backends.engines import Choice, Refusal
from zenith.backends.foreign_calls import plan_call
from zenith.backends.group_order import scheduled
from zenith.backends.in_place import UPDATES
from zenith.backends.kernel import Buffer, Kernel
from zenith.backends.lower.engine_table import LoweredGroup, lower_group, lower_with_row_sums, temporaries
from zenith.backends.lower.product.library import SUMS
from zenith.backends.lower.sequential.arrays import Unsuitable
from zenith.backends.lower.sequential.counters import integer_of
from zenith.backends.lower.sequential.intervals import facts_of
from zenith.backends.lower.sequential.program import SequentialLoop, lower_sequential
from zenith.backends.memory_effects import is_copy, symbols_of
from zenith.backends.outputs import copying_body, own_outputs
from zenith.backends.routines import RoutineUse
from zenith.backends.steps import (
    COUNTERS,
    FIXED,
    Allocation,
    CallStep,
    Either,
    LaunchStep,
    LoopStep,
    PlanOf,
    PreparedStep,
    Step,
    Weight,
    symbols_of_step,
    walk,
)
from zenith.backends.target import Target
from zenith.backends.work import Work, bytes_of, work_of
from zenith.errors import SourceLine, UnsupportedError
from zenith.ir.dims import Dim, dim, maximum
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import HostCall, NativeCall
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, DType, NDArray, Type

LOOPS = ("scan", "while_loop")
PREPARED_GROWTH = 4  # times its operands: a larger result is not prepared, every call computes it


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """A fused group: which engine computes it, the names of its routines and kernels, and the user's lines."""

    choice: Choice
    kernels: tuple[str, ...]
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class Plan(PlanOf[LaunchStep, Step, Dim]):
    """The plan of a graph: formulas of sizes. ``counters`` is the number of counters that its launches share."""

    counters: Dim
    groups: tuple[PlannedGroup, ...] = ()

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels that calls launch by name, then those that run once to prepare."""
        found: dict[str, Kernel] = {}
        for launch in (*walk(self.steps), *(p.launch for p in self.prepared)):
            if isinstance(launch, LaunchStep):
                found.setdefault(launch.kernel.name, launch.kernel)
        return found

    def __str__(self) -> str:
        lines = [f"plan {self.name}: sizes {', '.join(self.symbols) or 'none'}"]
        lines += [f"  constant {name}: {a.dtype}{list(a.shape)}" for name, a in self.constants.items()]
        lines += [f"  {name}: {weight.type}" for name, weight in self.weights.items()]
        lines += [f"  once {p.launch}" for p in self.prepared]
        lines += [f"  slot {s.name}: {s.length} bytes at {s.offset}" for s in self.slots]
        lines += [f"  arena {self.arena} bytes"]
        lines += [f"  counters {self.counters}"] if self.counters != 0 else []
        lines += [f"  {i:>2} {step}".replace("\n", "\n  ") for i, step in enumerate(self.steps)]
        lines += [f"  return {name}: {type}" for name, type in self.outputs]
        return "\n".join(lines)


def plan(graph: Graph, target: Target, reusable: Collection[str] = ()) -> Plan:
    """The plan of a fused graph; the memory of inputs that are ``reusable`` is the program's once they are dead."""
    own = scheduled(own_outputs(graph))
    return _Planner(arranged(own) if target.libraries else own, target).plan(reusable)


@dataclass(slots=True)
class _Shared:
    """What the planners of a graph and of the bodies in it share."""

    constants: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)
    prepared: list[PreparedStep[LaunchStep]] = field(default_factory=list)
    groups: list[PlannedGroup] = field(default_factory=list)
    lowered: dict[tuple[Any, ...], LoweredGroup] = field(default_factory=dict)
    arena: Arena = field(default_factory=Arena)
    counters: Dim = field(default_factory=lambda: dim(0))
    prepared_count: int = 0
    moving_count: int = 0


class _Planner:
    """Plans a graph, or a body in the graph of the planner ``outer``, whose inputs and outputs are allocated already.

    Launches of a loop's body that read only ``invariant`` allocations, the same in all iterations, are hoisted: they
    run ahead of the loop, in memory that nothing else in the loop uses. Those with sizes that contain its ``index`` are
    not.
    """

    def __init__(
        self,
        graph: Graph,
        target: Target,
        outer: _Planner | None = None,
        invariant: Iterable[Allocation] | None = None,
        index: str = "",
    ) -> None:
        self.graph, self.target, self.outer, self.index = graph, target, outer, index
        self.shared: _Shared = _Shared() if outer is None else outer.shared
        self.arena = self.shared.arena
        self.buffers = BufferAssignment(graph, self.arena, invariant)
        self.hoisted: list[Allocation] = []  # results of what was hoisted out of the loop that is being planned
        self.steps: list[Step] = []
        self.pairs = pairs(graph) if target.libraries and outer is None else {}
        self.first_step: dict[int, int] = {}  # the position of each node's first step
        self.tables: dict[Kernel, list[Allocation]] = {}  # what follows from sizes alone, and is not written again
        self.kept: set[Allocation] = set()  # the memory of these tables

    @property
    def depth(self) -> int:
        """How many loops there are around the graph."""
        return 0 if self.outer is None else self.outer.depth + self.buffers.is_loop

    @property
    def is_inside(self) -> bool:
        """Whether the graph is the body of a loop or branch."""
        return self.outer is not None

    @property
    def facts(self) -> tuple[Dim, ...]:
        """What is known to be at least 0 of sizes where the program runs."""
        return facts_of(self.graph.guards) if self.outer is None else self.outer.facts

    def plan(self, reusable: Collection[str] = ()) -> Plan:
        inputs = []
        for value in self.graph.inputs:
            name = str(self.graph.node(value.node).params["name"])
            inputs.append(name)
            self.buffers.put(value.node, Allocation("input", name))
            if name in reusable and isinstance(value.type, ArrayType):
                self.arena.allow_reuse(name, value.type.size, value.type.dtype)
        self.buffers.put_outputs([Allocation("output", f"result{i}") for i in range(len(self.graph.outputs))])
        steps = self._all_steps()
        returned = enumerate(self.buffers.returned)
        outputs = tuple((f"result{i}", self._largest(v.type)) for i, v in returned if isinstance(v.type, ArrayType))
        found = {s for step in walk(steps) for s in symbols_of_step(step)} | self._outer_symbols()
        symbols = tuple(sorted(found - {step.index for step in walk(steps) if isinstance(step, LoopStep)}))
        shared, slots = self.shared, self.arena.slots()
        arena = slots[-1].offset + slots[-1].length if slots else dim(0)
        return Plan(
            self.graph.name, symbols, tuple(inputs), outputs, shared.constants, shared.weights, slots,
            arena, tuple(shared.prepared), steps, shared.counters, tuple(shared.groups),
        )  # fmt: skip

    def _all_steps(self) -> tuple[Step, ...]:
        self.shared.constants.update(self.graph.constants)
        for number, node in self.graph.nodes():
            self.first_step[number] = len(self.steps)
            self._visit(number, node)
            self.buffers.release(number)
        return tuple(self.steps)

    def body(
        self,
        graph: Graph,
        inputs: Sequence[Allocation],
        outputs: Sequence[Allocation],
        invariant: Iterable[Allocation] | None,
        between: Mapping[Value, Allocation],
        index: str = "",
    ) -> tuple[Step, ...]:
        """The steps of a body whose inputs, outputs and values ``between`` them have these allocations."""
        planner = _Planner(own_outputs(graph), self.target, self, invariant, index)
        planner.buffers.bind(inputs, outputs, between)
        return planner._all_steps()

    def _largest(self, type: ArrayType) -> ArrayType:
        """The type of a result with sizes that the program computes as large as they can be."""
        return type.with_shape(map(self.arena.largest, type.shape))

    def _outer_symbols(self) -> set[str]:
        found = set(self.graph.symbols())
        for value in self.graph.outputs:
            if isinstance(value.type, ArrayType):
                found |= {s for size in self._largest(value.type).shape for s in size.symbols()}
        return found

    def _visit(self, number: int, node: Node) -> None:
        if node.primitive is get("constant"):
            self.buffers.put(number, Allocation("constant", node.params["id"]))
        elif node.primitive is get("weight"):
            allocation = self.buffers.put(number, Allocation("weight", f"weight {node.params['name']}"))
            (type,) = node.types
            assert isinstance(type, ArrayType)
            self.shared.weights[allocation.name] = Weight(node.params["name"], type)
        elif node.primitive is get("empty"):
            self.buffers.put_results(number)
        elif node.primitive is get("fused"):
            self._launch(number, node)
        elif node.primitive.name in PLANS:
            self._control(number, node)
        elif isinstance(node.primitive.lowering, HostCall | NativeCall):
            plan_call(self, number, node)

    def _control(self, number: int, node: Node) -> None:
        if node.params.get("index") and not self.target.sized_loops:
            what = f"sizes that differ from turn to turn of a {node.primitive.name} on {self.target.name}"
            raise UnsupportedError(what, where=node.line, fix="write it with sizes that are the same in all turns")
        if node.primitive is get("sized"):
            self.arena.note_index(node.params["index"], node.params["most"])
        self.buffers.reuse(number)
        args, results = [self.buffers.of(a) for a in self.graph.args(number)], self.buffers.put_results(number)
        if not (
            self.target.sequential and node.primitive.name in LOOPS and self._sequential(number, node, args, results)
        ):
            self.steps.append(PLANS[node.primitive.name](self, node, args, results))

    def _sequential(self, number: int, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]) -> bool:
        """A loop over scalars as kernels; False where it is none."""
        values = self.graph.args(number)
        known = ((i, integer_of(self.graph, a)) for i, a in enumerate(values))
        integers = {i: value for i, value in known if value is not None}
        shared = [(i, k) for i, a in enumerate(args) for k, result in enumerate(results) if a == result]
        types = [v.type for v in values if isinstance(v.type, ArrayType)]
        try:
            loop = lower_sequential(node, types, integers, self.depth, self.facts, shared)
        except Unsuitable as why:
            self._note_loop("driver", ("sequential", str(why)), (), node)
            return False
        for argument, k in loop.copied:
            if args[argument] != results[k]:
                self.copy(values[argument], args[argument], results[k], node.line)
        self._launch_loop(
            loop, {f"p{i}": a for i, a in enumerate(args)} | {f"out{k}": r for k, r in enumerate(results)}, node
        )
        return True

    def _launch_loop(self, loop: SequentialLoop, bound: Mapping[str, Allocation], node: Node) -> None:
        """The launches of a loop's kernels, whose buffers are ``bound``."""
        for kernel in loop.kernels:
            moved = (bytes_of(b.type for b in kernel.buffers if (b.role == "in") == read) for read in (True, False))
            found = tuple(bound[b.name] for b in kernel.buffers)
            self.steps.append(LaunchStep(kernel, found, node.lines, Work(dim(0), *moved)))
        refused = ("parallel", loop.dependence) if loop.dependence else None
        self._note_loop("sequential" if refused else "parallel", refused, [k.name for k in loop.kernels], node)

    def _note_loop(self, engine: str, refused: tuple[str, str] | None, kernels: Iterable[str], node: Node) -> None:
        """Note which engine a loop has, and why not the one before."""
        choice = Choice("loop", engine, (refused,) if refused else ())
        self.shared.groups.append(PlannedGroup(choice, tuple(kernels), node.lines))

    def _launch(self, number: int, node: Node) -> None:
        body = node.params["body"]
        if all(isinstance(t, ArrayType) and t.size == 0 for t in node.types):
            self.buffers.put_results(number)  # they never have an element: there is no kernel
            return
        bound = {str(body.node(v.node).params["name"]): self.buffers.of(a)
                 for v, a in zip(body.inputs, self.graph.args(number), strict=True)}  # fmt: skip
        fixed = {name for name, a in bound.items() if a.kind in FIXED or self._home([a]) is not self}
        self.buffers.reuse(number)
        by_libraries = any(a.kind not in FIXED for a in bound.values())  # prepared results are computed by kernels
        in_place = self.buffers.is_in_place(number)
        lowered = self._lowered(body, node.params["anchor"], fixed, in_place, by_libraries)
        once = self._runs_once(number, node, lowered.kernels)
        home = self if once else self._home_of_group(number, lowered.kernels, bound.values())
        for i, type in enumerate(node.types):
            assert isinstance(type, ArrayType)
            result = self.buffers.known(number, i)
            if result is None:
                new = self._new_prepared() if once else self._make(home, type.size, type.dtype)
                result = self.buffers.put(number, new, i)
            bound[f"out{i}"] = result
        lines = tuple(dict.fromkeys(n.line for _, n in body.nodes() if n.line is not None))
        callees = (*(lowered.calls.callees if lowered.calls else ()), *lowered.kernels)
        self.shared.groups.append(PlannedGroup(lowered.choice, tuple(c.name for c in callees), lines))
        if lowered.calls is not None:
            self._add_either(home, lowered, bound, lines, body)
            if number in self.pairs and home is self:
                self._add_with_row_sums(self.pairs[number], lowered.choice, bound, lines, body)
            return
        self._add_kernels(lowered, bound, lines, body)

    def _add_kernels(
        self, lowered: LoweredGroup, bound: dict[str, Allocation], lines: tuple[SourceLine, ...], body: Graph
    ) -> None:
        """Launch the kernels of a group; a table that follows from sizes alone is written once for all groups."""
        written = Counter(b.name for kernel in lowered.kernels for b in kernel.buffers if b.role != "in")
        for kernel in lowered.kernels:
            is_table = all(b.role == "temporary" and written[b.name] == 1 for b in kernel.buffers)
            if is_table and kernel in self.tables:
                bound |= zip((b.name for b in kernel.buffers), self.tables[kernel], strict=True)
                continue
            if not (is_copy(kernel) and len({bound[b.name] for b in kernel.buffers if b.name in bound}) == 1):
                self.add_kernel(kernel, bound, lines, work_of(kernel, body))
            if is_table and self._home(made := [bound[b.name] for b in kernel.buffers]) is self:
                self.tables[kernel] = made
                self.kept.update(made)
        self.give_back(lowered.temporaries, bound)

    def _lowered(self, body: Graph, kind: str, fixed: Collection[str] = (), *others: bool) -> LoweredGroup:
        """A group's kernels. Repeated layers give equal groups; equal ones with equal lines are lowered once."""
        key = (str(body), tuple(node.line for node in body.walk()), kind, frozenset(fixed), others)
        if key not in self.shared.lowered:
            self.shared.lowered[key] = lower_group(body, kind, self.target, fixed, *others)
        return self.shared.lowered[key]

    def give_back(self, temporaries: Iterable[Buffer], bound: Mapping[str, Allocation]) -> None:
        """Free the memory of temporaries of kernels that have been launched."""
        for allocation in (bound[b.name] for b in temporaries):
            if self._home([allocation]) is self and allocation not in self.kept:
                self.arena.give_back(allocation)

    def _add_either(
        self,
        home: _Planner,
        lowered: LoweredGroup,
        bound: dict[str, Allocation],
        lines: tuple[SourceLine, ...],
        body: Graph,
    ) -> None:
        """Library routines or the group's kernels, chosen in each call of the program by its sizes."""
        calls = lowered.calls
        assert calls is not None
        first, second = (self._steps_of(home, c, bound, lines, body) for c in (calls.callees, lowered.kernels))
        home.steps.append(Either(calls.gain, calls.least, first, second, lines))

    def _add_with_row_sums(
        self, pair: Pair, choice: Choice, bound: dict[str, Allocation], lines: tuple[SourceLine, ...], body: Graph
    ) -> None:
        """The steps of a pair as one choice: row sums and product by one call, or by the steps planned already."""
        assert isinstance(pair.total.type, ArrayType)
        calls, before = (
            lower_with_row_sums(body, self.target, choice, pair.operand, pair.total.type),
            self.first_step[pair.sums[0]],
        )
        if isinstance(calls, Refusal):
            explained = replace(choice, others=(*choice.others, (f"row sums by {choice.engine}", calls.why)))
            self.shared.groups[-1] = replace(self.shared.groups[-1], choice=explained)
            return
        with_sums = {**bound, SUMS: self.buffers.of(pair.total)}
        first = self._steps_of(self, calls.callees, with_sums, lines, body)
        self.steps[before:] = [Either(calls.gain, calls.least, first, tuple(self.steps[before:]), lines)]
        self.shared.groups.append(PlannedGroup(choice, tuple(c.name for c in calls.callees), lines))

    def _steps_of(
        self,
        home: _Planner,
        callees: Sequence[RoutineUse | Kernel],
        bound: Mapping[str, Allocation],
        lines: tuple[SourceLine, ...],
        body: Graph,
    ) -> tuple[Step, ...]:
        """The steps that compute a group by these routines and kernels; temporaries between them are allocated here."""
        allocations = dict(bound)
        for b in temporaries(callees):
            allocations[b.name] = self._make(home, b.size, b.dtype)
        found = tuple(self._step_of(callee, allocations, lines, body) for callee in callees)
        self.give_back(temporaries(callees), allocations)
        return found

    def _step_of(
        self,
        callee: RoutineUse | Kernel,
        allocations: Mapping[str, Allocation],
        lines: tuple[SourceLine, ...],
        body: Graph,
    ) -> Step:
        """The step that runs a routine or kernel of a group on the allocations of its buffers."""
        allocations = {**allocations, **self._counters(callee)}
        found = tuple(allocations[b.name] for b in callee.buffers)
        if isinstance(callee, Kernel):
            return LaunchStep(callee, found, lines, work_of(callee, body))
        read, written = ([b for b in callee.buffers if (b.role == "in") == reads] for reads in (True, False))
        work = Work(callee.operations, *(bytes_of(b.type for b in buffers) for buffers in (read, written)))
        if callee.workspace != 0:
            found = (*found, self.arena.workspace(callee.workspace))
        return CallStep(callee.routine, found, tuple(b.type for b in callee.buffers), len(written), lines, work)

    def copy(self, value: Value, source: Allocation, target: Allocation, line: SourceLine | None) -> None:
        """Copy an array of the type of ``value`` from one allocation to another."""
        lowered = self._lowered(copying_body(value), "loops")
        for kernel in lowered.kernels:
            bound = {"p0": source, "out0": target}
            self.add_kernel(kernel, bound, () if line is None else (line,), work_of(kernel, copying_body(value)))

    def add_kernel(
        self, kernel: Kernel, bound: dict[str, Allocation], lines: tuple[SourceLine, ...], work: Work
    ) -> None:
        """Launch a kernel, before all calls if it reads fixed allocations only; its temporaries are allocated here."""
        known = [bound[b.name] for b in kernel.buffers if b.name in bound]
        once = _is_static(kernel) and all(p.kind in FIXED for p in known)
        home = self if once or kernel.checks else self._home(known, kernel.sizes)
        bound |= self._counters(kernel)
        for b in kernel.buffers:
            if b.name not in bound:
                bound[b.name] = self._new_prepared() if once else self._make(home, b.size, b.dtype)
        launch = LaunchStep(kernel, tuple(bound[b.name] for b in kernel.buffers), lines, work)
        if once:
            written = [b for b in kernel.buffers if b.role != "in"]
            results = tuple((bound[b.name].name, b.dtype, b.size.evaluate({})) for b in written)
            self.shared.prepared.append(PreparedStep(results, launch))
        else:
            home.steps.append(launch)

    def _counters(self, callee: RoutineUse | Kernel) -> dict[str, Allocation]:
        """The allocations of the counters of a routine or kernel."""
        found = [b for b in callee.buffers if b.role == "counter"]
        self.shared.counters = functools.reduce(maximum, (b.size for b in found), self.shared.counters)
        return {b.name: Allocation(COUNTERS, COUNTERS) for b in found}

    # --- hoisting out of loops ---

    def _home(self, allocations: Iterable[Allocation], sizes: Collection[str] = ()) -> _Planner:
        """The outermost planner to which a launch that works on these allocations, with ``sizes``, can be hoisted."""
        planner, moving = self, [a for a in allocations if a.kind not in FIXED]
        while planner.outer is not None and planner.buffers.are_invariant(moving) and planner.index not in sizes:
            planner = planner.outer
        return planner

    def _home_of_group(self, number: int, kernels: Sequence[Kernel], reads: Iterable[Allocation]) -> _Planner:
        """The planner in which a group runs. What may fail is not hoisted: the loop may have no iteration."""
        if self.buffers.is_any_known(number) or any(k.checks for k in kernels):
            return self
        return self._home(reads, {size for kernel in kernels for size in kernel.sizes})

    def _make(self, home: _Planner, size: Dim, dtype: DType) -> Allocation:
        """Memory for a result; for a hoisted one, memory that nothing else in the loop uses."""
        if home is self:
            return self.arena.allocate(size, dtype)
        allocation = self.arena.extend(size, dtype)
        planner = self
        while planner is not home:
            assert planner.outer is not None
            planner.buffers.add_invariant(allocation)
            planner = planner.outer
        home.hoisted.append(allocation)
        return allocation

    def end_loop(self) -> None:
        """Free the memory of what was hoisted out of the loop that has been planned."""
        for allocation in self.hoisted:
            self.arena.give_back(allocation)
        self.hoisted.clear()

    def _runs_once(self, number: int, node: Node, kernels: Sequence[Kernel]) -> bool:
        """Whether a group's results are prepared: computed from fixed values only, and not much larger than these."""
        args = self.graph.args(number)
        if not args or not all(self.buffers.of(a).kind in FIXED for a in args) or not all(map(_is_static, kernels)):
            return False
        if self.buffers.is_any_known(number):
            return False  # the caller's results are written by every call
        if node.params["anchor"] in UPDATES:
            return False  # a result is prepared by one launch
        return _total_bytes(node.types) <= PREPARED_GROWTH * _total_bytes([a.type for a in args])

    def _new_prepared(self) -> Allocation:
        self.shared.prepared_count += 1
        return Allocation("prepared", f"once{self.shared.prepared_count}")

    def add_constant(self, name: str, array: NDArray) -> Allocation:
        """The allocation of one more constant of the program."""
        self.shared.constants[name] = array
        return Allocation("constant", name)

    def new_moving(self) -> Allocation:
        """An allocation whose address a loop changes in each iteration."""
        self.shared.moving_count += 1
        return Allocation("moving", f"moving{self.shared.moving_count}")


def _is_static(kernel: Kernel) -> bool:
    """Whether a kernel does the same work in every call."""
    if any(b.size.static is None for b in kernel.buffers):
        return False
    return not kernel.sizes or symbols_of(kernel.body).isdisjoint(kernel.sizes)


def _total_bytes(types: Iterable[Type]) -> int:
    """The bytes of arrays of static sizes."""
    return sum(t.size.evaluate({}) * t.dtype.itemsize for t in types if isinstance(t, ArrayType))
