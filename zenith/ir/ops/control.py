"""Structured control flow: loops and branches whose bodies are closed subgraphs.

A body reads its inputs and nothing else: values that it uses of the graph around it are *captured*, the first operands.
Values that one step of a loop passes to the next are *carried*; their types do not change. A loop may have an *index*,
a size that is the number of the step in its body: of arrays there, ``a[i, :i]`` for example. What leaves a step has no
such sizes.

* ``scan``: a known number of steps. Of every further operand, a step reads one slice along the first axis; further
  results of a step are stacked along a new first axis.
* ``while_loop``: steps as long as a condition of the carried values holds.
* ``switch``: one of several branches, chosen by an index, which is clamped to those there are.
* ``sized``: its body once, in which a size is a number that the program has computed, of the true elements of a mask
  for example. Its results may have that size.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from zenith.errors import DTypeError, ShapeError
from zenith.ir.builder import Values
from zenith.ir.dims import prove_equal
from zenith.ir.graph import Graph
from zenith.ir.interpret import Caller
from zenith.ir.lowering import Region
from zenith.ir.ops import control_rules as rules
from zenith.ir.ops import scan_rules
from zenith.ir.ops.common import arrays
from zenith.ir.primitive import Interpreted, Params, Primitive, WithResiduals, not_differentiable, register
from zenith.ir.types import ArrayType, NDArray, Type, bool_, int32, int64

_UNKNOWN_STEPS = (
    "reverse mode through while_loop would have to save an unknown number of steps; use scan, or fori_loop with a "
    "number of steps that is known when it begins"
)


def alike(a: Type, b: Type) -> bool:
    """Whether two types are one, or may be: their sizes are not known to differ."""
    if not (isinstance(a, ArrayType) and isinstance(b, ArrayType)):
        return a == b
    same = a.dtype == b.dtype and a.rank == b.rank
    return same and all(prove_equal(m, n) is not False for m, n in zip(a.shape, b.shape, strict=True))


def _require(what: str, given: Sequence[Type], wanted: Sequence[Type]) -> None:
    """An error unless two rows of types are alike."""
    if len(given) != len(wanted):
        raise ShapeError(f"{what} are {len(given)}, but must be {len(wanted)}", types=tuple(given))
    for a, b in zip(given, wanted, strict=True):
        if not alike(a, b):
            raise DTypeError(f"{what}: one is {a}, but must be {b}", types=(a, b))


def _takes(name: str, body: Graph, types: Sequence[Type]) -> None:
    _require(f"the inputs of {name}", [v.type for v in body.inputs], types)


def _gives(name: str, values: Values, types: Sequence[Type]) -> None:
    _require(f"the results of {name}", [v.type for v in values], types)


def _count(name: str, count: int, most: int) -> int:
    if not 0 <= count <= most:
        raise ShapeError(f"{name}: {count} of {most} operands")
    return count


# --- scan ---------------------------------------------------------------------------------------------------------


def _scan_type(types: Sequence[Type], params: Params) -> tuple[Type, ...]:
    found, body, length = arrays("scan", types), params["body"], params["length"]
    first = _count("scan captures", params["captured"], len(found))
    last = first + _count("scan carries", params["carried"], len(found) - first)
    for x in found[last:]:
        if not x.rank or prove_equal(x.shape[0], length) is False:
            raise ShapeError(f"scan of {length} steps needs arrays with {length} parts", types=(x,))
    slices = [t.with_shape(t.shape[1:]) for t in found[last:]]
    _takes("scan's body", body, [*found[:last], *slices])
    carried = found[first:last]
    _gives("scan's body", body.outputs[: len(carried)], carried)
    given = arrays("scan", [v.type for v in body.outputs[len(carried) :]])
    if any(params["index"] in size.symbols() for t in given for size in t.shape):
        raise ShapeError("scan's results have sizes that differ from step to step", types=tuple(given))
    return (*carried, *(t.with_shape((length, *t.shape)) for t in given))


def _run_scan(call: Caller, args: Sequence[NDArray], params: Params) -> Sequence[NDArray]:
    first, carries, length = params["captured"], params["carried"], params["length"]
    last = first + carries
    captured, carried, xs = list(args[:first]), list(args[first:last]), args[last:]
    given: list[list[NDArray]] = []
    for step in reversed(range(length)) if params["reverse"] else range(length):
        operands = [*captured, *carried, *(x[step] for x in xs)]
        results = call.at(params["index"], step)(params["body"], operands)
        carried = results[:carries]
        given.append(results[carries:])
    if not given:
        types = [v.type for v in params["body"].outputs[carries:]]
        return [*carried, *(np.empty((0, *call.shape(t)), t.dtype.numpy) for t in types)]
    ordered = reversed(given) if params["reverse"] else given
    return [*carried, *map(np.stack, zip(*ordered, strict=True))]


register(Primitive(
    name="scan", doc="Repeats its body, passing carried values on, over the slices of arrays along their first axis.",
    params={
        "body": "graph", "length": "size", "captured": "int", "carried": "int", "reverse": "bool", "index": "text",
    },
    typing=_scan_type, evaluate=Interpreted(_run_scan), lowering=Region(), jvp=scan_rules.scan_jvp,
    vjp=WithResiduals(scan_rules.scan_forward, scan_rules.scan_backward), batch=scan_rules.scan_batch,
    ulp=0, effect=False, samples=lambda dtype: [],
))  # fmt: skip


# --- while_loop ---------------------------------------------------------------------------------------------------


def _while_type(types: Sequence[Type], params: Params) -> tuple[Type, ...]:
    found, condition, body = arrays("while_loop", types), params["condition"], params["body"]
    first = _count("while_loop's condition captures", params["condition_captured"], len(found))
    last = first + _count("while_loop's body captures", params["body_captured"], len(found) - first)
    carried = found[last:]
    _takes("while_loop's condition", condition, [*found[:first], *carried])
    _gives("while_loop's condition", condition.outputs, [ArrayType(bool_, ())])
    _takes("while_loop's body", body, [*found[first:last], *carried])
    _gives("while_loop's body", body.outputs, carried)
    return tuple(carried)


def _run_while(call: Caller, args: Sequence[NDArray], params: Params) -> Sequence[NDArray]:
    first = params["condition_captured"]
    last = first + params["body_captured"]
    carried = list(args[last:])
    for step in itertools.count():
        if not call(params["condition"], [*args[:first], *carried])[0]:
            break
        carried = call.at(params["index"], step)(params["body"], [*args[first:last], *carried])
    return carried


register(Primitive(
    name="while_loop", doc="Repeats its body, passing carried values on, while its condition holds for them.",
    params={
        "condition": "graph", "body": "graph", "condition_captured": "int", "body_captured": "int", "index": "text",
        "most": "size",
    },
    typing=_while_type, evaluate=Interpreted(_run_while), lowering=Region(), jvp=rules.while_jvp,
    vjp=not_differentiable(_UNKNOWN_STEPS), batch=rules.while_batch, ulp=0, effect=False, samples=lambda dtype: [],
    speculatable=False,
))  # fmt: skip


# --- switch -------------------------------------------------------------------------------------------------------


def _switch_type(types: Sequence[Type], params: Params) -> tuple[Type, ...]:
    index, *operands = arrays("switch", types)
    if index != ArrayType(int32, ()):
        raise DTypeError(f"switch takes an i32 index, not {index}", types=(index,))
    if not params["branches"]:
        raise ShapeError("switch needs a branch")
    results = [v.type for v in params["branches"][0].outputs]
    for number, branch in enumerate(params["branches"]):
        _takes(f"switch's branch {number}", branch, operands)
        _gives(f"switch's branch {number}", branch.outputs, results)
    return tuple(results)


def _run_switch(call: Caller, args: Sequence[NDArray], params: Params) -> Sequence[NDArray]:
    branches = params["branches"]
    results: list[NDArray] = call(branches[int(np.clip(args[0], 0, len(branches) - 1))], args[1:])
    return results


register(Primitive(
    name="switch", doc="One of its branches, chosen by an index.", params={"branches": "graphs"}, typing=_switch_type,
    evaluate=Interpreted(_run_switch), lowering=Region(), jvp=rules.switch_jvp,
    vjp=rules.switch_vjp, batch=rules.switch_batch, ulp=0, effect=False, samples=lambda dtype: [],
))  # fmt: skip


# --- sized --------------------------------------------------------------------------------------------------------


def _sized_type(types: Sequence[Type], params: Params) -> tuple[Type, ...]:
    count, *operands = arrays("sized", types)
    if count != ArrayType(int64, ()):
        raise DTypeError(f"sized takes an i64 number, not {count}", types=(count,))
    _takes("sized's body", params["body"], operands)
    return tuple(v.type for v in params["body"].outputs)


def _run_sized(call: Caller, args: Sequence[NDArray], params: Params) -> Sequence[NDArray]:
    results: list[NDArray] = call.at(params["index"], int(args[0]))(params["body"], args[1:])
    return results


register(Primitive(
    name="sized", doc="Its body, in which the size ``index`` is the first operand, from 0 to ``most``.",
    params={"body": "graph", "index": "text", "most": "size"}, typing=_sized_type, evaluate=Interpreted(_run_sized),
    lowering=Region(), jvp=rules.sized_jvp, vjp=rules.sized_vjp, batch=rules.sized_batch, ulp=0, effect=False,
    samples=lambda dtype: [], speculatable=False,
))  # fmt: skip
