"""The rewrite rules: one line each, in the language of :mod:`zenith.passes.pattern`.

A rule preserves nan, infinities and the sign of zero, or states its error. Hence the missing rules: ``x + 0`` is not
x for -0.0, ``x * 0`` is not 0 for nan, ``x - x`` is not 0 for infinities, ``log(exp(x))`` overflows, and
``x / (1 + exp(-x))`` is -0 where ``x * sigmoid(x)`` still has digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zenith.ir.graph import Value
from zenith.ir.types import DType
from zenith.passes.pattern import Rule, parse_rule

_TEXT = """
# Neutral and absorbing elements.
add_negative_zero: add(x, -0.0) => x  for f, exact
add_zero: add(x, 0) => x  for iu, exact
sub_zero: sub(x, 0) => x  for iuf, exact
mul_one: mul(x, 1) => x  for iuf, exact
mul_zero: mul(x, 0) => 0  for iu, exact
div_one: div(x, 1) => x  for f, exact
floor_divide_one: floor_divide(x, 1) => x  for iu, exact
remainder_one: remainder(x, 1) => 0  for iu, exact
power_zero: power(x, 0) => 1  for iuf, exact
power_one: power(x, 1) => x  for iuf, exact
and_zero: bit_and(x, 0) => 0  for biu, exact
and_ones: bit_and(x, ones) => x  for biu, exact
or_zero: bit_or(x, 0) => x  for biu, exact
or_ones: bit_or(x, ones) => ones  for biu, exact
xor_zero: bit_xor(x, 0) => x  for biu, exact
xor_ones: bit_xor(x, ones) => bit_not(x)  for biu, exact
shift_left_zero: shift_left(x, 0) => x  for iu, exact
shift_right_zero: shift_right(x, 0) => x  for iu, exact
maximum_lowest: maximum(x, lowest) => x  for iuf, exact
minimum_highest: minimum(x, highest) => x  for iuf, exact
maximum_highest: maximum(x, highest) => highest  for iu, exact
minimum_lowest: minimum(x, lowest) => lowest  for iu, exact

# An operand met twice.
sub_self: sub(x, x) => 0  for iu, exact
and_self: bit_and(x, x) => x  for biu, exact
or_self: bit_or(x, x) => x  for biu, exact
xor_self: bit_xor(x, x) => 0  for biu, exact
and_not_self: bit_and(x, bit_not(x)) => 0  for biu, exact
or_not_self: bit_or(x, bit_not(x)) => ones  for biu, exact
and_again: bit_and(bit_and(x, y), y) => bit_and(x, y)  for biu, exact
or_again: bit_or(bit_or(x, y), y) => bit_or(x, y)  for biu, exact
maximum_self: maximum(x, x) => x  for iuf, exact
minimum_self: minimum(x, x) => x  for iuf, exact
maximum_again: maximum(maximum(x, y), y) => maximum(x, y)  for iu, exact
minimum_again: minimum(minimum(x, y), y) => minimum(x, y)  for iu, exact
eq_self: eq(x, x) => 1  for biu, exact
ne_self: ne(x, x) => 0  for biu, exact
le_self: le(x, x) => 1  for biu, exact
ge_self: ge(x, x) => 1  for biu, exact
lt_self: lt(x, x) => 0  for biuf, exact
gt_self: gt(x, x) => 0  for biuf, exact

# Signs.
neg_neg: neg(neg(x)) => x  for iuf, exact
zero_minus: sub(0, x) => neg(x)  for iu, exact
negative_zero_minus: sub(-0.0, x) => neg(x)  for f, exact
add_neg: add(x, neg(y)) => sub(x, y)  for iuf, exact
sub_neg: sub(x, neg(y)) => add(x, y)  for iuf, exact
mul_minus_one: mul(x, -1) => neg(x)  for if, exact
div_minus_one: div(x, -1) => neg(x)  for f, exact
mul_neg_neg: mul(neg(x), neg(y)) => mul(x, y)  for iuf, exact
div_neg_neg: div(neg(x), neg(y)) => div(x, y)  for f, exact
abs_unsigned: abs(x) => x  for u, exact
abs_abs: abs(abs(x)) => abs(x)  for iuf, exact
abs_neg: abs(neg(x)) => abs(x)  for if, exact
abs_square: abs(mul(x, x)) => mul(x, x)  for f, exact
square_of_neg: mul(neg(x), neg(x)) => mul(x, x)  for iuf, exact
square_of_abs: mul(abs(x), abs(x)) => mul(x, x)  for iuf, exact

# Rounding twice.
floor_floor: floor(floor(x)) => floor(x)  for f, exact
ceil_ceil: ceil(ceil(x)) => ceil(x)  for f, exact
trunc_trunc: trunc(trunc(x)) => trunc(x)  for f, exact
round_round: round(round(x)) => round(x)  for f, exact
sign_sign: sign(sign(x)) => sign(x)  for iuf, exact

