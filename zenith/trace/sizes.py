"""The traced size: the value of ``x.shape[0]`` while tracing, when the size is not fixed.

It is no ``int``. Arithmetic gives traced sizes; a comparison is answered for this call, and the answer becomes an
assumption; with arrays it is a weak Python int (NEP 50), or the integer of NumPy's that was passed; whatever needs a
real number (``range(n)``, ``int(n)``, ``math.sqrt(n)``, a set or the keys of a dict) specialises the trace to this
call's size.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from zenith.errors import TraceError, ValueTypeError, user_line
from zenith.ir.dims import Dim, dim
from zenith.ir.types import NDArray, NumPyType
from zenith.trace import dispatch
from zenith.trace.calls import used
from zenith.trace.recorder import Recorder, current_recorder, in_message
from zenith.trace.size_relations import VaryingSize
from zenith.trace.ufuncs import array_ufunc

if TYPE_CHECKING:
    from zenith.trace.tracer import Tracer

_BITS = 62  # of sizes that are powers
_WIDE = 4  # bytes; arithmetic of NumPy's narrower integers is computed, since it may wrap around

UserSize: TypeAlias = "int | TracedSize"
Operator: TypeAlias = Callable[["TracedSize", object], object]  # NotImplemented of what is no operand


class TracedSize:
    """A symbolic size of the trace in progress; ``dim`` is its formula.

    ``numpy_type`` is None for an integer of Python's; an integer of NumPy's that is used as a size keeps its type.
    """

    __slots__ = ("dim", "numpy_type", "recorder")

    def __init__(self, recorder: Recorder, size: Dim, numpy_type: NumPyType | None = None) -> None:
        self.recorder = recorder
        self.dim = size
        self.numpy_type = numpy_type

    def __getattr__(self, name: str) -> Any:
        if self.numpy_type is None or not hasattr(np.generic, name):
            kind = "int" if self.numpy_type is None else self.numpy_type.type.__name__
            raise AttributeError(f"'{kind}' object has no attribute '{name}'")
        return getattr(self.as_array(), name)  # as NumPy's scalars have it

    def __hash__(self) -> int:
        return hash(int(self))  # of the number that it is equal to

    def __repr__(self) -> str:
        if self.recorder.raises.ends:
            return str(self.recorder.hint(self.dim))
        return str(self.as_array()) if in_message() else str(self.dim)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> object:
        return array_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: object, types: object, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        return dispatch.array_function(function, args, kwargs)

    def __copy__(self) -> TracedSize:
        return self

    def __deepcopy__(self, memo: object) -> TracedSize:
        return self

    def of_python(self) -> TracedSize:
        """The size as an integer of Python's, as ``int(n)`` and the indices of ``range(n)`` are."""
        return self if self.numpy_type is None else TracedSize(self.recorder, self.dim)

    @property
    def asked(self) -> Recorder:
        """Who answers questions about the size: the trace in progress, where that is within the size's own.

        What a branch demands of a size holds within the branch only.
        """
        self.recorder.check_alive()
        current = current_recorder()
        return current if current is not None and current.encloses(self.recorder) else self.recorder

    # --- uses that need a number ---

    @property
    def __array__(self) -> Callable[..., NDArray]:
        """The number as an array for ``numpy.arange``, which counts in a size's type; arrays of sizes stay formulas."""
        use = used(sys._getframe(1))
        if use is None or use.thing is not np.arange:
            raise AttributeError("a traced size is no array")
        return lambda dtype=None, copy=None: np.asarray(int(self), dtype)

    def __index__(self) -> int:
        return self.asked.specialize(self.dim)

    __int__ = __index__

    def __format__(self, spec: str) -> str:
        if in_message() and not self.recorder.raises.ends:
            return format(self.as_array(), spec)
        return format(int(self), spec) if spec else repr(self)

    def bit_length(self) -> int:
        """As ``int.bit_length``, of this call's size."""
        return int(self).bit_length()

    def __float__(self) -> float:
        return float(self.asked.specialize(self.dim))

    def __bool__(self) -> bool:
        return self.asked.holds(self.dim, "!=", 0)

    # --- arithmetic ---

    def __neg__(self) -> UserSize:
        return _derived(-self.dim, "negative", self)

    def __pos__(self) -> TracedSize:
        return self

    def __abs__(self) -> UserSize:
        return self if self.asked.holds(self.dim, ">=", 0) else -self

    def __invert__(self) -> UserSize:
        return -self - 1

    def __round__(self, digits: int | None = None) -> UserSize:
        if digits is None:
            return self.of_python()
        return self if digits >= 0 else round(int(self), digits)

    def __floor__(self) -> TracedSize:
        return self.of_python()

    __ceil__ = __trunc__ = __floor__

    def __lshift__(self, count: UserSize) -> UserSize:
        return _shifted(self, count, operator.mul)

    def __rlshift__(self, number: int) -> UserSize | Tracer:
        if _static_int(number) is None:
            return NotImplemented
        if not self.asked.holds(self.dim, ">=", 0):
            raise ValueError("negative shift count")
        power: Any = 2**self
        return cast("UserSize | Tracer", number * power)

    def __rrshift__(self, number: int) -> int:
        return NotImplemented if _static_int(number) is None else number >> int(self)

    def __rshift__(self, count: UserSize) -> UserSize:
        return _shifted(self, count, operator.floordiv)

    def __truediv__(self, other: UserSize | float) -> Tracer:
        return _as_float(self, other, "divide")

    def __rtruediv__(self, other: UserSize | float) -> Tracer:
        return _as_float(other, self, "divide")

    def __pow__(self, exponent: UserSize | float) -> UserSize | Tracer:
        power = _static_int(exponent)
        if power is None or power < 0:
            return _power(self, exponent)
        result = dim(1)
        for _ in range(power):
            result = result * self.dim
        return _derived(result, "power", self, exponent)

    def __rpow__(self, base: UserSize | float) -> Tracer:
        return _power(base, self)

    def __divmod__(self, other: UserSize) -> tuple[UserSize, UserSize]:
        return self // other, self % other

    def __rdivmod__(self, other: UserSize) -> tuple[UserSize, UserSize]:
        return other // self, other % self

    if TYPE_CHECKING:  # the operators that the end of this file defines

        def _integer(self, other: UserSize) -> UserSize: ...
        def _compared(self, other: UserSize | float) -> bool: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _integer
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _integer
        __lt__ = __le__ = __gt__ = __ge__ = _compared

    def as_array(self) -> Tracer:
        """The size as a 0-d value: a weak int64, or of NumPy's type."""
        return dispatch.implementation("_size_array")(self)


