"""Derivatives and batches of loops and branches: loops and branches over transformed bodies.

* Forward, a loop carries tangents alongside values.
* Reverse, a scan saves the residuals of each step, stacked; another scan goes through them from the last step to the
  first, carrying cotangents. Those of captured operands are summed over the steps (:mod:`zenith.ir.ops.step_sums`).
  A branch is recomputed in its backward pass.
* Batched, a loop carries all examples; a while loop goes on as long as one of them does; the others do not change.
  Where a size depends on values, the examples are the steps of a scan.

Bodies are put together by :func:`_graph`: a function of values, written with a builder of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Generic, TypeVar, cast

from zenith.ir.builder import Cotangents, Halves, SubgraphBuilder, Tangents, Values
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Value
from zenith.ir.ops.common import all_batched, floats, or_zeros, results_of
from zenith.ir.ops.step_sums import StepSums
from zenith.ir.primitive import Params
from zenith.ir.types import ArrayType, Type

T = TypeVar("T")


def _chosen(values: Sequence[T | None], flags: Sequence[bool]) -> list[T]:
    return [cast(T, v) for v, flag in zip(values, flags, strict=True) if flag]  # those are not None


def _graph(
    b: SubgraphBuilder, name: str, types: Sequence[Type], write: Callable[[SubgraphBuilder, list[Value]], Values]
) -> Graph:
    """The graph of ``write(builder, inputs)`` for inputs of these types."""
    graph = Graph(name)
    inputs = [graph.add_input(type, f"a{i}") for i, type in enumerate(types)]
    graph.set_outputs(write(b.on(graph), inputs))
    return graph


def _slice(type: ArrayType) -> ArrayType:
    return type.with_shape(type.shape[1:])


@dataclass(frozen=True)
class _Scan(Generic[T]):
    """The operands of a scan; of ``xs`` a step reads a slice along the first axis."""

    captured: list[T]
    carried: list[T]
    xs: list[T]

    @classmethod
    def of(cls, args: Sequence[T], params: Params) -> _Scan[T]:
        first, last = params["captured"], params["captured"] + params["carried"]
        return cls(list(args[:first]), list(args[first:last]), list(args[last:]))

    def run(
        self: _Scan[Value], b: SubgraphBuilder, body: Graph, params: Params, reverse: bool | None = None
    ) -> list[Value]:
        """A scan of another body over these operands."""
        return results_of(b.scan(
            *self.captured, *self.carried, *self.xs, body=body, length=params["length"],
            captured=len(self.captured), carried=len(self.carried),
            reverse=params["reverse"] if reverse is None else reverse, index=params["index"],
        ))  # fmt: skip

    def types(self: _Scan[Value]) -> list[Type]:
        """The types of a body's inputs."""
        return [*(v.type for v in (*self.captured, *self.carried)), *(_slice(cast(ArrayType, v.type)) for v in self.xs)]


def _divide(values: Sequence[T], *counts: int) -> list[list[T]]:
    """Values cut into runs of these lengths, and the rest."""
    found, rest = [], list(values)
    for count in counts:
        found.append(rest[:count])
        rest = rest[count:]
    return [*found, rest]


# --- scan -----------------------------------------------------------------------------------------------------------


