"""Numbers of twice the precision, as unevaluated sums of two floats (T. J. Dekker, Numerische Mathematik 18, 1971).

The first of a pair is the sum rounded, so the second is at most half a unit in its last place. Rounding errors of sums
and products are floats themselves, and a fused multiply-add computes that of a product in one operation.
"""

from __future__ import annotations

from zenith.backends.vecmath.formats import SplitConstant
from zenith.backends.vecmath.ops import Ops, Value

Pair = tuple[Value, Value]


def add_smaller(k: Ops, x: Value, y: Value) -> Pair:
    """x + y, exactly, for |x| >= |y| or x = 0."""
    total = k.add(x, y)
    return total, k.add(k.sub(x, total), y)


def add(k: Ops, x: Value, y: Value) -> Pair:
    """x + y, exactly (D. Knuth, The Art of Computer Programming 2, 4.2.2)."""
    total = k.add(x, y)
    added = k.sub(total, x)
    return total, k.add(k.sub(x, k.sub(total, added)), k.sub(y, added))


def multiply(k: Ops, x: Value, y: Value) -> Pair:
    """x * y, exactly."""
    product = k.mul(x, y)
    return product, k.fma(x, y, k.neg(product))


def multiply_pairs(k: Ops, x: Pair, y: Pair) -> Pair:
    """x * y but for the product of the second parts."""
    high, low = multiply(k, x[0], y[0])
    return high, k.fma(x[0], y[1], k.fma(x[1], y[0], low))


def constant(k: Ops, value: SplitConstant) -> Pair:
    """A constant of twice the precision."""
    return k.const(value.hi), k.const(value.lo)
