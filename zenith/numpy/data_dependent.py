"""Functions with a result whose size depends on values: indices of true elements, and the elements there.

On concrete arrays these are computed at once. In a traced function the size is one that the program computes
(:mod:`zenith.trace.data_dependent`), or the caller gives it by ``size=``: where fewer are found the rest is filled, and
where more are found the first count.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from zenith.errors import ShapeError, TraceError, user_line
from zenith.ir.dims import product
from zenith.ir.types import int64
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.conditionals import where as choose
from zenith.numpy.cumulative import cumsum
from zenith.numpy.formulas import truth
from zenith.numpy.operands import (
    INT64,
    as_array,
    compute_array,
    convert,
    dims_of,
    normal_axis,
    require,
    require_count,
    sizes_of,
)
from zenith.numpy.shaping import broadcast_to, ravel, repeated, reshape
from zenith.numpy.typing import Array, ArrayLike, Axis, Out, Size
from zenith.trace.bind import b, graph_value
from zenith.trace.data_dependent import data_dependent_size
from zenith.trace.dispatch import implements
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import TracedSize, UserSize, size_dim, user_size
from zenith.trace.tracer import Tracer

__all__ = ["argwhere", "compress", "extract", "flatnonzero", "nonzero", "repeat", "where"]


def counted(flags: Array, name: str, call: str, *arrays: object) -> UserSize:
    """How many flags are true, as a size that the program computes; TraceError where there are none.

    That is on a GPU, whose launches are made before the program runs. ``call`` says what to write there.
    """
    recorder = current_recorder()
    if recorder is None or not recorder.sized_loops:
        needs_size(name, call, *arrays)
    count = graph_value(recorder, convert(reductions.count_nonzero(flags), INT64))
    origin = {"mask": graph_value(recorder, flags)}
    return user_size(data_dependent_size(recorder, count, product(dims_of(flags)), origin), recorder)


def needs_size(name: str, call: str, *arrays: object) -> NoReturn:
    """Raise the TraceError for a result whose size depends on the values of traced arrays."""
    raise TraceError(
        f"{name}: the size of its result depends on values, which exist only when the program runs",
        where=user_line(),
        types=tuple(a.type for a in arrays if isinstance(a, Tracer)),
        fix=f"say how many there are at most: zenith.numpy.{call}, which fills up what is missing; or keep the shape: "
        "numpy.where(mask, x, 0)",
    )


def true_indices(flags: Array, size: Size) -> tuple[Array, Array]:
    """The indices of the first ``size`` true elements of a row, and which of them there are; 0 for the others."""
    (wanted,) = sizes_of(size, "size")
    there = ew.less(b.iota(size=wanted, dtype=int64), reductions.count_nonzero(flags))
    return b.true_indices(flags, size=wanted), there


def _flags(name: str, a: Array) -> Array:
    return truth(compute_array(name, a))


@implements(np.nonzero)
def nonzero(a: ArrayLike, *, size: Size | None = None, fill_value: ArrayLike = 0) -> tuple[Array, ...]:
    """The indices of the elements that are not zero: one array of int64 for each axis, in row-major order.

    Parameters
    ----------
    a: an array of one axis or more.
    size: the size of the result; None means as many as there are.
    fill_value: what follows the last index that was found; a number, or one for each axis.

    Raises ShapeError for an array without axes; TraceError for a traced array of a GPU without ``size``.

    >>> nonzero([[0, 3], [5, 0]])
    (array([0, 1]), array([1, 0]))
    >>> nonzero([0, 3, 0, 5], size=3, fill_value=-1)
    (array([ 1,  3, -1]),)
    """
    x = as_array(a)
    if x.ndim == 0:
        raise ShapeError("nonzero needs an array with axes", where=user_line(), fix="use numpy.atleast_1d(x)")
    if size is None and not isinstance(x, Tracer):
        return np.nonzero(x)
    flags = ravel(_flags("nonzero", x))
    is_exact = size is None
    if size is None:
        size = counted(flags, "nonzero", "nonzero(x, size=n)", x)
    flat, there = true_indices(flags, size)
    fills = fill_value if isinstance(fill_value, (tuple, list)) else (fill_value,) * x.ndim
    result: list[Array] = []
    for n in reversed(dims_of(x)[1:]):
        flat, coordinate = ew.floor_divide(flat, user_size(n)), ew.remainder(flat, user_size(n))
        result.insert(0, coordinate)
    result.insert(0, flat)
    if is_exact:
        return tuple(result)
    return tuple(choose(there, p, convert(f, INT64)) for p, f in zip(result, fills, strict=True))


@implements(np.flatnonzero)
def flatnonzero(a: ArrayLike, *, size: Size | None = None, fill_value: ArrayLike = 0) -> Array:
    """The indices in the flattened array of the elements that are not zero; ``size`` as for :func:`nonzero`.

    >>> flatnonzero([[0, 3], [5, 0]])
    array([1, 2])
    """
    x = as_array(a)
    return nonzero(ravel(x), size=size, fill_value=fill_value)[0]


@implements(np.argwhere)
def argwhere(a: ArrayLike, *, size: Size | None = None, fill_value: ArrayLike = 0) -> Array:
    """The indices of the elements that are not zero, a row for each; ``size`` as for :func:`nonzero`.

    >>> argwhere([[0, 3], [5, 0]])
    array([[0, 1],
           [1, 0]])
    """
    x = as_array(a)
    if size is None and not isinstance(x, Tracer):
        return np.argwhere(x)
    columns = nonzero(reshape(x, (1,)) if x.ndim == 0 else x, size=size, fill_value=fill_value)
    rows = b.concat(*[b.reshape(c, shape=(*dims_of(c), 1)) for c in columns], axis=1)
    return rows[:, :0] if x.ndim == 0 else rows


@implements(np.compress)
def compress(
    condition: ArrayLike, a: ArrayLike, axis: Axis = None, out: Out = None, *, size: Size | None = None,
    fill_value: ArrayLike = 0,
) -> Array:  # fmt: skip
    """The slices along an axis (elements of the flattened array for None) where a condition is true.

    Parameters
    ----------
    condition: a row of truth values, no longer than the axis.
    a: an array of any element type.
    size: how many slices the result has; None means as many as there are.
    fill_value: the elements of the slices after the last one that was found.

    Raises ShapeError for a condition of another shape; TraceError for a traced one of a GPU without ``size``.

    >>> compress([True, False, True], [5, 6, 7])
    array([5, 7])
    >>> compress([True, False, True], [5, 6, 7], size=3, fill_value=-1)
    array([ 5,  7, -1])
    """
    flags, x = as_array(condition), as_array(a)
    if axis is None:
        x, axis = ravel(x), 0
    at = normal_axis("compress", axis, x.ndim)
    if flags.ndim != 1:
        raise ShapeError("compress needs a condition of one axis", where=user_line(), fix="use zenith.numpy.extract")
    require(dims_of(x)[at], ">=", dims_of(flags)[0], "compress: the condition is longer than the axis")
    if size is None and not isinstance(flags, Tracer):
        return b.take(x, np.flatnonzero(flags), axis=at)
    flags = _flags("compress", flags)
    is_exact = size is None
    if size is None:
        size = counted(flags, "compress", "compress(condition, x, size=n)", flags)
    indices, there = true_indices(flags, size)
    found = b.take(x, indices, axis=at)
    if is_exact:
        return found
    there = b.broadcast(there, shape=dims_of(found), axes=(at,))
    return choose(there, found, convert(fill_value, x.dtype))


@implements()
def _method_compress(x: Array, condition: Array, axis: Axis = None) -> Array:
    """``x.compress(condition)``."""
    return compress(condition, x, axis)


@implements(np.extract)
def extract(condition: ArrayLike, arr: ArrayLike, *, size: Size | None = None, fill_value: ArrayLike = 0) -> Array:
    """The elements of ``arr`` where a condition of the same shape is true, in row-major order: ``arr[condition]``.

    ``size`` and ``fill_value`` as for :func:`compress`.

    >>> extract([[True, False], [False, True]], [[1, 2], [3, 4]])
    array([1, 4])
    """
    flags, x = as_array(condition), as_array(arr)
    require(product(dims_of(x)), ">=", product(dims_of(flags)), "extract: the condition is larger than the array")
    return compress(ravel(flags), ravel(x), size=size, fill_value=fill_value)


@implements(np.repeat)
def repeat(
    a: ArrayLike, repeats: ArrayLike, axis: Axis = None, *, size: Size | None = None, fill_value: ArrayLike = 0
) -> Array:
    """Every element repeated along an axis, or in the flattened array.

    Parameters
    ----------
    a: an array of any element type.
    repeats: how often: one number (or size) for all, or an integer for each index along the axis.
    axis: the axis, or None for the flattened array.
    size: the size of the axis afterwards; required where ``repeats`` is traced.
    fill_value: what follows the last repetition.

    Raises TraceError for traced ``repeats`` without ``size``, ShapeError for another number of them.

    >>> repeat([1, 2], 2), repeat([1, 2], [0, 3])
    (array([1, 1, 2, 2]), array([2, 2, 2]))
    """
    x = as_array(a) if axis is not None else ravel(a)
    at = normal_axis("repeat", axis or 0, x.ndim)
    counted = isinstance(repeats, TracedSize)
    if counted or (size is None and not isinstance(as_array(repeats), Tracer) and as_array(repeats).size == 1):
        count = size_dim(repeats if counted else as_array(repeats).item(), "repeat: the count")
        require_count(count, "repeat: the count is negative")
        return repeated(x, count, at)
    counts = convert(repeats, INT64)
    counts = reshape(counts, (1,)) if counts.ndim == 0 else counts
    counts = broadcast_to(counts, (user_size(dims_of(x)[at]),))
    if isinstance(counts, Tracer) or size is not None:
        return _repeat_computed(x, counts, at, size, fill_value)
    return b.take(x, np.repeat(np.arange(len(counts)), counts), axis=at)


def _repeat_computed(x: Array, counts: Array, axis: int, size: Size | None, fill_value: ArrayLike) -> Array:
    """A mark is counted where the repetitions of an element end: the marks up to an output are its element's index."""
    if size is None:
        needs_size("repeat", "repeat(x, counts, size=n)", counts)
    (wanted,) = sizes_of(size, "size")
    ends = ew.minimum(cumsum(counts, 0), user_size(wanted))
    marks = b.scatter_add(b.full(0, int64, (wanted + 1,)), b.full(1, int64, dims_of(ends)), ends)
    source = cumsum(marks, 0)[:-1]
    last = user_size(dims_of(x)[axis] - 1)
    found = b.take(x, ew.minimum(source, last), axis=axis)
    there = b.broadcast(ew.less_equal(source, last), shape=dims_of(found), axes=(axis,))
    return choose(there, found, convert(fill_value, x.dtype))


@implements(np.where, gives="boxed")
def where(
    condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /, *, size: Size | None = None,
    fill_value: ArrayLike = 0,
) -> Any:  # fmt: skip
    """``x`` where the condition is true (not zero), ``y`` elsewhere, with broadcasting and promotion.

    Without ``x`` and ``y`` the indices where the condition is true: :func:`nonzero`, with its ``size``.

    >>> where([True, False], [1, 2], 0), where([False, True])
    (array([1, 0]), (array([1]),))
    """
    if x is not None and y is not None:
        return choose(condition, x, y)
    if x is not None or y is not None:
        raise TraceError("where needs both choices or none", where=user_line(), fix="where(condition, x, y)")
    flags = as_array(condition)
    return nonzero(flags, size=size, fill_value=fill_value)
