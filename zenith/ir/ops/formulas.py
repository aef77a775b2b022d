"""Smooth elementwise functions that are written with other primitives, and whose expressions have corners.

The expressions are chosen for accuracy at the edges, no overflow where the result is finite: by magnitudes, the larger
operand, and choices. To differentiate them would give wrong answers at zeros and ties, so derivatives are separate.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from zenith.ir.builder import Builder, Values
from zenith.ir.graph import Value
from zenith.ir.ops.elementwise import Multiplier, elementwise, unary

_LN2 = math.log(2.0)
_INF = float("inf")


def _full(b: Builder, value: float, x: Value) -> Value:
    return b.full(value, x.dtype, x.shape)


def _inverse(b: Builder, x: Value) -> Value:
    return b.div(_full(b, 1.0, x), x)


def _fmod(b: Builder, x: Value, y: Value) -> Value:
    return b.copysign(b.remainder(b.abs(x), b.abs(y)), x)


def _hypot(b: Builder, x: Value, y: Value) -> Value:
    """The larger times sqrt(1 + ratio**2); infinite if either is."""
    p, q = b.abs(x), b.abs(y)
    large, small = b.maximum(p, q), b.minimum(p, q)
    ratio = b.div(small, b.where(b.eq(large, 0.0), _full(b, 1.0, large), large))
    length = b.mul(large, b.sqrt(b.add(b.mul(ratio, ratio), 1.0)))
    infinite = b.bit_or(b.eq(p, _INF), b.eq(q, _INF))
    return b.where(infinite, _full(b, _INF, x), length)


def _logaddexp(b: Builder, x: Value, y: Value) -> Value:
    """Equal operands (infinite ones too) give x + log(2)."""
    smooth = b.add(b.maximum(x, y), b.log1p(b.exp(b.neg(b.abs(b.sub(x, y))))))
    return b.where(b.eq(x, y), b.add(x, _LN2), smooth)


def _logaddexp2(b: Builder, x: Value, y: Value) -> Value:
    """Equal operands (infinite ones too) give x + 1."""
    smooth = b.add(b.maximum(x, y), b.div(b.log1p(b.exp2(b.neg(b.abs(b.sub(x, y))))), _LN2))
    return b.where(b.eq(x, y), b.add(x, 1.0), smooth)


def _share(power: str, which: int) -> Multiplier:
    """The partial derivative of log(exp(x) + exp(y)): the share that one operand has in the sum.

    It is 1 where the sum equals that operand alone, and 1/2 where it equals both: infinite operands, and large ones.
    """

    def partial(b: Builder, args: Values, y: Value) -> Value:
        share = getattr(b, power)(b.sub(args[which], y))
        whole = b.where(b.eq(args[1 - which], y), _full(b, 0.5, y), _full(b, 1.0, y))
        return b.where(b.eq(args[which], y), whole, share)

    return partial


def _cosine(which: int) -> Multiplier:
    """The partial derivative of a length: a coordinate over it."""
    return lambda b, a, y: b.div(a[which], b.where(b.eq(y, 0.0), _full(b, 1.0, y), y))


F: dict[str, Any] = {"kinds": "f"}
FC: dict[str, Any] = {"kinds": "fc"}
unary("arcsinh", "Inverse hyperbolic sine.", "arcsinh(x)", np.arcsinh,
      lambda b, a, y: _inverse(b, b.sqrt(b.add(b.mul(a[0], a[0]), 1.0))), ulp=4, cost=30, **FC)  # fmt: skip
unary("arccosh", "Inverse hyperbolic cosine.", "arccosh(x)", np.arccosh,
      lambda b, a, y: _inverse(b, b.mul(b.sqrt(b.sub(a[0], 1.0)), b.sqrt(b.add(a[0], 1.0)))),
      ulp=8, domain=(1.5, 3.0), cost=30, **FC)  # fmt: skip
unary("arctanh", "Inverse hyperbolic tangent.", "arctanh(x)", np.arctanh,
      lambda b, a, y: _inverse(b, b.mul(b.sub(_full(b, 1.0, y), a[0]), b.add(a[0], 1.0))),
      ulp=4, domain=(-0.9, 0.9), cost=30, **FC)  # fmt: skip
unary("cbrt", "Real cube root.", "cbrt(x)", np.cbrt, lambda b, a, y: _inverse(b, b.mul(b.mul(y, y), 3.0)),
      ulp=2, domain=(0.2, 3.0), cost=30, **F)  # fmt: skip
elementwise("fmod", "Remainder with the sign of the first operand.", _fmod, np.fmod,
            (1, lambda b, a, y: b.neg(b.round(b.div(b.sub(a[0], y), a[1])))),
            ulp=0.5, domain=((2.2, 2.8), (0.9, 1.0)), **F)  # fmt: skip
elementwise("hypot", "sqrt(x*x + y*y); the derivative at 0 is 0.", _hypot, np.hypot, (_cosine(0), _cosine(1)),
            ulp=4, domain=((0.2, 2.0), (-2.0, 2.0)), **F)  # fmt: skip
elementwise("logaddexp", "log(exp(x) + exp(y)).", _logaddexp, np.logaddexp, (_share("exp", 0), _share("exp", 1)),
            ulp=4, domain=((0.5, 2.0), (-2.0, 2.0)), **F)  # fmt: skip
elementwise("logaddexp2", "log2(2**x + 2**y).", _logaddexp2, np.logaddexp2, (_share("exp2", 0), _share("exp2", 1)),
            ulp=4, domain=((0.5, 2.0), (-2.0, 2.0)), **F)  # fmt: skip
