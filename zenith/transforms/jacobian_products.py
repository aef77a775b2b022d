"""Products with a function's Jacobian, never formed: ``jvp`` from the left, ``vjp`` from the right, ``linearize``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

import zenith.numpy as znp
from zenith import tree
from zenith.errors import ArgumentError, DTypeError, ShapeError, TraceError, user_line
from zenith.ir.dims import prove_equal
from zenith.ir.types import ArrayType, has_derivative
from zenith.numpy.typing import Array
from zenith.trace.bind import array_type, b
from zenith.trace.nested import Inner, replay
from zenith.trace.results import own_memory
from zenith.transforms.calls import FlatResults, TreeArguments, name_of, trace_call
from zenith.transforms.forward import jvp_graph
from zenith.transforms.reverse import vjp_graph
from zenith.transforms.split import split, split_for_backward

R = TypeVar("R")
Aux = TypeVar("Aux")


@overload
def jvp(
    function: Callable[..., R], primals: Sequence[object], tangents: Sequence[object], has_aux: Literal[False] = False
) -> tuple[R, R]: ...
@overload
def jvp(
    function: Callable[..., tuple[R, Aux]],
    primals: Sequence[object],
    tangents: Sequence[object],
    has_aux: Literal[True],
) -> tuple[R, R, Aux]: ...
@overload
def jvp(
    function: Callable[..., object], primals: Sequence[object], tangents: Sequence[object], has_aux: bool = False
) -> tuple[Any, ...]: ...
def jvp(
    function: Callable[..., object], primals: Sequence[object], tangents: Sequence[object], has_aux: bool = False
) -> tuple[object, ...]:
    """A function's results, and how they move when its arguments move along ``tangents``: forward mode.

    Parameters
    ----------
    primals: a tuple or list of the positional arguments, floating-point arrays in any structure.
    tangents: of the same structure, shapes and element types.
    has_aux: the function returns a pair, and only the first of it is differentiated.

    Returns
    -------
    ``(results, their tangents)``, and ``aux`` as a third with ``has_aux``. Tangents of results that are no
    floating-point arrays are zeros.

    Raises
    ------
    ArgumentError: ``primals`` or ``tangents`` are no tuple or list. TraceError, ShapeError, DTypeError: the tangents
        are not like the arguments.

    >>> import numpy as np
    >>> jvp(np.sin, (0.0,), (2.0,))
    (np.float64(0.0), np.float64(2.0))
    """
    call = _Call(function, _of_arguments(primals, "primals"), has_aux)
    given = _moving(call.model, TreeArguments(_of_arguments(tangents, "tangents"), "tangents"), "tangents")
    graph = jvp_graph(call.inner.graph, call.floats())
    results = replay(graph, [*call.arguments.arrays, *call.inner.captured, *given])
    return call.results(results, call.tangents(results[call.total :], results))


@overload
def linearize(
    function: Callable[..., R], *primals: object, has_aux: Literal[False] = False
) -> tuple[R, Callable[..., R]]: ...
@overload
def linearize(
    function: Callable[..., tuple[R, Aux]], *primals: object, has_aux: Literal[True]
) -> tuple[R, Callable[..., R], Aux]: ...
@overload
def linearize(function: Callable[..., object], *primals: object, has_aux: bool = False) -> tuple[Any, ...]: ...
def linearize(function: Callable[..., object], *primals: object, has_aux: bool = False) -> tuple[object, ...]:
    """A function's results, and the linear function from tangents of its arguments to tangents of its results.

    The values are computed once; each call of the linear function costs only what depends on the tangents. Parameters
    and errors as for :func:`jvp`.

    >>> import numpy as np
    >>> value, moves = linearize(np.sin, 0.0)
    >>> moves(2.0)
    np.float64(2.0)
    """
    call = _Call(function, primals, has_aux)
    graph = jvp_graph(call.inner.graph, call.floats())
    late = [False] * len(call.inner.graph.inputs) + [True] * sum(call.floats())
    halves = split(graph, late)
    known = replay(halves.known, [*call.arguments.arrays, *call.inner.captured])
    residuals = known[len(known) - halves.residuals :]
    values = halves.merge(known)

    def pushforward(*tangents: object) -> object:
        given = _moving(call.model, TreeArguments(tangents, "tangents"), "tangents")
        found = halves.merge(known, replay(halves.unknown, [*residuals, *given]))
        return call.tangents(own_memory(found[call.total :], known), found)

    return call.results(values, pushforward)


@overload
def vjp(
    function: Callable[..., R], *primals: object, has_aux: Literal[False] = False
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(
    function: Callable[..., tuple[R, Aux]], *primals: object, has_aux: Literal[True]
) -> tuple[R, Callable[[Any], tuple[Any, ...]], Aux]: ...
@overload
def vjp(function: Callable[..., object], *primals: object, has_aux: bool = False) -> tuple[Any, ...]: ...
def vjp(function: Callable[..., object], *primals: object, has_aux: bool = False) -> tuple[object, ...]:
    """A function's results, and the linear function from cotangents of its results to those of its arguments.

    Reverse mode: the values are computed once, with the residuals of the backward pass. Results that are no
    floating-point arrays take any cotangent and ignore it; arguments that are none get zeros.

    >>> import numpy as np
    >>> value, back = vjp(np.sin, 0.0)
    >>> back(2.0)
    (np.float64(2.0),)
    """
    call = _Call(function, primals, has_aux)
    outputs = call.inner.graph.outputs
    seeded = [i < call.flat.count and has_derivative(v.type) for i, v in enumerate(outputs)]
    graph = vjp_graph(call.inner.graph, call.floats(), seeded)
    late = [False] * len(call.inner.graph.inputs) + [True] * sum(seeded)
    halves = split_for_backward(graph, late)
    known = replay(halves.known, [*call.arguments.arrays, *call.inner.captured])
    residuals = known[len(known) - halves.residuals :]
    values = halves.merge(known)
    model = call.results_model(values)

    def pullback(cotangents: object) -> tuple[Any, ...]:
        seeds = _moving(model, TreeArguments(cotangents, "cotangents"), "cotangents")
        moved = halves.merge(known, replay(halves.unknown, [*residuals, *seeds]))[call.total :]
        found = iter(own_memory(moved, known))
        flags = zip(call.arguments.arrays, call.floats(), strict=False)
        leaves = [next(found) if flag else znp.zeros_like(array) for array, flag in flags]
        gradients: tuple[Any, ...] = call.arguments.rebuild(call.arguments.given_back(leaves))[0]
        return gradients

    return call.results(values, pullback)


def _of_arguments(values: object, what: str) -> tuple[Any, ...]:
    """The entry of ``values`` for each argument; an array does not count as a sequence of entries."""
    if not isinstance(values, (tuple, list)):
        raise ArgumentError(
            f"jvp: {what} must be a tuple or list with an entry for each positional argument, not of type "
            f"{type(values).__name__}", where=user_line(), fix=f"write ({what},) for one argument",
        )  # fmt: skip
    return tuple(values)


class _Call:
    """A function traced for positional arguments, and what its flat results mean."""

    def __init__(self, function: Callable[..., object], primals: Sequence[object], has_aux: bool) -> None:
        self.flat, self.has_aux = FlatResults(function, has_aux), has_aux
        self.arguments = TreeArguments((tuple(primals), {}), function=function)
        self.model = TreeArguments(tuple(primals))
        self.inner: Inner = trace_call(self.flat, self.arguments, name_of(function))
        self.total = len(self.inner.graph.outputs)

    def floats(self) -> list[bool]:
        """Which inputs of the graph have a derivative: arguments may, captured values do not."""
        arguments = [has_derivative(type) for type in self.arguments.types]
        return arguments + [False] * len(self.inner.captured)

    def results(self, values: Sequence[Array], further: object) -> tuple[Any, ...]:
        """The function's results, then ``further``, then aux."""
        values = self.arguments.given_back(values[: self.total])
        own = tree.unflatten(self.flat.treedef, values[: self.flat.count])
        if not self.has_aux:
            return own, further
        return own, further, tree.unflatten(self.flat.aux_treedef, values[self.flat.count : self.total])

    def results_model(self, values: Sequence[Array]) -> TreeArguments:
        """A model for the cotangents, the arguments of the backward pass: they have the structure of the results."""
        return TreeArguments(tree.unflatten(self.flat.treedef, values[: self.flat.count]), "cotangents")

    def tangents(self, moving: Sequence[Array], values: Sequence[Array]) -> Any:
        """Tangents of the function's results in their structure; ``moving`` has those of floating-point results."""
        found = iter(moving)
        types = [v.type for v in self.inner.graph.outputs[: self.flat.count]]
        leaves = [next(found) if has_derivative(t) else znp.zeros_like(v) for t, v in zip(types, values, strict=False)]
        return tree.unflatten(self.flat.treedef, self.arguments.given_back(leaves))