def scan_jvp(b: SubgraphBuilder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    """A scan that carries values and tangents; every carried float has one, since a step may move it."""
    scan, moved = _Scan.of(primals, params), _Scan.of(tangents, params)
    carries = floats(scan.carried)
    active = [[t is not None for t in moved.captured], carries, [t is not None for t in moved.xs]]
    starts = [t or b.zeros_like(v) for v, t, f in zip(scan.carried, moved.carried, carries, strict=True) if f]
    both = _Scan(
        [*scan.captured, *_chosen(moved.captured, active[0])],
        [*scan.carried, *starts],
        [*scan.xs, *_chosen(moved.xs, active[2])],
    )
    inner = b.jvp_of(params["body"], [flag for flags in active for flag in flags])
    counts = [len(scan.captured), sum(active[0]), len(scan.carried), len(starts), len(scan.xs)]
    given = floats(outputs[len(scan.carried) :])

    def body(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        captured, t_captured, carried, t_carried, x, t_x = _divide(inputs, *counts)
        found = b.inline(inner, [*captured, *carried, *x, *t_captured, *t_carried, *t_x])
        carried, ys, t_carried, t_ys = _divide(found, len(carried), len(given), sum(carries))
        return [*carried, *t_carried, *ys, *t_ys]

    found = both.run(b, _graph(b, "step_jvp", both.types(), body), params)
    _, t_carried, _, t_ys = _divide(found, len(scan.carried), len(starts), len(given))
    return _or_none(carries, t_carried) + _or_none(given, t_ys)


def _or_none(flags: Sequence[bool], values: Values) -> list[Value | None]:
    """The values in order where ``flags`` are true, None elsewhere."""
    found = iter(values)
    return [next(found) if flag else None for flag in flags]


@dataclass(frozen=True)
class _Residuals:
    """The residuals of a scan, in the order in which ``backward`` takes them, and the body of its backward pass."""

    shared: list[Value]  # captured operands
    stacked: list[Value]  # arrays with a slice for each step: operands, results, and stacked residuals
    backward: Graph  # shared, slices, cotangents -> cotangents of captured values, of carried ones, and of slices


def scan_forward(b: SubgraphBuilder, primals: Values, params: Params) -> tuple[Values, _Residuals]:
    """The scan's results, and the residuals of all its steps.

    Residuals that are captured operands, slices of operands or results are these; the others are stacked.
    """
    scan, body = _Scan.of(primals, params), params["body"]
    joint = b.vjp_of(body, floats(body.inputs), floats(body.outputs))
    first, last, count = len(scan.captured), len(scan.captured) + len(scan.carried), len(body.outputs)
    late = [i >= len(body.inputs) for i in range(len(joint.inputs))]
    there = [*joint.inputs[:first], *joint.inputs[last : len(body.inputs)], *joint.outputs[len(scan.carried) : count]]
    split = b.split(joint, late, there, range(first), params["index"])
    assert not any(split.waits[:count]), "values do not wait for cotangents"
    results, residuals = split.known.outputs[:count], split.residual_values
    captured = dict(zip(split.known.inputs[:first], scan.captured, strict=True))
    available = [*split.known.inputs[last:], *results[len(scan.carried) :]]
    stacked = [v for v in residuals if v not in captured and v not in available]

    def step(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        found = dict(zip(split.known.outputs, b.inline(split.known, inputs), strict=True))
        return [found[v] for v in (*results, *stacked)]

    found = scan.run(b, _graph(b, "step_forward", scan.types(), step), params)
    stored = dict(zip([*available, *stacked], [*scan.xs, *found[len(scan.carried) :]], strict=True))
    shared = [i for i, v in enumerate(residuals) if v in captured]
    order = [*shared, *(i for i, v in enumerate(residuals) if v not in captured)]
    backward = _step_backward(b, body, joint, split, order)
    return found[:count], _Residuals(
        [captured[residuals[i]] for i in shared], [stored[residuals[i]] for i in order[len(shared) :]], backward
    )


def _step_backward(b: SubgraphBuilder, body: Graph, joint: Graph, split: Halves, order: Sequence[int]) -> Graph:
    """The cotangents of a body's inputs from its residuals in this order and the cotangents of its outputs."""
    count = len(body.outputs)
    moving = [v for v in body.inputs if floats([v])[0]]

    def write(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        saved, cotangents = _divide(inputs, len(order))
        in_order = [value for _, value in sorted(zip(order, saved, strict=True), key=lambda pair: pair[0])]
        found = iter(b.inline(split.unknown, [*in_order, *cotangents]))
        return [next(found) if w else b.zeros_like(v) for w, v in zip(split.waits[count:], moving, strict=True)]

    residuals = split.residual_values
    types = [*(residuals[i].type for i in order), *(v.type for v in joint.inputs[len(body.inputs) :])]
    return _graph(b, "step_backward", types, write)


def scan_backward(
    b: SubgraphBuilder, primals: Values, outputs: Values, cotangents: Values, residuals: _Residuals, params: Params
) -> Cotangents:
    """The scan through the residuals, from the last step to the first."""
    scan = _Scan.of(primals, params)
    captures, carries, xs = floats(scan.captured), floats(scan.carried), floats(scan.xs)
    ct_carried = _chosen(cotangents[: len(scan.carried)], carries)
    ct_given = _chosen(cotangents[len(scan.carried) :], floats(outputs[len(scan.carried) :]))
    first, last = len(residuals.shared), len(residuals.shared) + len(residuals.stacked)
    sliced = [*range(first, last), *range(last + len(ct_carried), len(residuals.backward.inputs))]
    sums = StepSums(residuals.backward, sum(captures), range(first), sliced, params["index"])
    starts = [b.zeros_like(v) for v, own in zip(_chosen(scan.captured, captures), sums.carried, strict=True) if own]
    back = _Scan(residuals.shared, [*starts, *ct_carried], [*residuals.stacked, *ct_given])
    cts = residuals.backward.outputs[sums.count :]

    def body(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        shared, before, ct, rest = _divide(inputs, first, len(starts), len(ct_carried))
        saved, ct_ys = _divide(rest, len(residuals.stacked))
        wanted = [*(v for own in sums.carried for v in own), *cts, *sums.given]
        found = b.inline(residuals.backward, [*shared, *saved, *ct, *ct_ys], wanted)
        added, others = _divide(found, len(wanted) - len(cts) - len(sums.given))
        each = iter(_divide(added, *(len(own) for own in sums.carried if own)))
        return [*(reduce(b.add, next(each), start) for start in before), *others]

    found = back.run(b, _graph(b, "step_back", back.types(), body), params, reverse=not params["reverse"])
    carried, ct_start, ct_xs, given = _divide(found, len(starts), len(ct_carried), sum(xs))
    rows = dict(zip([*(residuals.backward.inputs[i] for i in sliced), *sums.given], [*back.xs, *given], strict=True))
    totals = iter(carried)
    ct_captured = []
    for i, value in enumerate(_chosen(scan.captured, captures)):
        addends = [*([next(totals)] if sums.carried[i] else []), *sums.total(b, i, params["length"], rows)]
        ct_captured.append(reduce(b.add, addends) if addends else b.zeros_like(value))
    return _or_none(captures, ct_captured) + _or_none(carries, ct_start) + _or_none(xs, ct_xs)


def scan_batch(b: SubgraphBuilder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    """A scan that carries all examples; steps read along the first axis, so examples move to the second."""
    flags, scan = _Scan.of(batched, params), _Scan.of(args, params)
    carried = all_batched(b, scan.carried, flags.carried, size)
    xs = [_swapped(b, w) if flag else w for w, flag in zip(scan.xs, flags.xs, strict=True)]
    inner = [*flags.captured, *[True] * len(carried), *flags.xs]
    body = b.batched_of(params["body"], size, inner)
    found = _Scan(scan.captured, carried, xs).run(b, body, params)
    return [*found[: len(carried)], *(_swapped(b, y) for y in found[len(carried) :])]


def _swapped(b: SubgraphBuilder, value: Value) -> Value:
    """The first two axes exchanged."""
    return b.transpose(value, axes=(1, 0, *range(2, len(value.shape))))


# --- while_loop -----------------------------------------------------------------------------------------------------


def while_jvp(b: SubgraphBuilder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    """A loop that carries tangents too; its condition does not look at them."""
    first, second = params["condition_captured"], params["body_captured"]
    condition_captured, captured, carried = _divide(primals, first, second)
    _, t_captured, t_carried = _divide(tangents, first, second)
    active, carries = [t is not None for t in t_captured], floats(carried)
    starts = [t or b.zeros_like(v) for v, t, f in zip(carried, t_carried, carries, strict=True) if f]
    inner = b.jvp_of(params["body"], [*active, *carries])
    counts = [len(captured), sum(active), len(carried)]

    def body(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        own, t_own, values, moved = _divide(inputs, *counts)
        return [*b.inline(inner, [*own, *values, *t_own, *moved])]

    def condition(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        return [*b.inline(params["condition"], inputs[: len(inputs) - len(starts)])]

    captures = [*captured, *_chosen(t_captured, active)]
    both = [v.type for v in (*carried, *starts)]
    found = results_of(b.while_loop(
        *condition_captured, *captures, *carried, *starts,
        condition=_graph(b, "goes_on", [*(v.type for v in condition_captured), *both], condition),
        body=_graph(b, "step_jvp", [*(v.type for v in captures), *both], body),
        condition_captured=first, body_captured=len(captures), index=params["index"], most=params["most"],
    ))  # fmt: skip
    return _or_none(carries, found[len(carried) :])


def while_batch(b: SubgraphBuilder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    """A loop over all examples; one for which the condition no longer holds keeps its values.

    Where a turn may fail that the condition should have ruled out, each example has a loop of its own.
    """
    if not _speculatable(params["body"]):
        return _one_by_one(b, "while_loop", args, batched, size, params)
    first, second = params["condition_captured"], params["body_captured"]
    tested, captured, carried = _divide(args, first, second)
    f_tested, f_captured, f_carried = _divide(batched, first, second)
    carried = all_batched(b, carried, f_carried, size)
    going = b.batched_of(params["condition"], size, [*f_tested, *[True] * len(carried)])
    inner = b.batched_of(params["body"], size, [*f_captured, *[True] * len(carried)])
    captures = [*tested, *captured]

    def condition(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        (each,) = b.inline(going, inputs)
        return [b.reduce_or(each, axes=(0,))]

    def body(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        own_tested, own, values = _divide(inputs, len(tested), len(captured))
        (each,) = b.inline(going, [*own_tested, *values])
        following = b.inline(inner, [*own, *values])
        return [b.where(_like(b, each, v), n, v) for v, n in zip(values, following, strict=True)]

    both = [v.type for v in carried]
    return results_of(b.while_loop(
        *tested, *captures, *carried, condition=_graph(b, "one_goes_on", [*(v.type for v in tested), *both], condition),
        body=_graph(b, "step_of_all", [*(v.type for v in captures), *both], body),
        condition_captured=len(tested), body_captured=len(captures),
        index=params["index"], most=params["most"],
    ))  # fmt: skip


def _like(b: SubgraphBuilder, each: Value, value: Value) -> Value:
    """One truth value an example, repeated to a batched value's shape."""
    return each if len(value.shape) == 1 else b.broadcast(each, shape=value.shape, axes=(0,))


# --- switch ---------------------------------------------------------------------------------------------------------


def switch_jvp(b: SubgraphBuilder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    """The same branch, with tangents."""
    active = [t is not None for t in tangents[1:]]
    branches = tuple(b.jvp_of(branch, active) for branch in params["branches"])
    found = results_of(b.switch(*primals, *_chosen(tangents[1:], active), branches=branches))
    return _or_none(floats(outputs), found[len(outputs) :])


def switch_vjp(
    b: SubgraphBuilder, primals: Values, outputs: Values, cotangents: Cotangents, params: Params
) -> Cotangents:
    """The backward pass of the same branch, with its values recomputed."""
    operands = primals[1:]
    wanted, seeded = floats(operands), floats(outputs)
    given = _chosen(or_zeros(b, cotangents, outputs), seeded)
    types = [v.type for v in (*operands, *given)]

    def backward(branch: Graph) -> Graph:
        joint = b.vjp_of(branch, wanted, seeded)
        return _graph(b, f"{branch.name}_back", types, lambda b, inputs: b.inline(joint, inputs)[len(outputs) :])

    found = results_of(b.switch(primals[0], *operands, *given, branches=tuple(map(backward, params["branches"]))))
    return [None, *_or_none(wanted, found)]


def switch_batch(b: SubgraphBuilder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    """One branch for all examples; with an index for each, all branches and a choice of results.

    Where a branch may fail for which an example has no index, each example has a switch of its own.
    """
    if batched[0] and not all(map(_speculatable, params["branches"])):
        return _one_by_one(b, "switch", args, batched, size, params)
    branches = [b.batched_of(branch, size, batched[1:]) for branch in params["branches"]]
    if not batched[0]:
        return results_of(b.switch(*args, branches=tuple(branches)))
    found = [b.inline(branch, args[1:]) for branch in branches]
    results = list(found[-1])
    for number in range(len(branches) - 2, -1, -1):
        here = b.le(args[0], b.full(number, args[0].dtype, args[0].shape))
        results = [b.where(_like(b, here, x), x, y) for x, y in zip(found[number], results, strict=True)]
    return results


# --- sized ----------------------------------------------------------------------------------------------------------


def sized_jvp(b: SubgraphBuilder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    """The same size, with tangents."""
    active = [t is not None for t in tangents[1:]]
    inner = b.jvp_of(params["body"], active)
    found = results_of(b.sized(*primals, *_chosen(tangents[1:], active), **{**params, "body": inner}))
    return _or_none(floats(outputs), found[len(outputs) :])


def sized_vjp(
    b: SubgraphBuilder, primals: Values, outputs: Values, cotangents: Cotangents, params: Params
) -> Cotangents:
    """The backward pass for the same size, with its values recomputed, which have no place outside of it."""
    operands = primals[1:]
    wanted = floats(operands)
    seeded = [c is not None and f for c, f in zip(cotangents, floats(outputs), strict=True)]
    given = _chosen(cotangents, seeded)
    joint = b.vjp_of(params["body"], wanted, seeded)

    def backward(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        return b.inline(joint, inputs)[len(outputs) :]

    graph = _graph(b, "sized_back", [v.type for v in (*operands, *given)], backward)
    found = results_of(b.sized(primals[0], *operands, *given, **{**params, "body": graph}))
    return [None, *_or_none(wanted, found)]


def sized_batch(b: SubgraphBuilder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    """One size for all examples; where it is another one for each, a scan over the examples."""
    if not batched[0]:
        body = b.batched_of(params["body"], size, batched[1:])
        return results_of(b.sized(*args, **{**params, "body": body}))

    return _one_by_one(b, "sized", args, batched, size, params)


def _speculatable(body: Graph) -> bool:
    """Whether a graph may run for examples that do not use its results."""
    return all(node.primitive.speculatable and not node.primitive.effect for node in body.walk())


def _one_by_one(
    b: SubgraphBuilder, name: str, args: Values, batched: Sequence[bool], size: Dim, params: Params
) -> Values:
    """A primitive for one example after the other."""

    def example(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        shared, own = map(iter, _divide(inputs, batched.count(False)))
        return results_of(getattr(b, name)(*(next(own if flag else shared) for flag in batched), **params))

    scan = _Scan(_chosen(args, [not flag for flag in batched]), [], _chosen(args, batched))
    steps = {"length": size, "reverse": False, "index": ""}
    return scan.run(b, _graph(b, "example", scan.types(), example), steps)
