"""Arrays as sets of numbers: the different elements, membership, union, intersection and differences.

Elements are sorted; where one differs from the one before, a new value begins. How many there are depends on values: on
concrete arrays these functions answer at once; in a traced function the program computes it, or the caller gives by
``size=`` how many the result has at most (see :mod:`zenith.numpy.data_dependent`). What is missing is filled with
``fill_value``, by default the smallest element; where there are more, the first count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zenith.errors import UnsupportedError, user_line
from zenith.ir.dims import dim, product
from zenith.ir.types import int64, kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.conditionals import where
from zenith.numpy.cumulative import cumsum
from zenith.numpy.data_dependent import counted, extract, true_indices
from zenith.numpy.indexing import take
from zenith.numpy.joining import concatenate
from zenith.numpy.operands import (
    INT64,
    as_array,
    convert,
    dims_of,
    normal_axis,
    require,
    result_dtype,
    sizes_of,
    user_shape,
)
from zenith.numpy.searching import searchsorted
from zenith.numpy.shaping import moveaxis, ravel, reshape
from zenith.numpy.sorting import argsort, lexsort, sort
from zenith.numpy.typing import Array, ArrayLike, Axis, Size
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import user_size
from zenith.trace.tracer import Tracer

__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip

_FEW = 16  # so many comparisons in a row cost less than sorting, and fuse

# At once NumPy answers; its stubs know neither flags that are variables nor all their combinations.
_UNIQUE: Any = np.unique
_INTERSECTION: Any = np.intersect1d


class UniqueAllResult(NamedTuple):
    """What :func:`unique_all` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """What :func:`unique_counts` returns."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """What :func:`unique_inverse` returns."""

    values: Array
    inverse_indices: Array


@implements(np.unique)
def unique(ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: Axis = None, *, equal_nan: bool = True, sorted: bool = True, size: Size | None = None,
           fill_value: ArrayLike | None = None) -> Any:  # fmt: skip
    """The different elements in ascending order, as ``numpy.unique``.

    Parameters
    ----------
    ar: an array, taken as one row.
    return_index: also the first index of each value; 0 after the last value.
    return_inverse: also, for each element of ``ar``, the index of its value in the result.
    return_counts: also how often each value occurs; 0 after the last value.
    axis: slices instead of elements, in the order of their first elements that differ; with ``size`` a sort for each
        element of a slice, as many as there are in this call.
    equal_nan: whether all nan are one value; of slices with nan each is one of its own, as in NumPy.
    size, fill_value: see :mod:`zenith.numpy.sets`.

    Raises TraceError for a traced array of a GPU without ``size``.

    >>> unique([3, 1, 3])
    array([1, 3])
    >>> unique([3, 1, 3], return_counts=True, size=3, fill_value=0)
    (array([1, 3, 0]), array([1, 2, 0]))
    """
    x = as_array(ar)
    if size is None and not isinstance(x, Tracer):
        return _UNIQUE(x, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)
    values, index, inverse, counts = (
        _slices(x, axis, size, fill_value)
        if axis is not None
        else _different(sort(ravel(x)), argsort(ravel(x)), equal_nan, size, fill_value)
    )
    if axis is None:
        inverse = reshape(inverse, user_shape(dims_of(x)))
    chosen = (return_index, return_inverse, return_counts)
    others = [r for r, wanted in zip((index, inverse, counts), chosen, strict=True) if wanted]
    return (values, *others) if others else values


def _begins(ordered: Array, equal_nan: bool) -> Array:
    """Where a new value begins in a sorted row, or in sorted slices."""
    before = _before(ordered)
    differs = ew.not_equal(ordered, before)
    if equal_nan and ordered.dtype.kind in "fc":
        differs = ew.logical_and(differs, ew.logical_not(ew.logical_and(ew.isnan(ordered), ew.isnan(before))))
    differs = reductions.any(differs, 1) if ordered.ndim > 1 else differs
    return ew.logical_or(differs, ew.equal(b.iota(size=dims_of(ordered)[0], dtype=int64), 0))


def _before(x: Array) -> Array:
    """The slices one further back; before the first are zeros."""
    lone, sizes = (1, *[0] * (x.ndim - 1)), dims_of(x)
    none = (0,) * x.ndim
    padded = b.pad(x, np.zeros((), x.dtype), low=lone, high=none, interior=none)
    return b.slice(padded, start=none, stop=sizes, step=(1,) * x.ndim)


def _different(
    ordered: Array, order: Array, equal_nan: bool, size: Any, fill_value: ArrayLike | None
) -> tuple[Array, ...]:
    """The first ``size`` different values, their first indices, the index of each element's value, and counts."""
    count = dims_of(ordered)[0]
    begins = _begins(ordered, equal_nan)
    exact = size is None
    if exact:
        size = counted(begins, "unique", "unique(x, size=n)", ordered)
    else:
        require(count, ">=", 1, "unique with size= needs an element")
    (wanted,) = sizes_of(size, "size")
    start, there = true_indices(begins, user_size(wanted + 1))
    edges = where(there, start, user_size(count))
    start, there = start[:-1], there[:-1]
    values, first = b.take(ordered, start, axis=0), b.take(order, start, axis=0)
    if not exact:
        found = b.reshape(there, shape=(wanted, *[1] * (ordered.ndim - 1)))
        values, first = where(found, values, _fill(ordered, fill_value)), where(there, first, 0)
    group = ew.subtract(cumsum(convert(begins, INT64), 0), 1)
    inverse = b.take(group, argsort(order), axis=0)
    return values, first, inverse, ew.subtract(edges[1:], edges[:-1])


