"""Loops and branches of a graph as steps: where carried values, parts and results live, and the bodies' own steps.

A body is planned like a graph, into the same arena: its inputs and outputs are bound to places first. What loops let
point elsewhere in each step, carried values and parts of arrays, are *moving* places. Two buffers take turns for a
carried value, of which one is the loop's result; the value that it begins with is only read. A carried value that every
step makes in place of the one before needs the result's memory alone, to which its first value is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from zenith.backends.arena import Arena
from zenith.backends.in_place import updates
from zenith.backends.outputs import own_outputs
from zenith.backends.steps import Allocation, Branch, Carry, Loop, Slice, Step
from zenith.errors import SourceLine
from zenith.ir.dims import Dim, dim, maximum, product, prove_at_least
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import bool_


class Planner(Protocol):
    """What plans the graph around a loop or branch."""

    arena: Arena

    def new_moving(self) -> Allocation:
        """A place that a loop moves."""
        ...

    def body(
        self,
        graph: Graph,
        inputs: Sequence[Allocation],
        outputs: Sequence[Allocation],
        still: Iterable[Allocation] | None,
        between: Mapping[Value, Allocation],
    ) -> tuple[Step, ...]:
        """The steps of a body whose inputs and outputs live at these places, and so do values ``between`` them.

        ``still`` are the inputs that are the same in all steps of a loop; None when the body is none of a loop.
        """
        ...

    def copy(self, value: Value, source: Allocation, target: Allocation, line: SourceLine | None) -> None:
        """Copy an array of the type of ``value`` from one place to another."""
        ...

    def end_loop(self) -> None:
        """Let others have what was kept for the loop that has been planned."""
        ...


def plan_scan(planner: Planner, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]) -> Step:
    """A loop with a known number of steps."""
    body, first = own_outputs(node.params["body"]), node.params["captured"]
    last = first + node.params["carried"]
    carries, between = _carries(planner, node, body, body.inputs[first:last], args[first:last], results)
    read = _slices(planner, body.inputs[last:], args[last:])
    written = _slices(planner, body.outputs[last - first :], results[last - first :])
    inputs = [*args[:first], *(c.current for c in carries), *(s.part for s in read)]
    outputs = [*(c.following for c in carries), *(s.part for s in written)]
    steps = planner.body(body, inputs, outputs, args[:first], between)
    _drop(planner, carries)
    count, reverse = node.params["length"], node.params["reverse"]
    if not prove_at_least(count, 0):
        count = maximum(count, 0)  # loops count down to 0, whatever becomes of the guard that says so
    return Loop(count, reverse, carries, (*read, *written), (), None, steps, _lines(node))


def plan_while(planner: Planner, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]) -> Step:
    """A loop that a condition ends."""
    condition, first = node.params["condition"], node.params["condition_captured"]
    body, last = own_outputs(node.params["body"]), first + node.params["body_captured"]
    carries, between = _carries(planner, node, body, body.inputs[last - first :], args[last:], results)
    currents, flag = [c.current for c in carries], planner.arena.allocate(dim(1), bool_)
    test = planner.body(condition, [*args[:first], *currents], [flag], args[:first], {})
    followings = [c.following for c in carries]
    steps = planner.body(body, [*args[first:last], *currents], followings, args[first:last], between)
    planner.arena.give_back(flag)
    _drop(planner, carries)
    return Loop(None, False, carries, (), test, flag, steps, _lines(node))


def plan_switch(planner: Planner, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]) -> Step:
    """One of several rows of steps, which all write the same results."""
    index, *operands = args
    branches = tuple(planner.body(branch, operands, results, None, {}) for branch in node.params["branches"])
    return Branch(index, branches, _lines(node))


PLANS: dict[str, Callable[[Planner, Node, Sequence[Allocation], Sequence[Allocation]], Step]] = {
    "scan": plan_scan,
    "while_loop": plan_while,
    "switch": plan_switch,
}


def _carries(
    planner: Planner,
    node: Node,
    body: Graph,
    values: Sequence[Value],
    starts: Sequence[Allocation],
    results: Sequence[Allocation],
) -> tuple[tuple[Carry[Dim], ...], dict[Value, Allocation]]:
    """The carried values, and the places of those between the first and the last in a step that is done in place."""
    found: list[Carry[Dim]] = []
    between: dict[Value, Allocation] = {}
    for value, after, start, result in zip(values, body.outputs, starts, results, strict=False):
        size, dtype, moving = _size(value), value.dtype, planner.new_moving()
        way = updates(body, after, value)
        if way is None:
            following, other = planner.new_moving(), planner.arena.allocate(size, dtype)
        else:
            if start != result:
                planner.copy(value, start, result, node.line)
            following, start, other = moving, result, result
            between.update(dict.fromkeys(way, moving))
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


def _lines(node: Node) -> tuple[SourceLine, ...]:
    return () if node.line is None else (node.line,)
