"""Padding: elements added before and after those of each axis, in all of NumPy's modes.

Axes are padded one after another, so that corners follow from edges. Modes that repeat elements are one index map each,
from an index of the endlessly continued axis to one inside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from zenith.errors import ArgumentError, ShapeError, UnsupportedError, user_line
from zenith.ir.dims import Dim, minimum
from zenith.ir.types import int64, kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.casts import stored
from zenith.numpy.conditionals import where
from zenith.numpy.joining import concatenate, cut, flip
from zenith.numpy.operands import as_array, ask, convert, dims_of, require, require_count
from zenith.numpy.quantiles import median
from zenith.numpy.ranges import linspace
from zenith.numpy.shaping import broadcast_to, moveaxis, reshape
from zenith.numpy.typing import Array, ArrayLike, Size
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import size_dim, user_size

__all__ = ["pad"]

_OPTIONS = {
    "constant": "constant_values", "linear_ramp": "end_values", "maximum": "stat_length", "mean": "stat_length",
    "median": "stat_length", "minimum": "stat_length", "reflect": "reflect_type", "symmetric": "reflect_type",
    "edge": "", "wrap": "", "empty": "",
}  # fmt: skip
_STATISTICS: dict[str, Callable[..., Array]] = {
    "maximum": reductions.max, "minimum": reductions.min, "mean": reductions.mean, "median": median,
}  # fmt: skip


@implements(np.pad, gives="boxed")
def pad(array: ArrayLike, pad_width: Any, mode: str = "constant", **options: object) -> Array:
    """Elements added before and after those of each axis.

    Parameters
    ----------
    array: an array of any element type.
    pad_width: how many: one number, a pair (before, after), a pair for each axis, or a dict from axes to them; sizes
        such as ``x.shape[0]`` are numbers, too.
    mode: "constant", "edge", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect", "symmetric", "wrap" or
        "empty" (zeros here).
    options: of the modes: ``constant_values``, ``end_values`` and ``stat_length`` like ``pad_width``, and
        ``reflect_type`` "even" or "odd".

    Raises ArgumentError for another mode or option, ShapeError for a negative width and for an axis without elements
    that a mode would repeat, UnsupportedError for a function as mode.

    >>> pad([1, 2, 3], 2, mode="reflect")
    array([3, 2, 1, 2, 3, 2, 1])
    >>> pad([1, 2], (1, 2), constant_values=(8, 9))
    array([8, 1, 2, 9, 9])
    """
    _check(mode, options)
    x = as_array(array)
    widths = [tuple(size_dim(p, "pad: a width") for p in pair) for pair in _pairs(pad_width, x.ndim)]
    if any((p.static or 0) < 0 for pair in widths for p in pair):
        raise ShapeError("pad: a width is negative", where=user_line(), fix="use a slice to remove elements")
    for width in (p for pair in widths for p in pair):
        require_count(width, "pad: a width is negative")
    given = cast(Any, options.get(_OPTIONS[mode], 0 if mode in ("constant", "linear_ramp", "empty") else None))
    if mode in ("constant", "empty") and not isinstance(given, (list, tuple, dict)) and as_array(given).ndim == 0:
        starts, ends = (tuple(pair[i] for pair in widths) for i in (0, 1))
        return b.pad(x, stored(given, x.dtype), low=starts, high=ends, interior=(0,) * x.ndim)
    per_axis = [given] * x.ndim if mode in ("reflect", "symmetric") else _pairs(given, x.ndim)
    for axis, (low, high) in enumerate(widths):
        if not low == high == 0:
            x = _padded(x, axis, low, high, mode, per_axis[axis])
    return x


def _check(mode: str, options: dict[str, object]) -> None:
    if callable(mode):
        raise UnsupportedError("pad with a function: it would write into the padded array", where=user_line(),
                               fix="join the arrays with numpy.concatenate")  # fmt: skip
    if mode not in _OPTIONS:
        raise ArgumentError(f"pad: {mode!r} is no mode", where=user_line(), fix=f"use one of {', '.join(_OPTIONS)}")
    strange = sorted(set(options) - {_OPTIONS[mode]})
    if strange:
        raise ArgumentError(f"pad: mode {mode!r} has no option {', '.join(strange)}", where=user_line(),
                            fix=f"its option is {_OPTIONS[mode]}" if _OPTIONS[mode] else "leave it out")  # fmt: skip
    kind = options.get("reflect_type", "even")
    if kind not in ("even", "odd"):
        raise ArgumentError(f"pad: {kind!r} is no reflect_type", where=user_line(), fix="use 'even' or 'odd'")


def _pairs(given: Any, rank: int) -> list[tuple[Any, Any]]:
    """A pair (before, after) for each axis."""
    if isinstance(given, dict):
        return [_pair(given.get(a, given.get(a - rank, 0))) for a in range(rank)]
    items = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(items, (list, tuple)) or not any(isinstance(i, (list, tuple)) for i in items):
        return [_pair(items)] * rank
    if len(items) not in (1, rank):
        raise ShapeError(f"pad: {len(items)} pairs of widths for {rank} axes", where=user_line(),
                         fix="give a pair for each axis, or one for all")  # fmt: skip
    return [_pair(i) for i in items] * (rank if len(items) == 1 else 1)


def _pair(given: Any) -> tuple[Any, Any]:
    if isinstance(given, (list, tuple)) and len(given) not in (1, 2):
        raise ShapeError(f"pad: {len(given)} widths or values where there are one or two", where=user_line(),
                         fix="give a pair (before, after)")  # fmt: skip
    return (given[0], given[-1]) if isinstance(given, (list, tuple)) else (given, given)


def _padded(x: Array, axis: int, low: Dim, high: Dim, mode: str, option: Any) -> Array:
    """The array with one axis padded."""
    if mode in ("constant", "empty"):
        return _joined(x, axis, (low, high), [stored(v, x.dtype) for v in option])
    require(dims_of(x)[axis], ">=", 1, f"pad: mode {mode!r} has nothing to repeat on an axis without elements")
    if mode == "linear_ramp":
        return _ramped(x, axis, (low, high), option)
    if mode in _STATISTICS:
        return _joined(x, axis, (low, high), [_statistic(x, axis, mode, n, end) for end, n in enumerate(option)])
    return _with_borders(x, axis, low, high, mode, option == "odd")


def _with_borders(x: Array, axis: int, low: Dim, high: Dim, mode: str, odd: bool) -> Array:
    """The array with its own elements around it. Rows are moved whole; of a row, what is between borders is a copy."""
    size = dims_of(x)[axis]

    def around(start: Dim, count: Dim) -> Array:
        return _continued(x, axis, ew.add(b.iota(size=count, dtype=int64), user_size(start)), mode, odd)

    if axis < x.ndim - 1:
        return around(-low, low + size + high)
    return b.concat(around(-low, low), x, around(size, high), axis=axis)


def _edges(x: Array, axis: int) -> tuple[Array, Array]:
    """The first and the last elements along an axis, which keeps size 1."""
    size = dims_of(x)[axis]
    return cut(x, axis, 0, 1), cut(x, axis, size - 1, size)


def _joined(x: Array, axis: int, widths: Sequence[Dim], ends: Sequence[Array]) -> Array:
    """The array between two values, each repeated over its width."""
    own = dims_of(x)
    shapes = [tuple(user_size(w if a == axis else n) for a, n in enumerate(own)) for w in widths]
    before, after = (broadcast_to(end, shape) for end, shape in zip(ends, shapes, strict=True))
    return b.concat(before, x, after, axis=axis)


def _continued(x: Array, axis: int, index: ArrayLike, mode: str, odd: bool) -> Array:
    """The elements at indices of the endlessly continued axis."""
    size = user_size(dims_of(x)[axis])
    if mode == "edge":
        return b.take(x, ew.maximum(ew.minimum(index, size - 1), 0), axis=axis)
    if mode == "wrap":
        return b.take(x, ew.remainder(index, size), axis=axis)
    period = ew.maximum(2 * (size - 1), 1) if mode == "reflect" else ew.multiply(size, 2)
    mirrored = ew.subtract(period, ew.remainder(index, period))
    mirrored = ew.subtract(mirrored, 1) if mode == "symmetric" else mirrored
    rest = ew.remainder(index, period)
    reflected = ew.greater_equal(rest, size)
    found = b.take(x, where(reflected, mirrored, rest), axis=axis)
    return _odd(x, axis, found, reflected, ew.floor_divide(index, period)) if odd else found


def _odd(x: Array, axis: int, found: Array, reflected: Array, periods: Array) -> Array:
    """Odd reflection about the values of the edges: each period rises by twice the difference of the edges."""
    first, last = _edges(x, axis)
    shape = tuple(-1 if a == axis else 1 for a in range(x.ndim))
    reflected, periods = reshape(reflected, shape), convert(reshape(periods, shape), x.dtype)
    rise = ew.multiply(periods, ew.multiply(ew.subtract(last, first), convert(2, x.dtype)))
    return ew.add(where(reflected, ew.subtract(ew.multiply(last, convert(2, x.dtype)), found), found), rise)


def _statistic(x: Array, axis: int, mode: str, length: Size, end: int) -> Array:
    """A statistic of the first (``end`` 0) or last elements of an axis, which keeps size 1."""
    size = dims_of(x)[axis]
    count = size if length is None else minimum(size_dim(length, "pad: stat_length"), size)
    if count == 0 or not ask(count, ">=", 1):
        raise ShapeError("pad: stat_length must be 1 or more", where=user_line(), fix="use a positive number")
    section = cut(x, axis, 0, count) if end == 0 else cut(x, axis, size - count, size)
    found = _STATISTICS[mode](section, axis, keepdims=True)
    whole = kind_of(x.dtype) in "iu" and kind_of(found.dtype) == "f"
    return convert(ew.rint(found) if whole else found, x.dtype)


def _ramped(x: Array, axis: int, widths: Sequence[Dim], ends: Sequence[Array]) -> Array:
    """Even steps from the end values to the edges, which themselves are not repeated."""
    ramps = []
    for edge, end, width in zip(_edges(x, axis), ends, widths, strict=True):
        stop = b.reshape(edge, shape=tuple(n for a, n in enumerate(dims_of(edge)) if a != axis))
        start = broadcast_to(as_array(end), tuple(map(user_size, dims_of(stop))))
        ramps.append(moveaxis(linspace(start, stop, user_size(width), endpoint=False, dtype=x.dtype), 0, axis))
    return concatenate([ramps[0], x, flip(ramps[1], axis)], axis)
