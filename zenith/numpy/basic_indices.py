"""Basic indices: the views that ints, slices and None select.

Where sizes are not fixed, an index outside of an axis is the user's error (a requirement), and whether a slice is
clipped is a branch (an assumption).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zenith.errors import OutOfBoundsError, ShapeError, TraceError, user_line
from zenith.ir.dims import Dim, dim, maximum, minimum
from zenith.numpy.operands import ask, asked_recorder, dims_of, require, static_int
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b
from zenith.trace.size_relations import VaryingSize
from zenith.trace.sizes import size_dim


@dataclass(frozen=True, slots=True)
class Range:
    """A slice with its bounds found: ``start:stop`` of the axis, reversed or not, every ``step``-th."""

    start: Dim
    stop: Dim
    step: int
    reverse: bool


def basic(x: Array, items: Sequence[Any]) -> Array:
    """The view that ints, slices and None select, one for each axis or new axis."""
    sizes = iter(dims_of(x))
    ranges: list[Range] = []
    shape: list[Dim] = []
    for item in items:
        if item is None:
            shape.append(dim(1))
            continue
        size = next(sizes)
        if isinstance(item, slice):
            ranges.append(find_range(item, size))
            shape.append(_length(ranges[-1]))
        else:
            number = normal_index(item, size)
            ranges.append(Range(number, number + 1, 1, False))
    result = _apply_ranges(x, ranges)
    return result if dims_of(result) == tuple(shape) else b.reshape(result, shape=tuple(shape))


def _length(r: Range) -> Dim:
    return (r.stop - r.start + (r.step - 1)) // r.step


def _apply_ranges(x: Array, ranges: Sequence[Range]) -> Array:
    """Slice, reverse, and step: a reversed axis is sliced first, and stepped once it is reversed."""
    sizes = dims_of(x)
    step = tuple(1 if r.reverse else r.step for r in ranges)
    whole = all(r.start == 0 and r.stop == n and s == 1 for r, n, s in zip(ranges, sizes, step, strict=True))
    if not whole:
        x = b.slice(x, start=tuple(r.start for r in ranges), stop=tuple(r.stop for r in ranges), step=step)
    reversed_axes = tuple(a for a, r in enumerate(ranges) if r.reverse)
    if reversed_axes:
        x = b.reverse(x, axes=reversed_axes)
    if any(r.reverse and r.step > 1 for r in ranges):
        sizes = dims_of(x)
        last_step = tuple(r.step if r.reverse else 1 for r in ranges)
        x = b.slice(x, start=(0,) * len(sizes), stop=sizes, step=last_step)
    return x


def normal_index(index: ArrayLike, size: Dim) -> Dim:
    """An index counted from 0; demands that it is inside the axis."""
    if isinstance(index, float):
        raise TraceError("an index must be an integer or a slice, not a float", where=user_line(), fix="use int or //")
    number = size_dim(index, "an index")
    if (number.static is None and ask(number, "<", 0)) or (number.static or 0) < 0:
        number = size + number
    text = f"index {index} is out of bounds for an axis of size {size}"
    require(number, ">=", 0, text, OutOfBoundsError)
    require(size, ">", number, text, OutOfBoundsError)
    return number


def find_range(item: slice, size: Dim) -> Range:
    """The elements that a slice takes of an axis, clipped as in NumPy."""
    step = 1 if item.step is None else static_int(item.step, "the step of a slice")
    if step == 0:
        raise ShapeError("the step of a slice cannot be zero", where=user_line(), fix="use a step other than zero")
    if step > 0:
        first = dim(0) if item.start is None else _from_start(item.start, size, dim(0))
        start = _extreme(minimum, first, size)
        stop = size if item.stop is None else _extreme(minimum, _from_start(item.stop, size, dim(0)), size)
        # ``first`` may be beyond the end, where nothing is left either: a simpler formula than that of ``start``.
        return Range(start, start + _extreme(maximum, stop - first, dim(0)), step, False)
    stop = size if item.start is None else _extreme(minimum, _from_start(item.start, size, dim(-1)), size - 1) + 1
    start = dim(0) if item.stop is None else _extreme(minimum, _from_start(item.stop, size, dim(-1)), size - 1) + 1
    return Range(start, _extreme(maximum, stop, start), -step, True)


def _extreme(choose: Callable[[Dim, Dim], Dim], a: Dim, b: Dim) -> Dim:
    """The larger or smaller of two sizes; a formula of both where it differs from turn to turn of a loop."""
    try:
        return a if asked_recorder().holds(a, "<=" if choose is minimum else ">=", b) else b
    except VaryingSize:
        return choose(a, b)


def _from_start(bound: ArrayLike, size: Dim, low: Dim) -> Dim:
    """A slice's bound from the start of the axis, ``low`` at least."""
    value = size_dim(bound, "a bound of a slice")
    return _extreme(maximum, size + value, low) if ask(value, "<", 0) else value
