"""Arithmetic, functions, comparisons, logic and choices, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith.ir.types import kind_of
from zenith.numpy.typing import Array, ArrayLike
from zenith.torch.aten import corners
from zenith.torch.aten.rules import RULES, Context, Rule, rounded_once, rule, to, wrapped
from zenith.torch.aten.value_checks import of_divisor
from zenith.trace.bind import b


def _round(x: Array) -> Array:
    return znp.rint(x) if kind_of(x.dtype) == "f" else x


def sign(x: Array) -> Array:
    """0 for nan, which has no sign."""
    if kind_of(x.dtype) == "f":
        return znp.where(znp.isnan(x), 0, znp.sign(x))
    return x if kind_of(x.dtype) == "b" else znp.sign(x)


_UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": znp.negative, "_neg_view": znp.negative, "sqrt": znp.sqrt, "rsqrt": lambda x: 1.0 / znp.sqrt(x),
    "reciprocal": lambda x: 1.0 / x, "exp": znp.exp, "exp2": znp.exp2, "expm1": znp.expm1, "log": znp.log,
    "log2": znp.log2, "log10": znp.log10, "log1p": znp.log1p, "sin": znp.sin, "cos": znp.cos, "tan": znp.tan,
    "sinh": znp.sinh, "cosh": znp.cosh, "tanh": znp.tanh, "asin": znp.arcsin, "acos": znp.arccos, "atan": znp.arctan,
    "asinh": znp.arcsinh, "acosh": znp.arccosh, "atanh": znp.arctanh,
    "erf": znp.special.erf,
    "floor": znp.floor, "ceil": znp.ceil, "trunc": znp.trunc, "round": _round, "sign": sign,
    "bitwise_not": znp.invert, "lgamma": znp.special.gammaln, "digamma": znp.special.psi, "erfc": znp.special.erfc,
    "special_erfcx": znp.special.erfcx, "special_log_ndtr": znp.special.log_ndtr, "special_ndtri": znp.special.ndtri,
    "erfinv": znp.special.erfinv, "i0": znp.special.i0, "special_i0e": znp.special.i0e, "special_i1": znp.special.i1,
    "special_i1e": znp.special.i1e, "special_modified_bessel_i0": znp.special.i0,
    "special_modified_bessel_i1": znp.special.i1, "sinc": znp.sinc, "special_entr": corners.entropy,
}  # fmt: skip
_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "mul": znp.multiply, "maximum": znp.maximum, "minimum": znp.minimum, "bitwise_and": znp.bitwise_and,
    "bitwise_or": znp.bitwise_or, "bitwise_xor": znp.bitwise_xor, "__and__": znp.bitwise_and,
    "__or__": znp.bitwise_or, "__xor__": znp.bitwise_xor, "max.other": znp.maximum, "min.other": znp.minimum,
    "atan2": corners.angle, "hypot": znp.hypot, "copysign": znp.copysign, "nextafter": znp.nextafter,
    "fmax": corners.fmax, "fmin": corners.fmin, "gcd": znp.gcd, "lcm": znp.lcm, "bitwise_left_shift": znp.left_shift,
    "bitwise_right_shift": znp.right_shift, "__lshift__": znp.left_shift, "__rshift__": znp.right_shift,
    "ldexp": lambda x, power: x * znp.exp2(power), "igamma": znp.special.gammainc, "igammac": znp.special.gammaincc,
}  # fmt: skip
_WITH_DIVISORS = {"remainder": of_divisor(znp.remainder), "fmod": of_divisor(znp.fmod)}
_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": znp.equal, "ne": znp.not_equal, "lt": znp.less, "le": znp.less_equal, "gt": znp.greater,
    "ge": znp.greater_equal,
}  # fmt: skip
_COPIES = ("alias", "clone", "contiguous", "to", "_to_copy", "type_as", "lift", "lift_fresh_copy",
           "prims::convert_element_type")  # fmt: skip
_QUESTIONS: dict[str, Callable[[Array], Array]] = {"isnan": znp.isnan, "isinf": znp.isinf, "signbit": znp.signbit}
_LOGIC: dict[str, Callable[..., Array]] = {
    "logical_and": znp.logical_and, "logical_or": znp.logical_or, "logical_xor": znp.logical_xor,
    "logical_not": znp.logical_not,
}  # fmt: skip


def _with_numbers(function: Rule) -> Rule:
    return rounded_once(function, numbers_only=True)


def _register_elementwise() -> None:
    for name, unary in _UNARY.items():
        RULES[name] = lambda c, x, *_, f=unary, **__: f(c.cast(x))
    RULES["rsqrt"] = rounded_once(RULES["rsqrt"])
    for name, binary in _BINARY.items():
        RULES[name] = _with_numbers(lambda c, x, y, f=binary: f(*c.operands(x, y)))
    for name, divide in _WITH_DIVISORS.items():
        RULES[name] = lambda c, x, y, f=divide: f(c, *c.operands(x, y))  # numbers are rounded to 16 bits first
    for name, compare in _COMPARISONS.items():
        RULES[name] = lambda c, x, y, f=compare: f(*(wrapped(to(v, c.common), c.common) for v in (x, y)))
    for name in _COPIES:
        RULES[name] = lambda c, x, *_, **__: c.cast(x)
    for name, ask in _QUESTIONS.items():
        RULES[name] = lambda c, x, f=ask: f(x)
    for name, logic in _LOGIC.items():
        RULES[name] = lambda c, *args, f=logic: f(*(to(a, np.dtype(bool)) for a in args))


_register_elementwise()


@rule("add")
@_with_numbers
def _add(c: Context, x: Array, y: ArrayLike, alpha: complex = 1) -> Array:
    x, y = c.operands(x, y)
    return x + (y if alpha == 1 else c.operands(y * c.operands(alpha)))


@rule("sub")
@_with_numbers
def _sub(c: Context, x: Any, y: ArrayLike, alpha: complex = 1) -> Array:
    x, y = c.operands(x, y)
    return x - (y if alpha == 1 else c.operands(y * c.operands(alpha)))


@rule("rsub")
def _rsub(c: Context, x: Array, y: ArrayLike, alpha: complex = 1) -> Array:
    return _sub(c, y, x, alpha)


@rule("div", "true_divide")
@_with_numbers
def _div(c: Context, x: Array, y: ArrayLike, rounding_mode: str | None = None) -> Array:
    x, y = c.cast(x, y)
    if rounding_mode == "floor":
        return of_divisor(znp.floor_divide)(c, x, y)
    if rounding_mode == "trunc":
        return znp.trunc(x / y) if kind_of(c.dtype) == "f" else of_divisor(_truncated)(c, x, y)
    return x / y


def _truncated(x: Array, y: ArrayLike) -> Array:
    return (x - znp.fmod(x, y)) // y


@rule("pow")
@_with_numbers
def _pow(c: Context, x: Any, exponent: ArrayLike) -> Array:
    if isinstance(exponent, float) and exponent == -0.5 and kind_of(c.dtype) == "f":
        return 1.0 / znp.sqrt(c.cast(x))
    x, exponent = c.cast(x, exponent)
    return x**exponent


@rule("round.decimals")
@rounded_once
def _round_to(c: Context, x: Array, *, decimals: int) -> Array:
    """Rounded to ``decimals`` digits after the point, before it if negative."""
    scale = 10.0 ** abs(decimals)
    return znp.rint(x * scale) / scale if decimals >= 0 else znp.rint(x / scale) * scale


@rule("polygamma")
def _polygamma(c: Context, order: int, x: Array) -> Array:
    return znp.special.polygamma(order, c.cast(x))


@rule("frexp")
def _frexp(c: Context, x: Array) -> tuple[Array, Array]:
    return znp.frexp(x)


@rule("fill")
def _fill(c: Context, x: Array, value: ArrayLike) -> Array:
    return znp.broadcast_to(znp.asarray(c.operands(value), dtype=c.dtype), x.shape)


@rule("clamp")
def _clamp(c: Context, x: Array, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """The derivative at a bound is that of x."""
    x, low, high = c.cast(x, min, max)
    x = x if low is None else znp.where(_beyond(znp.less, x, low), low, x)
    return x if high is None else znp.where(_beyond(znp.greater, x, high), high, x)


def _beyond(relation: Callable[[Array, ArrayLike], Array], x: Array, bound: ArrayLike) -> Array | bool:
    """Where a bound replaces x: everywhere for a bound that is nan."""
    if not hasattr(bound, "dtype"):
        return relation(x, bound) if bound == bound else True
    beyond = relation(x, bound)
    return znp.logical_or(beyond, bound != bound) if kind_of(bound.dtype) == "f" else beyond


RULES["clamp_min"] = _clamp


@rule("detach")
def _detach(c: Context, x: Array) -> Array:
    return b.stop_gradient(x)


@rule("masked_fill")
def _masked_fill(c: Context, x: Array, mask: Array, value: ArrayLike) -> Array:
    if isinstance(value, (bool, int, float)):  # a fraction of it is dropped; what the type cannot hold is an error
        whole: dict[str, Callable[[Any], Any]] = {"b": bool, "i": int, "u": int}
        return to(znp.where(mask, whole.get(kind_of(x.dtype), lambda v: v)(value), x), x.dtype)
    return znp.where(mask, znp.astype(znp.asarray(value), x.dtype), x)


@rule("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def _where(c: Context, condition: Array, x: ArrayLike, y: ArrayLike) -> Array:
    return to(znp.where(condition, *c.cast(x, y)), c.dtype)
