"""Fused groups in a plan: the launches of a group's kernels, and calls of libraries where these are worth it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from zenith.backends.bias_gradient import Pair
from zenith.backends.engines import Refusal, RoutineCalls
from zenith.backends.in_place import UPDATES
from zenith.backends.kernel import Kernel
from zenith.backends.lower.engine_table import LoweredGroup, lower_with_row_sums, temporaries
from zenith.backends.lower.product.library import SUMS
from zenith.backends.memory_effects import is_copy
from zenith.backends.plan_builder import PlanBuilder, is_static
from zenith.backends.routines import RoutineUse
from zenith.backends.steps import FIXED, Allocation, CallStep, Either, LaunchStep, Step
from zenith.backends.work import Work, bytes_of, work_of
from zenith.errors import SourceLine
from zenith.ir.graph import Graph, Node
from zenith.ir.types import ArrayType, Type

PREPARED_GROWTH = 4  # times its operands: a larger result is not prepared, every call computes it


def plan_group(builder: PlanBuilder, number: int, node: Node) -> None:
    """The steps of a fused group."""
    buffers, body = builder.buffers, node.params["body"]
    if all(isinstance(t, ArrayType) and t.size == 0 for t in node.types):
        buffers.put_results(number)  # they never have an element: there is no kernel
        return
    names = [str(body.node(v.node).params["name"]) for v in body.inputs]
    bound = dict(zip(names, map(buffers.of, builder.graph.args(number)), strict=True))
    fixed = {name for name, a in bound.items() if a.kind in FIXED or builder.home([a]) is not builder}
    buffers.reuse(number)
    by_libraries = any(a.kind not in FIXED for a in bound.values())  # prepared results are computed by kernels
    lowered = builder.lowered(body, node.params["anchor"], fixed, buffers.is_in_place(number), by_libraries)
    once = _runs_once(builder, number, node, lowered.kernels)
    home = builder if once else _home(builder, number, lowered.kernels, bound.values())
    bound |= _results(builder, number, node, None if once else home)
    lines = tuple(dict.fromkeys(n.line for _, n in body.nodes() if n.line is not None))
    group, calls = _Group(builder, home, body, lowered, bound, lines), lowered.calls
    builder.note_group(lowered.choice, (c.name for c in (*(calls.callees if calls else ()), *lowered.kernels)), lines)
    if calls is None:
        group.add_kernels()
        return
    group.add_either(calls)
    if number in builder.pairs and home is builder:
        group.add_with_row_sums(builder.pairs[number])


def _results(builder: PlanBuilder, number: int, node: Node, home: PlanBuilder | None) -> dict[str, Allocation]:
    """The memory of a group's results by their names in kernels; without a ``home`` they are prepared."""
    found = {}
    for i, type in enumerate(node.types):
        assert isinstance(type, ArrayType)
        result = builder.buffers.known(number, i)
        if result is None:
            new = builder.new_prepared() if home is None else builder.make(home, type.size, type.dtype)
            result = builder.buffers.put(number, new, i)
        found[f"out{i}"] = result
    return found


