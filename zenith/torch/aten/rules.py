"""What a rule is given, and how it is found: the context of an operation, and the table of rules by operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch.utils import _pytree as pytree

import zenith.numpy as znp
from zenith.arrays import torch_adapter
from zenith.errors import DTypeError, user_line
from zenith.ir.types import is_narrow
from zenith.numpy.typing import Array
from zenith.torch.recurrent import NAMESPACE as OWN
from zenith.trace import TracedSize

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)
RULES: dict[str, Rule] = {}


@dataclass(frozen=True)
class Context:
    """What PyTorch found out about one operation: examples of its result and of its arguments.

    ``single`` says that the rule computes in float32, and what it gives is rounded afterwards.
    """

    value: Any
    arguments: tuple[Any, ...]
    single: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of the (first) result, in which the rule computes."""
        if self.single:
            return np.dtype(np.float32)
        value = self.value[0] if isinstance(self.value, (tuple, list)) else self.value
        return numpy_dtype(value.dtype)

    @property
    def common(self) -> np.dtype[Any]:
        """The element type in which the first two arguments meet."""
        return numpy_dtype(torch.result_type(self.arguments[0], self.arguments[1]))

    def cast(self, *values: object) -> Any:
        """Arrays in the result's element type; numbers stay numbers."""
        cast = tuple(to(v, self.dtype) for v in values)
        return cast if len(cast) > 1 else cast[0]

    def operands(self, *values: object) -> Any:
        """The same for arithmetic, in which integers wrap, numbers too."""
        cast = tuple(wrapped(to(v, self.dtype), self.dtype) for v in values)
        return cast if len(cast) > 1 else cast[0]


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """The NumPy dtype of a torch dtype; DTypeError when Zenith has none."""
    example = torch.empty(0, dtype=dtype)
    torch_adapter().check(example, "a value inside the module")
    found = torch_adapter().dtype(example)
    assert found is not None
    return found.numpy


def to(value: Any, dtype: np.dtype[Any]) -> Any:
    """An array in another element type; Python numbers and sizes are weak and stay, NumPy's are arrays without axes."""
    if isinstance(value, (bool, int, float, complex, TracedSize)) and not isinstance(value, np.generic):
        return value
    if value is None or value.dtype == dtype:
        return value
    return znp.astype(value, dtype)


def wrapped(value: Any, dtype: np.dtype[Any]) -> Any:
    """A Python integer as one that an integer type holds: PyTorch counts modulo the width."""
    if type(value) is not int or dtype.kind not in "iu":
        return value
    return int(np.asarray(value % 2 ** (8 * dtype.itemsize), np.uint64).astype(dtype))


def rounded_once(function: R, numbers_only: bool = False) -> R:
    """The rule, in float32 where its results are 16-bit floats, which are rounded when all is done, as in PyTorch.

    Inside Zenith a value that is read twice would be rounded before, and a Python number next to 16-bit floats is
    one; for ``numbers_only`` only the second is corrected.
    """

    @wraps(function)
    def computed(c: Context, *args: object, **options: object) -> object:
        if not is_narrow(c.dtype) or (numbers_only and not any(map(_is_number, args))):
            return function(c, *args, **options)
        named = {name: _widened(value) for name, value in options.items()}
        found = function(replace(c, single=True), *map(_widened, args), **named)
        if not isinstance(found, tuple):
            return to(found, c.dtype)
        return tuple(to(f, numpy_dtype(v.dtype)) for f, v in zip(found, c.value, strict=True))

    return cast("R", computed)


def _is_number(value: object) -> bool:
    """Whether an operand is no array to PyTorch: a Python number, a size, or a float that is known when it runs."""
    return isinstance(value, (int, float, TracedSize)) or bool(getattr(value, "weak", False))


def _widened(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and any(hasattr(v, "dtype") for v in value):
        return [_widened(v) for v in value]
    return to(value, np.dtype(np.float32)) if hasattr(value, "dtype") and is_narrow(value.dtype) else value


def of_one_dtype(function: R) -> R:
    """The rule of a product, whose operands PyTorch does not promote: those of several element types are an error."""

    @wraps(function)
    def computed(c: Context, *args: object, **options: object) -> object:
        found = dict.fromkeys(a.dtype for a in pytree.tree_leaves(c.arguments) if isinstance(a, torch.Tensor))
        if len(found) > 1:
            raise DTypeError(
                "a product needs operands of one element type", where=user_line(), types=tuple(map(str, found)),
                fix="cast one of them: x.to(weight.dtype)",
            )  # fmt: skip
        return function(c, *args, **options)

    return cast("R", computed)


def rule(*names: str) -> Callable[[R], R]:
    """Register a rule for operators, by packet (``add``) or by overload (``max.dim``)."""

    def register(function: R) -> R:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def of_rows(*names: str) -> None:
    """Have rules of one axis take a number, which PyTorch treats as a row of one element."""
    for function in {RULES[name] for name in names}:
        taken = _of_row(function)
        RULES.update({name: taken for name in names if RULES[name] is function})


def _of_row(function: Rule) -> Rule:
    @wraps(function)
    def computed(c: Context, x: Array, *args: object, **options: object) -> object:
        if x.ndim:
            return function(c, x, *args, **options)
        rows = [znp.reshape(a, (-1,)) if hasattr(a, "dtype") else a for a in (x, *args)]
        found = function(c, *rows, **options)
        if not isinstance(found, tuple):
            return znp.reshape(found, ())
        return tuple(znp.reshape(f, ()) for f in found)

    return computed


def find(target: object) -> Rule | None:
    """The rule for a node's target; None when there is none, as for all that write in place.

    Functions on sizes are Python's own.
    """
    if not isinstance(target, torch._ops.OpOverload):
        return _plain(target)
    namespace, _, packet = target._schema.name.partition("::")
    if namespace in (OWN, "prims", "quantized_decomposed"):
        return RULES.get(target._schema.name)
    if namespace != "aten" or target._schema.is_mutable:
        return None
    overload = target._overloadname or "default"
    return RULES.get(f"{packet}.{overload}", RULES.get(packet))


_SIZES: dict[object, Rule] = {
    torch.sym_max: max,
    torch.sym_min: min,
    torch.sym_sum: sum,
    torch.sym_float: float,
    math.trunc: math.trunc,
    math.floor: math.floor,
    math.ceil: math.ceil,
}


def _plain(target: Any) -> Rule | None:
    function = _SIZES.get(target, target if getattr(target, "__module__", "") == "_operator" else None)
    return None if function is None else lambda c, *args: function(*args)
