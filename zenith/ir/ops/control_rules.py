"""Derivatives and batches of loops and branches: loops and branches over transformed bodies.

* Forward, a loop carries tangents beside values.
* Reverse, a scan keeps of each step what the way back needs, stacked; another scan goes through it from the last step
  to the first, carrying cotangents. Those of what every step captures add up (:mod:`zenith.ir.ops.step_sums`). A branch
  is computed again on its way back.
* Batched, a loop carries all examples; a while loop goes on as long as one of them does, and the others stand still.

Bodies are put together by :func:`_graph`: a function of values, written with a builder of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from zenith.ir.graph import Graph
from zenith.ir.ops.common import all_batched, floats, or_zeros, results_of
from zenith.ir.ops.step_sums import StepSums
from zenith.ir.primitive import Params
from zenith.ir.types import ArrayType

Values = Sequence[Any]


def _chosen(values: Values, flags: Sequence[bool]) -> list[Any]:
    return [v for v, flag in zip(values, flags, strict=True) if flag]


def _graph(b: Any, name: str, types: Sequence[Any], write: Callable[[Any, list[Any]], Values]) -> Graph:
    """The graph of ``write(builder, inputs)`` for inputs of these types."""
    graph = Graph(name)
    inputs = [graph.add_input(type, f"a{i}") for i, type in enumerate(types)]
    graph.set_outputs(write(b.on(graph), inputs))
    return graph


def _part(type: ArrayType) -> ArrayType:
    return type.with_shape(type.shape[1:])


@dataclass(frozen=True)
class _Scan:
    """The operands of a scan, by what they are."""

    captured: list[Any]
    carried: list[Any]
    wholes: list[Any]

    @classmethod
    def of(cls, args: Values, params: Params) -> _Scan:
        first, last = params["captured"], params["captured"] + params["carried"]
        return cls(list(args[:first]), list(args[first:last]), list(args[last:]))

    def run(self, b: Any, body: Graph, params: Params, reverse: bool | None = None) -> list[Any]:
        """A scan of another body over these operands."""
        return results_of(b.scan(
            *self.captured, *self.carried, *self.wholes, body=body, length=params["length"],
            captured=len(self.captured), carried=len(self.carried),
            reverse=params["reverse"] if reverse is None else reverse,
        ))  # fmt: skip

    def types(self) -> list[ArrayType]:
        """The types of a body's inputs."""
        return [*(v.type for v in (*self.captured, *self.carried)), *(_part(v.type) for v in self.wholes)]


def _divide(values: Values, *counts: int) -> list[list[Any]]:
    """Values cut into runs of these lengths, and the rest."""
    found, rest = [], list(values)
    for count in counts:
        found.append(rest[:count])
        rest = rest[count:]
    return [*found, rest]


# --- scan -----------------------------------------------------------------------------------------------------------


def scan_jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Values:
    """A scan that carries values and tangents; every carried float has one, since a step may move it."""
    scan, moved = _Scan.of(primals, params), _Scan.of(tangents, params)
    carries = floats(scan.carried)
    active = [[t is not None for t in moved.captured], carries, [t is not None for t in moved.wholes]]
    starts = [t or b.zeros_like(v) for v, t, f in zip(scan.carried, moved.carried, carries, strict=True) if f]
    both = _Scan(
        [*scan.captured, *_chosen(moved.captured, active[0])],
        [*scan.carried, *starts],
        [*scan.wholes, *_chosen(moved.wholes, active[2])],
    )
    inner = b.jvp_of(params["body"], [flag for flags in active for flag in flags])
    counts = [len(scan.captured), sum(active[0]), len(scan.carried), len(starts), len(scan.wholes)]
    given = floats(outputs[len(scan.carried) :])

    def body(b: Any, inputs: list[Any]) -> Values:
        captured, t_captured, carried, t_carried, parts, t_parts = _divide(inputs, *counts)
        found = b.inline(inner, [*captured, *carried, *parts, *t_captured, *t_carried, *t_parts])
        carried, ys, t_carried, t_ys = _divide(found, len(carried), len(given), sum(carries))
        return [*carried, *t_carried, *ys, *t_ys]

    found = both.run(b, _graph(b, "step_jvp", both.types(), body), params)
    _, t_carried, _, t_ys = _divide(found, len(scan.carried), len(starts), len(given))
    return _spread(carries, t_carried) + _spread(given, t_ys)