def _moving(model: TreeArguments, given: TreeArguments, what: str) -> list[Array]:
    """The floating-point arrays of ``given``; an error unless it has the structure, shapes and types of ``model``."""
    if model.treedef != given.treedef:
        raise TraceError(f"{what} have another structure than what they belong to", where=user_line(),
                         fix=f"give {model.treedef}")  # fmt: skip
    arrays = []
    for expected, array, weak, path in zip(model.types, given.arrays, given.weak, given.paths, strict=True):
        if has_derivative(expected):
            arrays.append(b.cast(array, dtype=expected.dtype) if weak else array)
            _require_type(expected, array_type(arrays[-1]), path)
    return arrays


def _require_type(expected: ArrayType, found: ArrayType, path: str) -> None:
    if expected.dtype != found.dtype:
        raise DTypeError(f"{path} must be {expected}, not {found}", where=user_line(), types=(expected, found),
                         fix=f"convert it: .astype({expected.dtype.numpy_name!r})")  # fmt: skip
    differ = (prove_equal(a, b) is False for a, b in zip(expected.shape, found.shape, strict=False))
    if expected.rank != found.rank or any(differ):
        raise ShapeError(f"{path} must be {expected}, not {found}", where=user_line(), types=(expected, found),
                         fix="give arrays of the same shapes")  # fmt: skip
