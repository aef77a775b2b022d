"""Values of names: those that are not set, and trees of arrays with what else they hold."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard, cast

import numpy as np

from zenith import tree
from zenith.control.trees import flatten
from zenith.convert.containers import Guarded
from zenith.errors import SourceLine, TraceError, user_line
from zenith.ir.types import ArrayType, int64
from zenith.numpy.operands import convert, result_dtype, strong
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b, known_dtype
from zenith.trace.dispatch import Unsized
from zenith.trace.operators import python_number
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer

# By the kind of a NumPy type: the type of Python's numbers that have it.
PYTHON_TYPES: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
_NUMBERS = (bool, int, float, complex, np.generic)


class Unset(Unsized):
    """The value of a name that nothing has set, or not in every case; every use is a TraceError."""

    __slots__ = ("line", "name", "until_else", "why")
    is_carried = True

    def __init__(self, name: str, why: str = "", line: SourceLine | None = None, until_else: bool = False) -> None:
        self.name, self.why, self.line = name, why, line
        self.until_else = until_else  # nothing reads it but where the ``break`` of a loop has set it, or its ``else``

    @property
    def is_made(self) -> bool:
        """Whether conversion made the name: where nothing has set it, its value is guarded by a flag."""
        return is_made(self.name)

    @property
    def is_guarded(self) -> bool:
        """Whether nothing reads what is not set, so that it may hold anything."""
        return self.until_else or (self.is_made and not self.why)

    def refuse(self) -> NoReturn:
        """Raise the error of its use."""
        if self.is_made:
            raise TraceError(
                f"the function does not return the same in every case: {self.why or 'nothing was returned'}",
                where=self.line or user_line(), fix="return arrays of one type and shape from each return",
            )  # fmt: skip
        raise TraceError(f"{self.name} is read, and {self.why or 'nothing has set it'}", where=self.line or user_line(),
                         fix=f"set {self.name} before, to a value of the same type")  # fmt: skip

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self.refuse()

    def __hash__(self) -> int:
        self.refuse()


def _refusing(self: Unset, *args: object) -> NoReturn:
    self.refuse()


_OPERATORS = """
    add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul and rand or ror xor
    rxor lshift rlshift rshift rrshift neg pos abs invert lt le eq gt ge ne bool int float complex index len iter
    getitem setitem contains call array array_ufunc array_function
"""
for _name in _OPERATORS.split():
    setattr(Unset, f"__{_name}__", _refusing)


def is_made(name: str) -> bool:
    """Whether a name is conversion's own."""
    return name.startswith("_zenith_")


