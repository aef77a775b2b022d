"""Functions applied along axes, piecewise by conditions, or by choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zenith.errors import ArgumentError, ShapeError, user_line
from zenith.ir.dims import product
from zenith.ir.types import int64
from zenith.numpy import elementwise as ew
from zenith.numpy.broadcasting import align
from zenith.numpy.casts import require_cast
from zenith.numpy.conditionals import where
from zenith.numpy.joining import stack
from zenith.numpy.operands import (
    INT64,
    as_array,
    contains_traced,
    convert,
    dims_of,
    normal_axis,
    result_dtype,
    user_shape,
)
from zenith.numpy.shaping import broadcast_to, expand_dims, moveaxis
from zenith.numpy.typing import Array, ArrayLike, Axes, Out
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.operators import is_weak
from zenith.trace.tracer import Tracer

__all__ = ["apply_along_axis", "apply_over_axes", "choose", "piecewise"]


@implements(np.apply_along_axis)
def apply_along_axis(
    func1d: Callable[..., Array], axis: int, arr: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike
) -> Array:
    """The results of a function of rows for all rows along an axis.

    Parameters
    ----------
    func1d: a function from a row to an array or number; in a trace it is traced once, for all rows (`zenith.vmap`).
    axis: the axis; the axes of the function's result replace it.
    arr: an array of one axis or more.
    args, kwargs: further arguments of the function, the same for all rows.

    >>> apply_along_axis(lambda row: row.max() - row.min(), 1, [[1, 5, 2], [7, 7, 9]])
    array([4, 2])
    """
    x = as_array(arr)
    at = normal_axis("apply_along_axis", axis, x.ndim)
    if not isinstance(x, Tracer) and not contains_traced([*args, *kwargs.values()]):
        return np.apply_along_axis(func1d, at, x, *args, **kwargs)
    from zenith.transforms import vmap

    lead = tuple(n for a, n in enumerate(dims_of(x)) if a != at)
    rows = b.reshape(moveaxis(x, at, -1), shape=(product(lead), dims_of(x)[at]))
    found = vmap(lambda row: func1d(row, *args, **kwargs))(rows)
    own = dims_of(found)[1:]
    found = b.reshape(found, shape=(*lead, *own))
    return moveaxis(found, tuple(range(len(lead), found.ndim)), tuple(range(at, at + len(own))))


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Array], a: ArrayLike, axes: Axes) -> Array:
    """``func(a, axis)`` for one axis after the other; an axis that it removes comes back with size 1.

    >>> apply_over_axes(np.sum, np.ones((2, 3)), [0, 1])
    array([[6.]])
    """
    x = as_array(a)
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        at = normal_axis("apply_over_axes", axis, x.ndim)
        found = as_array(func(x, at))
        found = expand_dims(found, at) if found.ndim == x.ndim - 1 else found
        if found.ndim != x.ndim:
            raise ShapeError("apply_over_axes: the function changes the number of axes by more than one",
                             where=user_line(), fix="give a reduction along one axis")  # fmt: skip
        x = found
    return x


@implements(np.piecewise)
def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: object, **kw: object) -> Array:
    """A piecewise function: where a condition holds, its function's value; the last one that holds wins.

    Parameters
    ----------
    x: an array.
    condlist: conditions of its shape; one, or a list.
    funclist: for each a function of arrays or a number, and perhaps one more, for where none holds (else 0).
    args, kw: further arguments of the functions.

    A function sees the whole array, not only where its condition holds, so it must work element by element.
    The result has the element type of ``x``. Raises ArgumentError for another number of functions.

    >>> piecewise(np.array([-2.0, 3.0]), [np.array([True, False])], [np.negative, lambda v: v * 10])
    array([ 2., 30.])
    """
    array = as_array(x)
    several = isinstance(condlist, (list, tuple)) and (array.ndim == 0 or not np.isscalar(condlist[0]))
    conditions = list(condlist) if several or as_array(condlist).ndim > array.ndim else [condlist]
    default = funclist[len(conditions)] if len(funclist) == len(conditions) + 1 else 0
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(f"piecewise: {len(funclist)} functions for {len(conditions)} conditions",
                            where=user_line(), fix="give one for each, and perhaps one for elsewhere")  # fmt: skip

    def value(function: Any) -> Array:
        return convert(function(array, *args, **kw) if callable(function) else function, array.dtype)

    result = value(default)
    for condition, function in zip(conditions, funclist, strict=False):
        result = where(condition, value(function), result)
    return broadcast_to(result, user_shape(dims_of(array)))


@implements(np.choose)
def choose(a: ArrayLike, choices: Array | Sequence[ArrayLike], out: Out = None, mode: str = "raise") -> Array:
    """Element by element the one of several arrays that ``a`` names by its number, all broadcast to one shape.

    ``mode`` "wrap" and "clip" bring numbers outside into the range; "raise" makes them an OutOfBoundsError when the
    program runs.

    >>> choose([0, 1, 1], [[1, 2, 3], 10])
    array([ 1, 10, 10])
    """
    number, given = as_array(a), [c if is_weak(c) else as_array(c) for c in choices]
    if mode not in ("raise", "wrap", "clip"):
        raise ArgumentError(f"choose: {mode!r} is no mode", where=user_line(), fix="use 'raise', 'wrap' or 'clip'")
    require_cast("choose", number.dtype, INT64, "safe")
    dtype = result_dtype("choose", given)
    number, *arrays = align("choose", [convert(number, INT64), *(convert(c, dtype) for c in given)])
    if mode != "raise":
        number = ew.remainder(number, len(arrays)) if mode == "wrap" else _clipped(number, len(arrays))
    shape = dims_of(number)
    coordinates = [b.broadcast(b.iota(size=n, dtype=int64), shape=shape, axes=(i,)) for i, n in enumerate(shape)]
    return b.gather(stack(arrays), number, *coordinates)


def _clipped(number: Array, count: int) -> Array:
    return ew.maximum(ew.minimum(number, count - 1), 0)