def user_size(size: Dim, recorder: Recorder | None = None) -> UserSize:
    """A size as users see it: an ``int`` when it is fixed, else a :class:`TracedSize`."""
    if recorder is not None:
        size = recorder.canonical(size)
    if size.static is not None:
        return size.static
    recorder = recorder or current_recorder()
    assert recorder is not None, f"size {size} belongs to no trace"
    return TracedSize(recorder, size)


def _static_int(value: Any) -> int | None:
    """A fixed integer's value; None for other numbers, arrays and traced values."""
    if isinstance(value, (TracedSize, float)) or getattr(value, "ndim", None):
        return None
    try:
        return None if isinstance(value, dispatch.Traced) else operator.index(value)
    except TypeError:
        return None


def size_dim(value: Any, what: str = "a size") -> Dim:
    """The size that a user's integer or traced size is; an error for a traced value or a value of another type."""
    if isinstance(value, TracedSize):
        value.recorder.check_alive()
        recorder = current_recorder()
        if recorder is None or not recorder.encloses(value.recorder):
            raise TraceError(
                f"the size {value} of the trace of {value.recorder.graph.name} was used inside another trace",
                where=user_line(),
                fix="use int(n), or a size of an argument of the inner function",
            )
        return value.recorder.canonical(value.dim)
    if isinstance(value, Dim):
        return value
    if hasattr(value, "recorder"):
        size: Dim | None = value.size_of()
        if size is not None:
            return size
        raise TraceError(
            f"{what} must be known before the program runs, not computed by it",
            where=user_line(),
            types=(value.type,),
            fix="compute it from shapes (x.shape[0]), or pass it as a static argument",
        )
    try:
        return dim(operator.index(value))
    except TypeError:
        raise ValueTypeError(
            f"{what} must be an integer, not {type(value).__name__}", where=user_line(), fix="give an int"
        ) from None


