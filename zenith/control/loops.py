"""Loops: ``scan``, ``while_loop``, ``fori_loop`` and ``map``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from zenith import tree
from zenith.control.trees import Leaves, fit, flatten, rebuild, record, require_functions, same_structure, unflatten
from zenith.errors import DTypeError, ShapeError, TraceError, user_line
from zenith.ir.dims import Dim, dim
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, NDArray, bool_
from zenith.numpy.joining import concatenate
from zenith.numpy.operands import ask, convert, dims_of, require, result_dtype
from zenith.numpy.typing import Array, ArrayLike, Size
from zenith.trace.bodies import Body, close, trace_body
from zenith.trace.conversion import callee
from zenith.trace.operators import is_weak
from zenith.trace.sizes import size_dim
from zenith.trace.tracer import Tracer

State = TypeVar("State")  # a tree, as the next one
Result = TypeVar("Result")


def scan(
    f: Callable[[State, Any], tuple[State, Result]],
    init: State,
    xs: tree.Tree = None,
    length: Size | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[State, Result]:
    """Carry a value through the slices of arrays: ``carry, ys[i] = f(carry, xs[i])`` for every i.

    Parameters
    ----------
    f: takes the carry and a slice, returns the next carry, which has the same structure, shapes and element types, and
        a result of this step.
    init: the first carry, any tree of arrays and numbers. Numbers take the element type of what ``f`` returns.
    xs: a tree of arrays of one length along the first axis, of which each step gets a slice; None for none.
    length: the number of steps, needed when ``xs`` is None; an int or a size (``x.shape[0]``).
    reverse: from the last slice to the first; results stay in the order of the slices.
    unroll: accepted for compatibility with JAX; a step costs nanoseconds, so there is nothing to gain.

    Returns
    -------
    The last carry, and the results of all steps, stacked along a new first axis.

    Raises
    ------
    TraceError, DTypeError, ShapeError: ``f`` returns no pair, the carry changes its structure or a type, or the arrays
        have other lengths; the message names both types and the line.

    >>> total, sums = scan(lambda s, x: (s + x, s + x), 0.0, np.arange(4.0))
    >>> float(total), sums
    (6.0, array([0., 1., 3., 6.]))
    """
    require_functions("scan", "scan(lambda carry, x: (carry + x, carry), init, xs)", f=f)
    start, wholes = flatten("init", init), flatten("xs", xs)
    count = _length(wholes, length)
    body, start, given = _scan_body(f, start, wholes)
    graph = close(body, body.captured)
    results = record(
        get("scan"), [*body.captured, *start.arrays, *wholes.arrays], body=graph, length=count,
        captured=len(body.captured), carried=len(start.arrays), reverse=bool(reverse), index="",
    )  # fmt: skip
    carried = rebuild(start.form, results[: len(start.arrays)])
    return carried, tree.unflatten(given, results[len(start.arrays) :])


def _length(wholes: Leaves, length: Size | None) -> Dim:
    """The number of steps, which all arrays agree on."""
    if length is None and not wholes.arrays:
        raise TraceError("scan needs arrays to take slices of, or a length", where=user_line(), fix="give length=")
    count = None if length is None else size_dim(length, "the length of a scan")
    if count is not None and (count.static or 0) < 0:
        raise ShapeError(f"scan: the length {count} is negative", where=user_line(), fix="use 0 or more")
    if count is not None:
        require(count, ">=", 0, f"scan: the length {count} is negative")
    for array, path in zip(wholes.arrays, wholes.form.paths, strict=True):
        if not array.ndim:
            raise ShapeError(f"scan takes slices along the first axis; {path} has no axes", where=user_line(),
                             types=(wholes.form,), fix="use it inside the function, or as carry")  # fmt: skip
        size = dims_of(array)[0]
        count = size if count is None else count
        require(size, "==", count, f"scan over arrays of other lengths: {path} has {size} slices, not {count}")
    assert count is not None
    return count


def _scan_body(f: Callable[..., tree.Tree], start: Leaves, wholes: Leaves) -> tuple[Body, Leaves, tree.TreeDef]:
    """The traced body, the carry with its final types, and the structure of a step's result."""
    slices = [t.with_shape(t.shape[1:]) for t in wholes.form.types]
    given: list[tree.TreeDef] = []

    def step(leaves: Sequence[Array]) -> tuple[tree.Tree, list[ArrayLike]]:
        carry, result = _pair(callee(f)(*unflatten(leaves, start.form, wholes.form)))
        results, treedef = tree.flatten(result)
        given[:] = [treedef]
        return carry, results

    body, start = _carrying("scan", step, start, slices)
    return body, start, given[0]


