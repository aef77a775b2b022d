"""The language of rewrite rules: one line of IR text is parsed once into a matcher and a template.

    mul_one: mul(x, 1) => x  for iuf, exact
    cast_twice: cast(cast(x, dtype=s), dtype=t) => cast(x, dtype=t)  for biuf, exact when lossless(x, s, t)

``x y z`` stand for any value, ``c`` for a bool value, ``k m`` for any literal (or broadcast literal), ``s t`` for
parameters. A number matches literals of exactly that value (0 and -0.0 differ); ``lowest``, ``highest`` and ``ones``
(all bits set) depend on the element type. The letters after ``for`` are the element kinds of ``x`` (of ``c`` where a
rule has no x). ``exact`` promises equal bits (every nan alike), ``3 ulp`` a bound in units of the last place, where
subnormal results count as zero and the sign of zero is free. Commutative primitives match in either order.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from zenith.ir.builder import Builder
from zenith.ir.graph import Value
from zenith.ir.ops.reduce import highest, lowest
from zenith.ir.primitive import get
from zenith.ir.types import DType
from zenith.passes.cse import COMMUTATIVE
from zenith.passes.rewrite import Rewriter, number_of

VALUES = frozenset("xyzc")
NUMBERS = frozenset("km")
PARAMETERS = frozenset("st")
EITHER_ORDER = COMMUTATIVE | {"maximum", "minimum"}
Bindings = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Variable:
    """Any value, the same one wherever the name repeats."""

    name: str


@dataclass(frozen=True, slots=True)
class NumberPattern:
    """A number: written out, by a name of its type, or (in a template) computed from matched ones."""

    text: str

    @property
    def bound(self) -> bool:
        """Whether it is a single ``k`` or ``m``, which a pattern binds."""
        return self.text in NUMBERS

    def value(self, dtype: DType, bindings: Mapping[str, Any]) -> Any:
        """The number as an element of ``dtype``."""
        return _compute(ast.parse(self.text, mode="eval").body, dtype, bindings)


@dataclass(frozen=True, slots=True)
class Operation:
    """A primitive on patterns; a parameter is a literal value or the name of a variable."""

    name: str
    args: tuple[Pattern, ...]
    params: tuple[tuple[str, Any], ...]


Pattern: TypeAlias = Variable | NumberPattern | Operation

_NAMED: dict[str, Callable[[DType], Any]] = {
    "inf": lambda dtype: np.inf,
    "lowest": lowest,
    "highest": highest,
    "ones": lambda dtype: np.invert(dtype.numpy.type(0)),
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: np.add, ast.Mult: np.multiply, ast.Div: np.divide, ast.Sub: np.subtract,
}  # fmt: skip


def _compute(node: ast.expr, dtype: DType, bindings: Mapping[str, Any]) -> Any:
    """A number expression in the arithmetic of the element type (integers wrap)."""
    with np.errstate(all="ignore"):
        match node:
            case ast.Constant(value=value):
                return dtype.numpy.type(value)
            case ast.Name(id=name):
                return bindings[name] if name in NUMBERS else dtype.numpy.type(_NAMED[name](dtype))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return dtype.numpy.type(np.negative(_compute(operand, dtype, bindings)))
            case ast.BinOp(left=left, op=op, right=right):
                pair = _compute(left, dtype, bindings), _compute(right, dtype, bindings)
                return dtype.numpy.type(_ARITHMETIC[type(op)](*pair))
    raise ValueError(f"not a number: {ast.unparse(node)}")


class Condition(NamedTuple):
    """A function of :data:`zenith.passes.rules.CONDITIONS`, called with the values of variables."""

    function: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A parsed rule. ``patterns`` has the left side in every order of commutative operands."""

    name: str
    patterns: tuple[Operation, ...]
    template: Pattern
    kinds: str
    ulp: int
    condition: Condition | None
    text: str

    @property
    def root(self) -> str:
        """The primitive that the rule rewrites."""
        return self.patterns[0].name


_RULE = re.compile(r"(\w+): (.+) => (.+?)  for ([biuf]+), (?:exact|(\d+) ulp)(?: when (.+))?")


