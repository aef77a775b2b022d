"""Python's operators and methods of a traced array: calls of the implementations of NumPy's functions.

A result of operators on Python numbers only is a Python number, too: weak, it takes the type of the other operand.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from zenith.trace import dispatch
from zenith.trace.memory import NUMBER, check_writable
from zenith.trace.sizes import TracedSize

if TYPE_CHECKING:
    from zenith.trace.tracer import Tracer

T = TypeVar("T")


class Operators(dispatch.Traced):
    """The operators and methods of a traced array that are a call of an implementation; tables below say which."""

    __slots__ = ()
    weak: bool

    if TYPE_CHECKING:  # what the tables below define

        def _of_two(self, other: object, /) -> Tracer: ...
        def _of_one(self) -> Tracer: ...
        def _method(self, *args: object, **kwargs: object) -> Tracer: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _of_two
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _of_two
        __lt__ = __le__ = __gt__ = __ge__ = _of_two
        __neg__ = __pos__ = __abs__ = __invert__ = _of_one
        all = any = astype = copy = reshape = _method


def is_weak(value: object) -> bool:
    """Whether a value acts as a Python number under NEP 50."""
    if isinstance(value, Operators):
        return value.weak
    if isinstance(value, TracedSize):
        return value.numpy_type is None
    return isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic)


def _is_operand(value: object) -> bool:
    if isinstance(value, dispatch.Unsized):
        return False  # which has operators of its own for arrays
    known = isinstance(value, (Operators, TracedSize, np.ndarray, np.generic, bool, int, float, complex, list, tuple))
    return known or hasattr(value, "__array__")


def keep_weak(result: Any, *operands: object) -> Any:
    """Mark a result of Python's operators on Python numbers only as a Python number."""
    if all(map(is_weak, operands)):
        for item in result if isinstance(result, tuple) else (result,):
            item.weak = True
    return result


def python_number(result: T) -> T:
    """A result as a number of Python's, if it is traced."""
    if isinstance(result, Operators):
        result.weak = True
    return result


def _as_integers(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Python's numbers, with integers in place of traced bools: ``True + True`` is 2, and of NumPy's bools True."""
    if not all(map(is_weak, operands)):
        return operands
    return tuple(
        keep_weak(x.astype(np.int64), x) if isinstance(x, Operators) and x.dtype.kind == "b" else x  # type: ignore[attr-defined]
        for x in operands
    )


def _may_be_zero(divisor: object) -> bool:
    return not isinstance(divisor, (int, float, complex)) or divisor == 0


QUOTIENTS = ("divide", "floor_divide", "remainder", "divmod")  # of Python's numbers they raise ZeroDivisionError
_OF_ANYTHING = ("equal", "not_equal")
_OF_BOOLS = (
    "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
)  # fmt: skip


def _binary(name: str, reflected: bool) -> Callable[..., object]:
    def method(self: Any, other: object, *modulus: object) -> object:
        if modulus:
            return NotImplemented  # pow(x, y, z), which NumPy's arrays do not know either
        if not _is_operand(other):
            if name in _OF_ANYTHING and self.ndim and (other is None or isinstance(other, (str, bytes))):
                return dispatch.implementation("full")(self.shape, name == "not_equal", bool)  # no element is that
            return NotImplemented
        if isinstance(other, (list, tuple)) and not self.ndim and self.memory.access == NUMBER:
            if name == "multiply" and self.dtype.kind in "iub":
                return other * operator.index(self)  # an integer says how often a sequence is repeated
            if self.weak:
                return NotImplemented
        operands = (other, self) if reflected else (self, other)
        if name not in _OF_BOOLS:
            operands = _as_integers(operands)
        if name in QUOTIENTS and all(map(is_weak, operands)) and _may_be_zero(operands[1]):
            self.recorder.raises.called.add(f"a {name} of Python's numbers")
        return keep_weak(dispatch.implementation(name)(*operands), *operands)

    return method


def _in_place(name: str) -> Callable[..., object]:
    def method(self: Any, other: object) -> object:
        if not _is_operand(other) or self.memory.access == NUMBER:
            return NotImplemented  # Python then computes a new number
        check_writable(self)
        return dispatch.implementation("_write_result")(self, dispatch.implementation(name)(self, other), name)

    return method


def _unary(name: str) -> Callable[..., object]:
    return lambda self: keep_weak(dispatch.implementation(name)(*_as_integers((self,))), self)


def _method(name: str) -> Callable[..., object]:
    def method(self: Any, *args: object, **kwargs: object) -> object:
        return dispatch.implementation(name)(self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"As ``ndarray.{name}``."
    return method


_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "divmod": "divmod", "pow": "_operator_power", "matmul": "matmul", "lshift": "left_shift",
    "rshift": "right_shift", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
_COMPARISONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}
_METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip",
    "cumprod", "cumsum", "diagonal", "dot", "flatten", "max", "mean", "min", "nonzero", "prod", "ptp", "ravel",
    "repeat", "round", "searchsorted", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var",
)  # fmt: skip
for _name, _function in _BINARY.items():
    setattr(Operators, f"__{_name}__", _binary(_function, False))
    setattr(Operators, f"__r{_name}__", _binary(_function, True))
    if _name != "divmod":
        setattr(Operators, f"__i{_name}__", _in_place(_function))
for _name, _function in _COMPARISONS.items():
    setattr(Operators, f"__{_name}__", _binary(_function, False))
for _name, _function in _UNARY.items():
    setattr(Operators, f"__{_name}__", _unary(_function))
for _name in _METHODS:
    setattr(Operators, _name, _method(_name))


def _conjugate(self: Any, *args: object, **kwargs: object) -> object:
    """As ``ndarray.conjugate``: of real numbers the array itself."""
    plain = self.dtype.kind != "c" and not args and not kwargs
    return self if plain else dispatch.implementation("conjugate")(self, *args, **kwargs)


Operators.conj = Operators.conjugate = _conjugate  # type: ignore[attr-defined]
for _name in ("compress", "copy", "fill", "partition", "put", "reshape", "sort", "transpose", "view"):
    setattr(Operators, _name, _method(f"_method_{_name}"))
