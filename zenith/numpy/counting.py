"""Counting: bincount, histograms and their bin edges. Counts are sums at computed indices, a scatter."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from zenith.errors import ArgumentError, TraceError, UnsupportedError, user_line
from zenith.ir.dims import Dim, dim, product
from zenith.ir.types import NumPyType
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.conditionals import where
from zenith.numpy.operands import (
    FLOAT64,
    INT64,
    as_array,
    ask,
    compute_array,
    convert,
    dims_of,
    require,
    result_dtype,
    sizes_of,
    static_int,
)
from zenith.numpy.ranges import linspace
from zenith.numpy.searching import row, searchsorted
from zenith.numpy.typing import Array, ArrayLike, Size
from zenith.trace.bind import b, known_dtype
from zenith.trace.dispatch import implements
from zenith.trace.sizes import user_size
from zenith.trace.tracer import Tracer

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def _sums_at(indices: Array, weights: Array | None, count: Dim, dtype: NumPyType) -> Array:
    """For each of ``count`` bins the sum of the weights whose index it is; weights of one where there are none."""
    given = np.ones((), dtype) if weights is None else convert(weights, dtype)
    spread = given if weights is not None else b.broadcast(given, shape=dims_of(indices), axes=())
    return b.scatter_add(b.full(0, known_dtype(dtype), (count,)), spread, indices)


@implements(np.bincount)
def bincount(
    x: ArrayLike, /, weights: ArrayLike | None = None, minlength: Size = 0, *, length: Size | None = None
) -> Array:
    """How often each of the numbers 0, 1, 2 ... is in a row, as int64; with ``weights`` their sums, in float64.

    Parameters
    ----------
    x: an array of one axis of integers that are not negative.
    weights: a number for each of them.
    minlength: the least size of the result, where values determine its size; in a traced function its size.
    length: the size of the result. A number that is not below it is an error when the program runs.

    Raises TraceError for a traced ``x`` without either.

    >>> bincount([1, 3, 1]), bincount([1, 0], weights=[0.5, 2.0], length=3)
    (array([0, 2, 0, 1]), array([2. , 0.5, 0. ]))
    """
    numbers = row("bincount", x, "its numbers")
    if length is None and (isinstance(numbers, Tracer) or isinstance(weights, Tracer)):
        length = minlength
        if isinstance(minlength, int) and minlength == 0:
            raise TraceError(
                "bincount: the size of its result depends on values, which exist only when the program runs",
                where=user_line(),
                types=tuple(a.type for a in (numbers, weights) if isinstance(a, Tracer)),
                fix="say how many counts there are: numpy.bincount(x, minlength=n), for numbers below n",
            )
    if length is None:
        return np.bincount(numbers, None if weights is None else as_array(weights), static_int(minlength, "minlength"))
    if numbers.dtype.kind not in "bui":
        raise ArgumentError(f"bincount counts integers, not {numbers.dtype}", where=user_line(), fix="cast them first")
    (count,) = sizes_of(length, "length")
    if weights is not None:
        weights = row("bincount", weights, "weights")
        require(dims_of(weights)[0], "==", dims_of(numbers)[0], "bincount: there must be as many weights as numbers")
    return _sums_at(convert(numbers, INT64), weights, count, INT64 if weights is None else FLOAT64)


@implements(np.histogram_bin_edges)
def histogram_bin_edges(
    a: ArrayLike, bins: ArrayLike = 10, range: Sequence[ArrayLike] | None = None, weights: ArrayLike | None = None
) -> Array:
    """The edges of the bins of :func:`histogram`, one more than there are bins.

    >>> histogram_bin_edges([0, 4, 2], bins=4)
    array([0., 1., 2., 3., 4.])
    """
    x = _flat("histogram_bin_edges", a)
    return _bin_edges(x, bins, *_limits(x, range)) if _is_count(bins) else _given_edges(bins)


@implements(np.histogram)
def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Sequence[ArrayLike] | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """How many elements are in each bin, and the edges of the bins; the last bin contains its right edge.

    Parameters
    ----------
    a: an array of numbers, of any shape.
    bins: a number of bins of one width, or their edges in ascending order.
    range: where bins of one width begin and end; by default the smallest and the largest element.
    density: whether to return the counts over their sum and the widths.
    weights: what each element counts, of the shape of ``a``.

    Elements outside of the bins, and nan, count nowhere. Raises ArgumentError for edges that fall, for a number of
    bins below 1, and at once for elements that are not finite where ``range`` is not given: a program, which cannot
    look at them, makes edges of nan and infinities. UnsupportedError for bins by the name of a rule, whose number would
    depend on values.

    >>> histogram([1, 2, 1, 4], bins=[0, 1, 2, 4])
    (array([0, 2, 2]), array([0, 1, 2, 4]))
    """
    x = _flat("histogram", a)
    if _is_count(bins):
        low, high = _limits(x, range)
        edges = _bin_edges(x, bins, low, high)
        indices = _even_bins(x, edges, low, high)
    else:
        edges = _given_edges(bins)
        indices = ew.subtract(searchsorted(edges, x, "right"), 1)
    last = user_size(dims_of(edges)[0] - 2)
    there = ew.logical_and(ew.greater_equal(x, edges[0]), ew.less_equal(x, edges[-1]))
    indices = where(there, ew.maximum(ew.minimum(indices, last), 0), 0)
    of_each = _weights(x, weights)
    counted = where(there, of_each, np.zeros((), of_each.dtype))
    counts = _sums_at(convert(indices, INT64), counted, dims_of(edges)[0] - 1, counted.dtype)
    if not density:
        return counts, edges
    widths = convert(ew.subtract(edges[1:], edges[:-1]), FLOAT64)
    return ew.divide(ew.divide(counts, widths), reductions.sum(counts)), edges


@implements(np.histogramdd)
def histogramdd(
    sample: ArrayLike, bins: ArrayLike = 10, range: Sequence[ArrayLike] | None = None, density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, tuple[Array, ...]]:  # fmt: skip
    """How many points are in each bin of a grid, as float64, and the edges of the bins along each axis.

    Parameters
    ----------
    sample: points (n, d), or a sequence of their d coordinates (n,) each.
    bins: what :func:`histogram` takes, for all axes or a sequence for each.
    range: a sequence of where bins of one width begin and end, for each axis; None for the extremes.
    density: whether to return the counts over their sum and the bins' volumes.
    weights: what each point counts (n,).

    Points outside of the bins, and nan, count nowhere. Raises ArgumentError as :func:`histogram` does, and where there
    are not as many bins or ranges as axes.

    >>> counts, (x, y) = histogramdd(([0.5, 1.5, 1.6], [0.1, 0.2, 0.9]), bins=([0, 1, 2], [0, 0.5, 1]))
    >>> counts
    array([[1., 0.],
           [1., 1.]])
    """
    axes = _coordinates(sample)
    bins = bins if isinstance(bins, (tuple, list)) else [bins] * len(axes)
    ranges = [None] * len(axes) if range is None else range
    for given, word in ((bins, "bins"), (ranges, "ranges")):
        if len(given) != len(axes):
            raise ArgumentError(f"histogramdd: there are {len(given)} {word} for {len(axes)} axes", where=user_line(),
                                fix="say as many as a point has coordinates")  # fmt: skip
    all_edges = tuple(
        linspace(*_limits(x, limits), _count_of(count) + 1) if _is_count(count) else _given_edges(count)
        for x, count, limits in zip(axes, bins, ranges, strict=True)
    )
    index: ArrayLike = np.zeros((), INT64)
    there: Any = np.ones((), np.dtype(bool))
    for x, edges in zip(axes, all_edges, strict=True):
        size = user_size(dims_of(edges)[0] - 1)
        own = ew.minimum(ew.subtract(searchsorted(edges, x, "right"), 1), ew.subtract(size, 1))
        index = ew.add(ew.multiply(index, size), ew.maximum(own, 0))
        there = ew.logical_and(there, ew.logical_and(ew.greater_equal(x, edges[0]), ew.less_equal(x, edges[-1])))
    counted = where(there, _weights(axes[0], weights), 0)
    shape = tuple(dims_of(edges)[0] - 1 for edges in all_edges)
    counts = _sums_at(convert(where(there, index, 0), INT64), counted, product(shape), FLOAT64)
    counts = b.reshape(counts, shape=shape)
    return _density(counts, all_edges) if density else counts, all_edges


@implements(np.histogram2d)
def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: ArrayLike = 10, range: Sequence[ArrayLike] | None = None,
    density: bool | None = None, weights: ArrayLike | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """:func:`histogramdd` of points with two coordinates; ``bins`` may be the edges of both axes.

    >>> histogram2d([0.5, 1.5], [0.1, 0.9], bins=[0, 1, 2])[0]
    array([[1., 0.],
           [1., 0.]])
    """
    several = isinstance(bins, (tuple, list)) and len(bins) not in (1, 2)
    alike = several or (not isinstance(bins, (tuple, list)) and as_array(bins).ndim == 1)
    counts, (of_x, of_y) = histogramdd((x, y), [bins, bins] if alike else bins, range, density, weights)
    return counts, of_x, of_y


def _coordinates(sample: ArrayLike) -> list[Array]:
    """A row for each coordinate of points."""
    if isinstance(sample, (tuple, list)):
        rows = [row("histogramdd", x, "coordinates") for x in sample]
    else:
        points = compute_array("histogramdd", sample)
        points = b.reshape(points, shape=(*dims_of(points), dim(1))) if points.ndim == 1 else points
        if points.ndim != 2:
            raise ArgumentError("histogramdd takes points (n, d)", where=user_line(), fix="reshape them")
        rows = [points[:, i] for i in builtins.range(static_int(points.shape[1], "histogramdd: the coordinates"))]
    for x in rows[1:]:
        require(dims_of(x)[0], "==", dims_of(rows[0])[0], "histogramdd: there must be as many of each coordinate")
    common = result_dtype("histogramdd", rows)
    return [_flat("histogramdd", convert(x, common)) for x in rows]


def _density(counts: Array, all_edges: Sequence[Array]) -> Array:
    total = reductions.sum(counts)
    for axis, edges in enumerate(all_edges):
        widths = convert(ew.subtract(edges[1:], edges[:-1]), FLOAT64)
        shape = tuple(dims_of(widths)[0] if i == axis else dim(1) for i in builtins.range(len(all_edges)))
        counts = ew.divide(counts, b.reshape(widths, shape=shape))
    return ew.divide(counts, total)


def _flat(name: str, a: ArrayLike) -> Array:
    x = compute_array(name, a)
    x = convert(x, np.dtype(np.uint8)) if x.dtype.kind == "b" else x
    return b.reshape(x, shape=(product(dims_of(x)),))


def _weights(x: Array, weights: ArrayLike | None) -> Array:
    """What each element counts: one where no weights are given."""
    if weights is None:
        return np.ones((), INT64)
    w = compute_array("histogram", weights)
    flat = b.reshape(w, shape=(product(dims_of(w)),))
    require(dims_of(flat)[0], "==", dims_of(x)[0], "histogram: there must be as many weights as elements")
    return flat


def _is_count(bins: ArrayLike) -> bool:
    """Whether bins are given by their number."""
    if isinstance(bins, str):
        raise UnsupportedError(
            f"histogram: the number of bins by the rule {bins!r} depends on values",
            where=user_line(),
            fix="say the number of bins, or call numpy.histogram_bin_edges before the traced function",
        )
    return as_array(bins).ndim == 0


def _given_edges(bins: ArrayLike) -> Array:
    edges = row("histogram", bins, "edges")
    require(dims_of(edges)[0], ">=", 2, "histogram needs a bin, which has two borders")
    if not isinstance(edges, Tracer) and (edges[:-1] > edges[1:]).any():
        raise ArgumentError(
            "histogram: the borders of bins must be in ascending order",
            where=user_line(),
            fix="sort them first: numpy.sort(bins)",
        )
    return edges


def _limits(x: Array, range: Any) -> tuple[Array, ...]:
    """Where bins of one width begin and end: a range of width 1 around a single value, from 0 to 1 for no elements."""
    if range is not None:
        low, high = range
        concrete = not isinstance(low, Tracer) and not isinstance(high, Tracer)
        if concrete and not low <= high:
            raise ArgumentError(
                "histogram: the range must end after its beginning",
                where=user_line(),
                fix="say (low, high) with low below high",
            )
        _require_finite(low, high, "the range")
    elif not ask(dims_of(x)[0], ">=", 1):
        low, high = 0.0, 1.0
    else:
        low, high = reductions.min(x), reductions.max(x)
        _require_finite(low, high, "the elements")
    if not isinstance(low, Tracer) and not isinstance(high, Tracer):
        return (low - 0.5, high + 0.5) if low == high else (low, high)
    one = ew.equal(low, high)
    return tuple(where(one, ew.add(end, shift), end) for end, shift in ((low, -0.5), (high, 0.5)))


def _require_finite(low: Array, high: Array, what: str) -> None:
    """ArgumentError for ends of bins that are known and not finite."""
    if not isinstance(low, Tracer) and not isinstance(high, Tracer) and not np.isfinite([low, high]).all():
        raise ArgumentError(f"histogram: {what} must be finite", where=user_line(),
                            fix="say range= with finite ends, or leave other elements out")  # fmt: skip


def _count_of(bins: ArrayLike) -> int:
    count = static_int(bins, "histogram: bins")
    if count < 1:
        raise ArgumentError(f"histogram: {count} bins", where=user_line(), fix="use one bin or more")
    return count


def _bin_edges(x: Array, bins: ArrayLike, low: Array, high: Array) -> Array:
    count = _count_of(bins)
    dtype = result_dtype("histogram", (low, high, x))
    dtype = np.result_type(dtype, FLOAT64) if dtype.kind in "iub" else dtype
    return convert(linspace(low, high, count + 1), dtype)


def _even_bins(x: Array, edges: Array, low: Array, high: Array) -> Array:
    """The bin of each element, by its distance from the first edge, and corrected by comparing with the bin's edges."""
    count, dtype = dims_of(edges)[0] - dim(1), edges.dtype
    own = convert(x, dtype)
    low, high = convert(low, dtype), convert(high, dtype)
    share = ew.divide(ew.subtract(own, low), ew.subtract(high, low))
    number = ew.multiply(share, user_size(count))
    inside = ew.logical_and(ew.greater_equal(number, 0), ew.less_equal(number, user_size(count)))
    last = user_size(count - 1)
    index = ew.minimum(convert(where(inside, number, 0), INT64), last)
    index = ew.subtract(index, convert(ew.less(own, b.take(edges, index, axis=0)), INT64))
    index = ew.maximum(index, 0)
    above = ew.greater_equal(own, b.take(edges, ew.add(index, 1), axis=0))
    return ew.minimum(ew.add(index, convert(above, INT64)), last)
