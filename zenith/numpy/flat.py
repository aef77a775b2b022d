"""``x.flat`` and ``x.view()``: an array's elements one after the other, and the array under another name or type.

``flat`` counts elements row by row, whatever their order in memory. What is read of it is a copy, and fewer values than
elements are written repeatedly from the first on, as in NumPy. A view as another type is computed: numbers from the
bits of others, real and imaginary parts of complex numbers side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, cast

import numpy as np

from zenith.errors import OutOfBoundsError, TraceError, UnsupportedError, user_line
from zenith.ir.dims import product
from zenith.ir.types import NumPyType, int64
from zenith.numpy.in_place import place, put
from zenith.numpy.joining import stack
from zenith.numpy.operands import as_array, compute_dtype, dims_of, lift
from zenith.numpy.shaping import reshape
from zenith.numpy.typing import Array, DTypeLike
from zenith.trace.bind import b, known_dtype
from zenith.trace.dispatch import implements
from zenith.trace.tracer import Tracer


class Flat:
    """The elements of a traced array, row by row."""

    __slots__ = ("base",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, base: Tracer) -> None:
        self.base = base

    def __getitem__(self, index: object) -> Array:
        return self.copy()[_flat_index(self.base, index)]

    def __setitem__(self, index: object, value: Array) -> None:
        index = _flat_index(self.base, index)
        if getattr(index, "dtype", None) == np.bool_:
            place(self.base, reshape(index, dims_of(self.base)), value)
        else:
            number = lift(b.iota(size=product(dims_of(self.base)), dtype=int64))
            put(self.base, number[index], value)

    def __len__(self) -> int:
        return len(self.copy())

    def __iter__(self) -> Iterator[Array]:
        for number in range(len(self)):  # one after the other: the loop's body may write into those that come
            yield self[number]

    def __eq__(self, other: object) -> Any:
        return self.copy() == other

    def __ne__(self, other: object) -> Any:
        return self.copy() != other

    def copy(self) -> Array:
        """All elements as an array of one axis."""
        return cast(Tracer, reshape(self.base, (product(dims_of(self.base)),))).renewed()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NoReturn:
        raise TraceError("an iterator over a traced array, x.flat, is no array", where=user_line(),
                         types=(self.base.type,), fix="use x.ravel()")  # fmt: skip


def _flat_index(base: Tracer, index: object) -> object:
    """An index of the one axis that an iterator has; OutOfBoundsError for what would make axes."""
    if any(i is None for i in (index if isinstance(index, tuple) else (index,))):
        raise OutOfBoundsError("x.flat has one axis, and None cannot add another", where=user_line(),
                               types=(base.type,), fix="use x.ravel()[index]")  # fmt: skip
    return index


@implements(gives="view")
def _flat(x: Array) -> Flat:
    """``x.flat``."""
    return Flat(cast(Tracer, as_array(x)))


@implements(gives="view")
def _write_flat(x: Array, values: Array) -> None:
    """``x.flat = values``."""
    Flat(cast(Tracer, as_array(x)))[:] = values


@implements(gives="view")
def _method_view(x: Tracer, dtype: DTypeLike | None = None, type: Any = None) -> Array:
    """``x.view()``: the array itself, as whatever is written into either is seen in both.

    As another type it is an array that can be read; after a write into one of the two the other must not be used.
    """
    x = cast(Tracer, as_array(x))
    for wanted in (dtype, type):
        if wanted not in (None, np.ndarray) and np.dtype(wanted) != x.dtype:
            found = cast(Tracer, _read_as(x, compute_dtype("view", np.dtype(wanted))))
            found.may_show(x, "view")
            return found
    return x


def _read_as(x: Tracer, wanted: NumPyType) -> Array:
    """The numbers whose bits are those of ``x``; UnsupportedError where that is not one number for one or two."""
    given, target = x.dtype, known_dtype(wanted)
    complex_types = f"c{2 * wanted.itemsize}", f"c{2 * given.itemsize}"
    if x.ndim and wanted.kind == "f" and given == complex_types[0]:
        pairs = stack((x.real, x.imag), -1)
        return reshape(pairs, (*dims_of(x)[:-1], 2 * dims_of(x)[-1]))
    if x.ndim and given.kind == "f" and wanted == complex_types[1]:
        pairs = reshape(x, (*dims_of(x)[:-1], -1, 2))
        return b.complex(pairs[..., 0], pairs[..., 1])
    if given.itemsize == wanted.itemsize and given.kind + wanted.kind in ("iu", "ui", "bi", "bu"):
        return b.cast(x, dtype=target)
    if given.itemsize == wanted.itemsize >= 4 and given.kind in "iuf" and wanted.kind in "iuf":
        signed = known_dtype(np.dtype(f"i{given.itemsize}"))
        return b.cast(b.float_bits(x), dtype=target) if given.kind == "f" else b.bits_float(b.cast(x, dtype=signed))
    raise UnsupportedError(
        f"view: the bits of a traced {given} array cannot be read as {wanted}", where=user_line(),
        types=(x.type,), fix="convert the values with astype, or pass the view as an argument of its own",
    )  # fmt: skip
