"""Objects that are used with brackets: grids of slices, concatenated arrays, and stored index expressions.

NumPy's own ``np.r_[x, 0]`` converts every item to concrete values before it dispatches; these do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.errors import ArgumentError, TraceError, user_line
from zenith.ir.dims import dim
from zenith.numpy.broadcasting import align
from zenith.numpy.creation import arange
from zenith.numpy.index_arrays import along_one_axis
from zenith.numpy.joining import concatenate, stack
from zenith.numpy.operands import as_array, convert, dims_of, result_dtype
from zenith.numpy.ranges import linspace
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b
from zenith.trace.tracer import Tracer

__all__ = ["c_", "index_exp", "mgrid", "ogrid", "r_", "s_"]


def _range(item: slice) -> Array:
    """The numbers that a slice counts; a step ``5j`` asks for 5 of them, the last included."""
    start = 0 if item.start is None else item.start
    if isinstance(item.step, Tracer) and item.step.dtype.kind == "c":
        raise TraceError("the program computes how many points a grid has, as abs(step)", where=user_line(),
                         types=(item.step.type,), fix="use numpy.linspace(start, stop, n)")  # fmt: skip
    if isinstance(item.step, complex):
        return linspace(start, item.stop, int(abs(item.step)))
    return arange(start, item.stop, 1 if item.step is None else item.step)


class Grid:
    """``mgrid[0:3, 0:2]``: coordinates of grids from slices; ``sparse`` ones vary along their own axis only.

    A step ``5j`` asks for 5 points, the last included. Bounds may be traced sizes.

    >>> mgrid[0:2, 0:3][0]
    array([[0, 0, 0],
           [1, 1, 1]])
    >>> ogrid[0:1:3j]
    array([0. , 0.5, 1. ])
    """

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _range(key)
        ranges = [_range(item) for item in key]
        common = np.result_type(*(p.dtype for p in ranges))
        rows = [along_one_axis(convert(p, common), i, len(ranges)) for i, p in enumerate(ranges)]
        if self.sparse:
            return tuple(rows)
        grid = stack(align("mgrid", rows))
        return grid.renewed(in_rows=True) if isinstance(grid, Tracer) else grid


class Joined:
    """``r_[x, 0, 1:4]``: arrays, numbers and the ranges of slices, concatenated.

    They are joined along ``axis`` and have ``rank`` axes at least: the first of their own is then at ``first``, -1 for
    new axes in front. A string as the first item, such as ``"0,2"``, gives another axis, rank and ``first``.

    Raises ArgumentError for other strings: in NumPy they make matrices, which Zenith does not have.

    >>> r_[[1, 2], 0, 3:5]
    array([1, 2, 0, 3, 4])
    >>> c_[[1, 2], [3, 4]]
    array([[1, 3],
           [2, 4]])
    >>> r_["0,2", [1, 2], [3, 4]]
    array([[1, 2],
           [3, 4]])
    """

    def __init__(self, axis: int, rank: int, first: int) -> None:
        self.form = (axis, rank, first)

    def __getitem__(self, key: Any) -> Array:
        items = key if isinstance(key, tuple) else (key,)
        axis, rank, first = self.form
        if items and isinstance(items[0], str):
            (axis, rank, first), items = self._parse_form(items[0]), items[1:]
        arrays = [_range(item) if isinstance(item, slice) else item for item in items]
        dtype = result_dtype("r_", arrays) if arrays else None
        return concatenate([_with_axes(convert(p, dtype), rank, first) for p in arrays if dtype is not None], axis)

    def _parse_form(self, text: str) -> tuple[int, int, int]:
        """Axis, rank and ``first`` from a string, which gives the first of them at least."""
        try:
            given = [int(number) for number in text.split(",")]
        except ValueError:
            given = []
        if not 1 <= len(given) <= 3:
            raise ArgumentError(f"r_: the text {text!r} says nothing of arrays", where=user_line(),
                                fix="write 'axis', 'axis,rank' or 'axis,rank,first', such as '0,2'")  # fmt: skip
        axis, rank, first = (*given, *self.form[len(given) :])
        return axis, rank, first


def _with_axes(value: ArrayLike, rank: int, first: int) -> Array:
    """An array of at least ``rank`` axes: new ones before and after its own, the first of which is axis ``first``."""
    x = as_array(value)
    missing = rank - x.ndim
    if missing <= 0:
        return x
    before = first + missing + 1 if first < 0 else first
    return b.reshape(x, shape=(*[dim(1)] * before, *dims_of(x), *[dim(1)] * (missing - before)))


mgrid, ogrid = Grid(False), Grid(True)
r_, c_ = Joined(0, 1, -1), Joined(-1, 2, 0)
s_, index_exp = np.s_, np.index_exp
