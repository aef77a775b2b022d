"""Building a plan: memory and launches for the nodes of a graph, and where a launch runs.

A graph has a builder, and so has each body of a loop or branch in it; all of them allocate in one arena. A launch in a
loop's body that reads only *invariant* allocations, the same in all iterations, is *hoisted*: it runs ahead of the
loop, in memory that nothing else in the loop uses. One that reads only what is the same in all calls is *prepared*.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zenith.backends.arena import Arena
from zenith.backends.bias_gradient import pairs
from zenith.backends.buffer_assignment import BufferAssignment
from zenith.backends.engines import Choice
from zenith.backends.kernel import Buffer, Kernel
from zenith.backends.lower.engine_table import LoweredGroup, lower_group
from zenith.backends.lower.sequential.intervals import facts_of
from zenith.backends.memory_effects import symbols_of
from zenith.backends.outputs import copying_body
from zenith.backends.plan import PlannedGroup
from zenith.backends.routines import RoutineUse
from zenith.backends.steps import COUNTERS, FIXED, Allocation, LaunchStep, PreparedStep, Step, Weight
from zenith.backends.target import Target
from zenith.backends.work import Work, work_of
from zenith.errors import SourceLine
from zenith.ir.dims import Dim, dim, maximum
from zenith.ir.graph import Graph, Value
from zenith.ir.types import DType, NDArray


@dataclass(slots=True)
class _Shared:
    """What the builders of a graph and of the bodies in it share."""

    constants: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)
    prepared: list[PreparedStep[LaunchStep]] = field(default_factory=list)
    groups: list[PlannedGroup] = field(default_factory=list)
    lowered: dict[tuple[Any, ...], LoweredGroup] = field(default_factory=dict)
    arena: Arena = field(default_factory=Arena)
    counters: Dim = field(default_factory=lambda: dim(0))
    prepared_count: int = 0
    moving_count: int = 0


class PlanBuilder(ABC):
    """Builds the plan of a graph, or of a body in the graph of the builder ``outer``.

    ``invariant`` are the allocations that are the same in all iterations, where the graph is a loop's body. A launch
    with sizes that contain its ``index`` is not hoisted.
    """

    def __init__(
        self,
        graph: Graph,
        target: Target,
        outer: PlanBuilder | None = None,
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

    @abstractmethod
    def body(
        self,
        graph: Graph,
        inputs: Sequence[Allocation],
        outputs: Sequence[Allocation],
        invariant: Iterable[Allocation] | None,
        between: Mapping[Value, Allocation],
        index: str = "",
    ) -> tuple[Step, ...]:
        """The steps of a body whose inputs, outputs and values ``between`` them have these allocations.

        ``invariant`` are the inputs that are the same in all iterations of a loop; None for a branch. ``index`` is the
        size that is the number of the iteration.
        """

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

    # --- launches ---

    def lowered(self, body: Graph, kind: str, fixed: Collection[str] = (), *others: bool) -> LoweredGroup:
        """A group's kernels. Repeated layers give equal groups; equal ones with equal lines are lowered once."""
        key = (str(body), tuple(node.line for node in body.walk()), kind, frozenset(fixed), others)
        if key not in self.shared.lowered:
            self.shared.lowered[key] = lower_group(body, kind, self.target, fixed, *others)
        return self.shared.lowered[key]

    def note_group(self, choice: Choice, callees: Iterable[str], lines: tuple[SourceLine, ...]) -> None:
        """Note for reports which engine computes a group, and the names of its routines and kernels."""
        self.shared.groups.append(PlannedGroup(choice, tuple(callees), lines))

    def add_kernel(
        self, kernel: Kernel, bound: dict[str, Allocation], lines: tuple[SourceLine, ...], work: Work
    ) -> None:
        """Launch a kernel, before all calls if it reads fixed allocations only; its temporaries are allocated here."""
        known = [bound[b.name] for b in kernel.buffers if b.name in bound]
        once = is_static(kernel) and all(p.kind in FIXED for p in known)
        home = self if once or kernel.checks else self.home(known, kernel.sizes)
        bound |= self.counters(kernel)
        for b in kernel.buffers:
            if b.name not in bound:
                bound[b.name] = self.new_prepared() if once else self.make(home, b.size, b.dtype)
        launch = LaunchStep(kernel, tuple(bound[b.name] for b in kernel.buffers), lines, work)
        if once:
            written = [b for b in kernel.buffers if b.role != "in"]
            results = tuple((bound[b.name].name, b.dtype, b.size.evaluate({})) for b in written)
            self.shared.prepared.append(PreparedStep(results, launch))
        else:
            home.steps.append(launch)

    def copy(self, value: Value, source: Allocation, target: Allocation, line: SourceLine | None) -> None:
        """Copy an array of the type of ``value`` from one allocation to another."""
        lowered = self.lowered(copying_body(value), "loops")
        for kernel in lowered.kernels:
            bound = {"p0": source, "out0": target}
            self.add_kernel(kernel, bound, () if line is None else (line,), work_of(kernel, copying_body(value)))

    # --- memory ---

    def counters(self, callee: RoutineUse | Kernel) -> dict[str, Allocation]:
        """The allocations of the counters of a routine or kernel."""
        found = [b for b in callee.buffers if b.role == "counter"]
        self.shared.counters = functools.reduce(maximum, (b.size for b in found), self.shared.counters)
        return {b.name: Allocation(COUNTERS, COUNTERS) for b in found}

    def make(self, home: PlanBuilder, size: Dim, dtype: DType) -> Allocation:
        """Memory for a result; for a hoisted one, memory that nothing else in the loop uses."""
        if home is self:
            return self.arena.allocate(size, dtype)
        allocation = self.arena.extend(size, dtype)
        builder = self
        while builder is not home:
            assert builder.outer is not None
            builder.buffers.add_invariant(allocation)
            builder = builder.outer
        home.hoisted.append(allocation)
        return allocation

    def give_back(self, temporaries: Iterable[Buffer], bound: Mapping[str, Allocation]) -> None:
        """Free the memory of temporaries of kernels that have been launched."""
        for allocation in (bound[b.name] for b in temporaries):
            if self.home([allocation]) is self and allocation not in self.kept:
                self.arena.give_back(allocation)

    def new_prepared(self) -> Allocation:
        """Memory for a result that is computed before all calls."""
        self.shared.prepared_count += 1
        return Allocation("prepared", f"once{self.shared.prepared_count}")

    def new_moving(self) -> Allocation:
        """An allocation whose address a loop changes in each iteration."""
        self.shared.moving_count += 1
        return Allocation("moving", f"moving{self.shared.moving_count}")

    def add_constant(self, name: str, array: NDArray) -> Allocation:
        """The allocation of one more constant of the program."""
        self.shared.constants[name] = array
        return Allocation("constant", name)

    # --- hoisting out of loops ---

    def home(self, allocations: Iterable[Allocation], sizes: Collection[str] = ()) -> PlanBuilder:
        """The outermost builder to which a launch that works on these allocations, with ``sizes``, can be hoisted."""
        builder, moving = self, [a for a in allocations if a.kind not in FIXED]
        while builder.outer is not None and builder.buffers.are_invariant(moving) and builder.index not in sizes:
            builder = builder.outer
        return builder

    def end_loop(self) -> None:
        """Free the memory of what was hoisted out of the loop that has been planned."""
        for allocation in self.hoisted:
            self.arena.give_back(allocation)
        self.hoisted.clear()


def is_static(kernel: Kernel) -> bool:
    """Whether a kernel does the same work in every call."""
    if any(b.size.static is None for b in kernel.buffers):
        return False
    return not kernel.sizes or symbols_of(kernel.body).isdisjoint(kernel.sizes)
