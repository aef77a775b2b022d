"""What a rule is given, and how it is found: the context of an operation, and the table of rules by operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import zenith.numpy as znp
from zenith.arrays import torch_adapter
from zenith.trace import TracedSize

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


@dataclass(frozen=True)
class Context:
    """What PyTorch found out about one operation: examples of its result and of its arguments."""

    value: Any
    arguments: tuple[Any, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of the (first) result."""
        value = self.value[0] if isinstance(self.value, (tuple, list)) else self.value
        return numpy_dtype(value.dtype)

    @property
    def common(self) -> np.dtype[Any]:
        """The element type in which the first two arguments meet."""
        return numpy_dtype(torch.result_type(self.arguments[0], self.arguments[1]))

    def cast(self, *values: Any) -> Any:
        """Arrays in the result's element type; numbers stay numbers."""
        cast = tuple(to(v, self.dtype) for v in values)
        return cast if len(cast) > 1 else cast[0]


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """The NumPy dtype of a torch dtype; DTypeError when Zenith has none."""
    example = torch.empty(0, dtype=dtype)
    torch_adapter().check(example, "a value inside the module")
    found = torch_adapter().dtype(example)
    assert found is not None
    return found.numpy


def to(value: Any, dtype: np.dtype[Any]) -> Any:
    """An array in another element type; Python numbers and sizes are weak and stay."""
    if isinstance(value, (bool, int, float, TracedSize)) or value is None or value.dtype == dtype:
        return value
    return znp.astype(value, dtype)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators, by packet (``add``) or by overload (``max.dim``)."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def find(target: Any) -> Rule | None:
    """The rule for a node's target; None when there is none, as for all that write in place.

    Functions on sizes are Python's own.
    """
    if not isinstance(target, torch._ops.OpOverload):
        return _plain(target)
    namespace, _, packet = target._schema.name.partition("::")
    if namespace != "aten" or target._schema.is_mutable:
        return None
    overload = target._overloadname or "default"
    return RULES.get(f"{packet}.{overload}", RULES.get(packet))


_SIZES: dict[Any, Callable[..., Any]] = {
    torch.sym_max: max,
    torch.sym_min: min,
    torch.sym_float: float,
}


def _plain(target: Any) -> Rule | None:
    function = _SIZES.get(target, target if getattr(target, "__module__", "") == "_operator" else None)
    return None if function is None else lambda c, *args: function(*args)
