"""Parameters of float32 and float64 for the functions: field widths, limits, split constants.

A constant such as ln 2 is stored as an unevaluated sum ``hi + lo`` of two numbers of the format, which together carry
about twice its precision; a fused multiply-add with each of them then subtracts ``n ln 2`` with a negligible error.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SplitConstant:
    """An irrational constant as the sum of two floating-point numbers."""

    hi: float
    lo: float


@dataclass(frozen=True)
class Format:
    """One binary floating-point format, and the argument ranges of the exponential in it."""

    mantissa_bits: int
    exponent_bias: int
    min_normal: float
    round_magic: float
    """1.5 * 2**mantissa_bits: adding it rounds to an integer, which is then in the low bits of the sum."""
    magic_bits: int
    one_bits: int
    sqrt_half_bits: int
    exp_underflow: float
    """Any argument below this has a power of e that rounds to zero."""
    exp_overflow: float
    """Any argument above this has an infinite power of e, yet its binary exponent is at most the format's largest."""
    exp2_underflow: float
    exp2_overflow: float
    expm1_saturated: float
    """expm1 rounds to -1 for every argument below this, and tanh(x) to 1 for 2 x above its negative."""
    sigmoid_saturated: float
    """The logistic function rounds to 1 for every argument above this."""
    negligible: float
    """For |x| below this, functions like x + O(x**2) round to x, give or take half an ulp."""
    ln2: SplitConstant
    log2e: SplitConstant
    log10_2: SplitConstant
    log10e: SplitConstant


FLOAT32 = Format(
    mantissa_bits=23,
    exponent_bias=127,
    min_normal=2.0**-126,
    round_magic=1.5 * 2.0**23,
    magic_bits=0x4B400000,
    one_bits=0x3F800000,
    sqrt_half_bits=0x3F3504F3,
    exp_underflow=-104.0,
    exp_overflow=89.0,
    exp2_underflow=-151.0,
    exp2_overflow=128.0,
    expm1_saturated=-20.0,
    sigmoid_saturated=20.0,
    negligible=2.0**-26,
    ln2=SplitConstant(0.6931471824645996, -1.904654299957768e-09),
    log2e=SplitConstant(1.4426950216293335, 1.9259629911266175e-08),
    log10_2=SplitConstant(0.3010300099849701, -1.4320988897559699e-08),
    log10e=SplitConstant(0.4342944920063019, -1.0103050052231683e-08),
)

FLOAT64 = Format(
    mantissa_bits=52,
    exponent_bias=1023,
    min_normal=2.0**-1022,
    round_magic=1.5 * 2.0**52,
    magic_bits=0x4338000000000000,
    one_bits=0x3FF0000000000000,
    sqrt_half_bits=0x3FE6A09E667F3BCD,
    exp_underflow=-746.0,
    exp_overflow=710.0,
    exp2_underflow=-1076.0,
    exp2_overflow=1024.0,
    expm1_saturated=-40.0,
    sigmoid_saturated=40.0,
    negligible=2.0**-55,
    ln2=SplitConstant(0.6931471805599453, 2.3190468138462996e-17),
    log2e=SplitConstant(1.4426950408889634, 2.0355273740931033e-17),
    log10_2=SplitConstant(0.3010299956639812, -2.8037281277851704e-18),
    log10e=SplitConstant(0.4342944819032518, 1.098319650216765e-17),
)

FORMATS = {"float32": FLOAT32, "float64": FLOAT64}
