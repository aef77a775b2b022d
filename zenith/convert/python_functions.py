"""Python's and NumPy's functions for traced values: what converted functions call in place of them."""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Iterable, Sized
from typing import Any, SupportsIndex, TypeAlias, TypeGuard, TypeVar

import numpy as np

import zenith.numpy as znp
from zenith.convert import sequences, sorting
from zenith.convert.comparisons import are_compared, best_of
from zenith.convert.expressions import choose
from zenith.convert.lists import GrowingList, rows_of_numbers, sized_list
from zenith.convert.makers import MAKERS, complex_of
from zenith.convert.math_functions import MATH
from zenith.convert.sequences import Items, best_by, first, length_of, own_loop
from zenith.convert.sorting import first_of_sorted
from zenith.convert.texts import TEXTS
from zenith.convert.turns import Turns
from zenith.convert.typing import Function
from zenith.convert.values import PYTHON_TYPES, Unset
from zenith.numpy.typing import Array
from zenith.trace.dispatch import Unsized
from zenith.trace.memory import NUMBER
from zenith.trace.operators import python_number
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import TracedSize, UserSize
from zenith.trace.tracer import Tracer

T = TypeVar("T")
_Classes: TypeAlias = "type | types.UnionType | tuple[_Classes, ...]"

_EXACT_TENS = 22  # the largest power of ten that is a float of 64 bits
_SPLIT = 2.0**27 + 1  # times a float: the upper half of its digits


def _traced(*values: object) -> bool:
    return any(map(_is_traced, values))


def _is_traced(value: object) -> bool:
    """Whether a value is the program's to know: traced, or a size that differs from turn to turn of a loop."""
    return isinstance(value, Tracer) or (isinstance(value, TracedSize) and value.recorder.varies(value.dim))


def _is_python_int(value: object) -> bool:
    return type_of(value) is int or type(value) is int


def _casting(kind: type, dtype: type) -> Function:
    """``int``, ``float``, ``bool`` or ``complex`` of a traced number: a number of that type."""

    def converted(*args: Any, **kwargs: object) -> object:
        if len(args) == 1 and isinstance(args[0], TracedSize) and _is_traced(args[0]):
            if kind is int:
                return args[0].of_python()
            args = (args[0].as_array(),)
        traced = len(args) == 1 and isinstance(args[0], Tracer) and not kwargs
        if not traced or args[0].size != 1 or args[0]._of_sizes() is not None:
            return kind(*args, **kwargs)
        number: Tracer = args[0].reshape(()).astype(dtype)
        return python_number(number.renewed() if number.memory.access == NUMBER else znp.positive(number))

    return converted


def _complex(*args: Any, **kwargs: object) -> object:
    """``complex`` of one or two traced numbers."""
    if len(args) == 2 and _traced(*args) and not kwargs:
        return python_number(complex_of(*args))
    return _complex_of_one(*args, **kwargs)


_complex_of_one = _casting(complex, np.complex128)


def _extreme(name: str, function: Function) -> Function:
    """``min`` or ``max`` of traced numbers: the first of the smallest or largest ones, as Python compares them."""
    plain = getattr(builtins, name)

    def find(*args: Any, **kwargs: Any) -> object:
        kwargs = {word: value for word, value in kwargs.items() if (word, value) != ("key", None)}
        items = args if len(args) > 1 else _as_numbers(args[0])
        if kwargs.keys() == {"key"} and len(args) == 1 and current_recorder() is not None:
            return best_by(name, args[0], kwargs["key"])
        stacked = sized_list(items)
        if not kwargs and len(args) == 1 and stacked is not None:
            return first_of_sorted(stacked, reverse=name == "max")
        if not kwargs and (_is_vector(items) or isinstance(items, Turns)):
            found = own_loop(_best)(items, sequences.BETTER[name], name)
            return python_number(found) if _is_of_python(args[0]) else found
        if not kwargs and isinstance(items, (tuple, list)) and are_compared(items):
            return best_of(name, items)
        if kwargs or not (isinstance(items, (tuple, list)) and _traced(*items)) or any(np.ndim(i) for i in items):
            return plain(*args, **kwargs)
        found = items[0]
        if all(map(_is_python_int, items)):
            return python_number(functools.reduce(function, items))
        for item in items[1:]:
            better = item < found if name == "min" else item > found
            found = _chosen(better, item, found)
        return found

    return find


def _as_numbers(value: object) -> object:
    """An array in place of a list of numbers that the program stacks."""
    stacked = sized_list(value)
    return value if stacked is None or stacked.rows is None or not stacked.rows.form.is_array else stacked.array()


def _is_of_python(value: object) -> bool:
    """Whether the items of a list that the program stacks are Python's numbers."""
    stacked = sized_list(value)
    return stacked is not None and stacked.rows is not None and stacked.rows.form.weak == (True,)


def _is_vector(value: object) -> TypeGuard[Tracer]:
    return isinstance(value, Tracer) and value.ndim == 1


def _best(items: Items, better: Function, name: str) -> object:
    if length_of(items) == 0:
        raise ValueError(f"{name}() arg is an empty sequence")
    found = first(items)
    for item in items:
        if better(item, found):
            found = item
    return found


