"""``vmap``: a function of one example becomes a function of many."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np
import optree

import zenith.numpy as znp
from zenith import tree
from zenith.errors import ArgumentError, AxisError, ShapeError, TraceError, user_line
from zenith.ir.dims import Dim, prove_equal
from zenith.ir.types import ArrayType
from zenith.numpy.operands import normal_axis, static_int
from zenith.numpy.typing import Array
from zenith.trace.bind import b
from zenith.trace.nested import replay
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import size_dim
from zenith.transforms.batching import batched_graph
from zenith.transforms.calls import FlatResults, TreeArguments, name_of, trace_call

Axes = Any
P = ParamSpec("P")
R = TypeVar("R")


@overload
def vmap(
    function: np.ufunc, in_axes: Axes = 0, out_axes: Axes = 0, axis_size: int | None = None
) -> Callable[..., Any]: ...
@overload
def vmap(
    function: Callable[P, R], in_axes: Axes = 0, out_axes: Axes = 0, axis_size: int | None = None
) -> Callable[P, R]: ...
def vmap(
    function: Callable[..., object], in_axes: Axes = 0, out_axes: Axes = 0, axis_size: int | None = None
) -> Callable[..., object]:
    """A function that applies ``function`` to many examples at once, each operation on all of them.

    Parameters
    ----------
    in_axes: the axis of the examples in each positional argument: one integer for all, or a tuple with an entry for
        each, an integer, None for an argument that all examples share, or a tree that is a prefix of the argument's.
        Keywords have their examples on axis 0.
    out_axes: where the results get the examples, in the same way; None for a result that no example changes.
    axis_size: the number of examples, needed only when no argument has them.

    Returns
    -------
    A function of the same arguments; arrays of rank r in the function are of rank r + 1 outside.

    Raises
    ------
    ShapeError: arguments with different numbers of examples. AxisError: an array has no axis that ``in_axes`` or
        ``out_axes`` names. TraceError: these do not fit the arguments or results. ArgumentError: they have an entry
        that is no integer.
    ZenithError: an operation cannot be batched; names its line.

    >>> import numpy as np
    >>> vmap(np.dot)(np.ones((2, 3)), np.ones((2, 3)))
    array([3., 3.])
    >>> vmap(lambda x, y: x * y, in_axes=(0, None))(np.arange(3.0), 2.0)
    array([0., 2., 4.])
    """

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        arguments = TreeArguments((args, kwargs), function=function)
        axes = _input_axes(in_axes, args, kwargs)
        arrays = [_first(a, axis, path) for a, axis, path in zip(arguments.arrays, axes, arguments.paths, strict=True)]
        batched = [axis is not None for axis in axes]
        size = _size(arrays, batched, arguments.paths, axis_size, name_of(function))
        types = [_example(t, axis) for t, axis in zip(arguments.types, axes, strict=True)]
        flat = FlatResults(function)
        inner = trace_call(flat, arguments, name_of(function), types)
        captured = [False] * len(inner.captured)
        graph, which = batched_graph(inner.graph, [*batched, *captured], size)
        found = replay(graph, [*arrays, *inner.captured])
        axes_out = _prefix(out_axes, tree.unflatten(flat.treedef, found), "out_axes")
        results = [_with_examples(r, flag, axis, size) for r, flag, axis in zip(found, which, axes_out, strict=True)]
        return tree.unflatten(flat.treedef, arguments.given_back(results))

    return wrapped


def _input_axes(in_axes: Axes, args: tuple[object, ...], kwargs: dict[str, object]) -> list[int | None]:
    """The axis of the examples in each leaf of a call."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise TraceError(
            f"in_axes has {len(in_axes)} entries, and the call {len(args)} positional arguments",
            where=user_line(),
            fix="give one entry for each, or one integer for all",
        )
    return _prefix(in_axes, args, "in_axes") + _prefix(0, kwargs, "in_axes")


def _prefix(axes: Axes, values: Any, what: str) -> list[int | None]:
    """An axis for every leaf of ``values``: ``axes`` is a tree that ends where ``values`` goes on."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(tree.flatten(values)[0])
    try:
        leaves = optree.tree_leaves(values, none_is_leaf=True, namespace=tree.NAMESPACE)
        found: list[int | None] = optree.broadcast_prefix(axes, values, none_is_leaf=True, namespace=tree.NAMESPACE)
    except ValueError as error:
        raise TraceError(f"{what} does not fit the structure it is for: {error}", where=user_line(),
                         fix="give an integer or None for each argument, or a tree like it") from error  # fmt: skip
    wrong = [axis for axis in found if not (axis is None or hasattr(axis, "__index__"))]
    if wrong:
        raise ArgumentError(f"{what} says {wrong[0]!r} for an axis", where=user_line(),
                            fix="give an integer or None for each argument, or a tree like it")  # fmt: skip
    return [axis for axis, leaf in zip(found, leaves, strict=True) if leaf is not None]


def _first(array: Array, axis: int | None, path: str) -> Array:
    """An array with its examples on the first axis."""
    if axis is None:
        return array
    rank, axis = array.ndim, static_int(axis, f"vmap: the axis of {path}")
    if not -rank <= axis < rank:
        raise AxisError(
            f"vmap: {path} has {rank} axes, and its examples should be on axis {axis}",
            where=user_line(),
            fix="give in_axes None for an argument that all examples share",
        )
    return array if axis % rank == 0 else znp.moveaxis(array, axis, 0)


def _example(type: ArrayType, axis: int | None) -> ArrayType:
    """The type of one example."""
    if axis is None:
        return type
    shape = list(type.shape)
    del shape[axis]
    return type.with_shape(shape)


def _size(
    arrays: Sequence[Array], batched: Sequence[bool], paths: Sequence[str], axis_size: int | None, name: str
) -> Dim:
    """The number of examples, the same in all arguments."""
    sizes = [(size_dim(a.shape[0]), path) for a, path, flag in zip(arrays, paths, batched, strict=True) if flag]
    if axis_size is not None:
        sizes.insert(0, (size_dim(axis_size), "axis_size"))
    if not sizes:
        raise TraceError(f"vmap of {name}: no argument has examples", where=user_line(),
                         fix="map at least one argument, or give axis_size")  # fmt: skip
    (first, origin), *rest = sizes
    for size, path in rest:
        recorder = current_recorder()
        reason = f"vmap of {name}: {origin} and {path} must have the same number of examples"
        if recorder is not None:
            recorder.require(first, "==", size, reason)
        elif prove_equal(first, size) is False:
            raise ShapeError(f"{reason}, not {first} and {size}", where=user_line(), fix="check in_axes")
    return first


def _with_examples(result: Array, batched: bool, axis: int | None, size: Dim) -> Array:
    """A result with its examples on the requested axis."""
    if axis is None:
        if batched:
            raise ShapeError("out_axes is None for a result that differs between examples", where=user_line(),
                             fix="give it an axis")  # fmt: skip
        return result
    if not batched:
        shape = tuple(size_dim(n) for n in result.shape)
        result = b.broadcast(result, shape=(size, *shape), axes=tuple(range(1, len(shape) + 1)))
    axis = normal_axis("vmap: out_axes", axis, result.ndim)
    return znp.moveaxis(result, 0, axis) if axis else result