def _slices(x: Array, axis: Axis, size: Size | None, fill_value: ArrayLike | None) -> tuple[Array, ...]:
    """The same of slices along an axis, each as one row."""
    at = normal_axis("unique", axis, x.ndim)
    front = moveaxis(x, at, 0)
    count, *rest = dims_of(front)
    rows = b.reshape(front, shape=(count, product(rest)))
    columns = [rows[:, i] for i in reversed(range(int(user_size(product(rest)))))]
    order = lexsort(columns) if columns else b.iota(size=count, dtype=int64)
    values, *others = _different(b.take(rows, order, axis=0), order, False, size, fill_value)
    return moveaxis(b.reshape(values, shape=(dims_of(values)[0], *rest)), 0, at), *others


def _fill(ordered: Array, fill_value: ArrayLike | None) -> Array:
    return ordered[0] if fill_value is None else convert(fill_value, ordered.dtype)


@implements(np.unique_all, gives="boxed")
def unique_all(x: ArrayLike, *, size: Size | None = None, fill_value: ArrayLike | None = None) -> UniqueAllResult:
    """Values, their first indices, the index of each element's value, and counts; every nan is a value of its own.

    >>> unique_all([3, 1, 3]).counts
    array([1, 2])
    """
    return UniqueAllResult(*_unique("unique_all", x, size, fill_value))


@implements(np.unique_counts)
def unique_counts(x: ArrayLike, *, size: Size | None = None, fill_value: ArrayLike | None = None) -> UniqueCountsResult:
    """Values, and how often each occurs; every nan is a value of its own.

    >>> unique_counts([3, 1, 3])
    UniqueCountsResult(values=array([1, 3]), counts=array([1, 2]))
    """
    values, _, _, counts = _unique("unique_counts", x, size, fill_value)
    return UniqueCountsResult(values, counts)


@implements(np.unique_inverse, gives="boxed")
def unique_inverse(
    x: ArrayLike, *, size: Size | None = None, fill_value: ArrayLike | None = None
) -> UniqueInverseResult:
    """Values, and the index of each element's value among them; every nan is a value of its own.

    >>> unique_inverse([3, 1, 3]).inverse_indices
    array([1, 0, 1])
    """
    values, _, inverse, _ = _unique("unique_inverse", x, size, fill_value)
    return UniqueInverseResult(values, inverse)


