"""Functions of scipy.special as primitives: the gamma family, Bessel functions, the error function's complement.

The incomplete gamma functions are computed by SciPy, whose inner loops kernels call; their derivatives along the first
argument by Python, between kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import dim
from zenith.ir.graph import Value
from zenith.ir.lowering import Composite, HostCall, InnerLoop
from zenith.ir.ops import incomplete_gamma
from zenith.ir.ops import special_reference as ref
from zenith.ir.ops.common import (
    arrays,
    random_array,
    require_kind,
    require_same_dtype,
    require_same_shape,
    rng,
    rounded,
    sample,
    wide,
)
from zenith.ir.ops.elementwise import batch_elementwise, elementwise, unary
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, float32, kind_of

F: dict[str, Any] = {"kinds": "f"}
ROOT_PI = math.sqrt(math.pi)
_COST = 200  # operations for an incomplete gamma function
STEPS = 10  # terms of a polygamma function that are added one by one, before the series for the rest


def _full(b: Builder, value: float, x: Value) -> Value:
    return b.full(value, x.dtype, x.shape)


def _over(b: Builder, y: Value, x: Value) -> Value:
    """y / x of odd functions y of x with slope 1/2 at 0: their slope there."""
    zero = b.eq(x, 0.0)
    return b.where(zero, _full(b, 0.5, x), b.div(y, b.where(zero, _full(b, 1.0, x), x)))


def _erfcx_slope(b: Builder, x: Value, y: Value) -> Value:
    """2 x y - 2 / sqrt(pi), from its series in 1 / x where that difference has lost its digits."""
    far = b.lt(_full(b, 25.0, x), x)
    inverse = b.div(_full(b, 1.0, x), b.where(far, x, _full(b, 25.0, x)))
    square = b.mul(inverse, inverse)
    series = b.mul(square, _polynomial(b, square, (-0.5, 0.75, -1.875, 6.5625, -29.53125, 162.421875)))
    return b.mul(b.where(far, series, b.sub(b.mul(b.mul(x, y), ROOT_PI), _full(b, 1.0, x))), 2.0 / ROOT_PI)


unary("erfc", "1 - erf(x), with all its digits where it is small.", "erfc(x)", ref.erfc,
      lambda b, a, y: b.mul(b.exp(b.neg(b.mul(a[0], a[0]))), -2.0 / ROOT_PI), ulp=2, cost=40, **F)  # fmt: skip
unary("erfcx", "exp(x**2) erfc(x), which does not vanish where x is large.", "erfcx(x)", ref.erfcx,
      lambda b, a, y: _erfcx_slope(b, a[0], y), ulp=4, cost=60, **F)  # fmt: skip
unary("erfcinv", "Inverse of erfc; infinite at 0, minus infinity at 2, nan beyond.", "erfcinv(x)", ref.erfcinv,
      lambda b, a, y: b.mul(b.exp(b.mul(y, y)), -ROOT_PI / 2.0), ulp=4, cost=80, domain=(0.05, 1.95), **F)  # fmt: skip
unary("lgamma", "log(abs(gamma(x))); infinite at 0 and negative integers.", "lgamma(x)", ref.lgamma,
      lambda b, a, y: b.digamma(a[0]), ulp=4, cost=80, domain=(0.2, 5.0), **F)  # fmt: skip
unary("digamma", "Derivative of lgamma; nan at negative integers. Near negative zeros the error is one of ulps of 1.",
      "digamma(x)", ref.digamma, lambda b, a, y: b.polygamma(a[0], order=1), ulp=5, cost=80,
      domain=(0.2, 5.0), **F)  # fmt: skip
unary("i0", "Modified Bessel function of the first kind, order 0.", "bessel_i0(x)",
      lambda x: ref.bessel(x, 0, False), lambda b, a, y: b.i1(a[0]), ulp=6, cost=80, **F)  # fmt: skip
unary("i1", "Modified Bessel function of the first kind, order 1.", "bessel_i1(x)",
      lambda x: ref.bessel(x, 1, False), lambda b, a, y: b.sub(b.i0(a[0]), _over(b, y, a[0])),
      ulp=6, cost=80, **F)  # fmt: skip
unary("i0e", "exp(-abs(x)) i0(x); the derivative at 0 is 0.", "bessel_i0e(x)", lambda x: ref.bessel(x, 0, True),
      lambda b, a, y: b.sub(b.i1e(a[0]), b.mul(b.sign(a[0]), y)), ulp=6, cost=80, domain=(0.1, 4.0), **F)  # fmt: skip
unary("i1e", "exp(-abs(x)) i1(x).", "bessel_i1e(x)", lambda x: ref.bessel(x, 1, True),
      lambda b, a, y: b.sub(b.sub(b.i0e(a[0]), b.mul(b.sign(a[0]), y)), _over(b, y, a[0])),
      ulp=6, cost=80, domain=(0.1, 4.0), **F)  # fmt: skip


# --- polygamma -------------------------------------------------------------------------------------------------


def _polygamma_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("polygamma", types, 1)
    require_kind("polygamma", x, "f")
    if params["order"] < 1:
        raise ShapeError(f"polygamma has orders from 1 on, not {params['order']}", types=(x,), fix="order 0 is digamma")
    return (x,)


def _polygamma_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype) == "f":
        for order in (1, 2, 3):
            yield sample(random_array(rng("polygamma"), dtype, (3, 4), 0.5, 4.0), order=order)


def _polygamma(b: Builder, args: Values, params: Params) -> Values:
    (x,) = args
    if x.dtype.is_narrow:
        return [b.cast(_polygamma(b, [b.cast(x, dtype=float32)], params)[0], dtype=x.dtype)]
    order, negative = params["order"], b.lt(x, 0.0)
    inside = _positive(b, b.where(negative, b.sub(_full(b, 1.0, x), x), x), order)
    angle = b.mul(b.sub(x, b.round(x)), math.pi)
    slope = _polynomial(b, b.div(b.cos(angle), b.sin(angle)), ref.cotangent_derivative(order))
    reflected = b.sub(b.mul(inside, float((-1) ** order)), b.mul(slope, math.pi ** (order + 1)))
    return [b.where(negative, reflected, inside)]


def _positive(b: Builder, x: Value, order: int) -> Value:
    """For x >= 0: a few terms of the Hurwitz zeta function, and Euler and Maclaurin's remainder."""
    one = _full(b, 1.0, x)
    total = _power(b, b.div(one, x), order + 1)
    for i in range(1, STEPS):
        total = b.add(total, _power(b, b.div(one, b.add(x, float(i))), order + 1))
    inverse = b.div(one, b.add(x, float(STEPS)))
    weights = [weight for _, weight in ref.tail_weights(order)]
    rest = b.mul(_power(b, inverse, order + 2), _polynomial(b, b.mul(inverse, inverse), weights))
    rest = b.add(b.add(rest, b.mul(_power(b, inverse, order + 1), 0.5)), b.div(_power(b, inverse, order), float(order)))
    return b.mul(b.add(total, rest), float((-1) ** (order + 1) * math.factorial(order)))


