"""Derivatives and batches of loops and branches: loops and branches over transformed bodies.

* Forward, a loop carries tangents beside values.
* Reverse, a scan keeps of each step what the way back needs, stacked; another scan goes through it from the last step
  to the first, carrying cotangents. What every step captures adds up there. A branch is computed again on its way back.
* Batched, a loop carries all examples; a while loop goes on as long as one of them does, and the others stand still.

Bodies are put together by :func:`_graph`: a function of values, written with a builder of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zenith.ir.graph import Graph
from zenith.ir.ops.common import all_batched, floats, results_of
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
    """What a scan's forward way leaves for its way back: residuals that differ by step, and what they belong to."""

    stacked: list[Any]
    shared: list[int]  # captured operands that the way back reads as they are
    parts: list[int]  # parts of operands, the same
    back: Graph  # shared, parts, stacked, cotangents -> cotangents


def scan_forward(b: Any, primals: Any, params: Params) -> tuple[Values, _Kept]:
    """The scan's results, and what each of its steps keeps."""
    scan, body = _Scan.of(primals, params), params["body"]
    joint = b.vjp_of(body, floats(body.inputs), floats(body.outputs))
    late = [i >= len(body.inputs) for i in range(len(joint.inputs))]
    parts = b.split(joint, late)
    here, there = parts.known, parts.unknown
    count = len(body.outputs)
    inputs = {(v.node, v.output): i for i, v in enumerate(here.inputs)}
    residuals = here.outputs[len(here.outputs) - parts.residuals :]
    origin = [inputs.get((v.node, v.output), -1) for v in residuals]
    first = len(scan.captured) + len(scan.carried)
    direct = [0 <= i < len(scan.captured) or i >= first for i in origin]
    values = [_known(parts, i) for i in range(count)]

    def step(b: Any, inputs: list[Any]) -> Values:
        found = b.inline(here, inputs)
        kept = found[len(found) - parts.residuals :]
        return [*(found[v] for v in values), *(k for k, d in zip(kept, direct, strict=True) if not d)]

    found = scan.run(b, _graph(b, "step_forward", scan.types(), step), params)
    shared = [i for i, d in zip(origin, direct, strict=True) if d and i < first]
    own = [i - first for i, d in zip(origin, direct, strict=True) if d and i >= first]
    order = _order(origin, direct, first)
    waits = [parts.waits[count + i] for i in range(len(joint.outputs) - count)]

    def back(b: Any, inputs: list[Any]) -> Values:
        kept, cotangents = inputs[: len(order)], inputs[len(order) :]
        found = iter(b.inline(there, [*(kept[o] for o in order), *cotangents]))
        zero = iter([v for v in body.inputs if floats([v])[0]])
        return [next(found) if wait else b.zeros_like(z) for wait, z in zip(waits, zero, strict=True)]

    types = [v.type for v in residuals]
    sorted_types = [t for _, t in sorted(zip(order, types, strict=True), key=lambda pair: pair[0])]
    seeds = [v.type for v in joint.inputs[len(body.inputs) :]]
    graph = _graph(b, "step_backward", [*sorted_types, *seeds], back)
    return found[:count], _Kept(list(found[count:]), shared, own, graph)


def _known(parts: Any, output: int) -> int:
    """The place of an output of the whole graph among those of its known part."""
    assert not parts.waits[output], "values do not wait for cotangents"
    return sum(not wait for wait in parts.waits[:output])


def _order(origin: Sequence[int], direct: Sequence[bool], first: int) -> list[int]:
    """Where each residual stands when captured ones come first, then parts, then what was stacked."""
    kind = [0 if d and i < first else 1 if d else 2 for i, d in zip(origin, direct, strict=True)]
    ranked = sorted(range(len(kind)), key=lambda place: (kind[place], place))
    order = [0] * len(kind)
    for rank, place in enumerate(ranked):
        order[place] = rank
    return order


def scan_backward(b: Any, primals: Any, outputs: Any, cotangents: Any, kept: _Kept, params: Params) -> Values:
    """The scan through what was kept, from the last step to the first."""
    scan = _Scan.of(primals, params)
    captures, carries, wholes = floats(scan.captured), floats(scan.carried), floats(scan.wholes)
    ct_carried = _chosen(cotangents[: len(scan.carried)], carries)
    given = floats(outputs[len(scan.carried) :])
    ct_given = _chosen(cotangents[len(scan.carried) :], given)
    sums = [b.zeros_like(v) for v in _chosen(scan.captured, captures)]
    way = _Scan(
        [scan.captured[i] for i in kept.shared],
        [*sums, *ct_carried],
        [*(scan.wholes[i] for i in kept.parts), *kept.stacked, *ct_given],
    )

    def body(b: Any, inputs: list[Any]) -> Values:
        shared, before, ct, rest = _divide(inputs, len(way.captured), len(sums), len(ct_carried))
        residuals, ct_ys = _divide(rest, len(kept.parts) + len(kept.stacked))
        found = b.inline(kept.back, [*shared, *residuals, *ct, *ct_ys])
        ct_captured, ct, ct_parts = _divide(found, len(sums), len(ct_carried))
        return [*(b.add(s, c) for s, c in zip(before, ct_captured, strict=True)), *ct, *ct_parts]

    found = way.run(b, _graph(b, "step_back", way.types(), body), params, reverse=not params["reverse"])
    ct_captured, ct_start, ct_wholes = _divide(found, len(sums), len(ct_carried))
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
    given = _chosen(cotangents, seeded)
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
