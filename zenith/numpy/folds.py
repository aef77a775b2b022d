"""Methods of ufuncs that no primitive computes: ``subtract.reduce``, ``gcd.accumulate``, ``add.reduceat``.

Each is a loop over an axis, which takes one element after the other from the first on, as NumPy does. Where NumPy adds
floats by blocks (``add.reduceat``), last digits differ.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from zenith.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError, user_line
from zenith.ir.dims import product
from zenith.numpy.broadcasting import spread
from zenith.numpy.conditionals import where as choose
from zenith.numpy.joining import concatenate
from zenith.numpy.operands import (
    as_array,
    contains_traced,
    convert,
    dims_of,
    lift,
    normal_axes,
    normal_axis,
    require,
)
from zenith.numpy.shaping import moveaxis
from zenith.numpy.typing import Array, ArrayLike, Axes, Axis, DTypeLike, Out, Unset
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import user_size

Fold = Callable[[Array, Array], Array]


def _recorded(fold: Callable[..., Array]) -> Callable[..., Array]:
    """Register a method of ufuncs; of arrays that are all known NumPy's own answers."""
    method = fold.__name__.removeprefix("_ufunc_")

    @functools.wraps(fold)
    def call(function: Fold, ufunc: np.ufunc, *args: ArrayLike, **options: ArrayLike) -> Array:
        if contains_traced((*args, *options.values())):
            return fold(function, ufunc, *args, **options)
        return getattr(ufunc, method)(*args, **options)

    return implements()(call)


@_recorded
def _ufunc_reduce(
    function: Fold, ufunc: np.ufunc, x: ArrayLike, axis: Axes = 0, dtype: DTypeLike | None = None, out: Out = None,
    keepdims: bool = False, initial: ArrayLike | Unset | None = np._NoValue, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """``ufunc.reduce``: the function folded over axes, from the ufunc's identity or ``initial`` on, if there is one."""
    x = as_array(x)
    axes = normal_axes(ufunc.__name__, axis, x.ndim)
    x = convert(x, _element_type(ufunc, x, dtype, len(axes)))
    if isinstance(initial, Unset):
        initial = None if ufunc.identity is None else np.asarray(ufunc.identity).astype(x.dtype)  # -1 is all bits
    mask = None if where is True else _along_first(spread(convert(where, np.dtype(bool)), dims_of(x)), axes)
    result = _folded(ufunc, _keeping_type(function, x), _along_first(x, axes), mask, initial)
    if not keepdims:
        return result
    return b.reshape(result, shape=tuple(1 if a in axes else n for a, n in enumerate(dims_of(x))))


@_recorded
def _ufunc_accumulate(
    function: Fold, ufunc: np.ufunc, x: ArrayLike, axis: Axis = 0, dtype: DTypeLike | None = None, out: Out = None
) -> Array:
    """``ufunc.accumulate``: the results of folding the elements up to each one."""
    from zenith.control import associative_scan

    x = as_array(x)
    axis = normal_axis(ufunc.__name__, axis, x.ndim)
    x = convert(x, _element_type(ufunc, x, dtype))
    return associative_scan(_keeping_type(function, x), x, axis=axis)  # which goes from the first element on


@_recorded
def _ufunc_reduceat(
    function: Fold, ufunc: np.ufunc, x: ArrayLike, indices: ArrayLike, axis: Axis = 0,
    dtype: DTypeLike | None = None, out: Out = None,
) -> Array:  # fmt: skip
    """``ufunc.reduceat``: the elements folded from each index up to the next one, or the element there alone.

    How many these are depends on values, so that there are derivatives in forward mode alone.
    """
    from zenith.control import fori_loop, map

    x, firsts = as_array(x), _first_indices(ufunc, indices)
    axis = normal_axis(ufunc.__name__, axis, x.ndim)
    x = convert(x, _element_type(ufunc, x, dtype))
    step, slices = _keeping_type(function, x), lift(moveaxis(x, axis, 0))
    size = user_size(dims_of(slices)[0])
    firsts = lift(choose(firsts < 0, size, firsts))  # which is out of bounds, as a negative index is here
    ends = concatenate((firsts, np.reshape(size, (1,))))[1:]

    def segment(bounds: Sequence[Array]) -> Array:
        first, end = bounds
        return fori_loop(first + 1, end, lambda i, found: step(found, slices[i]), slices[first])

    return moveaxis(map(segment, (firsts, ends)), 0, axis)


def _first_indices(ufunc: np.ufunc, indices: ArrayLike) -> Array:
    found = as_array(indices)
    if found.dtype.kind not in "iu" or found.ndim != 1:
        raise DTypeError(f"{ufunc.__name__}.reduceat takes integers along one axis", where=user_line(),
                         types=(str(found.dtype),), fix="convert them: .astype(numpy.int64)")  # fmt: skip
    return convert(found, np.dtype(np.int64))


def _element_type(ufunc: np.ufunc, x: Array, dtype: DTypeLike | None, axes: int = 1) -> np.dtype:
    """In what NumPy folds such elements, which it is asked with one of them; its error where it does not."""
    if ufunc.nin != 2 or ufunc.nout != 1 or ufunc.signature:
        raise UnsupportedError(f"numpy.{ufunc.__name__}.reduce: only functions of two numbers are folded",
                               where=user_line(), fix="call it, or use one of two operands")  # fmt: skip
    try:
        found = ufunc.reduce(np.ones((1,) * axes, x.dtype), axis=tuple(range(axes)), dtype=dtype)
    except ValueError as error:
        raise ArgumentError(f"{ufunc.__name__}: {error}", where=user_line(), fix="reduce one axis at a time") from None
    except TypeError as error:
        fix = "convert the elements to a type that the function keeps"
        raise DTypeError(f"{ufunc.__name__}: {error}", where=user_line(), types=(str(x.dtype),), fix=fix) from None
    return np.asarray(found).dtype


def _keeping_type(function: Fold, x: Array) -> Fold:
    return lambda found, new: convert(function(found, new), x.dtype)


def _along_first(x: Array, axes: Sequence[int]) -> Array:
    """The array with some of its axes joined into one, the first."""
    front = moveaxis(x, axes, tuple(range(len(axes))))
    sizes = dims_of(front)
    return b.reshape(front, shape=(product(sizes[: len(axes)]), *sizes[len(axes) :]))


def _folded(ufunc: np.ufunc, step: Fold, slices: Array, mask: Array | None, initial: ArrayLike | None) -> Array:
    """The function folded over slices along the first axis, of those elements where the mask is true."""
    from zenith.control import scan

    if initial is None and mask is not None:
        raise ArgumentError(f"{ufunc.__name__}.reduce: the mask of where= may be false everywhere", where=user_line(),
                            fix="give initial= too, a number to begin with")  # fmt: skip
    if initial is None:
        require(dims_of(slices)[0], ">=", 1, f"{ufunc.__name__}.reduce of no elements has no value", ShapeError)
        first, slices = slices[0], slices[1:]
    else:
        first = spread(convert(initial, slices.dtype), dims_of(slices)[1:])
    if mask is None:
        return scan(lambda found, new: (step(found, new), None), first, slices)[0]
    chosen = (slices, mask)
    return scan(lambda found, new: (b.where(new[1], step(found, new[0]), found), None), first, chosen)[0]