def _power(b: Builder, x: Value, exponent: int) -> Value:
    result = x
    for _ in range(exponent - 1):
        result = b.mul(result, x)
    return result


def _polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    result = _full(b, coefficients[-1], x)
    for c in reversed(coefficients[:-1]):
        result = b.add(b.mul(result, x), c)
    return result


def _polygamma_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    if tangents[0] is None:
        return [None]
    return [b.mul(tangents[0], b.polygamma(primals[0], order=params["order"] + 1))]


def _polygamma_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    return [b.mul(cotangents[0], b.polygamma(primals[0], order=params["order"] + 1))]


register(Primitive(
    name="polygamma", doc="The derivative of digamma of an order from 1 on.", params={"order": "int"},
    typing=_polygamma_type,
    evaluate=lambda values, params: (
        rounded(ref.polygamma(wide(values)[0], params["order"]), values[0]),
    ),
    lowering=Composite(_polygamma), jvp=_polygamma_jvp, vjp=_polygamma_vjp, batch=batch_elementwise("polygamma"),
    ulp=16, effect=False, samples=_polygamma_samples,
))  # fmt: skip


# --- incomplete gamma functions ----------------------------------------------------------------------------------


def _density(b: Builder, a: Value, x: Value) -> Value:
    """exp(-x) x**(a - 1) / gamma(a), the slope of gammainc(a, x) along x; 1 at x = 0 where a is 1."""
    above = b.sub(a, _full(b, 1.0, a))
    power = b.where(b.eq(above, 0.0), b.zeros_like(x), b.mul(above, b.log(x)))
    return b.exp(b.sub(b.sub(power, x), b.lgamma(a)))