def _is_size(value: object) -> bool:
    return isinstance(value, TracedSize) or _static_int(value) is not None


def _is_of_numpy(value: object) -> bool:
    return isinstance(value, np.generic) or (isinstance(value, TracedSize) and value.numpy_type is not None)


def _derived(size: Dim, function: str, *operands: Any) -> Any:
    """An integer that follows from sizes: of NumPy's type where an operand is, and computed where that may wrap."""
    innermost = functools.reduce(_inner, [o for o in operands if isinstance(o, TracedSize)])
    types = [o.numpy_type if isinstance(o, TracedSize) else o.dtype for o in operands if _is_of_numpy(o)]
    if not types:
        return user_size(size, innermost.recorder)
    found = np.result_type(*types)
    if found.kind not in "iu" or found.itemsize < _WIDE or (found.kind == "u" and _may_be_negative(innermost, size)):
        return dispatch.implementation(function)(*operands)
    known = user_size(size, innermost.recorder)
    return TracedSize(known.recorder, known.dim, found) if isinstance(known, TracedSize) else found.type(known)


def _may_be_negative(asked: TracedSize, size: Dim) -> bool:
    try:
        return not asked.asked.holds(size, ">=", 0)
    except VaryingSize:
        return True


def _as_float(left: object, right: object, function: str) -> Tracer:
    """A true quotient or power of sizes: a weak float or complex value."""
    if not all(_is_size(v) or isinstance(v, (float, complex)) or getattr(v, "weak", False) for v in (left, right)):
        return NotImplemented
    result = dispatch.implementation(function)(left, right)
    result.weak = not any(map(_is_of_numpy, (left, right)))
    return result


def _power(base: Any, exponent: Any) -> Any:
    """A power as Python has it: of integers an integer where the exponent is not negative, else a float."""
    whole = _is_size(base) and _is_size(exponent)
    asked = base.asked if isinstance(base, TracedSize) else exponent.asked
    if whole and not asked.holds(size_dim(exponent), ">=", 0):
        base = base * 1.0
    elif whole:
        size = _power_as_size(asked, size_dim(base), size_dim(exponent))
        if size is not None:
            return _derived(size, "power", base, exponent)
    return _as_float(base, exponent, "power")


def _power_as_size(recorder: Recorder, base: Dim, exponent: Dim) -> Dim | None:
    """A power of sizes as a size that Python computes, if it is one: not in loops, and not of too many bits."""
    if recorder.varies(base) or recorder.varies(exponent) or not recorder.holds(base, ">=", 0):
        return None
    if not recorder.holds(exponent, "<=", _BITS):
        return None
    size = recorder.computed(f"({recorder.canonical(base)}) ** min({recorder.canonical(exponent)}, {_BITS})")
    return size if recorder.holds(size, "<", 1 << _BITS) else None


def _shifted(size: TracedSize, count: object, function: Callable[[object, object], UserSize]) -> UserSize:
    number = _static_int(count)
    if number is None:
        return function(size, 2**count) if isinstance(count, TracedSize) else NotImplemented
    if number < 0:
        raise ValueError("negative shift count")
    return function(size, 2**number)


