"""Derivatives and batches of while loops, branches and computed sizes: the same over transformed bodies.

* Forward, a loop carries tangents alongside values.
* Reverse, a branch is recomputed in its backward pass, and so is the body of a computed size.
* Batched, a while loop goes on as long as one of the examples does; branches are all computed where examples differ.
  Where that may fail, or a size depends on values, the examples are the steps of a scan.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.builder import Cotangents, SubgraphBuilder, Tangents, Values
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Value
from zenith.ir.ops.bodies import chosen, divided, or_none, subgraph
from zenith.ir.ops.common import all_batched, floats, or_zeros, results_of
from zenith.ir.ops.scan_rules import Scan
from zenith.ir.primitive import Params

# --- while_loop -----------------------------------------------------------------------------------------------------


def while_jvp(b: SubgraphBuilder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    """A loop that carries tangents too; its condition does not look at them."""
    first, second = params["condition_captured"], params["body_captured"]
    condition_captured, captured, carried = divided(primals, first, second)
    _, t_captured, t_carried = divided(tangents, first, second)
    active, carries = [t is not None for t in t_captured], floats(carried)
    starts = [t or b.zeros_like(v) for v, t, f in zip(carried, t_carried, carries, strict=True) if f]
    inner = b.jvp_of(params["body"], [*active, *carries])
    counts = [len(captured), sum(active), len(carried)]

    def body(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        own, t_own, values, moved = divided(inputs, *counts)
        return [*b.inline(inner, [*own, *values, *t_own, *moved])]

    def condition(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        return [*b.inline(params["condition"], inputs[: len(inputs) - len(starts)])]

    captures = [*captured, *chosen(t_captured, active)]
    both = [v.type for v in (*carried, *starts)]
    found = results_of(b.while_loop(
        *condition_captured, *captures, *carried, *starts,
        condition=subgraph(b, "goes_on", [*(v.type for v in condition_captured), *both], condition),
        body=subgraph(b, "step_jvp", [*(v.type for v in captures), *both], body),
        condition_captured=first, body_captured=len(captures), index=params["index"], most=params["most"],
    ))  # fmt: skip
    return or_none(carries, found[len(carried) :])


def while_batch(b: SubgraphBuilder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    """A loop over all examples; one for which the condition no longer holds keeps its values.

    Where a turn may fail that the condition should have ruled out, each example has a loop of its own.
    """
    if not _speculatable(params["body"]):
        return _one_by_one(b, "while_loop", args, batched, size, params)
    first, second = params["condition_captured"], params["body_captured"]
    tested, captured, carried = divided(args, first, second)
    f_tested, f_captured, f_carried = divided(batched, first, second)
    carried = all_batched(b, carried, f_carried, size)
    going = b.batched_of(params["condition"], size, [*f_tested, *[True] * len(carried)])
    inner = b.batched_of(params["body"], size, [*f_captured, *[True] * len(carried)])
    captures = [*tested, *captured]

    def condition(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        (each,) = b.inline(going, inputs)
        return [b.reduce_or(each, axes=(0,))]

    def body(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        own_tested, own, values = divided(inputs, len(tested), len(captured))
        (each,) = b.inline(going, [*own_tested, *values])
        following = b.inline(inner, [*own, *values])
        return [b.where(_like(b, each, v), n, v) for v, n in zip(values, following, strict=True)]

    both = [v.type for v in carried]
    return results_of(b.while_loop(
        *tested, *captures, *carried,
        condition=subgraph(b, "one_goes_on", [*(v.type for v in tested), *both], condition),
        body=subgraph(b, "step_of_all", [*(v.type for v in captures), *both], body),
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
    found = results_of(b.switch(*primals, *chosen(tangents[1:], active), branches=branches))
    return or_none(floats(outputs), found[len(outputs) :])


def switch_vjp(
    b: SubgraphBuilder, primals: Values, outputs: Values, cotangents: Cotangents, params: Params
) -> Cotangents:
    """The backward pass of the same branch, with its values recomputed."""
    operands = primals[1:]
    wanted, seeded = floats(operands), floats(outputs)
    given = chosen(or_zeros(b, cotangents, outputs), seeded)
    types = [v.type for v in (*operands, *given)]

    def backward(branch: Graph) -> Graph:
        joint = b.vjp_of(branch, wanted, seeded)
        return subgraph(b, f"{branch.name}_back", types, lambda b, inputs: b.inline(joint, inputs)[len(outputs) :])

    found = results_of(b.switch(primals[0], *operands, *given, branches=tuple(map(backward, params["branches"]))))
    return [None, *or_none(wanted, found)]


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
    found = results_of(b.sized(*primals, *chosen(tangents[1:], active), **{**params, "body": inner}))
    return or_none(floats(outputs), found[len(outputs) :])


def sized_vjp(
    b: SubgraphBuilder, primals: Values, outputs: Values, cotangents: Cotangents, params: Params
) -> Cotangents:
    """The backward pass for the same size, with its values recomputed, which have no place outside of it."""
    operands = primals[1:]
    wanted = floats(operands)
    seeded = [c is not None and f for c, f in zip(cotangents, floats(outputs), strict=True)]
    given = chosen(cotangents, seeded)
    joint = b.vjp_of(params["body"], wanted, seeded)

    def backward(b: SubgraphBuilder, inputs: list[Value]) -> Values:
        return b.inline(joint, inputs)[len(outputs) :]

    graph = subgraph(b, "sized_back", [v.type for v in (*operands, *given)], backward)
    found = results_of(b.sized(primals[0], *operands, *given, **{**params, "body": graph}))
    return [None, *or_none(wanted, found)]


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
        shared, own = map(iter, divided(inputs, batched.count(False)))
        return results_of(getattr(b, name)(*(next(own if flag else shared) for flag in batched), **params))

    scan = Scan(chosen(args, [not flag for flag in batched]), [], chosen(args, batched))
    steps = {"length": size, "reverse": False, "index": ""}
    return scan.run(b, subgraph(b, "example", scan.types(), example), steps)
