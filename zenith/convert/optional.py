"""Names that hold a number or None, which values decide: ``best = None``, then a loop in which a branch sets it.

Such a value is a number, zero where it is None, and whether there is one. Branches and loops carry both.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import numpy as np

import zenith.numpy as znp
from zenith import tree
from zenith.convert.typing import Function
from zenith.convert.values import Opened, Unset, is_array, is_plain_sequence, negated
from zenith.errors import TraceError, user_line
from zenith.ir.types import ArrayType
from zenith.numpy.operands import lift
from zenith.numpy.typing import Array
from zenith.trace.bind import b
from zenith.trace.dispatch import Unsized
from zenith.trace.tracer import Tracer

Truth: TypeAlias = bool | Tracer
T = TypeVar("T")

_NONE = "a name holds None where a number is needed"


class Optional(Unsized):
    """``value`` where ``is_set``, else None. Used as a number it is one, with an error if the program finds None."""

    __slots__ = ("granted", "is_set", "value")
    is_carried = True

    def __init__(self, value: Array | complex, is_set: Tracer | bool) -> None:
        self.value, self.is_set = value, is_set
        self.granted = 0  # conditions around what is being traced that say that it is not None

    def array(self) -> Array | complex:
        """The number."""
        if self.granted or self.is_set is True:
            return self.value
        wrong = np.logical_not(znp.asarray(self.is_set))
        everywhere = znp.broadcast_to(wrong, np.shape(self.value))
        found: Tracer = b.error_if(znp.asarray(self.value), everywhere, why=_NONE)
        found.weak = isinstance(self.value, Tracer) and self.value.weak
        return found

    def refuse(self) -> NoReturn:
        """TraceError for what asks which of both it is, other than by ``is None``."""
        raise TraceError("values decide whether a name holds a number or None", where=user_line(),
                         fix="ask by x is None, and whether it is 0 by x is not None and x != 0")  # fmt: skip

    def __bool__(self) -> bool:
        self.refuse()

    def __eq__(self, other: object) -> Any:
        if other is None:
            return not_set(self)
        if not isinstance(other, Optional):
            return _like(self.value == other, np.logical_and(self.is_set, self.value == other))
        equal = self.value == other.value
        both = np.logical_and(np.logical_and(self.is_set, other.is_set), equal)
        return _like(equal, np.logical_or(both, np.logical_and(not_set(self), not_set(other))))

    def __ne__(self, other: object) -> Any:
        equal = self == other
        return (not equal) if isinstance(equal, bool) else _like(equal, np.logical_not(equal))

    __hash__ = None  # type: ignore[assignment]

    def __array_function__(
        self, function: Function, types: object, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        return function(*map(_values_in, args), **{k: _values_in(v) for k, v in kwargs.items()})

    def __array_ufunc__(self, ufunc: object, method: str, *inputs: object, **kwargs: object) -> object:
        return getattr(ufunc, method)(*map(value_of, inputs), **kwargs)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.array(), name)


def value_of(value: object) -> object:
    """The number that a value is; other values as they are."""
    return value.array() if isinstance(value, Optional) else value


def _values_in(value: object) -> object:
    return type(value)(map(_values_in, value)) if is_plain_sequence(value) else value_of(value)


def not_set(value: Optional) -> Truth:
    """Whether a value is None, a bool of Python's."""
    if isinstance(value.is_set, bool):
        return not value.is_set
    return negated(value.is_set)


def _like(equal: object, found: T) -> T:
    """A truth, which is Python's where that of the numbers is."""
    if isinstance(found, Tracer):
        found.weak = not isinstance(equal, Tracer) or equal.weak
    return found


def is_none(value: object) -> Truth:
    """``value is None``."""
    if isinstance(value, Unset):
        value.refuse()
    if not isinstance(value, Optional):
        return value is None
    found = False if value.granted else not_set(value)
    note_present(found, False, (value,))
    return found


def note_present(test: object, answer: bool, values: Sequence[object]) -> None:
    """Note that values are not None where a condition has this answer."""
    if isinstance(test, Tracer) and values:
        test.recorder.conditions.present[test.value] = answer, tuple(values)


def present(test: object, answer: bool) -> list[Optional]:
    """The values that are not None where a condition has this answer."""
    noted, values = (
        test.recorder.conditions.present.get(test.value, (None, ())) if isinstance(test, Tracer) else (0, ())
    )
    return [v for v in values if isinstance(v, Optional)] if noted is answer else []


@contextmanager
def granting(test: object, answer: bool) -> Iterator[None]:
    """Within this block the values that a condition with this answer says are not None are numbers."""
    values = present(test, answer)
    for value in values:
        value.granted += 1
    try:
        yield
    finally:
        for value in values:
            value.granted -= 1


def settled(value: object, known: Sequence[Optional]) -> object:
    """A value that is known not to be None as the number that it is."""
    return value.value if isinstance(value, Optional) and any(value is v for v in known) else value


def _operator(function: Function, reflected: bool = False) -> Function:
    def method(self: Optional, *others: object) -> object:
        operands = (self.array(), *map(value_of, others))
        return function(*(operands[::-1] if reflected else operands))

    return method


_OF_TWO = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift",
)  # fmt: skip
for _name in _OF_TWO:
    _function, _slot = getattr(operator, _name), _name.strip("_")
    setattr(Optional, f"__{_slot}__", _operator(_function))
    setattr(Optional, f"__r{_slot}__", _operator(_function, reflected=True))
for _name in ("lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "getitem", "setitem"):
    setattr(Optional, f"__{_name}__", _operator(getattr(operator, _name)))
_OF_PYTHON: dict[str, Function] = {"round": round, "iter": iter, "len": len, "int": int, "float": float}
for _name, _function in _OF_PYTHON.items():
    setattr(Optional, f"__{_name}__", _operator(_function))


def _unflattened(_: None, leaves: Sequence[Tracer]) -> object:
    """A number or None, which it is after a call; in a trace it may be either."""
    value, is_set = leaves
    if any(isinstance(leaf, (Tracer, tree.Leaf)) for leaf in leaves):
        return Optional(value, is_set)
    if getattr(is_set, "ndim", 0):
        raise TraceError("a function that is batched returns a number or None, which values decide", where=user_line(),
                         fix="return a number in both cases, such as numpy.nan")  # fmt: skip
    return value if is_set else None


tree.register_node(Optional, lambda value: ((value.value, value.is_set), None), _unflattened)


def is_mixed(values: Sequence[object]) -> bool:
    """Whether some values are None and others are not, or one of them may be."""
    return any(isinstance(v, Optional) for v in values) or 0 < sum(v is None for v in values) < len(values)


def number_type(values: Sequence[object], opened: Sequence[Opened]) -> tuple[ArrayType, bool] | None:
    """The type of what values hold that are numbers or None, and whether it is Python's; None where they are others."""
    found = None
    for value, own in zip(values, opened, strict=True):
        if isinstance(value, Optional) or is_array(value):
            found = found or (own.types[0], own.weak[0])
        elif value is not None:
            return None
    return found


def lifted(value: object, type: ArrayType, weak: bool) -> object:
    """A number or None as a value that may be None; ``type`` is that of the number."""
    if isinstance(value, Optional):
        return value
    if value is not None:
        return Optional(cast("Array | complex", value), True)
    zero = cast(Tracer, lift(b.full(0, type.dtype, type.shape)))
    zero.weak = weak
    return Optional(zero, False)
