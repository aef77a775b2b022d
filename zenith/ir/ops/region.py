"""The fused group: a closed subgraph that becomes one kernel. Only the fusion pass makes it."""

from __future__ import annotations

from collections.abc import Sequence

from zenith.errors import ShapeError
from zenith.ir.interpret import Caller
from zenith.ir.lowering import Region
from zenith.ir.primitive import Interpreted, Params, Primitive, not_batchable, not_differentiable, register
from zenith.ir.types import NDArray, Type


def _fused_type(types: Sequence[Type], params: Params) -> tuple[Type, ...]:
    body = params["body"]
    if [v.type for v in body.inputs] != list(types):
        raise ShapeError("a fused group's arguments must have its body's input types", types=tuple(types))
    return tuple(v.type for v in body.outputs)


def _run_body(call: Caller, values: Sequence[NDArray], params: Params) -> Sequence[NDArray]:
    results: list[NDArray] = call(params["body"], values)
    return results


_LATE = "fused groups are made after differentiation and batching"
register(Primitive(
    name="fused", doc="The operations of its body, computed by one kernel.", params={"body": "graph", "anchor": "text"},
    typing=_fused_type, evaluate=Interpreted(_run_body), lowering=Region(), jvp=not_differentiable(_LATE),
    vjp=not_differentiable(_LATE), batch=not_batchable(_LATE), ulp=0, effect=False, samples=lambda dtype: [],
))  # fmt: skip
