"""Indices that a program computes: by formulas of a loop's turn, or from values.

They are replaced in an index by what all others are: sizes, where a formula lies inside of its axis in every turn;
index arrays, where only the running program knows whether it does; slices of a data-dependent size, taken beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zenith.errors import TraceError, user_line
from zenith.ir.dims import Dim, dim
from zenith.numpy.basic_indices import normal_index
from zenith.numpy.operands import (
    INT64,
    as_array,
    asked_recorder,
    convert,
    dims_of,
    lift,
    static_int,
    strong,
    types_of,
)
from zenith.numpy.typing import Array
from zenith.trace.bind import b, graph_value
from zenith.trace.data_dependent import data_dependent_size
from zenith.trace.numbers import formula_of
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.size_relations import VaryingSize
from zenith.trace.sizes import TracedSize, size_dim, user_size
from zenith.trace.tracer import Tracer


def with_turns(x: Array, items: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    """The items, where a slice depends on the turn of a loop, with integers that do as sizes.

    ``a[i + 1 :, i]`` is then one slice of the array, which can be written in place.
    """
    bounds = [at for item in items if isinstance(item, slice) for at in (item.start, item.stop)]
    if not any(map(is_of_turn, bounds)):
        return list(items)
    sizes = dims_of(x)
    return [
        user_size(size_dim(i)) if isinstance(i, Tracer) and is_of_turn(i) and is_inside(i, sizes[axis]) else i
        for i, axis in zip(items, axes, strict=True)
    ]


def with_checked_integers(x: Array, items: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    """The items, with integers of which only the program knows whether they lie inside of an axis as index arrays."""
    found, recorder = list(items), asked_recorder()
    for position, (item, axis) in enumerate(zip(items, axes, strict=True)):
        size = item.dim if isinstance(item, TracedSize) else dim(0)
        if isinstance(item, (int, np.integer, TracedSize)) and recorder.varies(dims_of(x)[axis] - size):
            try:
                normal_index(item, dims_of(x)[axis])
            except VaryingSize:
                found[position] = lift(as_array(item))
    return found


def is_of_turn(at: object) -> bool:
    """Whether an integer is a formula with the turn of a loop in it."""
    size = formula_of(at) if isinstance(at, Tracer) and not at.ndim else at.dim if isinstance(at, TracedSize) else None
    return size is not None and asked_recorder().varies(size)


def is_inside(index: Tracer, size: Dim) -> bool:
    """Whether an index lies inside of an axis in all turns."""
    number, recorder = formula_of(index), asked_recorder()
    assert number is not None, "it is a formula with a turn in it"
    try:
        return recorder.holds(number, ">=", 0) and recorder.holds(size, ">", number)
    except VaryingSize:
        return False


def with_computed_slices(x: Array, items: Sequence[Any], axes: Sequence[int]) -> tuple[Array, list[Any]]:
    """The array and items, with slices between bounds that the program computes taken already."""
    found = list(items)
    for position, (item, axis) in enumerate(zip(items, axes, strict=True)):
        if isinstance(item, slice) and any(map(_is_computed, (item.start, item.stop))):
            x = _computed_slice(x, axis, item)
            found[position] = slice(None, None, item.step)
    return x, found


def _is_computed(bound: object) -> bool:
    """Whether a bound of a slice is a number that the program computes, and no size."""
    return isinstance(bound, Tracer) and bound.size_of() is None


def _computed_slice(x: Array, axis: int, item: slice) -> Array:
    """``x[start:stop]`` along an axis, as a view whose size the program computes."""
    recorder = current_recorder()
    bounds = [at for at in (item.start, item.stop) if isinstance(at, Tracer)]
    if recorder is None or not recorder.sized_loops or any(at.ndim or at.dtype.kind not in "iu" for at in bounds):
        raise TraceError(
            "a bound of a slice must be known before the program runs, not computed by it", where=user_line(),
            types=tuple(at.type for at in bounds), fix="compute it from shapes (x.shape[0]), or pass it as a static "
            "argument; a slice of known size at a computed start is zenith.dynamic_slice_in_dim(x, i, size)",
        )  # fmt: skip
    if item.step is not None and static_int(item.step, "the step of a slice") < 1:
        raise TraceError("a slice between computed bounds goes forward", where=user_line(), types=types_of(x),
                         fix="reverse what it gives: x[start:stop][::-1]")  # fmt: skip
    sizes = dims_of(x)
    start, stop = (
        _within(recorder, default if at is None else at, sizes[axis])
        for at, default in ((item.start, 0), (item.stop, user_size(sizes[axis])))
    )
    count = graph_value(recorder, np.maximum(stop - start, 0))
    given = {"start": item.start, "stop": item.stop}
    origin = {name: graph_value(recorder, as_array(at)) for name, at in given.items() if at is not None}
    size = data_dependent_size(recorder, count, sizes[axis], origin)
    starts = [start if a == axis else np.asarray(0, INT64) for a in range(len(sizes))]
    return b.dynamic_slice(x, *starts, sizes=tuple(size if a == axis else n for a, n in enumerate(sizes)), batch=0)


def _within(recorder: Recorder, bound: Any, size: Dim) -> Array:
    """A bound of a slice as an int64, from the start of the axis and between its ends."""
    at, end = (convert(strong(as_array(v)), INT64) for v in (bound, user_size(size)))
    return np.clip(np.where(at < 0, at + end, at), 0, end)
