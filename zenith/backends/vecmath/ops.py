"""The scalar operations in which every elementary function is written.

An elementary function is a straight line of these operations: no branch, no loop, no table look-up. Choices are made
by ``select``, which keeps both sides computed, so the compiler's loop vectoriser can run sixteen elements at a time.
An implementation of :class:`Ops` gives the operations a meaning: :class:`~.numpy_ops.NumpyOps` computes them on arrays
at once, the CPU backend emits one LLVM instruction for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Value = Any
"""What an implementation passes around: an array, or a value of the code being emitted."""


class Ops(Protocol):
    """Scalar arithmetic in one floating-point type and the signed integer type of the same width.

    Every operation is the correctly rounded IEEE 754 one, and is evaluated as written: an implementation may neither
    reassociate nor contract. Comparisons are false when an operand is NaN.
    """

    dtype: str
    """``"float32"`` or ``"float64"``: the type of constants and of the functions' arguments and results."""

    @property
    def double(self) -> Ops:
        """The operations in float64; itself when this already is float64."""
        ...

    def const(self, value: float) -> Value:
        """A floating-point constant, rounded to ``dtype``."""
        ...

    def int_const(self, value: int) -> Value:
        """An integer constant of the width of ``dtype``."""
        ...

    def add(self, x: Value, y: Value) -> Value: ...

    def sub(self, x: Value, y: Value) -> Value: ...

    def mul(self, x: Value, y: Value) -> Value: ...

    def div(self, x: Value, y: Value) -> Value: ...

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x * y + z, rounded once."""
        ...

    def neg(self, x: Value) -> Value: ...

    def abs(self, x: Value) -> Value: ...

    def copysign(self, magnitude: Value, sign: Value) -> Value: ...

    def sqrt(self, x: Value) -> Value: ...

    def rint(self, x: Value) -> Value:
        """The nearest integral value, ties to even."""
        ...

    def lt(self, x: Value, y: Value) -> Value: ...

    def le(self, x: Value, y: Value) -> Value: ...

    def eq(self, x: Value, y: Value) -> Value: ...

    def both(self, p: Value, q: Value) -> Value:
        """Conjunction of two conditions."""
        ...

    def either(self, p: Value, q: Value) -> Value:
        """Disjunction of two conditions."""
        ...

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """x where the condition holds, otherwise y; both are computed."""
        ...

    def bitcast_int(self, x: Value) -> Value: ...

    def bitcast_float(self, i: Value) -> Value: ...

    def iadd(self, i: Value, j: Value) -> Value:
        """Integer sum, modulo two to the width; so are ``isub`` and ``shl``."""
        ...

    def isub(self, i: Value, j: Value) -> Value: ...

    def shl(self, i: Value, count: int) -> Value: ...

    def shr(self, i: Value, count: int) -> Value:
        """Arithmetic shift to the right: floor division by a power of two."""
        ...

    def widen(self, x: Value) -> Value:
        """x as float64, to be used with ``double``."""
        ...

    def narrow(self, x: Value) -> Value:
        """A float64 value rounded to ``dtype``."""
        ...

    def libm(self, name: str, *operands: Value) -> Value:
        """Call the C library's float64 function of this name, for the few functions not written here."""
        ...

    def rarely(self, condition: Value, name: str, x: Value, usual: Value) -> Value:
        """The C library's float64 function of x where a condition holds that hardly ever does, otherwise ``usual``.

        The only branch, taken when the condition holds for any lane: a function with it is a call in the loop.
        """
        ...


def polynomial(k: Ops, x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate ``c[0] + c[1] x + c[2] x**2 + ...`` by Horner's rule, one fused operation a term.

    Horner's chain is the longest in latency and the shortest in instructions. A vectorised loop has many independent
    chains in flight, so instructions are what it pays for.
    """
    result = k.const(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = k.fma(result, x, k.const(coefficient))
    return result


def at_most(k: Ops, x: Value, limit: float) -> Value:
    """min(x, limit), and NaN stays NaN (the operand order makes it one ``min`` instruction)."""
    bound = k.const(limit)
    return k.select(k.lt(bound, x), bound, x)


def at_least(k: Ops, x: Value, limit: float) -> Value:
    """max(x, limit), and NaN stays NaN."""
    bound = k.const(limit)
    return k.select(k.lt(x, bound), bound, x)