def _spread(flags: Sequence[bool], values: Values) -> list[Any]:
    """The values at the places that have one, None elsewhere."""
    found = iter(values)
    return [next(found) if flag else None for flag in flags]


@dataclass(frozen=True)
class _Kept:
    """What a scan's forward way leaves for its way back, in the order in which ``back`` takes it."""

    shared: list[Any]  # captured operands
    wholes: list[Any]  # arrays with a part for each step: operands, results, and what was stacked for the way back
    back: Graph  # shared, parts, cotangents -> cotangents of captured values, of carried ones, and of parts


def scan_forward(b: Any, primals: Any, params: Params) -> tuple[Values, _Kept]:
    """The scan's results, and what each of its steps keeps.

    What captured operands, parts and results already hold is handed over as it is; the rest is stacked.
    """
    scan, body = _Scan.of(primals, params), params["body"]
    joint = b.vjp_of(body, floats(body.inputs), floats(body.outputs))
    first, last, count = len(scan.captured), len(scan.captured) + len(scan.carried), len(body.outputs)
    late = [i >= len(body.inputs) for i in range(len(joint.inputs))]
    there = [*joint.inputs[:first], *joint.inputs[last : len(body.inputs)], *joint.outputs[len(scan.carried) : count]]
    parts = b.split(joint, late, there, range(first))
    assert not any(parts.waits[:count]), "values do not wait for cotangents"
    results, residuals = parts.known.outputs[:count], parts.kept
    captured = dict(zip(parts.known.inputs[:first], scan.captured, strict=True))
    held = [*parts.known.inputs[last:], *results[len(scan.carried) :]]
    stacked = [v for v in residuals if v not in captured and v not in held]

    def step(b: Any, inputs: list[Any]) -> Values:
        found = dict(zip(parts.known.outputs, b.inline(parts.known, inputs), strict=True))
        return [found[v] for v in (*results, *stacked)]

    found = scan.run(b, _graph(b, "step_forward", scan.types(), step), params)
    wholes = dict(zip([*held, *stacked], [*scan.wholes, *found[len(scan.carried) :]], strict=True))
    shared = [i for i, v in enumerate(residuals) if v in captured]
    order = [*shared, *(i for i, v in enumerate(residuals) if v not in captured)]
    back = _step_back(b, body, joint, parts, order)
    return found[:count], _Kept(
        [captured[residuals[i]] for i in shared], [wholes[residuals[i]] for i in order[len(shared) :]], back
    )


def _step_back(b: Any, body: Graph, joint: Graph, parts: Any, order: Sequence[int]) -> Graph:
    """The cotangents of a body's inputs from its residuals in this order and the cotangents of its outputs."""
    count = len(body.outputs)
    moving = [v for v in body.inputs if floats([v])[0]]

    def write(b: Any, inputs: list[Any]) -> Values:
        kept, cotangents = _divide(inputs, len(order))
        sorted_back = [value for _, value in sorted(zip(order, kept, strict=True), key=lambda pair: pair[0])]
        found = iter(b.inline(parts.unknown, [*sorted_back, *cotangents]))
        return [next(found) if w else b.zeros_like(v) for w, v in zip(parts.waits[count:], moving, strict=True)]

    residuals = parts.kept
    types = [*(residuals[i].type for i in order), *(v.type for v in joint.inputs[len(body.inputs) :])]
    return _graph(b, "step_backward", types, write)