def _bitwise(function: Callable[[int, int], int], name: str, reflected: bool) -> Operator:
    def method(self: TracedSize, other: Any) -> object:
        if not _is_size(other):
            return NotImplemented
        left, right = (other, self) if reflected else (self, other)
        if _is_of_numpy(left) or _is_of_numpy(right):
            return dispatch.implementation(f"bitwise_{name}")(left, right)
        return function(int(left), int(right))

    return method


def _arithmetic(function: Callable[[Dim, Dim], Dim], name: str, reflected: bool) -> Operator:
    def method(self: TracedSize, other: object) -> object:
        pair = (other, self) if reflected else (self, other)
        if isinstance(other, (float, complex)):
            result = dispatch.implementation(name)(*pair)
            result.weak = not any(map(_is_of_numpy, pair))
            return result
        if not _is_size(other):
            return NotImplemented
        left, right = self.recorder.canonical(self.dim), _other_dim(self, other)
        if reflected:
            left, right = right, left
        if name in ("floor_divide", "remainder"):
            _require_divisor(self.asked, right)
        return _derived(function(left, right), name, *pair)

    return method


def _require_divisor(recorder: Recorder, divisor: Dim) -> None:
    if divisor.static is None:
        recorder.require(divisor, ">=", 1, "a size is divided by a size, which must be positive")
    elif divisor.static == 0:
        raise ZeroDivisionError("a size is divided by 0")


def _comparison(relation: str) -> Operator:
    def method(self: TracedSize, other: object) -> object:
        if isinstance(other, complex) and relation in ("==", "!="):
            return relation == "!=" if other.imag else _compare_float(self, relation, other.real)
        if isinstance(other, float):
            return _compare_float(self, relation, other)
        if not _is_size(other):
            return NotImplemented
        try:
            return self.asked.holds(self.dim, relation, _other_dim(self, other), unify=False)
        except VaryingSize:
            return dispatch.implementation(_COMPARISONS[relation])(self.as_array(), other)

    return method


_COMPARISONS = {
    "==": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal",
}  # fmt: skip


def _inner(size: TracedSize, other: TracedSize) -> TracedSize:
    """Which of two operands ends first: that of the inner trace."""
    return other if other.recorder.encloses(size.recorder) else size


def _other_dim(size: TracedSize, other: Any) -> Dim:
    """The formula of the other operand; two sizes of one trace may meet inside a trace of another function."""
    same = isinstance(other, TracedSize) and other.recorder is size.recorder
    return size.recorder.canonical(other.dim) if same else size_dim(other)


def _compare_float(size: TracedSize, relation: str, number: float) -> bool:
    """``size relation number`` by the integers next to ``number``."""
    if number.is_integer():
        return size.asked.holds(size.dim, relation, int(number))
    if relation in ("==", "!=") or number != number:
        return relation == "!="
    if number in (float("inf"), -float("inf")):
        return (relation in ("<", "<=")) == (number > 0)
    below = int(number // 1)
    return size.asked.holds(size.dim, "<=" if relation in ("<", "<=") else ">", below)


for _name, _word, _function in (
    ("add", "add", Dim.__add__), ("sub", "subtract", Dim.__sub__), ("mul", "multiply", Dim.__mul__),
    ("floordiv", "floor_divide", Dim.__floordiv__), ("mod", "remainder", Dim.__mod__),
):  # fmt: skip
    setattr(TracedSize, f"__{_name}__", _arithmetic(_function, _word, False))
    setattr(TracedSize, f"__r{_name}__", _arithmetic(_function, _word, True))
for _name in ("and", "or", "xor"):
    setattr(TracedSize, f"__{_name}__", _bitwise(getattr(operator, f"__{_name}__"), _name, False))
    setattr(TracedSize, f"__r{_name}__", _bitwise(getattr(operator, f"__{_name}__"), _name, True))
for _name, _relation in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    setattr(TracedSize, f"__{_name}__", _comparison(_relation))
