"""Functions with custom rules: their derivatives are given by the user, and do not follow from their operations.

Each has its function as a subgraph ``body``, which is inlined before fusion; transforms run before that, and use the
other subgraphs. The first ``captured`` operands are constants of the program, which have no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, SubgraphBuilder, Tangents, Values
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Composite, View
from zenith.ir.ops.common import all_batched, arrays, floats, or_zeros, random_array, results_of, rng, sample
from zenith.ir.primitive import (
    Interpreted,
    Params,
    Primitive,
    Sample,
    TypeRule,
    WithResiduals,
    not_differentiable,
    register,
)
from zenith.ir.types import ArrayType, NumPyType, Type, kind_of

Checkpointed = tuple[Values, Graph]  # residuals, and the backward pass


def _body_type(types: Sequence[Type], params: Params) -> tuple[Type, ...]:
    body = params["body"]
    if len(body.inputs) != len(types):
        raise ShapeError("a function's body must have as many inputs as it has operands", types=tuple(types))
    return tuple(v.type for v in body.outputs)


def _write_out(b: Builder, args: Values, params: Params) -> Values:
    results: Values = b.inline(params["body"], args)
    return results


_run = Interpreted(lambda call, values, params: call(params["body"], values))


def _tangents(b: SubgraphBuilder, args: Values, tangents: Tangents, captured: int) -> list[Value]:
    """A tangent for every operand that is not captured and has a derivative; zeros where none is given."""
    own = [(a, t) for a, t, moves in zip(args, tangents, floats(args), strict=True)][captured:]
    return [b.zeros_like(a) if t is None else t for a, t in own if floats([a])[0]]


# --- custom_jvp: `rule` takes the operands and tangents of those that can move, and gives results and their tangents


def _custom_jvp_jvp(
    b: SubgraphBuilder, primals: Values, tangents: Tangents, outputs: Values, params: Params
) -> Tangents:
    found = b.inline(params["rule"], [*primals, *_tangents(b, primals, tangents, params["captured"])])
    moved = iter(found[len(outputs) :])
    return [next(moved) if moves else None for moves in floats(outputs)]


def _custom_jvp_vjp(
    b: SubgraphBuilder, primals: Values, outputs: Values, cotangents: Cotangents, params: Params
) -> Cotangents:
    """The transpose of the rule, which is linear in the tangents: its derivative with respect to them."""
    rule, captured = params["rule"], params["captured"]
    zeros = _tangents(b, primals, [None] * len(primals), captured)
    wanted = [i >= len(primals) for i in range(len(rule.inputs))]
    seeded = [i >= len(outputs) for i in range(len(rule.outputs))]
    given = [c for c, moves in zip(or_zeros(b, cotangents, outputs), floats(outputs), strict=True) if moves]
    transposed = b.vjp_of(rule, wanted, seeded)
    found = iter(b.inline(transposed, [*primals, *zeros, *given])[len(rule.outputs) :])
    own = [i >= captured and moves for i, moves in enumerate(floats(primals))]
    return [next(found) if moves else None for moves in own]


def _custom_jvp_batch(b: SubgraphBuilder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    graphs = {name: b.batched_of(params[name], size) for name in ("body", "rule")}
    return results_of(b.custom_jvp(*all_batched(b, args, batched, size), **graphs, captured=params["captured"]))


register(Primitive(
    name="custom_jvp", doc="A function whose tangents are computed by a rule of its own.",
    params={"body": "graph", "rule": "graph", "captured": "int"}, typing=_body_type, evaluate=_run,
    lowering=Composite(_write_out), jvp=_custom_jvp_jvp, vjp=_custom_jvp_vjp, batch=_custom_jvp_batch, ulp=0,
    effect=False, samples=lambda dtype: [],
))  # fmt: skip


# --- custom_vjp: `forward` gives results and residuals, `backward` cotangents from residuals and cotangents ----------


def _custom_vjp_forward(b: SubgraphBuilder, primals: Values, params: Params) -> tuple[Values, Values]:
    count, found = len(params["body"].outputs), b.inline(params["forward"], primals)
    return found[:count], found[count:]


def _custom_vjp_backward(
    b: SubgraphBuilder, primals: Values, outputs: Values, cotangents: Values, residuals: Values, params: Params
) -> Cotangents:
    captured = params["captured"]
    given = [c for c, moves in zip(cotangents, floats(outputs), strict=True) if moves]
    found = iter(b.inline(params["backward"], [*primals[:captured], *residuals, *given]))
    own = [i >= captured and moves for i, moves in enumerate(floats(primals))]
    return [next(found) if moves else None for moves in own]


def _custom_vjp_batch(b: SubgraphBuilder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    graphs = {name: b.batched_of(params[name], size) for name in ("body", "forward", "backward")}
    return results_of(b.custom_vjp(*all_batched(b, args, batched, size), **graphs, captured=params["captured"]))


register(Primitive(
    name="custom_vjp", doc="A function whose cotangents are computed by a rule of its own.",
    params={"body": "graph", "forward": "graph", "backward": "graph", "captured": "int"}, typing=_body_type,
    evaluate=_run, lowering=Composite(_write_out),
    jvp=not_differentiable("a custom_vjp function has no forward mode; give it a rule with custom_jvp instead"),
    vjp=WithResiduals(_custom_vjp_forward, _custom_vjp_backward), batch=_custom_vjp_batch, ulp=0,
    effect=False, samples=lambda dtype: [],
))  # fmt: skip


# --- checkpoint: values that its derivative needs and that are not marked are recomputed ----------------------------


def _checkpoint_jvp(
    b: SubgraphBuilder, primals: Values, tangents: Tangents, outputs: Values, params: Params
) -> Tangents:
    active = [t is not None for t in tangents]
    moved = b.jvp_of(params["body"], active)
    found = iter(b.inline(moved, [*primals, *(t for t in tangents if t is not None)])[len(outputs) :])
    return [next(found) if moves else None for moves in floats(outputs)]


def _checkpoint_forward(b: SubgraphBuilder, primals: Values, params: Params) -> tuple[Values, Checkpointed]:
    body, count = params["body"], len(params["body"].outputs)
    joint = b.vjp_of(body, floats(primals), floats(body.outputs))
    forward, backward = b.split_at_marks(joint, len(primals), count)
    found = b.inline(forward, primals)
    return found[:count], (found[count:], backward)


def _checkpoint_backward(
    b: SubgraphBuilder, primals: Values, outputs: Values, cotangents: Values, residuals: Checkpointed, params: Params
) -> Cotangents:
    saved, backward = residuals
    given = [c for c, moves in zip(cotangents, floats(outputs), strict=True) if moves]
    found = iter(b.inline(backward, [*map(b.optimization_barrier, (*primals, *saved)), *given]))
    return [next(found) if moves else None for moves in floats(primals)]


def _checkpoint_batch(b: SubgraphBuilder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
    body = b.batched_of(params["body"], size)
    return results_of(b.checkpoint(*all_batched(b, args, batched, size), body=body))


register(Primitive(
    name="checkpoint", doc="A function whose inner values are recomputed for its derivative, unless marked.",
    params={"body": "graph"}, typing=_body_type, evaluate=_run, lowering=Composite(_write_out), jvp=_checkpoint_jvp,
    vjp=WithResiduals(_checkpoint_forward, _checkpoint_backward), batch=_checkpoint_batch, ulp=0, effect=False,
    samples=lambda dtype: [],
))  # fmt: skip


# --- values that only transforms look at -----------------------------------------------------------------------------


def _same_type(name: str) -> TypeRule:
    def typing(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
        (x,) = arrays(name, types, 1)
        return (x,)

    return typing


def _samples(name: str) -> Callable[[NumPyType], list[Sample]]:
    def samples(dtype: NumPyType) -> list[Sample]:
        shapes = ((), (5,), (3, 4), (0, 2)) if kind_of(dtype) else ()
        return [sample(random_array(rng(name), dtype, shape)) for shape in shapes]

    return samples


register(Primitive(
    name="stop_gradient", doc="Its argument, without derivative.", params={}, typing=_same_type("stop_gradient"),
    evaluate=lambda values, params: (values[0],), lowering=Composite(lambda b, args, params: [args[0]]),
    jvp=lambda b, primals, tangents, outputs, params: [None],
    vjp=lambda b, primals, outputs, cotangents, params: [None],
    batch=lambda b, args, batched, size, params: [b.stop_gradient(args[0])], ulp=0, effect=False,
    samples=lambda dtype: [],  # its derivative is not that of its values, which the samples' tests expect
))  # fmt: skip
register(Primitive(
    name="saved", doc="Its argument, marked to be saved for the derivative of the checkpointed function that it is in.",
    params={}, typing=_same_type("saved"), evaluate=lambda values, params: (values[0],),
    lowering=Composite(lambda b, args, params: [args[0]]),
    jvp=lambda b, primals, tangents, outputs, params: [tangents[0]],
    vjp=lambda b, primals, outputs, cotangents, params: [cotangents[0]],
    batch=lambda b, args, batched, size, params: [b.saved(args[0])], ulp=0, effect=False, samples=_samples("saved"),
))  # fmt: skip
register(Primitive(
    name="checkpoint_name", doc="Its argument, with a name by which policies of checkpoint know it.",
    params={"label": "text"}, typing=_same_type("checkpoint_name"), evaluate=lambda values, params: (values[0],),
    lowering=Composite(lambda b, args, params: [args[0]]),
    jvp=lambda b, primals, tangents, outputs, params: [tangents[0]],
    vjp=lambda b, primals, outputs, cotangents, params: [cotangents[0]],
    batch=lambda b, args, batched, size, params: [b.checkpoint_name(args[0], **params)], ulp=0, effect=False,
    samples=lambda dtype: [Sample(s.values, {"label": "hidden"}) for s in _samples("checkpoint_name")(dtype)],
))  # fmt: skip
register(Primitive(
    name="optimization_barrier",
    doc="Its argument, as a separate value: no pass merges its descendants with those of the argument.",
    params={}, typing=_same_type("optimization_barrier"), evaluate=lambda values, params: (values[0],), lowering=View(),
    jvp=lambda b, primals, tangents, outputs, params: [tangents[0]],
    vjp=lambda b, primals, outputs, cotangents, params: [cotangents[0]],
    batch=lambda b, args, batched, size, params: [b.optimization_barrier(args[0])],
    ulp=0, effect=False, samples=_samples("optimization_barrier"),
))  # fmt: skip
