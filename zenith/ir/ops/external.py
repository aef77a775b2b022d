"""Calls of external functions: Python's, between the program's kernels, and native ones, like kernels.

Functions that read or change something besides their operands, such as the state of a library's random generator, are
called in program order.

The function and the types of its results are parameters. The first ``mapped`` axes of all operands and results count
examples: the function is called for each, unless one call may serve them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from zenith.errors import DTypeError, ShapeError, ZenithError
from zenith.ir.builder import Builder, Cotangents, SubgraphBuilder, Tangents, Values
from zenith.ir.dims import Dim
from zenith.ir.external import External, Rules
from zenith.ir.lowering import HostCall, NativeCall
from zenith.ir.ops.common import all_batched, arrays, floats, results_of
from zenith.ir.primitive import Params, Primitive, WithResiduals, not_batchable, not_differentiable, register
from zenith.ir.types import TOKEN, ArrayType, NDArray, TokenType, Type


def _type(types: Sequence[Type], params: Params) -> tuple[Type, ...]:
    label, results = params["function"].label, params["results"]
    if not results:
        raise ShapeError(f"{label} has no result, so that nothing would follow from calling it")
    for type in (*arrays(label, types), *results):
        if type.rank < params["mapped"]:
            raise ShapeError(f"{label} is called for examples on {params['mapped']} leading axes", types=(type,))
    return tuple(results)


def fill(values: Sequence[NDArray], results: Sequence[NDArray], params: Params) -> None:
    """Call the function on arrays and write what it returns into ``results``."""
    function: External = params["function"]
    mapped = 0 if function.vectorized else params["mapped"]
    for example in np.ndindex(*results[0].shape[:mapped]):
        index = (*example, ...)  # an array even where it has no axes
        like = [result[index] for result in results]
        found = function.call([value[index] for value in values], like)
        if len(found) != len(results):
            raise ShapeError(f"{function.label} returned {len(found)} arrays, and was to return {len(results)}",
                             fix="return what was declared")  # fmt: skip
        for value, result, declared in zip(found, results, like, strict=True):
            result[example] = _checked(function.label, value, declared)


def _checked(label: str, value: object, declared: NDArray) -> NDArray:
    """A result as an array of the declared type; a Python number takes its element type where that can hold it."""
    array, wanted = np.asarray(value), declared.dtype
    if isinstance(value, (bool, int, float)) and np.can_cast(np.min_scalar_type(value), wanted, "same_kind"):
        with suppress(OverflowError):
            array = np.asarray(value, wanted)
    found = array.dtype
    if found != wanted:
        fix = f"convert what it returns, .astype(numpy.{wanted}), or declare {found}"
        raise DTypeError(f"{label} returned {found}, and was to return {wanted}", fix=fix)
    if array.shape != declared.shape:
        fix = "return the declared shape, or declare the one that is returned"
        raise ShapeError(
            f"{label} returned an array of shape {array.shape}, and was to return {declared.shape}", fix=fix
        )
    return array


def _evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray, ...]:
    results = tuple(np.empty([n.static for n in t.shape], t.dtype.numpy) for t in params["results"])
    fill([np.array(v) for v in values], results, params)  # copies: the function may keep them, or write to them
    return results


def _rules(params: Params) -> Rules:
    function: External = params["function"]
    if function.rules is None:
        raise ZenithError(f"{function.label} has no derivative: Zenith does not see into it", fix=function.advice)
    return function.rules


def _jvp(b: SubgraphBuilder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    moved = iter(_rules(params).jvp(b, primals, tangents, outputs, params))
    return [next(moved) if moves else None for moves in floats(outputs)]


def _backward(
    b: SubgraphBuilder, primals: Values, outputs: Values, cotangents: Values, residuals: Any, params: Params
) -> Cotangents:
    given = [c for c, moves in zip(cotangents, floats(outputs), strict=True) if moves]
    found = iter(_rules(params).backward(b, primals, given, residuals, params))
    return [next(found) if moves else None for moves in floats(primals)]


def _register(name: str, doc: str, lowering: HostCall | NativeCall) -> None:
    def call(b: Builder, args: Values, params: Params) -> Values:
        return results_of(getattr(b, name)(*args, **params))

    def forward(b: SubgraphBuilder, primals: Values, params: Params) -> tuple[Values, Any]:
        return _rules(params).forward(b, primals, params) or (call(b, primals, params), None)

    def batch(b: SubgraphBuilder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
        rules: Rules | None = params["function"].rules
        found = None if rules is None else rules.batch(b, args, batched, size, params)
        if found is not None:
            return found
        types = tuple(ArrayType(t.dtype, (size, *t.shape)) for t in params["results"])
        return call(
            b, all_batched(b, args, batched, size), {**params, "results": types, "mapped": params["mapped"] + 1}
        )

    register(Primitive(
        name=name, doc=doc, params={"function": "external", "results": "types", "mapped": "int"}, typing=_type,
        evaluate=_evaluate, lowering=lowering, jvp=_jvp, vjp=WithResiduals(forward, _backward), batch=batch, ulp=0,
        effect=False, samples=lambda dtype: [], speculatable=False,
    ))  # fmt: skip


def _fill_from_copies(values: Sequence[NDArray], results: Sequence[NDArray], params: Params) -> None:
    """The user's function may keep what it gets, or write to it."""
    fill([value.copy() for value in values], results, params)


_register("call_python", "What a Python function returns for its operands.", HostCall(_fill_from_copies))
_register("call_native", "What a native function computes of its operands, without Python.", NativeCall())


def _type_in_order(types: Sequence[Type], params: Params) -> tuple[Type, ...]:
    if not types or not isinstance(types[0], TokenType):
        raise DTypeError(f"{params['function'].label} takes a token first", types=tuple(types))
    return (TOKEN, *_type(types[1:], params))


def _evaluate_in_order(values: Sequence[NDArray], params: Params) -> tuple[NDArray | None, ...]:
    return (None, *_evaluate(values[1:], params))


def _fill_in_order(values: Sequence[NDArray], results: Sequence[NDArray], params: Params) -> None:
    _fill_from_copies(values[1:], results[1:], params)


_WHY = "what a function with effects returns does not follow from its operands alone"

register(Primitive(
    name="call_python_in_order", doc="What a Python function with effects returns, called in program order.",
    params={"function": "external", "results": "types", "mapped": "int"}, typing=_type_in_order,
    evaluate=_evaluate_in_order, lowering=HostCall(_fill_in_order), jvp=not_differentiable(_WHY),
    vjp=not_differentiable(_WHY), batch=not_batchable(_WHY), ulp=0, effect=True, samples=lambda dtype: [],
    speculatable=False,
))  # fmt: skip
