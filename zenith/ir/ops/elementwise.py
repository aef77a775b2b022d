"""Elementwise arithmetic and functions: one line each, with expression, NumPy function, partial derivatives, error.

A partial derivative is ``(b, args, y) -> multiplier``, 1 or -1 where it is that everywhere, or None where it is zero.
Forward and reverse rules follow from it. Points without derivative take the value that ``doc`` states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np

from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim
from zenith.ir.graph import Value
from zenith.ir.lowering import ComplexRule, Composite, HostCall, Lowering, Scalar
from zenith.ir.ops import complex_rules
from zenith.ir.ops import reference as ref
from zenith.ir.ops.common import (
    all_batched,
    arrays,
    random_array,
    require_kind,
    require_same_dtype,
    require_same_shape,
    rng,
    wide,
)
from zenith.ir.primitive import (
    BatchRule,
    JvpRule,
    NoRule,
    Params,
    Primitive,
    Sample,
    VjpRule,
    not_differentiable,
    register,
)
from zenith.ir.types import ArrayType, DType, NDArray, NumPyType, Type, bool_, float32, kind_of

Multiplier = Callable[[Builder, Values, Value], Value]
Partial = Multiplier | int
Formula = Callable[..., Value]  # of a builder and the operands


def elementwise(
    name: str,
    doc: str,
    expression: str | dict[str, str] | HostCall | Formula,
    function: Callable[..., NDArray],
    partials: Sequence[Partial | None] | NoRule,
    *,
    kinds: str = "iuf",
    result: DType | None = None,
    ulp: float = 0,
    cost: int = 1,
    domain: Sequence[tuple[float, float]] = (),
    arity: int = 2,
) -> Primitive:
    """Register an elementwise primitive whose operands share one type; ``domain`` bounds the tests' arguments.

    A function in place of an expression, of a builder and the operands, writes it with other primitives; a
    :class:`~zenith.ir.lowering.HostCall` is a call of Python or of a library. The rules of complex
    operands (kind ``c``), where it is not applied part by part, are in :mod:`zenith.ir.ops.complex_rules`.
    """
    rule = complex_rules.COMPLEX_RULES.get(name)

    def typing(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
        operands = arrays(name, types, arity)
        require_same_dtype(name, operands)
        require_kind(name, operands[0], kinds)
        require_same_shape(name, operands)
        return (operands[0].with_dtype(result or operands[0].dtype),)

    def evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
        with np.errstate(all="ignore"):
            out = np.asarray(function(*wide(values)))
            return (out.astype(result.numpy if result else values[0].dtype, copy=False),)

    def samples(dtype: NumPyType) -> Iterable[Sample]:
        if kind_of(dtype) not in kinds:
            return
        generator = rng(name)
        bounds = list(domain) or [(-2.0, 2.0)] * arity
        for shape in ((), (5,), (3, 4), (0, 2)):
            yield Sample(tuple(random_array(generator, dtype, shape, lo, hi) for lo, hi in bounds), {})

    return register(
        Primitive(
            name=name, doc=doc, params={}, typing=typing, evaluate=evaluate,
            lowering=expression if isinstance(expression, HostCall) else _in_kernels(expression, cost, rule, result),
            jvp=partials if isinstance(partials, NoRule) else _jvp(partials),
            vjp=partials if isinstance(partials, NoRule) else _vjp(partials),
            batch=batch_elementwise(name), ulp=ulp, effect=False, samples=samples,
        )
    )  # fmt: skip


def _in_kernels(
    expression: str | dict[str, str] | Formula,
    cost: int,
    complex_rule: ComplexRule | None,
    result: DType | None,
) -> Lowering:
    if not callable(expression):
        return Scalar(expression, cost, complex_rule)

    def expand(b: Builder, args: Values, params: Params) -> Values:
        if complex_rule is not None and args[0].dtype.is_complex:
            return [cast(Value, complex_rule.write(b, *args))]
        if not args[0].dtype.is_narrow:
            return [expression(b, *args)]
        wider = [b.cast(a, dtype=float32) for a in args]  # the expression's numbers are for types of more range
        return [b.cast(expression(b, *wider), dtype=result or args[0].dtype)]

    return Composite(expand, complex_rule)


def batch_elementwise(name: str) -> BatchRule:
    """The batching rule of an elementwise primitive: the same on operands that all have the batch axis."""

    def batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
        return [getattr(b, name)(*all_batched(b, args, batched, size), **params)]

    return batch


def _jvp(partials: Sequence[Partial | None]) -> JvpRule:
    def jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
        total = None
        for partial, tangent in zip(partials, tangents, strict=True):
            if partial is not None and tangent is not None:
                term = _times(b, tangent, partial, primals, outputs[0])
                total = term if total is None else b.add(total, term)
        return [total]

    return jvp


def _vjp(partials: Sequence[Partial | None]) -> VjpRule:
    def vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
        ct = cotangents[0]
        return [None if p is None else _times(b, ct, p, primals, outputs[0]) for p in partials]

    return vjp


def _times(b: Builder, value: Value, partial: Partial, args: Values, y: Value) -> Value:
    if isinstance(partial, int):
        return value if partial == 1 else b.neg(value)
    return b.mul(value, partial(b, args, y))


def unary(
    name: str,
    doc: str,
    expression: str | dict[str, str] | Formula,
    function: Callable[..., NDArray],
    partial: Partial | NoRule | None,
    **options: Any,
) -> Primitive:
    """Register an elementwise primitive of one operand."""
    partials = partial if isinstance(partial, NoRule) else (partial,)
    if "domain" in options:
        options["domain"] = [options["domain"]]
    return elementwise(name, doc, expression, function, partials, arity=1, **options)


def _wins(relation: str) -> Multiplier:
    """1 where the first operand wins, 1/2 on ties, 0 elsewhere."""

    def partial(b: Builder, args: Values, y: Value) -> Value:
        one, half, zero = (b.full(v, args[0].dtype, args[0].shape) for v in (1.0, 0.5, 0.0))
        tie = b.where(b.eq(args[0], args[1]), half, zero)
        return b.where(getattr(b, relation)(args[0], args[1]), one, tie)

    return partial


def _swapped(partial: Multiplier) -> Multiplier:
    return lambda b, args, y: partial(b, (args[1], args[0]), y)


def _root_of_one_minus_square(b: Builder, x: Value) -> Value:
    """``sqrt(1 - x*x)``, exact to the last places near 1 and 0 there: both factors are."""
    one = b.full(1.0, x.dtype, x.shape)
    return b.sqrt(b.mul(b.sub(one, x), b.add(x, one)))


def _power_by_exponent(b: Builder, args: Values, y: Value) -> Value:
    x, _ = args
    positive = b.gt(x, 0.0)
    safe = b.where(positive, x, b.full(1.0, x.dtype, x.shape))
    return b.mul(y, b.log(safe))


def _power_by_base(b: Builder, args: Values, y: Value) -> Value:
    """e x**(e - 1), and 0 at 0**0; like the value it does not change with e where x <= 0."""
    x, e = args
    nowhere = b.bit_and(b.eq(x, 0.0), b.eq(e, 0.0))
    e = b.where(b.gt(x, 0.0), e, b.stop_gradient(e))
    safe = b.where(nowhere, b.full(1.0, x.dtype, x.shape), x)
    return b.where(nowhere, b.zeros_like(x), b.mul(e, b.power(safe, b.sub(e, 1.0))))


_STEPS = (None, None)  # constant between jumps: the derivative is zero, as JAX and PyTorch have it
TWO_OVER_ROOT_PI = 2.0 / np.sqrt(np.pi)
F: dict[str, Any] = {"kinds": "f"}
FC: dict[str, Any] = {"kinds": "fc"}
C: dict[str, Any] = {"kinds": "iufc"}

# Arithmetic. Integers wrap; division by zero gives what NumPy gives.
elementwise("add", "Sum.", "x + y", np.add, (1, 1), ulp=0.5, **C)
elementwise("sub", "Difference.", "x - y", np.subtract, (1, -1), ulp=0.5, **C)
elementwise("mul", "Product.", "x * y", np.multiply, (lambda b, a, y: a[1], lambda b, a, y: a[0]), ulp=0.5,
            **C)  # fmt: skip
elementwise("div", "True quotient of floating-point and complex numbers.", "divide(x, y)", np.divide,
            (lambda b, a, y: b.div(b.full(1.0, y.dtype, y.shape), a[1]), lambda b, a, y: b.neg(b.div(y, a[1]))),
            ulp=0.5, cost=4, **FC)  # fmt: skip
elementwise("floor_divide", "Quotient rounded down; an integer divided by 0 is 0.", "floor_divide(x, y)",
            np.floor_divide, _STEPS, cost=10)  # fmt: skip
elementwise("remainder", "Remainder with the sign of the divisor; modulo 0 is 0 (nan for floats).",
            "remainder(x, y)", np.remainder, (1, lambda b, a, y: b.neg(b.floor_divide(a[0], a[1]))),
            ulp=0.5, cost=10, domain=((0.3, 1.7), (1.8, 2.0)))  # fmt: skip
elementwise("power", "x to the power y; d/dy is 0 where x <= 0; integers wrap, negative exponents give 0, 1 or -1.",
            {"f": "power(x, y)", "i": "int_power(x, y)", "u": "int_power(x, y)"}, ref.power,
            (_power_by_base, _power_by_exponent), ulp=4, cost=30, domain=((0.2, 2.0), (0.0, 1.0)))  # fmt: skip
elementwise("maximum", "The larger; nan if either is; the derivative is shared on ties.", "maximum(x, y)", np.maximum,
            (_wins("gt"), _swapped(_wins("gt"))))  # fmt: skip
elementwise("minimum", "The smaller; nan if either is; the derivative is shared on ties.", "minimum(x, y)", np.minimum,
            (_wins("lt"), _swapped(_wins("lt"))))  # fmt: skip
elementwise("arctan2", "Angle of the point (y, x).", "arctan2(x, y)", np.arctan2,
            (lambda b, a, y: b.div(a[1], b.add(b.mul(a[0], a[0]), b.mul(a[1], a[1]))),
             lambda b, a, y: b.neg(b.div(a[0], b.add(b.mul(a[0], a[0]), b.mul(a[1], a[1]))))),
            ulp=2, cost=30, domain=((0.5, 2.0), (0.5, 2.0)), **F)  # fmt: skip
elementwise("copysign", "The magnitude of the first operand with the sign of the second.", "copysign(x, y)",
            np.copysign, (lambda b, a, y: b.mul(b.sign(a[0]), b.copysign(b.full(1.0, y.dtype, y.shape), a[1])), None),
            domain=((0.5, 2.0), (0.5, 2.0)), **F)  # fmt: skip

unary("neg", "Negation.", "-x", np.negative, -1, **C)
unary("abs", "Absolute value; the derivative at 0 is 0.", {"i": "magnitude(x)", "u": "x", "f": "magnitude(x)"}, np.abs,
      lambda b, a, y: b.sign(a[0]))  # fmt: skip
unary("sign", "-1, 0 or 1; nan for nan.", "sign(x)", np.sign, None, cost=2)
unary("floor", "Rounding down.", "floor(x)", np.floor, None, **F)
unary("ceil", "Rounding up.", "ceil(x)", np.ceil, None, **F)
unary("trunc", "Rounding towards zero.", "trunc(x)", np.trunc, None, **F)
unary("round", "Rounding to the nearest integer, ties to even.", "rint(x)", np.rint, None, **F)

unary("sqrt", "Square root.", "sqrt(x)", np.sqrt, lambda b, a, y: b.div(b.full(0.5, y.dtype, y.shape), y),
      ulp=0.5, cost=8, domain=(0.1, 3.0), **FC)  # fmt: skip
unary("exp", "Exponential.", "exp(x)", np.exp, lambda b, a, y: y, ulp=2, cost=14, **FC)
unary("exp2", "Two to the power x.", "exp2(x)", np.exp2, lambda b, a, y: b.mul(y, float(np.log(2.0))), ulp=2, cost=14,
      **F)  # fmt: skip
unary("expm1", "exp(x) - 1, exact near 0.", "expm1(x)", ref.expm1, lambda b, a, y: b.add(y, 1.0), ulp=2, cost=18, **FC)
unary("log", "Natural logarithm.", "log(x)", np.log, lambda b, a, y: b.div(b.full(1.0, y.dtype, y.shape), a[0]),
      ulp=2, cost=18, domain=(0.1, 3.0), **FC)  # fmt: skip
unary("log2", "Logarithm to base 2.", "log2(x)", np.log2,
      lambda b, a, y: b.div(b.full(1 / np.log(2.0), y.dtype, y.shape), a[0]),
      ulp=2, cost=18, domain=(0.1, 3.0), **F)  # fmt: skip
unary("log10", "Logarithm to base 10.", "log10(x)", np.log10,
      lambda b, a, y: b.div(b.full(1 / np.log(10.0), y.dtype, y.shape), a[0]),
      ulp=2, cost=18, domain=(0.1, 3.0), **F)  # fmt: skip
unary("log1p", "log(1 + x), exact near 0.", "log1p(x)", ref.log1p,
      lambda b, a, y: b.div(b.full(1.0, y.dtype, y.shape), b.add(a[0], 1.0)),
      ulp=2, cost=20, domain=(-0.6, 3.0), **FC)  # fmt: skip
unary("sin", "Sine of an angle in radians.", "sin(x)", np.sin, lambda b, a, y: b.cos(a[0]), ulp=2, cost=40, **FC)
unary("cos", "Cosine of an angle in radians.", "cos(x)", np.cos, lambda b, a, y: b.neg(b.sin(a[0])), ulp=2, cost=40,
      **FC)  # fmt: skip
unary("tan", "Tangent of an angle in radians.", "tan(x)", np.tan, lambda b, a, y: b.add(b.mul(y, y), 1.0),
      ulp=2, cost=50, domain=(-1.2, 1.2), **FC)  # fmt: skip
unary("arcsin", "Inverse sine.", "arcsin(x)", np.arcsin,
      lambda b, a, y: b.div(b.full(1.0, y.dtype, y.shape), _root_of_one_minus_square(b, a[0])),
      ulp=2, cost=40, domain=(-0.9, 0.9), **FC)  # fmt: skip
unary("arccos", "Inverse cosine.", "arccos(x)", np.arccos,
      lambda b, a, y: b.div(b.full(-1.0, y.dtype, y.shape), _root_of_one_minus_square(b, a[0])),
      ulp=2, cost=40, domain=(-0.9, 0.9), **FC)  # fmt: skip
unary("arctan", "Inverse tangent.", "arctan(x)", np.arctan,
      lambda b, a, y: b.div(b.full(1.0, y.dtype, y.shape), b.add(b.mul(a[0], a[0]), 1.0)),
      ulp=2, cost=30, **FC)  # fmt: skip
unary("sinh", "Hyperbolic sine.", "sinh(x)", np.sinh, lambda b, a, y: b.cosh(a[0]), ulp=2, cost=30, **FC)
unary("cosh", "Hyperbolic cosine.", "cosh(x)", np.cosh, lambda b, a, y: b.sinh(a[0]), ulp=2, cost=30, **FC)
unary("tanh", "Hyperbolic tangent.", "tanh(x)", np.tanh,
      lambda b, a, y: b.sub(b.full(1.0, y.dtype, y.shape), b.mul(y, y)), ulp=2, cost=18, **FC)  # fmt: skip
unary("sigmoid", "Logistic function 1 / (1 + exp(-x)).", "sigmoid(x)", ref.sigmoid,
      lambda b, a, y: b.mul(y, b.sub(b.full(1.0, y.dtype, y.shape), y)), ulp=2, cost=18, **F)  # fmt: skip
unary("erf", "Error function.", "erf(x)", ref.erf,
      lambda b, a, y: b.mul(b.exp(b.neg(b.mul(a[0], a[0]))), float(TWO_OVER_ROOT_PI)), ulp=2, cost=25, **F)  # fmt: skip

unary("erfinv", "Inverse of the error function; infinite at -1 and 1, nan beyond.", "erfinv(x)", ref.erfinv,
      lambda b, a, y: b.mul(b.exp(b.mul(y, y)), float(1 / TWO_OVER_ROOT_PI)),
      ulp=3, cost=60, domain=(-0.95, 0.95), **F)  # fmt: skip

# Comparisons give bool and have no derivative. Everything compared with nan is false, but ``ne``.
for _name, _sign, _function in (
    ("eq", "==", np.equal), ("ne", "!=", np.not_equal), ("lt", "<", np.less),
    ("le", "<=", np.less_equal), ("gt", ">", np.greater), ("ge", ">=", np.greater_equal),
):  # fmt: skip
    elementwise(_name, f"Whether x {_sign} y.", f"x {_sign} y", _function,
                not_differentiable("a comparison has no derivative"), result=bool_,
                kinds="biufc" if _name in ("eq", "ne") else "biuf")  # fmt: skip
