"""Loops and branches of a graph as steps: the memory of carried values, slices and results, and the bodies' steps.

A body is planned like a graph, into the same arena: its inputs and outputs are bound to allocations first. Carried
values and slices of arrays, whose addresses change in each iteration, are *moving* allocations. A carried value is
double-buffered, one of the buffers being the loop's result; its initial value is only read. A carried value that every
iteration updates in place needs the result's memory alone, to which its initial value is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zenith.backends.in_place import between, updates
from zenith.backends.outputs import own_outputs
from zenith.backends.plan_builder import PlanBuilder
from zenith.backends.steps import Allocation, BranchStep, Carry, LoopStep, Slice, Step
from zenith.ir.dims import Dim, dim, maximum, product, prove_at_least
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import bool_


def plan_scan(builder: PlanBuilder, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]) -> Step:
    """A loop whose number of iterations is a formula of the sizes."""
    body, first = own_outputs(node.params["body"]), node.params["captured"]
    last = first + node.params["carried"]
    carries, between = _carries(builder, node, body, body.inputs[first:last], args[first:last], results)
    read = _slices(builder, body.inputs[last:], args[last:])
    written = _slices(builder, body.outputs[last - first :], results[last - first :])
    inputs = [*args[:first], *(c.current for c in carries), *(s.element for s in read)]
    outputs = [*(c.following for c in carries), *(s.element for s in written)]
    count, reverse, index = (node.params[name] for name in ("length", "reverse", "index"))
    builder.arena.note_index(index, maximum(count - 1, 0))
    steps = builder.body(body, inputs, outputs, args[:first], between, index)
    _drop(builder, carries)
    if not prove_at_least(count, 0):
        count = maximum(count, 0)  # a loop counts down to 0, whether or not a guard says so
    return LoopStep(count, reverse, carries, (*read, *written), (), None, steps, node.lines, index)


def plan_while(builder: PlanBuilder, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]) -> Step:
    """A loop that a condition ends."""
    condition, first = node.params["condition"], node.params["condition_captured"]
    body, last = own_outputs(node.params["body"]), first + node.params["body_captured"]
    carries, between = _carries(builder, node, body, body.inputs[last - first :], args[last:], results)
    currents, flag = [c.current for c in carries], builder.arena.allocate(dim(1), bool_)
    test = builder.body(condition, [*args[:first], *currents], [flag], args[:first], {})
    followings = [c.following for c in carries]
    index = node.params["index"]
    builder.arena.note_index(index, node.params["most"])
    steps = builder.body(body, [*args[first:last], *currents], followings, args[first:last], between, index)
    builder.arena.give_back(flag)
    _drop(builder, carries)
    return LoopStep(None, False, carries, (), test, flag, steps, node.lines, index)


def plan_switch(builder: PlanBuilder, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]) -> Step:
    """One of several sequences of steps, which all write the same results."""
    index, *operands = args
    bodies = map(own_outputs, node.params["branches"])
    branches = tuple(builder.body(b, operands, results, None, between(b, operands, results)) for b in bodies)
    return BranchStep(index, branches, node.lines)


def plan_sized(builder: PlanBuilder, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]) -> Step:
    """Steps that run once, with a size that the program has computed."""
    count, *operands = args
    body, index = own_outputs(node.params["body"]), node.params["index"]
    steps = builder.body(body, operands, results, (), between(body, operands, results), index)
    return LoopStep(dim(1), False, (), (), (), None, steps, node.lines, index, count)


PLANS: dict[str, Callable[[PlanBuilder, Node, Sequence[Allocation], Sequence[Allocation]], Step]] = {
    "scan": plan_scan,
    "while_loop": plan_while,
    "switch": plan_switch,
    "sized": plan_sized,
}


def _carries(
    builder: PlanBuilder,
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
        size, dtype, moving = _size(value), value.dtype, builder.new_moving()
        path = updates(body, updated, value)
        if path is None:
            following, other = builder.new_moving(), builder.arena.allocate(size, dtype)
        else:
            if start != result:
                builder.copy(value, start, result, node.line)
            following, start, other = moving, result, result
            between.update(dict.fromkeys(path, moving))
        found.append(Carry(moving, following, start, result, other, dtype, size * dtype.itemsize))
    return tuple(found), between


def _drop(builder: PlanBuilder, carries: Sequence[Carry[Dim]]) -> None:
    for carry in carries:
        if carry.other != carry.result:
            builder.arena.give_back(carry.other)
    builder.end_loop()


def _slices(builder: PlanBuilder, values: Sequence[Value], wholes: Sequence[Allocation]) -> tuple[Slice[Dim], ...]:
    return tuple(
        Slice(builder.new_moving(), whole, value.dtype, _size(value) * value.dtype.itemsize)
        for value, whole in zip(values, wholes, strict=True)
    )


def _size(value: Value) -> Dim:
    return product(value.shape)