def parse_rule(text: str) -> Rule:
    """The rule that a line spells; ValueError when it is none."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"not a rule: {text}")
    name, left, right, kinds, ulp, condition = found.groups()
    pattern = _parse(ast.parse(left, mode="eval").body)
    if not isinstance(pattern, Operation):
        raise ValueError(f"rule {name}: the left side must be an operation")
    test = None if condition is None else _parse_condition(name, condition)
    orders = tuple(p for p in _orders(pattern) if isinstance(p, Operation))
    return Rule(name, orders, _parse(ast.parse(right, mode="eval").body), kinds, int(ulp or 0), test, text.strip())


def _parse_condition(rule: str, text: str) -> Condition:
    test = ast.parse(text, mode="eval").body
    if not isinstance(test, ast.Call):
        raise ValueError(f"rule {rule}: a condition is a call, not {text}")
    return Condition(ast.unparse(test.func), tuple(map(ast.unparse, test.args)))


def _parse(node: ast.expr) -> Pattern:
    match node:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            params = {k.arg: k.value for k in keywords if k.arg is not None}
            if params.keys() != get(name).params.keys():
                raise ValueError(f"{name} has parameters {sorted(get(name).params)}, not {sorted(params)}")
            return Operation(name, tuple(map(_parse, args)), tuple((k, _parameter(v)) for k, v in params.items()))
        case ast.Name(id=name) if name in VALUES:
            return Variable(name)
    return NumberPattern(ast.unparse(node))


def _parameter(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def _orders(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern with the operands of commutative primitives in every order, each once."""
    if not isinstance(pattern, Operation):
        yield pattern
        return
    seen: dict[Operation, None] = {}
    for args in itertools.product(*(list(_orders(a)) for a in pattern.args)):
        orders = (args, args[::-1]) if pattern.name in EITHER_ORDER else (args,)
        seen.update(dict.fromkeys(Operation(pattern.name, order, pattern.params) for order in orders))
    yield from seen


def match_operation(
    b: Rewriter, pattern: Operation, args: Sequence[Value], params: Mapping[str, Any], found: Bindings
) -> bool:
    """Whether an operation of the pattern's primitive fits; fills ``found``."""
    for name, wanted in pattern.params:
        if not _bind(found, wanted, params[name]) if wanted in PARAMETERS else params[name] != wanted:
            return False
    return all(_match(b, p, a, found) for p, a in zip(pattern.args, args, strict=True))


def _match(b: Rewriter, pattern: Pattern, value: Value, found: Bindings) -> bool:
    if isinstance(pattern, Variable):
        return _bind(found, pattern.name, value)
    if isinstance(pattern, Operation):
        node = b.definition(value)
        return node.primitive.name == pattern.name and match_operation(
            b, pattern, b.operands(value), node.params, found
        )
    literal = number_of(b, value)
    if literal is None:
        return False
    actual = value.dtype.numpy.type(literal)
    return _bind(found, pattern.text, actual) if pattern.bound else same_number(_known(pattern, value.dtype), actual)


@lru_cache(maxsize=1024)
def _known(number: NumberPattern, dtype: DType) -> Any:
    """A number of a pattern, which is not computed from others, as an element of ``dtype``."""
    return number.value(dtype, {})


def _bind(found: Bindings, name: str, value: Any) -> bool:
    known = found.setdefault(name, value)
    return known is value or bool(known == value)


def same_number(a: Any, b: Any) -> bool:
    """Whether two numbers of one type are equal, the sign of zero included."""
    return bool(a == b) and (a.dtype.kind != "f" or bool(np.signbit(a) == np.signbit(b)))


def build(b: Builder, template: Pattern, found: Bindings, like: Value | None) -> Value:
    """The values that a template spells; a template that is only a number takes the type of ``like``."""
    if isinstance(template, Variable):
        value: Value = found[template.name]
        return value
    if isinstance(template, NumberPattern):
        assert like is not None
        return b.full(template.value(like.dtype, found), like.dtype, like.shape)
    values = [None if isinstance(a, NumberPattern) else build(b, a, found, None) for a in template.args]
    model = next(v for v in values if v is not None)
    args = [build(b, a, found, model) if v is None else v for a, v in zip(template.args, values, strict=True)]
    params = {k: found[v] if v in PARAMETERS else v for k, v in template.params}
    result: Value = getattr(b, template.name)(*args, **params)
    return result
