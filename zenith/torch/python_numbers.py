"""Python's arithmetic on sizes in PyTorch's graphs, where floats come in: ``int(n * 0.75)``, ``x / math.sqrt(n)``.

A whole number that follows is a size that Python computes before the program runs (:mod:`zenith.ir.computed_sizes`); a
float is a weak number that the program computes, in double precision as Python does.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

import zenith.numpy as znp
from zenith.checks import error_if
from zenith.numpy.typing import ArrayLike
from zenith.torch import aten
from zenith.torch.sizes import Sizes
from zenith.trace import TracedSize, Tracer, current_recorder
from zenith.trace.sizes import user_size

_FUNCTIONS: Mapping[object, Callable[[object], Any]] = {
    torch.sym_float: lambda number: number,
    math.floor: znp.floor,
    math.ceil: znp.ceil,
    math.trunc: znp.trunc,
    **{getattr(torch, f"_sym_{name}"): getattr(znp, name) for name in ("sqrt", "log2", "cos", "sin", "tan", "tanh")},
    **{getattr(torch, f"_sym_{name}"): getattr(znp, name) for name in ("cosh", "sinh")},
    **{getattr(torch, f"_sym_a{name}"): getattr(znp, f"arc{name}") for name in ("cos", "sin", "tan")},
}

# Where Python raises, and what it says.
_DOMAIN, _BY_ZERO = "math domain error", "float division by zero"
_ERRORS: Mapping[object, tuple[Callable[..., ArrayLike], str]] = {
    **{getattr(operator, name): (lambda a, b: b == 0, _BY_ZERO) for name in ("truediv", "floordiv", "mod")},
    **{getattr(torch, f"_sym_a{name}"): (lambda x: znp.abs(x) > 1, _DOMAIN) for name in ("cos", "sin")},
    **{
        getattr(torch, f"_sym_{name}"): (outside, _DOMAIN)
        for name, outside in {"sqrt": lambda x: x < 0, "log2": lambda x: x <= 0}.items()
    },
}

_RANGES = (torch.ops.aten.arange.default, torch.ops.aten.arange.start, torch.ops.aten.arange.start_step)
_COMPARISONS = (operator.lt, operator.le, operator.eq, operator.ne, operator.ge, operator.gt)
_OF_FORMULAS = (operator.add, operator.sub, operator.mul, operator.neg, operator.floordiv, operator.mod)


def rule_of(node: torch.fx.Node, sizes: Sizes) -> aten.Rule | None:
    """The rule of one of Python's functions on numbers that has floats or no formula of sizes; else None."""
    value = node.meta.get("val")
    if isinstance(node.target, torch._ops.OpOverload | torch._ops.HigherOrderOperator):
        return None
    if compares_floats(node):
        return lambda c, *numbers: node.target(*numbers)  # type: ignore[operator]
    if isinstance(value, torch.SymFloat):
        rule = (lambda c, number, *one: number) if _bounds_a_range(node) else _float_of(node.target)
        raises = rule is not None and node.target in _ERRORS and _is_argument(value)
        return _raising(node.target, rule) if rule is not None and raises else rule
    if not isinstance(value, torch.SymInt) or not sizes.knows(value):
        return None
    if _reads_floats(node) or node.target not in _OF_FORMULAS:
        return lambda c, *args, **kwargs: as_number(sizes, value)
    return None


def _bounds_a_range(node: torch.fx.Node) -> bool:
    """Whether a size is made a float only to say where ranges begin and end, which sizes say themselves."""
    is_same = node.target is torch.sym_float or (node.target is operator.mul and bool(node.args[1] == 1.0))
    return is_same and all(user.target in _RANGES or _bounds_a_range(user) for user in node.users)


def is_known(node: torch.fx.Node) -> bool:
    """Whether a node is one of Python's functions on numbers that has a rule here."""
    value = node.meta.get("val")
    if isinstance(node.target, torch._ops.OpOverload | torch._ops.HigherOrderOperator):
        return False
    if compares_floats(node):
        return True
    return isinstance(value, torch.SymInt) or (isinstance(value, torch.SymFloat) and _float_of(node.target) is not None)


def compares_floats(node: torch.fx.Node) -> bool:
    """Whether a node is a comparison of floats that are known when the program runs."""
    return node.target in _COMPARISONS and _reads_floats(node) and isinstance(node.meta.get("val"), torch.SymBool)


def as_number(sizes: Sizes, value: torch.SymInt) -> object:
    """A whole number of PyTorch's in the trace in progress."""
    recorder = current_recorder()
    assert recorder is not None, "numbers are traced"
    return user_size(sizes.in_trace(value, recorder), recorder)


def _reads_floats(node: torch.fx.Node) -> bool:
    read = [n.meta.get("val") if isinstance(n, torch.fx.Node) else n for n in node.args]
    return any(isinstance(number, float | torch.SymFloat) for number in read)


def _float_of(target: Any) -> aten.Rule | None:
    """The rule of a function whose result is a float: that of arrays instead of Python's."""
    function = _FUNCTIONS.get(target)
    if function is None:
        return aten.find(target)

    def computed(c: aten.Context, number: Any) -> Any:
        is_known = not isinstance(number, TracedSize | Tracer)
        if is_known:
            return target(number)
        found = function(number * 1.0)
        found.weak = True
        return found

    return computed


def _raising(target: object, rule: aten.Rule) -> aten.Rule:
    """The rule of a function of a float that is an argument, which raises where Python's does."""
    wrong, why = _ERRORS[target]

    def computed(c: aten.Context, *numbers: object) -> Any:
        condition = wrong(*numbers)
        found = rule(c, *numbers)
        if condition is not False:  # of a divisor that is a constant
            found = error_if(found, condition, why)
        found.weak = True
        return found

    return computed


def _is_argument(number: torch.SymFloat) -> bool:
    """Whether a float depends on one that is an argument, and not on sizes alone."""
    known = number.node.shape_env.backed_var_to_val
    return any(one not in known for one in number.node.expr.free_symbols)