def is_plain_sequence(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    """Whether a value is a list or tuple, and not of a class that inherits from them."""
    return type(value) in (list, tuple)


def is_array(value: object) -> bool:
    """Whether a leaf is an array or number."""
    return isinstance(value, (*_NUMBERS, np.ndarray, Tracer, TracedSize))


class _Word(str):
    """A text that stands in a container without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


@dataclass(frozen=True)
class Opened:
    """The arrays and numbers in a value, their types, which are weak, and the value without them."""

    leaves: list[Any]
    arrays: list[Array]
    types: tuple[ArrayType, ...]
    weak: tuple[bool, ...]
    treedef: tree.TreeDef
    rest: tuple[object, ...]  # every other leaf, and None in the place of arrays

    def alike(self, other: Opened) -> bool:
        """Whether two values have one structure, and are the same but for arrays."""
        if self.treedef != other.treedef or len(self.rest) != len(other.rest):
            return False
        if tree.differences(self.treedef) != tree.differences(other.treedef):
            return False
        return all(a is b or _equal(a, b) for a, b in zip(self.rest, other.rest, strict=True))

    def closed(self, leaves: Iterable[object]) -> object:
        """The value with other arrays."""
        given = iter(leaves)
        return tree.unflatten(self.treedef, [next(given) if r is _ARRAY else r for r in self.rest])

    def text(self) -> str:
        """The value as Python writes it, with the types of its leaves."""
        types = iter(self.types)
        return repr(
            tree.unflatten(self.treedef, [_Word(next(types) if r is _ARRAY else kind_of(r)) for r in self.rest])
        )


_ARRAY = object()


def _equal(a: object, b: object) -> bool:
    """Whether two leaves that are no arrays are equal and cannot change; ones that are not set are not."""
    return type(a) is type(b) and not isinstance(a, Unset) and isinstance(a, Hashable) and a == b


def open_value(name: str, value: object) -> Opened:
    """A value opened; an unset one, a function or a text has no arrays."""
    if isinstance(value, Unsized) and not value.is_carried:
        value = value.array()
    if isinstance(value, Guarded):  # which says itself what becomes of what is in it
        return Opened([], [], (), (), tree.flatten(0)[1], (value,))
    leaves, treedef = tree.flatten(value)
    leaves = [x.array() if isinstance(x, Unsized) and not x.is_carried else x for x in leaves]
    found = [leaf for leaf in leaves if is_array(leaf)]
    given = flatten(name, found)
    rest = tuple(_ARRAY if is_array(leaf) else leaf for leaf in leaves)
    return Opened(found, list(given.arrays), given.form.types, given.form.weak, treedef, rest)


def kind_of(value: object) -> str:
    """What a value is, in a word."""
    if isinstance(value, Guarded):
        return "list"
    return "array or number" if isinstance(value, Tracer) or is_array(value) else type(value).__name__


def same(a: object, b: object) -> bool:
    """Whether two leaves are one, or equal Python numbers of one type."""
    if a is b:
        return True
    return type(a) is type(b) and isinstance(a, (bool, int, float, complex)) and a == b and str(a) == str(b)


def common(name: str, pairs: list[tuple[ArrayType, bool]]) -> tuple[ArrayType, bool] | None:
    """The type that one leaf of each side is converted to, and whether it is weak; None where there is none.

    Python numbers take the type of arrays, and become floats where one of them is.
    """
    first = pairs[0][0]
    recorder = current_recorder()
    assert recorder is not None
    for type, _ in pairs[1:]:
        if type.rank != first.rank or any(
            recorder.hint(n) != recorder.hint(m) for n, m in zip(type.shape, first.shape, strict=True)
        ):
            return None
        if not all(recorder.holds(n, "==", m) for n, m in zip(type.shape, first.shape, strict=True)):
            return None
    hard = {type.dtype for type, weak in pairs if not weak}
    if len(hard) > 1:
        return None
    dtype = result_dtype(name, [_sample(type, weak) for type, weak in pairs])
    if hard and np.dtype(dtype) != next(iter(hard)).numpy:
        return None
    return first.with_dtype(known_dtype(np.dtype(dtype))), not hard


def keeps_value(leaf: object, weak: bool, type: ArrayType) -> bool:
    """Whether an integer of Python is the same number in a type: NumPy's narrow integers and unsigned ones hold fewer.

    One that the program computes may be any. To NumPy it would stay Python's, whatever the other side is.
    """
    dtype = type.dtype
    if not weak or dtype.kind not in "iu" or dtype == int64:
        return True
    info = np.iinfo(dtype.numpy)
    return isinstance(leaf, int) and info.min <= leaf <= info.max


def _sample(type: ArrayType, weak: bool) -> ArrayLike:
    return type.dtype.numpy.type(0).item() if weak else np.zeros((), type.dtype.numpy)


def fitted(array: Array, type: ArrayType) -> Array:
    """An array with the element type of another type."""
    return convert(strong(array), type.dtype.numpy)


def zeros(type: ArrayType) -> Array:
    """Zeros of a type."""
    found: Array = b.full(0, type.dtype, type.shape)
    return found


def negated(truth: Tracer | bool) -> Tracer:
    """``not truth`` of what the program computes, a bool of Python's."""
    return python_number(cast(Tracer, np.logical_not(truth)))


def holds_traced(values: object) -> bool:
    """Whether there are traced arrays, numbers or sizes among nested values."""
    leaves, _ = tree.flatten(values)
    return any(isinstance(leaf, (TracedSize, Tracer)) for leaf in leaves)