def _sum(*args: Any, **kwargs: Any) -> object:
    """``sum`` of a traced array, its slices one after the other, or of a list of numbers or arrays."""
    of_list = [rows_of_numbers(arg) is not arg for arg in args]
    of_array = bool(args) and isinstance(args[0], Tracer) and args[0].ndim
    of_program = len(args) in (1, 2) and (of_list[0] or of_array or isinstance(args[0], Turns))
    if kwargs.keys() - {"start"} or not of_program:
        return sum(*args, **kwargs)
    return own_loop(_total)(*args, **kwargs)


def _total(items: Iterable[Array], start: Array | int = 0) -> Array | int:
    for item in items:
        start = start + item
    return start


def _chosen(test: object, a: T, b: T) -> T:
    return choose(test, lambda: a, lambda: b)


def _round(x: Any, digits: SupportsIndex | None = None) -> object:
    """``round`` of a traced number: an integer without digits, else of Python's floats the nearest decimal number."""
    if not isinstance(x, Tracer) or x.ndim or x._of_sizes() is not None or x.dtype.kind not in "biuf":
        return round(x) if digits is None else round(x, digits)
    if digits is None:
        return INSTEAD[int](x if x.dtype.kind != "f" else np.rint(x))
    if not (x.weak and x.dtype.kind == "f" and type(digits) is int and 0 <= digits <= _EXACT_TENS):
        return round(x, digits)
    return python_number(_nearest_decimal(x, 10.0**digits))


def _nearest_decimal(x: Array, scale: float) -> Array:
    """A number rounded to a multiple of 1 / ``scale``, half to even, by the exact product of both.

    That has two parts: T. J. Dekker, "A Floating-Point Technique for Extending the Available Precision" (1971).
    """
    product = x * scale
    high, scale_high = ((_SPLIT * v) - ((_SPLIT * v) - v) for v in (x, scale))
    low, scale_low = x - high, scale - scale_high
    rest = ((high * scale_high - product) + high * scale_low + low * scale_high) + low * scale_low
    whole = np.rint(product)
    half = product - whole  # what halves exactly is decided by the rest
    whole = whole + np.where((half == 0.5) & (rest > 0), 1.0, np.where((half == -0.5) & (rest < 0), -1.0, 0.0))
    return np.positive(np.where(np.abs(product) < 2.0**52, np.copysign(whole / scale, x), x))


def _isinstance(value: object, classes: _Classes) -> bool:
    """``isinstance`` of the array or number that a traced value stands for."""
    kind = type_of(value)
    return isinstance(value, classes) if kind is None else _is_subclass(kind, classes)


def _is_subclass(kind: type, classes: _Classes) -> bool:
    if isinstance(classes, tuple):
        return any(_is_subclass(kind, c) for c in classes)
    return any(issubclass(kind, c) for c in getattr(classes, "__args__", (classes,)))


def type_of(value: object) -> type | None:
    """The type of what a traced value stands for; None for all else; TraceError for what is not set in every case."""
    if isinstance(value, Unset):
        value.refuse()
    if isinstance(value, TracedSize):
        return int if value.numpy_type is None else value.numpy_type.type
    if isinstance(value, GrowingList):
        return list
    if not isinstance(value, Tracer):
        return None
    if value.weak:
        return PYTHON_TYPES[value.dtype.kind]
    return value.dtype.type if value.memory.access == NUMBER else np.ndarray


def class_of(value: object) -> type:
    """``value.__class__``."""
    return type_of(value) or value.__class__


def _type(*args: Any) -> object:
    kind = type_of(args[0]) if len(args) == 1 else None
    return type(*args) if kind is None else kind


def _hasattr(value: object, name: str) -> bool:
    """``hasattr`` of the array or number that a traced value stands for."""
    kind = type_of(value)
    return hasattr(value if kind is None else kind, name)


def _getattr(value: object, name: str, *default: object) -> object:
    """``getattr``; the default for what the array or number that a traced value stands for has not."""
    return default[0] if default and not _hasattr(value, name) else getattr(value, name, *default)


def _is_scalar(value: object) -> bool:
    kind = type_of(value)
    return np.isscalar(value) if kind is None else kind is not np.ndarray


def _len(value: Sized) -> UserSize:
    stacked = sized_list(value)
    if stacked is not None:
        return stacked.size
    value = value.to_read() if isinstance(value, Unsized) else value
    return value.shape[0] if isinstance(value, Tracer) and value.ndim else len(value)


INSTEAD: dict[object, Function] = {
    int: _casting(int, np.int64), float: _casting(float, np.float64), bool: _casting(bool, np.bool_),
    complex: _complex, round: _round, min: _extreme("min", np.minimum), max: _extreme("max", np.maximum),
    sum: _sum, any: sequences.some("any"), all: sequences.some("all"), isinstance: _isinstance, type: _type, len: _len,
    sorted: sorting.sorted_, list: sequences.listed_, map: sequences.mapped,
    GrowingList.sort: sorting.sort, Tracer.tolist: sequences.tolist, hasattr: _hasattr, getattr: _getattr,
    np.isscalar: _is_scalar, **MATH, **MAKERS, **TEXTS,
}  # fmt: skip