def scan_backward(b: Any, primals: Any, outputs: Any, cotangents: Any, kept: _Kept, params: Params) -> Values:
    """The scan through what was kept, from the last step to the first."""
    scan = _Scan.of(primals, params)
    captures, carries, wholes = floats(scan.captured), floats(scan.carried), floats(scan.wholes)
    ct_carried = _chosen(cotangents[: len(scan.carried)], carries)
    ct_given = _chosen(cotangents[len(scan.carried) :], floats(outputs[len(scan.carried) :]))
    first, last = len(kept.shared), len(kept.shared) + len(kept.wholes)
    parts = [*range(first, last), *range(last + len(ct_carried), len(kept.back.inputs))]
    sums = StepSums(kept.back, sum(captures), range(first), parts)
    starts = [b.zeros_like(v) for v, own in zip(_chosen(scan.captured, captures), sums.carried, strict=True) if own]
    way = _Scan(kept.shared, [*starts, *ct_carried], [*kept.wholes, *ct_given])
    cts = kept.back.outputs[sums.count :]

    def body(b: Any, inputs: list[Any]) -> Values:
        shared, before, ct, rest = _divide(inputs, first, len(starts), len(ct_carried))
        residuals, ct_ys = _divide(rest, len(kept.wholes))
        asked = [*(v for own in sums.carried for v in own), *cts, *sums.given]
        found = b.inline(kept.back, [*shared, *residuals, *ct, *ct_ys], asked)
        added, others = _divide(found, len(asked) - len(cts) - len(sums.given))
        each = iter(_divide(added, *(len(own) for own in sums.carried if own)))
        return [*(reduce(b.add, next(each), start) for start in before), *others]

    found = way.run(b, _graph(b, "step_back", way.types(), body), params, reverse=not params["reverse"])
    carried, ct_start, ct_wholes, given = _divide(found, len(starts), len(ct_carried), sum(wholes))
    rows = dict(zip([*(kept.back.inputs[i] for i in parts), *sums.given], [*way.wholes, *given], strict=True))
    totals = iter(carried)
    ct_captured = []
    for i, value in enumerate(_chosen(scan.captured, captures)):
        addends = [*([next(totals)] if sums.carried[i] else []), *sums.total(b, i, params["length"], rows)]
        ct_captured.append(reduce(b.add, addends) if addends else b.zeros_like(value))
    return _spread(captures, ct_captured) + _spread(carries, ct_start) + _spread(wholes, ct_wholes)


def scan_batch(b: Any, args: Any, batched: Any, size: Any, params: Params) -> Values:
    """A scan that carries all examples; parts come along the first axis, so examples move to the second."""
    flags, scan = _Scan.of(batched, params), _Scan.of(args, params)
    carried = all_batched(b, scan.carried, flags.carried, size)
    wholes = [_swapped(b, w) if flag else w for w, flag in zip(scan.wholes, flags.wholes, strict=True)]
    inner = [*flags.captured, *[True] * len(carried), *flags.wholes]
    body = b.batched_of(params["body"], size, inner)
    found = _Scan(scan.captured, carried, wholes).run(b, body, params)
    return [*found[: len(carried)], *(_swapped(b, y) for y in found[len(carried) :])]


def _swapped(b: Any, value: Any) -> Any:
    """The first two axes exchanged."""
    return b.transpose(value, axes=(1, 0, *range(2, len(value.shape))))


# --- while_loop -----------------------------------------------------------------------------------------------------


def while_jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Values:
    """A loop that carries tangents too; its condition does not look at them."""
    first, second = params["condition_captured"], params["body_captured"]
    condition_captured, captured, carried = _divide(primals, first, second)
    _, t_captured, t_carried = _divide(tangents, first, second)
    active, carries = [t is not None for t in t_captured], floats(carried)
    starts = [t or b.zeros_like(v) for v, t, f in zip(carried, t_carried, carries, strict=True) if f]
    inner = b.jvp_of(params["body"], [*active, *carries])
    counts = [len(captured), sum(active), len(carried)]

    def body(b: Any, inputs: list[Any]) -> Values:
        own, t_own, values, moved = _divide(inputs, *counts)
        return [*b.inline(inner, [*own, *values, *t_own, *moved])]

    def condition(b: Any, inputs: list[Any]) -> Values:
        return [*b.inline(params["condition"], inputs[: len(inputs) - len(starts)])]

    captures = [*captured, *_chosen(t_captured, active)]
    both = [v.type for v in (*carried, *starts)]
    found = results_of(b.while_loop(
        *condition_captured, *captures, *carried, *starts,
        condition=_graph(b, "goes_on", [*(v.type for v in condition_captured), *both], condition),
        body=_graph(b, "step_jvp", [*(v.type for v in captures), *both], body),
        condition_captured=first, body_captured=len(captures),
    ))  # fmt: skip
    return _spread(carries, found[len(carried) :])


