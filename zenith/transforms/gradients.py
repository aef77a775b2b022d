"""``grad`` and ``value_and_grad``: derivatives of a function with one number as its result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

import numpy as np

from zenith import tree
from zenith.errors import ShapeError, user_line
from zenith.ir.graph import Graph
from zenith.ir.types import has_derivative
from zenith.trace.nested import replay
from zenith.trace.recorder import current_recorder
from zenith.transforms.calls import (
    FlatResults,
    Numbers,
    TreeArguments,
    argument_numbers,
    name_of,
    require_floats,
    require_result_kind,
    trace_call,
)
from zenith.transforms.rematerialize import rematerialize
from zenith.transforms.reverse import vjp_graph

P = ParamSpec("P")
R = TypeVar("R")
Aux = TypeVar("Aux")


@overload
def value_and_grad(
    function: np.ufunc, argnums: Numbers = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., tuple[Any, Any]]: ...
@overload
def value_and_grad(
    function: Callable[P, R], argnums: Numbers = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[P, tuple[R, Any]]: ...
def value_and_grad(
    function: Callable[..., object], argnums: Numbers = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., object]:
    """A function that returns ``function``'s result and its gradient, computed together.

    Parameters
    ----------
    function: pure; its result is one floating-point number (an array of rank 0).
    argnums: the positional arguments to differentiate, as one number (the gradient has that argument's structure) or
        several (a tuple of gradients). All their leaves must be floating-point or complex.
    has_aux: the function returns a pair, and only the first of it is differentiated.
    holomorphic: the function is differentiable as a complex function; arguments and result are complex.

    Returns
    -------
    A function of the same arguments with result ``(value, gradient)``, or ``((value, aux), gradient)``. It works on
    arrays at once, inside ``jit``, and inside other transforms. Gradients have the shapes and dtypes of the arguments.
    The gradient of a real result f by a complex argument x + iy is df/dx - i df/dy, as in JAX: a step of descent goes
    against its conjugate.

    Raises
    ------
    ShapeError: the result is not one number. DTypeError: an argument is neither floating-point nor complex, or the
        result is complex. ZenithError: an operation has no derivative; names its line.

    >>> value_and_grad(lambda x: (x * x).sum())(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        arguments = TreeArguments((args, kwargs), function=function)
        flat = FlatResults(function, has_aux)
        numbers = argument_numbers(argnums, len(args))
        chosen = _chosen(args, numbers, len(arguments.leaves))
        require_floats(arguments, chosen, f"grad of {name_of(function)}", "c" if holomorphic else "fc")
        inner = trace_call(flat, arguments, name_of(function))
        joint = _joint(inner.graph, chosen, flat, name_of(function), holomorphic)
        one = np.ones((), inner.graph.outputs[0].dtype.numpy)
        results = arguments.given_back(replay(joint, [*arguments.arrays, *inner.captured, one]))
        outputs, found = results[: len(inner.graph.outputs)], iter(results[len(inner.graph.outputs) :])
        value = tree.unflatten(flat.treedef, outputs[: flat.count])
        if has_aux:
            value = value, tree.unflatten(flat.aux_treedef, outputs[flat.count :])
        gradients = arguments.rebuild([next(found) if wanted else None for wanted in chosen])[0]
        if isinstance(numbers, int):
            return value, gradients[numbers]
        return value, tuple(_copied(gradients[n]) if n in numbers[:k] else gradients[n] for k, n in enumerate(numbers))

    return wrapped


@overload
def grad(
    function: np.ufunc, argnums: Numbers = 0, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Callable[..., Any]: ...
@overload
def grad(
    function: Callable[P, object], argnums: Numbers = 0, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Callable[P, Any]: ...
@overload
def grad(
    function: Callable[P, tuple[object, Aux]],
    argnums: Numbers = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Callable[P, tuple[Any, Aux]]: ...
@overload
def grad(
    function: Callable[P, object], argnums: Numbers = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[P, Any]: ...
def grad(
    function: Callable[..., object], argnums: Numbers = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., object]:
    """A function that returns the gradient of ``function``; parameters and errors as for :func:`value_and_grad`.

    With ``has_aux`` it returns ``(gradient, aux)``.

    >>> grad(np.tanh)(0.0)
    np.float64(1.0)
    >>> grad(grad(lambda x: x**3))(2.0)
    np.float64(12.0)
    >>> grad(lambda z: abs(z) ** 2)(3.0 + 1.0j), grad(lambda z: z * z, holomorphic=True)(3.0 + 1.0j)
    (np.complex128(6-2j), np.complex128(6+2j))
    """
    both: Callable[..., tuple[Any, Any]] = value_and_grad(function, argnums, has_aux, holomorphic)

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def _copied(gradient: tree.Tree) -> tree.Tree:
    """A gradient in memory of its own, for an argument that is named twice."""
    leaves, treedef = tree.flatten(gradient)
    return tree.unflatten(treedef, [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])


def _chosen(args: tuple[object, ...], argnums: Numbers, count: int) -> list[bool]:
    """For each leaf of a call whether it belongs to a chosen argument; positional arguments come first."""
    numbers = {argnums} if isinstance(argnums, int) else set(argnums)
    flags = [n in numbers for n, arg in enumerate(args) for _ in tree.flatten(arg)[0]]
    return flags + [False] * (count - len(flags))


def _joint(graph: Graph, chosen: Sequence[bool], flat: FlatResults, name: str, holomorphic: bool) -> Graph:
    """Value and gradient as one graph."""
    first = graph.outputs[0] if flat.count == 1 else None
    if first is None or not has_derivative(first.type) or first.shape:
        raise ShapeError(
            f"grad needs one floating-point number as the result of {name}",
            where=user_line(),
            types=tuple(v.type for v in graph.outputs[: flat.count]),
            fix="reduce it to a number (.sum(), .mean()), return the rest with has_aux=True, or use jacrev or vjp",
        )
    require_result_kind([first.type], f"the result of {name}", holomorphic)
    captured = [False] * (len(graph.inputs) - len(chosen))
    joint = vjp_graph(graph, [*chosen, *captured], [i == 0 for i in range(len(graph.outputs))])
    if current_recorder() is None:
        return joint  # computed at once, where nothing is retained longer than needed
    return rematerialize(joint, [i >= len(graph.inputs) for i in range(len(joint.inputs))])
