"""Branches: ``cond`` and ``switch``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from zenith import tree
from zenith.control.trees import (
    Leaves,
    TreeType,
    fit,
    flatten,
    rebuild,
    record,
    require_functions,
    same_structure,
    unflatten,
)
from zenith.errors import DTypeError, TraceError, ValueTypeError, user_line
from zenith.ir.primitive import get
from zenith.numpy.operands import convert, strong
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bodies import Body, close, trace_body
from zenith.trace.conversion import callee

Result = TypeVar("Result")
INT32 = np.dtype(np.int32)


def cond(
    pred: ArrayLike, true_fun: Callable[..., Result], false_fun: Callable[..., Result], *operands: tree.Tree
) -> Result:
    """``true_fun(*operands) if pred else false_fun(*operands)``, where ``pred`` is known when the program runs.

    Only the chosen function runs. Both must return the same structure, shapes and element types; numbers take the
    element type that the other function returns.

    Raises
    ------
    TraceError, DTypeError, ShapeError: ``pred`` is no single bool or number, or the results differ.

    >>> float(cond(np.bool_(True), np.sin, np.cos, 0.0))
    0.0
    """
    example = "cond(pred, lambda: x, lambda: y), or choose between arrays with numpy.where(pred, x, y)"
    require_functions("cond", example, true_fun=true_fun, false_fun=false_fun)
    found = flatten("pred", pred)
    if not found.form.treedef.is_leaf() or found.arrays[0].ndim:
        raise DTypeError("the predicate of a cond must be one bool", where=user_line(), types=(found.form,),
                         fix="use numpy.any or numpy.all of it, or numpy.where to choose elements")  # fmt: skip
    (truth,) = found.arrays
    index = truth if truth.dtype.kind == "b" else truth != 0
    return _branch("cond", index, ("false_fun", "true_fun"), (false_fun, true_fun), operands)


def switch(index: ArrayLike, branches: Sequence[Callable[..., Result]], *operands: tree.Tree) -> Result:
    """``branches[index](*operands)``, where ``index`` is known when the program runs; it is clamped to their number.

    Only the chosen function runs. All must return the same structure, shapes and element types; numbers take the
    element type that the other functions return.

    Raises
    ------
    TraceError, DTypeError, ShapeError: there is no branch, ``index`` is no integer, or the results differ.

    >>> float(switch(2, [np.sin, np.cos, np.exp], 0.0))
    1.0
    """
    functions = list(branches) if isinstance(branches, Iterable) else [None]
    if not all(map(callable, functions)):
        raise ValueTypeError(
            "switch needs a list of functions", where=user_line(), fix="write switch(index, [f, g], x)"
        )
    if not functions:
        raise TraceError("switch needs a branch", where=user_line(), fix="give at least one function")
    found = flatten("index", index)
    if not found.form.treedef.is_leaf() or found.arrays[0].ndim or found.arrays[0].dtype.kind not in "iu":
        raise DTypeError("the index of a switch must be one integer", where=user_line(), types=(found.form,),
                         fix="cast it: .astype(numpy.int32)")  # fmt: skip
    clamped = np.clip(found.arrays[0], 0, len(functions) - 1)
    return _branch("switch", clamped, [f"branch {i}" for i in range(len(functions))], functions, operands)


def _branch(
    what: str, index: Array, names: Sequence[str], functions: Sequence[Callable[..., Result]],
    operands: Sequence[tree.Tree],
) -> Result:  # fmt: skip
    given = flatten("operands", tuple(operands))
    bodies, form = _bodies(what, names, functions, given)
    captured = list(dict.fromkeys(value for body in bodies for value in body.captured))
    graphs = tuple(close(body, captured) for body in bodies)
    number = convert(strong(index), INT32)
    return rebuild(form, record(get("switch"), [number, *captured, *given.arrays], branches=graphs))


def _bodies(
    what: str, names: Sequence[str], functions: Sequence[Callable[..., tree.Tree]], given: Leaves
) -> tuple[list[Body], TreeType]:
    """All traced branches, and the form of their results.

    Where one branch returns a Python number and another an array, all are traced a second time, returning arrays.
    """
    form: TreeType | None = None

    def trace(name: str, function: Callable[..., tree.Tree]) -> Body:
        def run(*leaves: Array) -> Sequence[Array]:
            nonlocal form
            (args,) = unflatten(leaves, given.form)
            result = flatten(f"the result of {name}", callee(function)(*args))
            form = form or result.form
            same_structure(what, result.form, form)
            before, form = form, form.promoted(result.form)
            return fit(what, result, form) if form == before else result.arrays

        return trace_body(tree.identifier(name), run, given.form.types, given.form.weak)

    while True:
        before = form
        bodies = [trace(name, function) for name, function in zip(names, functions, strict=True)]
        assert form is not None
        if before == form or (before is None and not _weakened(form, bodies)):
            return bodies, form


def _weakened(form: TreeType, bodies: Sequence[Body]) -> bool:
    """Whether a branch was traced before the final types of the results were known."""
    return any(body.types != list(form.types) for body in bodies)
