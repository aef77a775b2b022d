"""NumPy's elementwise functions: one line each, from the ufunc to a primitive or a short expression over primitives.

NumPy itself says in which types a ufunc computes (``resolve_dtypes``), so promotion is exactly NumPy's. A line may
name a second rule for bool, or for the integers, where the primitive is another.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from zenith.errors import CallError, DTypeError, UnsupportedError, user_line
from zenith.ir.types import NumPyType, kind_of
from zenith.numpy import complex_formulas as c
from zenith.numpy import complex_powers as p
from zenith.numpy import float_formulas as d
from zenith.numpy import formulas as f
from zenith.numpy import python_powers
from zenith.numpy import special_formulas as s
from zenith.numpy.broadcasting import align, broadcast_dims
from zenith.numpy.casts import check_rule
from zenith.numpy.operands import (
    BOOL,
    INT64,
    UINT64,
    as_array,
    compute_dtype,
    convert,
    dims_of,
    strong,
    type_key,
    weak_kind,
)
from zenith.numpy.promotion import loop
from zenith.numpy.typing import Array, ArrayLike, DTypeLike
from zenith.numpy.widening import note_widening
from zenith.trace.bind import b, known_dtype
from zenith.trace.dispatch import implements
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer
from zenith.trace.ufuncs import Elementwise, of_ufunc

__all__ = [
    "absolute", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "bitwise_and",
    "bitwise_count", "bitwise_or", "bitwise_xor", "cbrt", "ceil", "conjugate", "copysign", "cos", "cosh", "deg2rad",
    "degrees", "divide", "divmod", "equal", "exp", "exp2", "expm1", "fabs", "float_power", "floor", "floor_divide",
    "fmax", "fmin", "fmod", "gcd", "greater", "greater_equal", "heaviside", "hypot", "invert", "isfinite", "isinf",
    "isnan", "lcm", "left_shift", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
    "nextafter", "not_equal", "positive", "power", "rad2deg", "radians", "reciprocal", "remainder", "right_shift",
    "rint", "sign", "signbit", "sin", "sinh", "spacing", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
]  # fmt: skip

Rule = Callable[..., Array]


def resolve(
    ufunc: np.ufunc,
    operands: tuple[ArrayLike, ...],
    name: str,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
) -> tuple[NumPyType, ...]:
    """The types in which a ufunc computes for operands, where results of ``dtype`` and a rule of casting may be asked.

    Raises DTypeError where it does not, or where Zenith does not have one of them.
    """
    check_rule(name, casting)
    keys = tuple(map(type_key, operands))
    wanted = None if dtype is None else compute_dtype(name, np.dtype(dtype))
    try:
        found = loop(ufunc, keys, wanted, casting)
    except TypeError as error:
        types = tuple(k.__name__ if isinstance(k, type) else str(k) for k in keys)
        asked = "" if wanted is None else f" and dtype={wanted}"
        what = f"{name} is not defined for these element types{asked}"
        raise DTypeError(what, where=user_line(), types=types, fix=f"cast an operand first ({error})") from None
    for computed in found:
        compute_dtype(name, computed, keys)
    return found


def apply(
    ufunc: np.ufunc,
    rules: dict[str, Rule],
    name: str,
    operands: tuple[ArrayLike, ...],
    dtype: DTypeLike | None,
    casting: str,
) -> Array:
    """Promote and broadcast the operands as ``ufunc`` does, then apply the rule for their kind."""
    types = resolve(ufunc, operands, name, dtype, casting)
    arrays = align(name, [convert(o, t) for o, t in zip(operands, types, strict=True)])
    result = rules[kind_of(types[0])](*arrays)
    note_widening(name, operands, result.dtype)
    return result


def _refuse_options(name: str, options: dict[str, object]) -> None:
    if options:
        raise UnsupportedError(
            f"{name}: the options {', '.join(sorted(options))} are not supported",
            where=user_line(),
            fix="use numpy.where for where=" if "where" in options else "leave them out",
        )


def _define(ufunc: np.ufunc, rule: str | Rule, **special: str | Rule) -> Elementwise:
    """Register the function for ``ufunc``; ``special`` has rules for kinds: ``b``, ``i`` (and ``u``), ``f``, ``c``."""
    return of_ufunc(ufunc)(_typed_as(ufunc, ufunc.__name__, rule, special))


def _typed_as(ufunc: np.ufunc, label: str, rule: str | Rule, special: Mapping[str, str | Rule]) -> Callable[..., Array]:
    """A function that computes in the types in which ``ufunc`` does."""
    rules = {kind: _rule(special.get(kind, special.get("i", rule) if kind == "u" else rule)) for kind in "biufc"}

    def function(
        *operands: ArrayLike, dtype: DTypeLike | None = None, casting: str = "same_kind", **options: object
    ) -> Array:
        _refuse_options(label, options)
        if len(operands) != ufunc.nin:
            arrays = ", ".join("xy"[: ufunc.nin])
            raise CallError(f"{label} takes {ufunc.nin} operands, not {len(operands)}", where=user_line(),
                            fix=f"call it as {label}({arrays})")  # fmt: skip
        return apply(ufunc, rules, label, operands, dtype, casting)

    function.__name__ = function.__qualname__ = label
    function.__doc__ = f"As ``numpy.{label}``, elementwise with broadcasting (array in, array of the same kind out)."
    return function


def _rule(rule: str | Rule) -> Rule:
    return getattr(b, rule) if isinstance(rule, str) else rule


def _same(x: Array) -> Array:
    return x


def _never(x: Array) -> Array:
    return b.full(False, known_dtype(BOOL), dims_of(x))


def _always(x: Array) -> Array:
    return b.full(True, known_dtype(BOOL), dims_of(x))


# Arithmetic.
add = _define(np.add, "add", b="bit_or")
subtract = _define(np.subtract, "sub")
multiply = _define(np.multiply, "mul", b="bit_and")
divide = _define(np.divide, "div")
floor_divide = _define(np.floor_divide, "floor_divide")
remainder = _define(np.remainder, "remainder")
fmod = _define(np.fmod, f.integer_fmod, f="fmod")
negative = _define(np.negative, "neg")
positive = _define(np.positive, _same)
absolute = _define(np.absolute, "abs", b=_same, c=c.absolute)
fabs = _define(np.fabs, "abs")
sign = _define(np.sign, "sign", c=c.sign)
square = _define(np.square, lambda x: b.mul(x, x))
reciprocal = _define(np.reciprocal, f.reciprocal, i=f.integer_reciprocal, c=c.reciprocal)
conjugate = _define(np.conjugate, _same, c="conj")

# Rounding: integers and bools are whole already.
floor = _define(np.floor, "floor", b=_same, i=_same)
ceil = _define(np.ceil, "ceil", b=_same, i=_same)
trunc = _define(np.trunc, "trunc", b=_same, i=_same)
rint = _define(np.rint, "round", c=c.rint)

# Extremes, comparisons, logic.
maximum = _define(np.maximum, "maximum", b="bit_or", c=c.extreme("ge", missing=False))
minimum = _define(np.minimum, "minimum", b="bit_and", c=c.extreme("le", missing=False))
fmax = _define(np.fmax, "maximum", b="bit_or", f=f.fmax, c=c.extreme("ge", missing=True))
fmin = _define(np.fmin, "minimum", b="bit_and", f=f.fmin, c=c.extreme("le", missing=True))
logical_and = _define(np.logical_and, lambda x, y: b.bit_and(f.truth(x), f.truth(y)))
logical_or = _define(np.logical_or, lambda x, y: b.bit_or(f.truth(x), f.truth(y)))
logical_xor = _define(np.logical_xor, lambda x, y: b.bit_xor(f.truth(x), f.truth(y)))
logical_not = _define(np.logical_not, lambda x: b.bit_not(f.truth(x)))
isnan = _define(np.isnan, f.isnan, b=_never, i=_never, c=c.isnan)
isinf = _define(np.isinf, f.isinf, b=_never, i=_never, c=c.isinf)
isfinite = _define(np.isfinite, f.isfinite, b=_always, i=_always, c=c.isfinite)
signbit = _define(np.signbit, f.signbit)

# Bits.
bitwise_and = _define(np.bitwise_and, "bit_and")
bitwise_or = _define(np.bitwise_or, "bit_or")
bitwise_xor = _define(np.bitwise_xor, "bit_xor")
invert = _define(np.invert, "bit_not")
left_shift = _define(np.left_shift, "shift_left")
right_shift = _define(np.right_shift, "shift_right")
bitwise_count = _define(np.bitwise_count, "bit_count")

# Digits.
gcd = _define(np.gcd, "gcd")
lcm = _define(np.lcm, d.lcm)
nextafter = _define(np.nextafter, d.nextafter)
spacing = _define(np.spacing, d.spacing)

# Exponentials and logarithms.
sqrt = _define(np.sqrt, "sqrt")
cbrt = _define(np.cbrt, "cbrt")
exp = _define(np.exp, "exp")
exp2 = _define(np.exp2, "exp2", c=c.exp2)
expm1 = _define(np.expm1, "expm1")
log = _define(np.log, "log")
log2 = _define(np.log2, "log2", c=c.log2)
log10 = _define(np.log10, "log10", c=c.log10)
log1p = _define(np.log1p, "log1p")
logaddexp = _define(np.logaddexp, "logaddexp")
logaddexp2 = _define(np.logaddexp2, "logaddexp2")

# Angles.
sin = _define(np.sin, "sin")
cos = _define(np.cos, "cos")
tan = _define(np.tan, "tan")
arcsin = _define(np.arcsin, "arcsin")
arccos = _define(np.arccos, "arccos")
arctan = _define(np.arctan, "arctan")
arctan2 = _define(np.arctan2, "arctan2")
sinh = _define(np.sinh, "sinh")
cosh = _define(np.cosh, "cosh")
tanh = _define(np.tanh, "tanh")
arcsinh = _define(np.arcsinh, "arcsinh")
arccosh = _define(np.arccosh, "arccosh")
arctanh = _define(np.arctanh, "arctanh")
hypot = _define(np.hypot, "hypot")
deg2rad = _define(np.deg2rad, lambda x: b.mul(x, f.RADIANS))
rad2deg = _define(np.rad2deg, lambda x: b.mul(x, f.DEGREES))
radians = _define(np.radians, lambda x: b.mul(x, f.RADIANS))
degrees = _define(np.degrees, lambda x: b.mul(x, f.DEGREES))
copysign = _define(np.copysign, "copysign")
heaviside = _define(np.heaviside, f.heaviside)

# Functions of scipy.special, typed as np.exp or np.logaddexp are; scipy's own ufuncs find them by name.
_SPECIAL_OF_ONE: dict[str, str | Rule] = {
    "erf": "erf", "erfc": "erfc", "erfcx": "erfcx", "erfinv": "erfinv", "erfcinv": "erfcinv", "expit": "sigmoid",
    "log_expit": s.log_sigmoid, "logit": s.logit, "gammaln": "lgamma", "psi": "digamma", "i0": "i0", "i0e": "i0e",
    "i1": "i1", "i1e": "i1e", "entr": s.entropy, "ndtr": s.normal_distribution, "ndtri": s.normal_quantile,
    "log_ndtr": s.log_normal_distribution, "gamma": s.gamma, "loggamma": s.log_gamma, "cbrt": "cbrt", "exp2": "exp2",
    "expm1": "expm1", "log1p": "log1p",
}  # fmt: skip
_SPECIAL_OF_TWO: dict[str, str | Rule] = {
    "beta": s.beta, "betaln": s.log_beta, "gammainc": "gammainc", "gammaincc": "gammaincc", "xlogy": s.x_log_y,
    "xlog1py": s.x_log1p_y, "rel_entr": s.relative_entropy,
}  # fmt: skip
SPECIAL = {
    name: implements(module="special")(_typed_as(ufunc, name, rule, {}))
    for ufunc, rules in ((np.exp, _SPECIAL_OF_ONE), (np.logaddexp, _SPECIAL_OF_TWO))
    for name, rule in rules.items()
}


def _compare(ufunc: np.ufunc, primitive: str, relation: Callable[..., bool]) -> Elementwise:
    """A comparison of numbers, as NumPy's: of int64 with uint64 too, and of a Python int beyond the other's type."""
    complex_rule = primitive if primitive in ("eq", "ne") else c.ordered(primitive)
    inner = _define(ufunc, lambda x, y: f.compared(primitive, relation, x, y), c=complex_rule)

    def function(x: Array, y: Array, **options: object) -> Array:
        for value, other, swapped in ((y, x, False), (x, y, True)):
            if not _is_int_beside(value, other):
                continue
            if isinstance(value, (Tracer, TracedSize)):
                return _beside_computed(functools.partial(inner, **options), value, as_array(other), swapped)
            limits = np.iinfo(as_array(other).dtype)
            if not limits.min <= value <= limits.max:
                answer = relation(value, 0) if swapped else relation(0, value)
                shape = broadcast_dims(ufunc.__name__, [dims_of(as_array(other))])
                return b.full(answer, known_dtype(BOOL), shape)
        return inner(x, y, **options)

    function.__name__ = function.__qualname__ = ufunc.__name__
    function.__doc__ = inner.__doc__
    return of_ufunc(ufunc)(function)


def _is_int_beside(value: ArrayLike, other: ArrayLike) -> bool:
    """Whether one is a Python int, and the other an array of integers of another type than int64."""
    if weak_kind(value) is not int or weak_kind(other) is not None:
        return False
    dtype = as_array(other).dtype
    return dtype.kind in "iu" and dtype != INT64


def _beside_computed(compare: Callable[..., Array], value: ArrayLike, other: Array, swapped: bool) -> Array:
    """A comparison of integers with a Python int that is not known yet; beyond their type it is on one side of all.

    Single numbers are compared in int64, uint64 as NumPy compares the two; other arrays in their own narrow type.
    """
    wide, limits = strong(as_array(value)), np.iinfo(other.dtype)

    def ordered(number: Array, array: Array) -> Array:
        return compare(number, array) if swapped else compare(array, number)

    if not other.ndim or other.dtype == UINT64:
        return ordered(wide, other)
    inside = logical_and(greater_equal(wide, np.int64(limits.min)), less_equal(wide, np.int64(limits.max)))
    own = ordered(convert(wide, other.dtype), other)
    return b.where(*align("compare", [inside, own, ordered(wide, np.zeros((), INT64))]))


equal = _compare(np.equal, "eq", operator.eq)
not_equal = _compare(np.not_equal, "ne", operator.ne)
less = _compare(np.less, "lt", operator.lt)
less_equal = _compare(np.less_equal, "le", operator.le)
greater = _compare(np.greater, "gt", operator.gt)
greater_equal = _compare(np.greater_equal, "ge", operator.ge)


_power = _define(np.power, "power", c=p.power)
_float_power = _typed_as(np.float_power, "float_power", "power", {"c": p.power})


@of_ufunc(np.power)
def power(
    x: ArrayLike, exponent: ArrayLike, *, dtype: DTypeLike | None = None, casting: str = "same_kind", **options: object
) -> Array:
    """As ``numpy.power``, elementwise with broadcasting (array in, array of the same kind out).

    Raises DTypeError for integers with an exponent that is known to be negative.
    """
    computed = resolve(np.power, (x, exponent), "power", dtype, casting)[0]
    if computed.kind in "iu" and _known_negative(exponent):
        raise DTypeError(
            "integers to negative integer powers are not allowed, as in NumPy",
            where=user_line(),
            types=(x.type,) if isinstance(x, Tracer) else (),
            fix="use a float exponent, or x.astype(numpy.float64)",
        )
    if computed.kind == "c" and not options:
        return _complex_power("power", x, exponent, computed)
    return _power(x, exponent, dtype=dtype, casting=casting, **options)


@of_ufunc(np.float_power)
def float_power(
    x: ArrayLike, exponent: ArrayLike, *, dtype: DTypeLike | None = None, casting: str = "same_kind", **options: object
) -> Array:
    """As ``numpy.float_power``, elementwise with broadcasting: :func:`power` in float64 or complex128."""
    computed = resolve(np.float_power, (x, exponent), "float_power", dtype, casting)[0]
    if computed.kind == "c" and not options:
        return _complex_power("float_power", x, exponent, computed)
    return _float_power(x, exponent, dtype=dtype, casting=casting, **options)


def _complex_power(name: str, x: ArrayLike, exponent: ArrayLike, dtype: NumPyType) -> Array:
    """By what is known of the exponents while tracing: one whole number, integers, fractions, or nothing."""
    base, given = convert(x, dtype), as_array(exponent)
    if isinstance(given, Tracer):
        if given.dtype.kind in "biu":
            return p.to_integers(*align(name, [base, convert(given, np.dtype(np.int64))]))
        return p.power(*align(name, [base, convert(exponent, dtype)]))
    numbers = p.whole_numbers(given)
    if numbers is not None and given.ndim == 0:
        return p.to_whole(base, int(numbers))
    if numbers is not None:
        wide, exponents = align(name, [base, numbers])
        return p.to_integers(wide, exponents, known=numbers)
    rule = p.to_fraction if given.ndim == 0 else p.power
    return rule(*align(name, [base, convert(exponent, dtype)]))


def _known_negative(exponent: Any) -> bool:
    """Whether one of integers that are known while tracing is negative."""
    if weak_kind(exponent) is int:
        return not isinstance(exponent, (Tracer, TracedSize)) and bool(exponent < 0)
    given = as_array(exponent)
    return not isinstance(given, Tracer) and given.dtype.kind == "i" and bool((given < 0).any())


def squared_distance(x: Array) -> Array:
    """The square of the distance from 0: real, of complex numbers too."""
    return c.squared(x) if kind_of(x.dtype) == "c" else square(x)


@of_ufunc(np.divmod)
def divmod(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """As ``numpy.divmod``: quotient rounded down and remainder."""
    return floor_divide(x, y), remainder(x, y)


@implements()
def _operator_power(x: ArrayLike, exponent: Any) -> Array:
    """``x ** exponent`` with the short cuts that NumPy's operator takes for fixed exponents."""
    if not isinstance(exponent, (Tracer, TracedSize, np.ndarray)) and weak_kind(exponent) and isinstance(x, Tracer):
        floating = kind_of(x.dtype) in ("f", "c")
        shortcut = {2: square, 1: positive}.get(exponent) if floating or weak_kind(exponent) is int else None
        if floating and exponent in (0.5, -1):
            shortcut = sqrt if exponent == 0.5 else reciprocal
        if shortcut is square and x.dtype.kind == "b":
            return convert(x, np.dtype(np.int8))
        if shortcut is not None and x.dtype.kind != "b":
            return shortcut(x)
    return power(*python_powers.operands(x, exponent)) if python_powers.of_python(x, exponent) else power(x, exponent)


def ufunc_outer(function: Callable[..., Array], x: ArrayLike, y: ArrayLike, **options: object) -> Array:
    """``ufunc.outer``: the function of every pair of elements."""
    x, y = strong(as_array(x)), strong(as_array(y))
    left, right = dims_of(x), dims_of(y)
    spread = b.reshape(x, shape=(*left, *[1] * len(right))) if right else x
    return function(spread, y, **options)


ufunc_outer.__name__ = "_ufunc_outer"
implements()(ufunc_outer)
