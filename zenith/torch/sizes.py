"""PyTorch's sizes in Zenith's formulas, and bare ones as arguments of programs, which know sizes of arrays alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add, mul

import sympy
import torch
from torch.utils._sympy import functions
from torch.utils._sympy.printers import PythonPrinter

from zenith.backends.lower.words import is_word
from zenith.errors import UnsupportedError, user_line
from zenith.ir.computed_sizes import evaluate, with_computed
from zenith.ir.dims import Dim, dim, maximum, minimum, symbol
from zenith.ir.types import uint8
from zenith.torch.calls import as_input
from zenith.torch.conditions import in_python
from zenith.trace import InputSpec, Recorder


@dataclass(frozen=True, slots=True)
class Size:
    """A bare size, which a tensor without elements has as its length, on the device of the graph's tensors.

    Of a negative number, of which sizes may be computed as well, the symbol and the length are those of its opposite.
    """

    symbol: Dim
    device: torch.device

    def leaf(self, value: int) -> torch.Tensor:
        """The tensor."""
        return as_input(abs(value), self.device)

    def spec(self, name: str, leaf: torch.Tensor) -> InputSpec:
        """What the program is traced with."""
        return InputSpec(name, uint8, (self.symbol, dim(0)), tuple(leaf.shape))


class Sizes:
    """Zenith's formulas for PyTorch's symbolic sizes.

    One that has no formula, such as ``int(n * 0.75)``, is a symbol that Python computes (``definitions``, by its name),
    and its opposite where it is negative. ``hints`` has the symbols' values in some call.
    """

    def __init__(self, hints: Mapping[str, int] | None = None) -> None:
        self.definitions: dict[str, str] = {}
        self._known: dict[object, Dim] = {}
        self._hints: dict[str, int] = dict(hints or {})

    def know(self, size: torch.SymInt, formula: Dim) -> None:
        """Use ``formula`` for a ``SymInt``, unless it has one."""
        self._known.setdefault(size.node.shape_env.replace(size.node.expr), formula)

    def knows(self, size: torch.SymInt) -> bool:
        """Whether all symbols of a ``SymInt`` have formulas."""
        expression = size.node.shape_env.replace(size.node.expr)
        return expression in self._known or expression.free_symbols <= self._known.keys()

    def of(self, size: int | torch.SymInt) -> Dim:
        """The formula of an ``int`` or ``SymInt``."""
        if isinstance(size, int):
            return dim(size)
        environment = size.node.shape_env
        expression = environment.replace(size.node.expr)
        for one in sorted(expression.free_symbols - self._known.keys(), key=str):
            if not one.is_integer:
                raise UnsupportedError(
                    f"a size depends on {one}, a float", where=user_line(), fix="compute it from sizes"
                )
            name = self._name(str(one))
            self._known[one] = symbol(name)
            hint = environment.backed_var_to_val.get(one)
            if hint is not None:
                self._hints[name] = int(hint)
        return self._formula(expression)

    def negate(self, number: torch.SymInt) -> Dim:
        """A symbol for the opposite of a negative number, which formulas are written with from now on."""
        expression = number.node.expr
        if expression not in self._known:
            name = self._name(f"minus_{expression}")
            self._known[expression], self._hints[name] = dim(0) - symbol(name), -int(number.node.hint)
        return dim(0) - self._known[expression]

    def in_trace(self, size: int | torch.SymInt, recorder: Recorder) -> Dim:
        """The formula as a trace writes it, which from now on knows the sizes that Python computes."""
        found = self.of(size)
        self.define_in(recorder)
        return recorder.canonical(found)

    def define_in(self, recorder: Recorder) -> None:
        """Have a trace know the sizes that Python computes from those of its arguments."""
        for name, source in self.definitions.items():
            if self._symbols_in(source) <= recorder.hints.keys():
                recorder.define(name, source)

    def with_computed(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes of a call, and those that Python computes from them."""
        known = {n: s for n, s in self.definitions.items() if self._symbols_in(s) <= sizes.keys()}
        return with_computed(sizes, known)

    def _symbols_in(self, source: str) -> set[str]:
        return set(re.findall(r"[^\W\d]\w*", source)) & self._hints.keys()

    def bind(self, name: str) -> None:
        """An argument binds the size ``name``, which is not computed then."""
        self.definitions.pop(name, None)

    def _formula(self, expression: sympy.Expr) -> Dim:
        if expression.is_Integer:
            return dim(int(expression))
        found = self._known.get(expression)
        if found is None:
            kind = next((k for k in _FORMULAS if isinstance(expression, k)), None)
            if kind is None or (kind is sympy.Pow and not _is_whole(expression.exp)):
                found = self._defined(expression)
            elif kind is sympy.Pow:
                found = reduce(mul, [self._formula(expression.base)] * int(expression.exp))
            else:
                found = reduce(_FORMULAS[kind], map(self._formula, expression.args))
            self._known[expression] = found
        return found

    def _defined(self, expression: sympy.Expr) -> Dim:
        """A symbol for what Python computes; negative numbers have one for their opposite."""
        formulas = {str(one): f"({self._known[one]})" for one in expression.free_symbols}
        printed = in_python(PythonPrinter().doprint(expression))
        source = re.sub(r"[^\W\d]\w*", lambda word: formulas.get(word[0], word[0]), printed)
        if evaluate(source, self._all_hints()) >= 0:
            name = self._name("size")
            self.definitions[name] = source
            return symbol(name)
        name = self._name("minus_size")
        self.definitions[name] = f"-({source})"
        return dim(0) - symbol(name)

    def _all_hints(self) -> Mapping[str, int]:
        return with_computed(self._hints, {n: s for n, s in self.definitions.items() if n not in self._hints})

    def _name(self, wanted: str) -> str:
        taken = {name for size in self._known.values() for name in size.symbols()}
        taken |= self.definitions.keys() | self._hints.keys()
        while is_word(wanted) or wanted in taken:
            wanted += "_"
        return wanted


def _is_whole(exponent: sympy.Expr) -> bool:
    return bool(exponent.is_Integer and exponent >= 0)


_FORMULAS: Mapping[type, Callable[[Dim, Dim], Dim]] = {
    sympy.Add: add,
    sympy.Mul: mul,
    sympy.Pow: mul,
    functions.FloorDiv: Dim.__floordiv__,
    functions.PythonMod: Dim.__mod__,
    functions.Mod: Dim.__mod__,
    functions.Max: maximum,
    functions.Min: minimum,
}
