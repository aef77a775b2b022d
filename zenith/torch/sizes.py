"""PyTorch's sizes in Zenith's formulas, and bare ones as arguments of programs, which know sizes of arrays alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any

import sympy
import torch
from torch.utils._sympy import functions

from zenith.backends.lower.nest import is_word
from zenith.ir.dims import Dim, dim, maximum, minimum, symbol
from zenith.ir.types import uint8
from zenith.trace import InputSpec


@dataclass(frozen=True, slots=True)
class Size:
    """A bare size, which a tensor without elements has as its length, on the device of the graph's tensors.

    Of a negative number, of which sizes may be computed as well, the symbol and the length are those of its opposite.
    """

    symbol: Dim
    device: torch.device

    def leaf(self, value: int) -> torch.Tensor:
        """The tensor."""
        return torch.empty((abs(value), 0), dtype=torch.uint8, device=self.device)

    def spec(self, name: str, leaf: torch.Tensor) -> InputSpec:
        """What the program is traced with."""
        return InputSpec(name, uint8, (self.symbol, dim(0)), tuple(leaf.shape))


class Sizes:
    """Zenith's formulas for PyTorch's symbolic sizes; one that has no formula gets a symbol of its own."""

    def __init__(self) -> None:
        self._known: dict[Any, Dim] = {}

    def know(self, size: Any, formula: Dim) -> None:
        """Have ``formula`` stand for a ``SymInt``, unless something does."""
        self._known.setdefault(size.node.shape_env.replace(size.node.expr), formula)

    def of(self, size: Any) -> Dim:
        """The formula of an ``int`` or ``SymInt``."""
        expression = None if isinstance(size, int) else size.node.shape_env.replace(size.node.expr)
        return dim(size) if expression is None else self._formula(expression)

    def negate(self, number: torch.SymInt) -> Dim:
        """A symbol for the opposite of a negative number, which formulas are written with from now on."""
        expression = number.node.expr
        if expression not in self._known:
            self._known[expression] = dim(0) - symbol(self._name(f"minus_{expression}"))
        return dim(0) - self._known[expression]

    def _formula(self, expression: Any) -> Dim:
        if expression.is_Integer:
            return dim(int(expression))
        found = self._known.get(expression)
        if found is None:
            kind = next((k for k in _FORMULAS if isinstance(expression, k)), None)
            if kind is None or (kind is sympy.Pow and not expression.exp.is_Integer):
                found = symbol(self._name(str(expression) if expression.is_Symbol else "size"))
            elif kind is sympy.Pow:
                found = reduce(mul, [self._formula(expression.base)] * int(expression.exp))
            else:
                found = reduce(_FORMULAS[kind], map(self._formula, expression.args))
            self._known[expression] = found
        return found

    def _name(self, wanted: str) -> str:
        taken = {str(size) for size in self._known.values()}
        while is_word(wanted) or wanted in taken:
            wanted += "_"
        return wanted


_FORMULAS: Mapping[Any, Callable[[Dim, Dim], Dim]] = {
    sympy.Add: add,
    sympy.Mul: mul,
    sympy.Pow: mul,
    functions.FloorDiv: Dim.__floordiv__,
    functions.PythonMod: Dim.__mod__,
    functions.Mod: Dim.__mod__,
    functions.Max: maximum,
    functions.Min: minimum,
}
