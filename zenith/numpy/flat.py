"""``x.flat`` and ``x.view()``: an array's elements one after the other, and the array under another name.

``flat`` counts elements row by row, wherever they stand in memory. What is read of it is a copy, and what is written
begins again from the first value where there are fewer than places, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from zenith.errors import OutOfBoundsError, TraceError, UnsupportedError, user_line
from zenith.ir.dims import product
from zenith.ir.types import int64
from zenith.numpy.assignment import place, put
from zenith.numpy.operands import as_array, dims_of, lift
from zenith.numpy.shaping import reshape
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.tracer import Tracer


class Flat:
    """The elements of a traced array, row by row."""

    __slots__ = ("base",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, base: Tracer) -> None:
        self.base = base

    def __getitem__(self, index: Any) -> Any:
        return self.copy()[_one(self.base, index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        index = _one(self.base, index)
        if getattr(index, "dtype", None) == np.bool_:
            place(self.base, reshape(index, dims_of(self.base)), value)
        else:
            number = lift(b.iota(size=product(dims_of(self.base)), dtype=int64))
            put(self.base, number[index], value)

    def __len__(self) -> int:
        return len(self.copy())

    def __iter__(self) -> Iterator[Any]:
        for number in range(len(self)):  # one after the other: the loop's body may write into those that come
            yield self[number]

    def __eq__(self, other: Any) -> Any:
        return self.copy() == other

    def __ne__(self, other: Any) -> Any:
        return self.copy() != other

    def copy(self) -> Any:
        """All elements as an array of one axis."""
        return reshape(self.base, (product(dims_of(self.base)),)).renewed()

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TraceError("an iterator over a traced array, x.flat, is no array", where=user_line(),
                         types=(self.base.type,), fix="use x.ravel()")  # fmt: skip


def _one(base: Tracer, index: Any) -> Any:
    """An index of the one axis that an iterator has; OutOfBoundsError for what would make axes."""
    if any(i is None for i in (index if isinstance(index, tuple) else (index,))):
        raise OutOfBoundsError("x.flat has one axis, and None cannot add another", where=user_line(),
                               types=(base.type,), fix="use x.ravel()[index]")  # fmt: skip
    return index


@implements(gives="view")
def _flat(x: Any) -> Flat:
    """``x.flat``."""
    return Flat(as_array(x))


@implements(gives="view")
def _write_flat(x: Any, values: Any) -> None:
    """``x.flat = values``."""
    Flat(as_array(x))[:] = values


@implements(gives="view")
def _method_view(x: Any, dtype: Any = None, type: Any = None) -> Any:
    """``x.view()``: the array itself, as whatever is written into either is seen in both."""
    x = as_array(x)
    for wanted in (dtype, type):
        if wanted not in (None, np.ndarray) and np.dtype(wanted) != x.dtype:
            raise UnsupportedError(
                f"view: the bits of a traced {x.dtype} array cannot be read as {np.dtype(wanted)}", where=user_line(),
                types=(x.type,), fix="convert the values with astype, or pass the view as an argument of its own",
            )  # fmt: skip
    return x
