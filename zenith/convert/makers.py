"""NumPy's functions that make arrays, and its types of numbers: what converted functions call in place of them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, cast

import numpy as np

import zenith.numpy as znp
from zenith.convert.lists import sized_list, stacked_rows
from zenith.convert.numpy_functions import arrays_of
from zenith.convert.typing import Function
from zenith.convert.values import holds_traced
from zenith.ir.types import DTYPES
from zenith.numpy.typing import Array, ArrayLike, DTypeLike
from zenith.trace.bind import b
from zenith.trace.dispatch import Unsized
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer

T = TypeVar("T")

# NumPy's functions that make arrays: inside of a trace they make arrays of the program, which can be written.
_MAKERS = (
    "zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like", "arange", "linspace", "eye",
    "identity", "array", "copy",
)  # fmt: skip


def _maker(name: str) -> Function:
    plain, ours = getattr(np, name), getattr(znp, name)

    @functools.wraps(plain)
    def make(*args: object, **kwargs: object) -> object:
        args = tuple(map(stacked_rows, args))
        if current_recorder() is None or _holds_objects(args, kwargs):
            return plain(*args, **kwargs)
        return traced_array(ours(*args, **kwargs))

    return make


# Those that make arrays of formulas: of the program where they are asked for a size or number of the program's.
_OF_SIZES = (
    "tri", "indices", "hanning", "hamming", "blackman", "bartlett", "kaiser", "logspace", "geomspace",
    "diag_indices", "tril_indices", "triu_indices", "fft.fftfreq", "fft.rfftfreq",
)  # fmt: skip


def _of_sizes(name: str) -> Function:
    plain, ours = operator.attrgetter(name)(np), operator.attrgetter(name)(znp)

    @functools.wraps(plain)
    def make(*args: object, **kwargs: object) -> object:
        return (ours if holds_traced((args, kwargs)) else plain)(*args, **kwargs)

    return make


def _broadcast_to(array: Any, *args: Any, **kwargs: Any) -> Array:
    """``numpy.broadcast_to`` a shape of the program's: what cannot be written."""
    if isinstance(array, Tracer) or not holds_traced((args, kwargs)):
        return np.broadcast_to(array, *args, **kwargs)
    return cast(Tracer, znp.broadcast_to(array, *args, **kwargs)).renewed(read_only=True)


def _scalar_type(kind: type[np.generic]) -> Function:
    """``numpy.float64`` and its like: a number of the program's in this type, or what ``numpy.asarray`` gives."""

    def make(*args: Any, **kwargs: object) -> object:
        is_pair = len(args) == 2 and issubclass(kind, np.complexfloating) and holds_traced(args)
        if is_pair and not any(map(znp.iscomplexobj, args)):
            args = (complex_of(*args),)
        if len(args) == 1 and not kwargs and _is_python_integer(args[0]) and not _holds(kind, args[0]):
            args = (_within(kind, args[0]),)
        if len(args) != 1 or kwargs or not holds_traced(args) or not _holds(kind, args[0]):
            return kind(*args, **kwargs)
        found = cast(Tracer, znp.asarray(args[0], dtype=kind))
        return found if found.ndim else found.renewed()

    return make


def _is_python_integer(value: object) -> bool:
    return isinstance(value, Tracer) and value.weak and value.dtype.kind == "i"


def _within(kind: type[np.generic], value: Tracer) -> Tracer:
    """An integer of Python's as one of NumPy's, which is checked to be one of a type when the program runs."""
    ends = np.iinfo(kind)  # type: ignore[type-var]
    most = min(int(ends.max), np.iinfo(np.int64).max)
    wrong = np.logical_or(np.less(value, max(int(ends.min), np.iinfo(np.int64).min)), np.greater(value, most))
    why = f"a Python integer is out of bounds for {kind.__name__}"
    checked: Tracer = b.error_if(np.int64(0) + value, wrong, why=why)
    return checked


def _holds(kind: type[np.generic], value: object) -> bool:
    """Whether a type has every number that a size, or a number of Python's, may be: else NumPy needs to see it."""
    if isinstance(value, TracedSize):
        return not issubclass(kind, np.integer) or kind is np.int64
    if not (isinstance(value, Tracer) and value.weak):
        return True
    if value.dtype.kind == "c":
        return issubclass(kind, np.complexfloating)
    return value.dtype.kind != "i" or not issubclass(kind, np.integer) or kind is np.int64


def complex_of(real: ArrayLike, imag: ArrayLike) -> Array:
    """The complex number of two parts: exactly these, infinite ones, too."""
    x, y = (znp.asarray(part) for part in (real, imag))
    if "c" in (x.dtype.kind, y.dtype.kind):
        x, y = x.real - y.imag, x.imag + y.real
    joined: Array = b.complex(*(part.astype(np.float64) for part in (x, y)))
    return joined