def _carrying(
    what: str,
    step: Callable[[Sequence[Array]], tuple[tree.Tree, list[ArrayLike]]],
    start: Leaves,
    slices: Sequence[ArrayType],
) -> tuple[Body, Leaves]:
    """A body that carries a value: ``step`` returns the next one, and further results.

    Where the body makes an array of a Python number, it is traced a second time, with an array as its first value.
    """
    while True:
        form = stronger = start.form

        def run(*leaves: Array) -> Sequence[ArrayLike]:
            nonlocal stronger
            carry, results = step(leaves)
            following = flatten("the next value", carry)
            same_structure(what, following.form, form)  # noqa: B023  (runs before the next iteration)
            stronger = form.promoted(following.form)  # noqa: B023
            fitting = following.arrays if stronger != form else fit(what, following, form)  # noqa: B023
            return [*fitting, *results]

        body = trace_body("step", run, [*form.types, *slices], [*form.weak, *(False for _ in slices)])
        if stronger == form:
            return body, start
        start = start.converted(stronger)


def _pair(result: tree.Tree) -> tuple[tree.Tree, tree.Tree]:
    if not (isinstance(result, (tuple, list)) and len(result) == 2):
        kind = type(result).__name__
        raise TraceError(f"the function of a scan must return a pair (next carry, result), not a {kind}",
                         where=user_line(), fix="return carry, None when a step has no result")  # fmt: skip
    return result[0], result[1]


def map(f: Callable[[Any], Result], xs: tree.Tree) -> Result:
    """``f`` of every slice of arrays along their first axis, one after the other; the results stacked.

    >>> map(lambda x: x * x, np.arange(3.0))
    array([0., 1., 4.])
    """
    require_functions("map", "map(lambda x: x * x, xs)", f=f)
    return scan(lambda _, x: ((), callee(f)(x)), (), xs)[1]


def associative_scan(fn: Callable[[State, State], State], elems: State, reverse: bool = False, axis: int = 0) -> State:
    """All partial results of an associative ``fn`` along an axis: ``x0, fn(x0, x1), fn(fn(x0, x1), x2) ...``.

    Parameters
    ----------
    fn: takes two trees of the structure of ``elems``, whose arrays have size 1 along ``axis``, and combines them.
    elems: a tree of arrays of one length along ``axis``.
    reverse: from the last slice to the first.

    The slices are combined one after the other, so that each is read once and one compilation serves all lengths.

    Raises
    ------
    TraceError, DTypeError, ShapeError: as :func:`scan`.

    >>> associative_scan(np.maximum, np.array([1, 3, 2, 5, 4]))
    array([1, 3, 3, 5, 5])
    """
    whole = flatten("elems", elems)
    arrays = [np.moveaxis(x, axis, 0) for x in whole.arrays]
    if not arrays or not ask(_length(Leaves(tuple(arrays), whole.form), None), ">=", 1):
        return elems
    first = [x[-1:] if reverse else x[:1] for x in arrays]
    others = [x[:-1] if reverse else x[1:] for x in arrays]

    def step(carry: list[NDArray], element: list[NDArray]) -> tuple[list[NDArray], list[NDArray]]:
        before, new = ([np.moveaxis(x, 0, axis) for x in slices] for slices in (carry, [x[None] for x in element]))
        after = flatten("the result", callee(fn)(*unflatten([*before, *new], whole.form, whole.form)))
        same_structure("associative_scan", after.form, whole.form)
        combined = [np.moveaxis(x, axis, 0) for x in after.arrays]
        return combined, [x[0] for x in combined]

    _, rest = scan(step, first, others, reverse=reverse)
    pairs = zip(first, rest, strict=True)
    joined = [concatenate((r, f) if reverse else (f, r)) for f, r in pairs]
    return tree.unflatten(whole.form.treedef, [np.moveaxis(cast(NDArray, x), 0, axis) for x in joined])