# Integer constants gather (sums and products of floats do not: that would round differently).
add_twice: add(add(x, k), m) => add(x, k + m)  for iu, exact
mul_twice: mul(mul(x, k), m) => mul(x, k * m)  for iu, exact
xor_twice: bit_xor(bit_xor(x, y), y) => x  for biu, exact

# Cheaper forms.
div_power_of_two: div(x, k) => mul(x, 1 / k)  for f, exact when power_of_two(k)
power_two: power(x, 2) => mul(x, x)  for iu, exact
power_two_float: power(x, 2) => mul(x, x)  for f, 1 ulp
power_three: power(x, 3) => mul(mul(x, x), x)  for iu, exact
power_three_float: power(x, 3) => mul(mul(x, x), x)  for f, 3 ulp
power_minus_one: power(x, -1) => div(1, x)  for f, 1 ulp
sigmoid: div(1, add(1, exp(neg(x)))) => sigmoid(x)  for f, 4 ulp

# Choices.
where_true: where(True, x, y) => x  for biuf, exact
where_false: where(False, x, y) => y  for biuf, exact
where_same: where(c, x, x) => x  for biuf, exact
where_not: where(bit_not(c), x, y) => where(c, y, x)  for biuf, exact
where_where_true: where(c, where(c, x, y), z) => where(c, x, z)  for biuf, exact
where_where_false: where(c, x, where(c, y, z)) => where(c, x, z)  for biuf, exact
where_is_condition: where(c, True, False) => c  for b, exact
where_is_not_condition: where(c, False, True) => bit_not(c)  for b, exact

# Comparisons and their negations. not(x < y) is y <= x only where no nan can be.
eq_true: eq(c, True) => c  for b, exact
eq_false: eq(c, False) => bit_not(c)  for b, exact
ne_true: ne(c, True) => bit_not(c)  for b, exact
ne_false: ne(c, False) => c  for b, exact
not_not: bit_not(bit_not(x)) => x  for biu, exact
not_eq: bit_not(eq(x, y)) => ne(x, y)  for biuf, exact
not_ne: bit_not(ne(x, y)) => eq(x, y)  for biuf, exact
not_lt: bit_not(lt(x, y)) => ge(x, y)  for biu, exact
not_le: bit_not(le(x, y)) => gt(x, y)  for biu, exact
not_gt: bit_not(gt(x, y)) => le(x, y)  for biu, exact
not_ge: bit_not(ge(x, y)) => lt(x, y)  for biu, exact

# Conversions.
cast_same: cast(x, dtype=t) => x  for biuf, exact when has_type(x, t)
cast_twice: cast(cast(x, dtype=s), dtype=t) => cast(x, dtype=t)  for biuf, exact when lossless(x, s, t)

# Reductions over no axes.
sum_of_nothing: reduce_sum(x, axes=()) => x  for iu, exact
sum_of_nothing_float: reduce_sum(x, axes=()) => x  for f, 1 ulp
prod_of_nothing: reduce_prod(x, axes=()) => x  for iuf, exact
max_of_nothing: reduce_max(x, axes=()) => x  for iuf, exact
min_of_nothing: reduce_min(x, axes=()) => x  for iuf, exact
and_of_nothing: reduce_and(x, axes=()) => x  for biu, exact
or_of_nothing: reduce_or(x, axes=()) => x  for biu, exact
"""

RULES: tuple[Rule, ...] = tuple(
    parse_rule(line) for line in _TEXT.splitlines() if line.strip() and not line.startswith("#")
)


def power_of_two(k: Any) -> bool:
    """Whether 1 / k is exact: k is a power of two, and its reciprocal is a number too."""
    with np.errstate(all="ignore"):
        inverse = 1 / k
    return bool(np.isfinite(k) and np.isfinite(inverse) and k != 0 and abs(np.frexp(k)[0]) == 0.5 and inverse * k == 1)


def has_type(x: Value, t: DType) -> bool:
    """Whether a value already has an element type."""
    return x.dtype == t


def lossless(x: Value, s: DType, t: DType) -> bool:
    """Whether ``s`` has every element of ``x``'s type, so that a detour through it changes no conversion to ``t``.

    Floats do not go to integers by detour: what happens to nan and to what is out of range depends on the route.
    """
    source = x.dtype
    if source.kind == "b":
        return True
    if source.is_float:
        return s.is_float and t.is_float and source.precision <= s.precision and s.bits > source.bits
    if s.is_float:
        represented = t == source or (t.is_integer and t.bits > source.bits)
        return source.bits <= s.precision and (t.is_float or t.kind == "b" or represented)
    return s.is_integer and s.bits > source.bits and (s.kind == "i" or source.kind == "u")


CONDITIONS: dict[str, Callable[..., bool]] = {
    "power_of_two": power_of_two,
    "has_type": has_type,
    "lossless": lossless,
}