class _Indexed(Protocol):
    """What makes an array of what is between brackets."""

    def __getitem__(self, key: object, /) -> object: ...


class _Brackets:
    """``numpy.mgrid`` and its like: of the program where what is between the brackets is."""

    def __init__(self, plain: _Indexed, ours: _Indexed) -> None:
        self._plain, self._ours = plain, ours

    def __getitem__(self, key: object) -> object:
        items = [i.array() if isinstance(i, Unsized) else i for i in (key if isinstance(key, tuple) else (key,))]
        parts = [(i.start, i.stop, i.step) if isinstance(i, slice) else i for i in items]
        return (self._ours if holds_traced(parts) else self._plain)[
            tuple(items) if isinstance(key, tuple) else items[0]
        ]


_BRACKETS = {
    getattr(np, name): _Brackets(getattr(np, name), getattr(znp, name)) for name in ("mgrid", "ogrid", "r_", "c_")
}


def brackets(value: T) -> T | _Brackets:
    """What is indexed in place of an object that has such a name."""
    return _BRACKETS.get(value, value) if isinstance(value, tuple(map(type, _BRACKETS))) else value


def _asarray(*args: Any, **kwargs: Any) -> object:
    """``numpy.asarray``, of which only what makes a new array is the program's: an array stays what it is."""
    args = tuple(map(stacked_rows, args))
    if current_recorder() is None or _holds_objects(args, kwargs):
        return np.asarray(*args, **kwargs)
    if args and isinstance(args[0], np.ndarray):
        found = np.asarray(*args, **kwargs)
        return found if found is args[0] else traced_array(found)
    return traced_array(znp.asarray(*args, **kwargs))


def _ndarray(shape: Any, dtype: DTypeLike = float, *args: Any, **kwargs: Any) -> object:
    """``numpy.ndarray(shape, dtype)``, an empty array."""
    if args or kwargs or current_recorder() is None or np.dtype(dtype).kind not in "biufc":
        return np.ndarray(shape, dtype, *args, **kwargs)
    return traced_array(znp.empty(shape, dtype))


def traced_array(made: object) -> object:
    """An array of the program, if it has an element type of the program's."""
    return znp.array(made) if isinstance(made, np.ndarray) and made.dtype.kind in "biufc" else made


def _holds_objects(args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
    """Whether an array of texts or other objects is asked for."""
    dtype = cast(DTypeLike, kwargs.get("dtype"))
    if dtype is not None and np.dtype(dtype).kind not in "biufcV":
        return True
    first = args[0] if args else None
    return isinstance(first, (str, bytes)) or (isinstance(first, np.ndarray) and first.dtype.kind not in "biufcV")


def _joining(function: Function, join: Function) -> Function:
    """A function that joins the items of a list, of which those that are stacked need no joining."""

    @functools.wraps(function)
    def make(arrays: object, *args: object, **kwargs: object) -> object:
        stacked = sized_list(arrays)
        if stacked is None:
            return function(arrays_of(arrays), *args, **kwargs)
        return join(stacked.array(), *args, **kwargs)

    return make


def _stack(rows: Any, axis: int = 0) -> Array:
    return np.moveaxis(rows, 0, axis).copy()


def _concatenate(rows: Any, axis: int | None = 0) -> Array:
    if rows.ndim < 2:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    if axis is None:
        return rows.reshape(-1)
    axis = axis % (rows.ndim - 1)
    sizes = rows.shape[1 : axis + 1], rows.shape[0] * rows.shape[axis + 1], rows.shape[axis + 2 :]
    return np.moveaxis(rows, 0, axis).reshape((*sizes[0], sizes[1], *sizes[2]))


def _vstack(rows: Array) -> Array:
    return rows.reshape((-1, 1)) if rows.ndim == 1 else rows if rows.ndim == 2 else _concatenate(rows)


def _hstack(rows: Array) -> Array:
    return rows if rows.ndim == 1 else _concatenate(rows, axis=int(rows.ndim > 2))


def _column_stack(rows: Array) -> Array:
    return rows.reshape((1, -1)) if rows.ndim == 1 else rows.T.copy() if rows.ndim == 2 else _concatenate(rows, axis=1)


_JOINING: dict[Function, Function] = {
    np.stack: _stack, np.concatenate: _concatenate, np.vstack: _vstack, np.hstack: _hstack,
    np.column_stack: _column_stack,
}  # fmt: skip
MAKERS: dict[object, Function] = {
    **{function: _joining(function, join) for function, join in _JOINING.items()},
    np.ndarray: _ndarray, np.asarray: _asarray, np.broadcast_to: _broadcast_to,
    **{getattr(np, name): _maker(name) for name in _MAKERS},
    **{operator.attrgetter(name)(np): _of_sizes(name) for name in _OF_SIZES},
    **{t.numpy.type: _scalar_type(t.numpy.type) for t in DTYPES},
}  # fmt: skip