def while_loop(cond_fun: Callable[[State], ArrayLike], body_fun: Callable[[State], State], init_val: State) -> State:
    """``val = body_fun(val)`` as long as ``cond_fun(val)`` is true, from ``init_val``.

    Parameters
    ----------
    cond_fun: takes the value, returns one bool (an array without axes).
    body_fun: takes the value, returns the next one, of the same structure, shapes and element types.
    init_val: any tree of arrays and numbers. Numbers take the element type of what ``body_fun`` returns.

    Raises
    ------
    TraceError, DTypeError, ShapeError: the condition is no bool, or the value changes its structure or a type.

    >>> float(while_loop(lambda x: x < 100, lambda x: 2 * x, 3.0))
    192.0
    """
    require_functions(
        "while_loop", "while_loop(lambda x: x < 9, lambda x: 2 * x, x)", cond_fun=cond_fun, body_fun=body_fun
    )
    start = flatten("init_val", init_val)
    body, start = _carrying("while_loop", lambda v: (callee(body_fun)(*unflatten(v, start.form)), []), start, ())
    form = start.form
    condition = trace_body(
        "condition", lambda *v: [_truth(callee(cond_fun)(*unflatten(v, form)))], form.types, form.weak
    )
    results = record(
        get("while_loop"), [*condition.captured, *body.captured, *start.arrays],
        condition=close(condition, condition.captured),
        body=close(body, body.captured), condition_captured=len(condition.captured), body_captured=len(body.captured),
        index="", most=0,
    )  # fmt: skip
    return rebuild(form, results)


def _truth(value: ArrayLike) -> Array:
    """The result of a condition; DTypeError when it is no single bool."""
    found = flatten("the condition", value)
    if found.form.treedef.is_leaf() and found.form.types == (ArrayType(bool_, ()),):
        return found.arrays[0]
    raise DTypeError("the condition of a while_loop must be one bool", where=user_line(), types=(found.form,),
                     fix="return a comparison, or numpy.any / numpy.all of an array of bools")  # fmt: skip


def fori_loop(
    lower: ArrayLike, upper: Any, body_fun: Callable[[Any, State], State], init_val: State, *,
    unroll: int | bool | None = None,
) -> State:  # fmt: skip
    """``for i in range(lower, upper): val = body_fun(i, val)``, from ``init_val``.

    Where the bounds are ints or sizes (``x.shape[0]``), it is a :func:`scan`; where one is computed by the program, a
    :func:`while_loop`. Either way one compilation serves all bounds that are arguments.

    Parameters
    ----------
    lower, upper: integers, sizes or integer arrays without axes.
    body_fun: takes the index and the value, returns the next value, of the same structure, shapes and element types.
        The index acts as a Python int if both bounds do.
    init_val: any tree of arrays and numbers. Numbers take the element type of what ``body_fun`` returns.
    unroll: accepted for compatibility with JAX, as in :func:`scan`.

    >>> int(fori_loop(0, 5, lambda i, s: s + i, 0))
    10
    """
    require_functions("fori_loop", "fori_loop(0, n, lambda i, x: x + i, x)", body_fun=body_fun)
    bounds = flatten("the bounds", (lower, upper))
    if any(a.dtype.kind not in "iu" or a.ndim for a in bounds.arrays):
        raise DTypeError("the bounds of a fori_loop must be integers", where=user_line(), types=(bounds.form,),
                         fix="cast them: .astype(numpy.int64)")  # fmt: skip
    first = lower if is_weak(lower) and is_weak(upper) else convert(lower, result_dtype("fori_loop", (lower, upper)))

    def step(state: tuple[Any, State]) -> tuple[Any, State]:
        return state[0] + 1, callee(body_fun)(state[0], state[1])

    if isinstance(lower, Tracer) or isinstance(upper, Tracer):
        return while_loop(lambda state: state[0] < upper, step, (first, init_val))[1]
    count = _steps(lower, upper)
    return scan(lambda state, _: (step(state), None), (first, init_val), length=count)[0][1]


def _steps(lower: ArrayLike, upper: ArrayLike) -> Dim:
    """The number of steps between bounds that are known before the program runs."""
    low, high = size_dim(lower), size_dim(upper)
    return high - low if ask(high, ">", low) else dim(0)
