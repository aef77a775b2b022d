"""Loops and branches of a graph as steps: the memory of carried values, slices and results, and the bodies' steps.

A body is planned like a graph, into the same arena: its inputs and outputs are bound to allocations first. Carried
values and slices of arrays, whose addresses change in each iteration, are *moving* allocations. A carried value is
double-buffered, one of the buffers being the loop's result; its initial value is only read. A carried value that every
iteration updates in place needs the result's memory alone, to which its initial value is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from zenith.backends.arena import Arena
from zenith.backends.in_place import between, updates
from zenith.backends.outputs import own_outputs
from zenith.backends.steps import Allocation, BranchStep, Carry, LoopStep, Slice, Step
from zenith.errors import SourceLine
from zenith.ir.dims import Dim, dim, maximum, product, prove_at_least
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import bool_


class Planner(Protocol):
    """What plans the graph around a loop or branch."""

    arena: Arena

    def new_moving(self) -> Allocation:
        """An allocation whose address a loop changes in each iteration."""
        ...

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
        ...

    def copy(self, value: Value, source: Allocation, target: Allocation, line: SourceLine | None) -> None:
        """Copy an array of the type of ``value`` from one allocation to another."""
        ...

    def end_loop(self) -> None:
        """Free the memory of what was hoisted out of the loop that has been planned."""
        ...


def plan_scan(planner: Planner, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]) -> Step:
    """A loop whose number of iterations is a formula of the sizes."""
    body, first = own_outputs(node.params["body"]), node.params["captured"]
    last = first + node.params["carried"]
    carries, between = _carries(planner, node, body, body.inputs[first:last], args[first:last], results)
    read = _slices(planner, body.inputs[last:], args[last:])
    written = _slices(planner, body.outputs[last - first :], results[last - first :])
    inputs = [*args[:first], *(c.current for c in carries), *(s.element for s in read)]
    outputs = [*(c.following for c in carries), *(s.element for s in written)]
    count, reverse, index = (node.params[name] for name in ("length", "reverse", "index"))
    planner.arena.note_index(index, maximum(count - 1, 0))
    steps = planner.body(body, inputs, outputs, args[:first], between, index)
    _drop(planner, carries)
    if not prove_at_least(count, 0):
        count = maximum(count, 0)  # a loop counts down to 0, whether or not a guard says so
    return LoopStep(count, reverse, carries, (*read, *written), (), None, steps, node.lines, index)


def plan_while(planner: Planner, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]) -> Step:
    """A loop that a condition ends."""
    condition, first = node.params["condition"], node.params["condition_captured"]
    body, last = own_outputs(node.params["body"]), first + node.params["body_captured"]
    carries, between = _carries(planner, node, body, body.inputs[last - first :], args[last:], results)
    currents, flag = [c.current for c in carries], planner.arena.allocate(dim(1), bool_)
    test = planner.body(condition, [*args[:first], *currents], [flag], args[:first], {})
    followings = [c.following for c in carries]
    index = node.params["index"]
    planner.arena.note_index(index, node.params["most"])
    steps = planner.body(body, [*args[first:last], *currents], followings, args[first:last], between, index)
    planner.arena.give_back(flag)
    _drop(planner, carries)
    return LoopStep(None, False, carries, (), test, flag, steps, node.lines, index)


def plan_switch(planner: Planner, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]) -> Step:
    """One of several sequences of steps, which all write the same results."""
    index, *operands = args
    bodies = map(own_outputs, node.params["branches"])
    branches = tuple(planner.body(b, operands, results, None, between(b, operands, results)) for b in bodies)
    return BranchStep(index, branches, node.lines)


def plan_sized(planner: Planner, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]) -> Step:
    """Steps that run once, with a size that the program has computed."""
    count, *operands = args
    body, index = own_outputs(node.params["body"]), node.params["index"]
    steps = planner.body(body, operands, results, (), between(body, operands, results), index)
    return LoopStep(dim(1), False, (), (), (), None, steps, node.lines, index, count)


PLANS: dict[str, Callable[[Planner, Node, Sequence[Allocation], Sequence[Allocation]], Step]] = {
    "scan": plan_scan,
    "while_loop": plan_while,
    "switch": plan_switch,
    "sized": plan_sized,
}


def _carries(
    planner: Planner,
    node: Node,
    body: Graph,
    values: Sequence[Value],
    starts: Sequence[Allocation],
    results: Sequence[Allocation],
) -> tuple[tuple[Carry[Dim], ...], dict[Value, Allocation]]:
    """The carried values, and the allocations of values on the paths of those that are updated in place."""
    found: list[Carry[Dim]] = []
    between: dict[Value, Allocation] = {}
    for value, updated, start, result in zip(values, body.outputs, starts, results, strict=False):
        size, dtype, moving = _size(value), value.dtype, planner.new_moving()
        path = updates(body, updated, value)
        if path is None:
            following, other = planner.new_moving(), planner.arena.allocate(size, dtype)
        else:
            if start != result:
                planner.copy(value, start, result, node.line)
            following, start, other = moving, result, result
            between.update(dict.fromkeys(path, moving))
        found.append(Carry(moving, following, start, result, other, dtype, size * dtype.itemsize))
    return tuple(found), between


def _drop(planner: Planner, carries: Sequence[Carry[Dim]]) -> None:
    for carry in carries:
        if carry.other != carry.result:
            planner.arena.give_back(carry.other)
    planner.end_loop()


def _slices(planner: Planner, values: Sequence[Value], wholes: Sequence[Allocation]) -> tuple[Slice[Dim], ...]:
    return tuple(
        Slice(planner.new_moving(), whole, value.dtype, _size(value) * value.dtype.itemsize)
        for value, whole in zip(values, wholes, strict=True)
    )


def _size(value: Value) -> Dim:
    return product(value.shape)