@implements(np.unique_values)
def unique_values(x: ArrayLike, *, size: Size | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The different elements in ascending order; every nan is a value of its own.

    >>> unique_values([3, 1, 3])
    array([1, 3])
    """
    return _unique("unique_values", x, size, fill_value)[0]


def _unique(name: str, x: ArrayLike, size: Size | None, fill_value: ArrayLike | None) -> Array:
    return unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)


# --- sets ------------------------------------------------------------------------------------------------------


@implements(np.isin, gives="boxed")
def isin(
    element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
    kind: str | None = None,
) -> Array:  # fmt: skip
    """For each element whether it is among ``test_elements``, in an array of its shape; nan is in no set.

    It is looked for by bisection of the sorted ``test_elements``; few and complex ones are compared with each.

    >>> isin([[1, 2], [3, 4]], [2, 4])
    array([[False,  True],
           [False,  True]])
    """
    x, among = as_array(element), ravel(test_elements)
    common = result_dtype("isin", (x, among))
    kept: Array | None = None  # which elements are themselves in the type they are looked for in
    if common.kind == "f" and x.dtype.kind + among.dtype.kind in ("iu", "ui"):  # int64 and uint64
        common = among.dtype
        kept = ew.equal(x, convert(x, common))
    x, among = convert(x, common), convert(among, common)
    (count,) = dims_of(among)
    if common.kind == "c" or (count.static is not None and count.static <= _FEW):
        found = reductions.any(ew.equal(b.reshape(x, shape=(*dims_of(x), dim(1))), among), -1)
    else:
        ordered = sort(among)
        indices = searchsorted(ordered, x)
        padded = b.pad(ordered, np.zeros((), common), low=(0,), high=(1,), interior=(0,))  # for what is behind all
        found = ew.logical_and(ew.less(indices, user_size(count)), ew.equal(take(padded, indices), x))
    found = found if kept is None else ew.logical_and(found, kept)
    return ew.logical_not(found) if invert else found


def _chosen(name: str, ordered: Array, flags: Array, size: Size | None, fill_value: ArrayLike | None) -> Array:
    """The elements of a sorted row where flags are true."""
    if size is None:
        return extract(flags, ordered, size=counted(flags, name, f"{name}(x, y, size=n)", ordered))
    indices, there = true_indices(flags, size)
    require(dims_of(ordered)[0], ">=", 1, "a set operation with size= needs an element")
    return where(there, b.take(ordered, indices, axis=0), _fill(ordered, fill_value))


def _rows(name: str, first: ArrayLike, second: ArrayLike) -> tuple[Array, Array, bool]:
    """Both sets as rows of one element type, and whether either is traced."""
    x, y = as_array(first), as_array(second)
    common = result_dtype(name, (x, y))
    return ravel(convert(x, common)), ravel(convert(y, common)), isinstance(x, Tracer) or isinstance(y, Tracer)


@implements(np.union1d)
def union1d(ar1: ArrayLike, ar2: ArrayLike, *, size: Size | None = None, fill_value: ArrayLike | None = None) -> Array:
    """The different elements of both arrays, in ascending order; ``size`` as for :func:`unique`.

    >>> union1d([3, 1], [2, 3])
    array([1, 2, 3])
    """
    return unique(concatenate(_rows("union1d", ar1, ar2)[:2]), size=size, fill_value=fill_value)


@implements(np.intersect1d)
def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False, *,
    size: Size | None = None, fill_value: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The different elements that both arrays have, in ascending order; ``size`` as for :func:`unique`.

    ``return_indices`` gives also the first index of each in both; on concrete arrays without ``size`` only.

    >>> intersect1d([3, 1, 3], [2, 3])
    array([3])
    """
    x, y, traced = _rows("intersect1d", ar1, ar2)
    if size is None and not traced:
        return _INTERSECTION(x, y, assume_unique, return_indices)
    if return_indices:
        raise UnsupportedError("intersect1d with return_indices= of traced arrays, or with size=", where=user_line(),
                               fix="call it before the traced function")  # fmt: skip
    ordered = sort(x)
    flags = ew.logical_and(_begins(ordered, True), isin(ordered, y))
    return _chosen("intersect1d", ordered, flags, size, fill_value)


@implements(np.setdiff1d)
def setdiff1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: Size | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The different elements of the first array that are not in the second; ``size`` as for :func:`unique`.

    >>> setdiff1d([3, 1, 2], [2])
    array([1, 3])
    """
    _, y, traced = _rows("setdiff1d", ar1, ar2)
    x = ravel(ar1)
    if size is None and not traced:
        return np.setdiff1d(x, y, assume_unique)
    ordered = x if size is None and assume_unique else sort(x)
    flags = isin(ordered, y, invert=True)
    if ordered is not x:
        flags = ew.logical_and(_begins(ordered, True), flags)
    return _chosen("setdiff1d", ordered, flags, size, fill_value)


@implements(np.setxor1d)
def setxor1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, size: Size | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The different elements that are in exactly one of both arrays; ``size`` as for :func:`unique`.

    >>> setxor1d([3, 1], [2, 3])
    array([1, 2])
    """
    x, y, traced = _rows("setxor1d", ar1, ar2)
    if size is None and not traced:
        return np.setxor1d(x, y, assume_unique)
    ordered = sort(concatenate((x, y)))
    one = ew.logical_and(_begins(ordered, True), ew.not_equal(isin(ordered, x), isin(ordered, y)))
    if kind_of(ordered.dtype) in "fc":  # nan is in neither: each array has its own
        own = ew.add(*(convert(reductions.any(ew.isnan(v)), INT64) for v in (x, y)))
        nans = ew.isnan(ordered)
        one = ew.logical_or(one, ew.logical_and(nans, ew.less_equal(cumsum(convert(nans, INT64)), own)))
    return _chosen("setxor1d", ordered, one, size, fill_value)