@dataclass(frozen=True, slots=True)
class _Group:
    """A group whose steps the builder ``home`` gets; ``bound`` is its memory by the names of its kernels' buffers."""

    builder: PlanBuilder
    home: PlanBuilder
    body: Graph
    lowered: LoweredGroup
    bound: dict[str, Allocation]
    lines: tuple[SourceLine, ...]

    def add_kernels(self) -> None:
        """Launch the group's kernels; a table that follows from sizes alone is written once for all groups."""
        builder, bound, kernels = self.builder, self.bound, self.lowered.kernels
        written = Counter(b.name for kernel in kernels for b in kernel.buffers if b.role != "in")
        for kernel in kernels:
            is_table = all(b.role == "temporary" and written[b.name] == 1 for b in kernel.buffers)
            if is_table and kernel in builder.tables:
                bound.update(zip((b.name for b in kernel.buffers), builder.tables[kernel], strict=True))
                continue
            if not (is_copy(kernel) and len({bound[b.name] for b in kernel.buffers if b.name in bound}) == 1):
                builder.add_kernel(kernel, bound, self.lines, work_of(kernel, self.body))
            if is_table and builder.home(made := [bound[b.name] for b in kernel.buffers]) is builder:
                builder.tables[kernel] = made
                builder.kept.update(made)
        builder.give_back(self.lowered.temporaries, bound)

    def add_either(self, calls: RoutineCalls) -> None:
        """Library routines or the group's kernels, chosen in each call of the program by its sizes."""
        first, second = (self._steps(c, self.bound) for c in (calls.callees, self.lowered.kernels))
        self.home.steps.append(Either(calls.gain, calls.least, first, second, self.lines))

    def add_with_row_sums(self, pair: Pair) -> None:
        """The steps of a pair as one choice: row sums and product by one call, or by the steps planned already."""
        assert isinstance(pair.total.type, ArrayType)
        builder, choice, before = self.builder, self.lowered.choice, self.builder.first_step[pair.sums[0]]
        calls = lower_with_row_sums(self.body, builder.target, choice, pair.operand, pair.total.type)
        if isinstance(calls, Refusal):
            explained = replace(choice, others=(*choice.others, (f"row sums by {choice.engine}", calls.why)))
            builder.shared.groups[-1] = replace(builder.shared.groups[-1], choice=explained)
            return
        first = self._steps(calls.callees, {**self.bound, SUMS: builder.buffers.of(pair.total)})
        both = Either(calls.gain, calls.least, first, tuple(builder.steps[before:]), self.lines)
        builder.steps[before:] = [both]
        builder.note_group(choice, (c.name for c in calls.callees), self.lines)

    def _steps(self, callees: Sequence[RoutineUse | Kernel], bound: Mapping[str, Allocation]) -> tuple[Step, ...]:
        """The steps that compute a group by these routines and kernels; temporaries between them are allocated here."""
        made = {b.name: self.builder.make(self.home, b.size, b.dtype) for b in temporaries(callees)}
        allocations = {**bound, **made}
        found = tuple(self._step(callee, allocations) for callee in callees)
        self.builder.give_back(temporaries(callees), allocations)
        return found

    def _step(self, callee: RoutineUse | Kernel, allocations: Mapping[str, Allocation]) -> Step:
        """The step that runs a routine or kernel of a group on the allocations of its buffers."""
        allocations = {**allocations, **self.builder.counters(callee)}
        found = tuple(allocations[b.name] for b in callee.buffers)
        if isinstance(callee, Kernel):
            return LaunchStep(callee, found, self.lines, work_of(callee, self.body))
        read, written = ([b for b in callee.buffers if (b.role == "in") == reads] for reads in (True, False))
        work = Work(callee.operations, *(bytes_of(b.type for b in buffers) for buffers in (read, written)))
        if callee.workspace != 0:
            found = (*found, self.builder.arena.workspace(callee.workspace))
        return CallStep(callee.routine, found, tuple(b.type for b in callee.buffers), len(written), self.lines, work)


def _home(builder: PlanBuilder, number: int, kernels: Sequence[Kernel], reads: Iterable[Allocation]) -> PlanBuilder:
    """The builder in which a group runs. What may fail is not hoisted: the loop may have no iteration."""
    if builder.buffers.is_any_known(number) or any(k.checks for k in kernels):
        return builder
    return builder.home(reads, {size for kernel in kernels for size in kernel.sizes})


def _runs_once(builder: PlanBuilder, number: int, node: Node, kernels: Sequence[Kernel]) -> bool:
    """Whether a group's results are prepared: computed from fixed values only, and not much larger than these."""
    args = builder.graph.args(number)
    if not args or not all(builder.buffers.of(a).kind in FIXED for a in args) or not all(map(is_static, kernels)):
        return False
    if builder.buffers.is_any_known(number):
        return False  # the caller's results are written by every call
    if node.params["anchor"] in UPDATES:
        return False  # a result is prepared by one launch
    return _total_bytes(node.types) <= PREPARED_GROWTH * _total_bytes([a.type for a in args])


def _total_bytes(types: Iterable[Type]) -> int:
    """The bytes of arrays of static sizes."""
    return sum(t.size.evaluate({}) * t.dtype.itemsize for t in types if isinstance(t, ArrayType))
