"""Derivatives and batches of scans: scans over transformed bodies.

* Forward, a scan carries tangents alongside values.
* Reverse, it saves the residuals of each step, stacked; another scan goes through them from the last step to the first,
  carrying cotangents. Those of captured operands are summed over the steps (:mod:`zenith.ir.ops.step_sums`).
* Batched, it carries all examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Generic, TypeVar, cast

from zenith.ir.builder import Cotangents, Halves, SubgraphBuilder, Tangents, Values
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Value
from zenith.ir.ops.bodies import chosen, divided, or_none, subgraph
from zenith.ir.ops.common import all_batched, floats, results_of
from zenith.ir.ops.step_sums import StepSums
from zenith.ir.primitive import Params
from zenith.ir.types import ArrayType, Type

T = TypeVar("T")


@dataclass(frozen=True)
class Scan(Generic[T]):
    """The operands of a scan; of ``xs`` a step reads a slice along the first axis."""

    captured: list[T]
    carried: list[T]
    xs: list[T]

    @classmethod
    def of(cls, args: Sequence[T], params: Params) -> Scan[T]:
        first, last = params["captured"], params["captured"] + params["carried"]
        return cls(list(args[:first]), list(args[first:last]), list(args[last:]))

    def run(
        self: Scan[Value], b: SubgraphBuilder, body: Graph, params: Params, reverse: bool | None = None
    ) -> list[Value]:
        """A scan of another body over these operands."""
        return results_of(b.scan(
            *self.captured, *self.carried, *self.xs, body=body, length=params["length"],
            captured=len(self.captured), carried=len(self.carried),
            reverse=params["reverse"] if reverse is None else reverse, index=params["index"],
        ))  # fmt: skip

    def types(self: Scan[Value]) -> list[Type]:
        """The types of a body's inputs."""
        return [*(v.type for v in (*self.captured, *self.carried)), *(_slice(cast(ArrayType, v.type)) for v in self.xs)]


def _slice(type: ArrayType) -> ArrayType:
    return type.with_shape(type.shape[1:])


def scan_jvp(b: SubgraphBuilder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    """A scan that carries values and tangents; every carried float has one, since a step may move it."""
    scan, moved = Scan.of(primals, params), Scan.of(tangents, params)
    carries = floats(scan.carried)
    active = [[t is not None for t in moved.captured], carries, [t is not None for t in moved.xs]]
    starts = [t or b.zeros_like(v) for v, t, f in zip(scan.carried, moved.carried, carries, strict=True) if f]
    both = Scan(
        [*scan.captured, *chosen(moved.captured, active[0])],
        [*scan.carried, *starts],
        [*scan.xs, *chosen(moved.xs, active[2])],
    )
    inner = b.jvp_of(params["body"], [flag for flags in active for flag in flags])
    counts = [len(scan.captured), sum(active[0]), len(scan.carried), len(starts), len(scan.xs)]
    given = floats(outputs[len(scan.carried) :])

    def body(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        captured, t_captured, carried, t_carried, x, t_x = divided(inputs, *counts)
        found = b.inline(inner, [*captured, *carried, *x, *t_captured, *t_carried, *t_x])
        carried, ys, t_carried, t_ys = divided(found, len(carried), len(given), sum(carries))
        return [*carried, *t_carried, *ys, *t_ys]

    found = both.run(b, subgraph(b, "step_jvp", both.types(), body), params)
    _, t_carried, _, t_ys = divided(found, len(scan.carried), len(starts), len(given))
    return or_none(carries, t_carried) + or_none(given, t_ys)


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
    scan, body = Scan.of(primals, params), params["body"]
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

    found = scan.run(b, subgraph(b, "step_forward", scan.types(), step), params)
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
        saved, cotangents = divided(inputs, len(order))
        in_order = [value for _, value in sorted(zip(order, saved, strict=True), key=lambda pair: pair[0])]
        found = iter(b.inline(split.unknown, [*in_order, *cotangents]))
        return [next(found) if w else b.zeros_like(v) for w, v in zip(split.waits[count:], moving, strict=True)]

    residuals = split.residual_values
    types = [*(residuals[i].type for i in order), *(v.type for v in joint.inputs[len(body.inputs) :])]
    return subgraph(b, "step_backward", types, write)


def scan_backward(
    b: SubgraphBuilder, primals: Values, outputs: Values, cotangents: Values, residuals: _Residuals, params: Params
) -> Cotangents:
    """The scan through the residuals, from the last step to the first."""
    scan = Scan.of(primals, params)
    captures, carries, xs = floats(scan.captured), floats(scan.carried), floats(scan.xs)
    ct_carried = chosen(cotangents[: len(scan.carried)], carries)
    ct_given = chosen(cotangents[len(scan.carried) :], floats(outputs[len(scan.carried) :]))
    first, last = len(residuals.shared), len(residuals.shared) + len(residuals.stacked)
    sliced = [*range(first, last), *range(last + len(ct_carried), len(residuals.backward.inputs))]
    sums = StepSums(residuals.backward, sum(captures), range(first), sliced, params["index"])
    starts = [b.zeros_like(v) for v, own in zip(chosen(scan.captured, captures), sums.carried, strict=True) if own]
    back = Scan(residuals.shared, [*starts, *ct_carried], [*residuals.stacked, *ct_given])
    cts = residuals.backward.outputs[sums.count :]

    def body(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        shared, before, ct, rest = divided(inputs, first, len(starts), len(ct_carried))
        saved, ct_ys = divided(rest, len(residuals.stacked))
        wanted = [*(v for own in sums.carried for v in own), *cts, *sums.given]
        found = b.inline(residuals.backward, [*shared, *saved, *ct, *ct_ys], wanted)
        added, others = divided(found, len(wanted) - len(cts) - len(sums.given))
        each = iter(divided(added, *(len(own) for own in sums.carried if own)))
        return [*(reduce(b.add, next(each), start) for start in before), *others]

    found = back.run(b, subgraph(b, "step_back", back.types(), body), params, reverse=not params["reverse"])
    carried, ct_start, ct_xs, given = divided(found, len(starts), len(ct_carried), sum(xs))
    rows = dict(zip([*(residuals.backward.inputs[i] for i in sliced), *sums.given], [*back.xs, *given], strict=True))
    totals = iter(carried)
    ct_captured = []
    for i, value in enumerate(chosen(scan.captured, captures)):
        addends = [*([next(totals)] if sums.carried[i] else []), *sums.total(b, i, params["length"], rows)]
        ct_captured.append(reduce(b.add, addends) if addends else b.zeros_like(value))
    return or_none(captures, ct_captured) + or_none(carries, ct_start) + or_none(xs, ct_xs)


def scan_batch(b: SubgraphBuilder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    """A scan that carries all examples; steps read along the first axis, so examples move to the second."""
    flags, scan = Scan.of(batched, params), Scan.of(args, params)
    carried = all_batched(b, scan.carried, flags.carried, size)
    xs = [_swapped(b, w) if flag else w for w, flag in zip(scan.xs, flags.xs, strict=True)]
    inner = [*flags.captured, *[True] * len(carried), *flags.xs]
    body = b.batched_of(params["body"], size, inner)
    found = Scan(scan.captured, carried, xs).run(b, body, params)
    return [*found[: len(carried)], *(_swapped(b, y) for y in found[len(carried) :])]


def _swapped(b: SubgraphBuilder, value: Value) -> Value:
    """The first two axes exchanged."""
    return b.transpose(value, axes=(1, 0, *range(2, len(value.shape))))