def while_batch(b: Any, args: Any, batched: Any, size: Any, params: Params) -> Values:
    """A loop over all examples; one for which the condition no longer holds keeps its values."""
    first, second = params["condition_captured"], params["body_captured"]
    asked, captured, carried = _divide(args, first, second)
    f_asked, f_captured, f_carried = _divide(batched, first, second)
    carried = all_batched(b, carried, f_carried, size)
    holds = b.batched_of(params["condition"], size, [*f_asked, *[True] * len(carried)])
    inner = b.batched_of(params["body"], size, [*f_captured, *[True] * len(carried)])
    captures = [*asked, *captured]

    def condition(b: Any, inputs: list[Any]) -> Values:
        (each,) = b.inline(holds, inputs)
        return [b.reduce_or(each, axes=(0,))]

    def body(b: Any, inputs: list[Any]) -> Values:
        own_asked, own, values = _divide(inputs, len(asked), len(captured))
        (each,) = b.inline(holds, [*own_asked, *values])
        following = b.inline(inner, [*own, *values])
        return [b.where(_like(b, each, v), n, v) for v, n in zip(values, following, strict=True)]

    both = [v.type for v in carried]
    return results_of(b.while_loop(
        *asked, *captures, *carried, condition=_graph(b, "one_goes_on", [*(v.type for v in asked), *both], condition),
        body=_graph(b, "step_of_all", [*(v.type for v in captures), *both], body),
        condition_captured=len(asked), body_captured=len(captures),
    ))  # fmt: skip


def _like(b: Any, each: Any, value: Any) -> Any:
    """One truth value an example, repeated to a batched value's shape."""
    return each if len(value.shape) == 1 else b.broadcast(each, shape=value.shape, axes=(0,))


# --- switch ---------------------------------------------------------------------------------------------------------


def switch_jvp(b: Any, primals: Any, tangents: Any, outputs: Any, params: Params) -> Values:
    """The same branch, with tangents."""
    active = [t is not None for t in tangents[1:]]
    branches = tuple(b.jvp_of(branch, active) for branch in params["branches"])
    found = results_of(b.switch(*primals, *_chosen(tangents[1:], active), branches=branches))
    return _spread(floats(outputs), found[len(outputs) :])


def switch_vjp(b: Any, primals: Any, outputs: Any, cotangents: Any, params: Params) -> Values:
    """The same branch backwards, with its values computed again."""
    operands = primals[1:]
    wanted, seeded = floats(operands), floats(outputs)
    given = _chosen(or_zeros(b, cotangents, outputs), seeded)
    types = [v.type for v in (*operands, *given)]

    def backwards(branch: Graph) -> Graph:
        joint = b.vjp_of(branch, wanted, seeded)
        return _graph(b, f"{branch.name}_back", types, lambda b, inputs: b.inline(joint, inputs)[len(outputs) :])

    found = results_of(b.switch(primals[0], *operands, *given, branches=tuple(map(backwards, params["branches"]))))
    return [None, *_spread(wanted, found)]


def switch_batch(b: Any, args: Any, batched: Any, size: Any, params: Params) -> Values:
    """One branch for all examples; with an index for each, all branches and a choice of results."""
    branches = [b.batched_of(branch, size, batched[1:]) for branch in params["branches"]]
    if not batched[0]:
        return results_of(b.switch(*args, branches=tuple(branches)))
    found = [b.inline(branch, args[1:]) for branch in branches]
    results = list(found[-1])
    for number in range(len(branches) - 2, -1, -1):
        here = b.le(args[0], b.full(number, args[0].dtype, args[0].shape))
        results = [b.where(_like(b, here, x), x, y) for x, y in zip(found[number], results, strict=True)]
    return results