def _by_scipy(ufunc: str, function: Callable[..., NDArray]) -> HostCall:
    """A ufunc of SciPy's of two arguments, which kernels compute in float64."""

    def fill(values: Sequence[NDArray], results: Sequence[NDArray], params: Params) -> None:
        results[0][...] = function(*wide(values))

    def loops(operands: Sequence[ArrayType], results: Sequence[ArrayType], params: Params) -> list[InnerLoop]:
        return [InnerLoop((f"scipy.special._ufuncs.{ufunc}",), "dd->d", "(),()->()", dim(_COST))]

    return HostCall(fill, inner_loops=loops)


_INSIDE = ((0.5, 4.0), (0.3, 5.0))
_INCOMPLETE: dict[str, Any] = {"domain": _INSIDE, "ulp": 64, **F}
elementwise("gammainc", "The regularized lower incomplete gamma function of a and x; nan for negative ones.",
            _by_scipy("gammainc", incomplete_gamma.lower), incomplete_gamma.lower,
            (lambda b, a, y: b.gammainc_slope(*a, order=1), lambda b, a, y: _density(b, *a)),
            **_INCOMPLETE)  # fmt: skip
elementwise("gammaincc", "1 - gammainc(a, x), with all its digits where it is small.",
            _by_scipy("gammaincc", incomplete_gamma.upper), incomplete_gamma.upper,
            (lambda b, a, y: b.neg(b.gammainc_slope(*a, order=1)), lambda b, a, y: b.neg(_density(b, *a))),
            **_INCOMPLETE)  # fmt: skip


def _slope_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    operands = arrays("gammainc_slope", types, 2)
    require_same_dtype("gammainc_slope", operands)
    require_kind("gammainc_slope", operands[0], "f")
    require_same_shape("gammainc_slope", operands)
    if params["order"] < 1:
        raise ShapeError(f"gammainc_slope has orders from 1 on, not {params['order']}", types=tuple(operands),
                         fix="order 0 is gammainc")  # fmt: skip
    return (operands[0],)


def _slope_samples(dtype: NumPyType) -> Iterable[Sample]:
    if kind_of(dtype) == "f":
        generator = rng("gammainc_slope")
        for order in (1, 2, 3):
            yield sample(*(random_array(generator, dtype, (3, 4), *bounds) for bounds in _INSIDE), order=order)


def _slope_partials(b: Builder, args: Values, params: Params) -> tuple[Value, Value]:
    a, x = args
    return b.gammainc_slope(a, x, order=params["order"] + 1), _density_slope(b, a, x, params["order"])


def _density_slope(b: Builder, a: Value, x: Value, order: int) -> Value:
    """A derivative of the density along a, by those of its logarithm (Faà di Bruno's formula for an exponential)."""
    density = _density(b, a, x)
    log = [b.sub(b.where(b.eq(density, 0.0), b.zeros_like(x), b.log(x)), b.digamma(a))]
    log += [b.neg(b.polygamma(a, order=n)) for n in range(1, order)]
    found = [density]
    for power in range(order):
        terms = [b.mul(b.mul(log[n], found[power - n]), float(math.comb(power, n))) for n in range(power + 1)]
        found.append(reduce(b.add, terms))
    return found[order]


def _slope_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    partials = _slope_partials(b, primals, params)
    moves = [b.mul(t, partial) for t, partial in zip(tangents, partials, strict=True) if t is not None]
    return [reduce(b.add, moves) if moves else None]


def _slope_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    return [b.mul(cotangents[0], partial) for partial in _slope_partials(b, primals, params)]


def _slope(values: Sequence[NDArray], params: Params) -> NDArray:
    a, x = wide(values)
    return incomplete_gamma.slope(a, x, params["order"])


def _fill_slope(values: Sequence[NDArray], results: Sequence[NDArray], params: Params) -> None:
    results[0][...] = _slope(values, params)


register(Primitive(
    name="gammainc_slope", doc="The derivative of gammainc(a, x) along a of an order from 1 on.",
    params={"order": "int"}, typing=_slope_type,
    evaluate=lambda values, params: (rounded(_slope(values, params), values[0]),),
    lowering=HostCall(_fill_slope), jvp=_slope_jvp, vjp=_slope_vjp, batch=batch_elementwise("gammainc_slope"),
    ulp=64, effect=False, samples=_slope_samples,
))  # fmt: skip
