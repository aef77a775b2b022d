"""The table of elementary functions: their names, arities and error bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zenith.backends.vecmath import (
    bessel,
    error_function,
    exponential,
    gamma,
    inverse_error_function,
    inverse_trigonometric,
    logarithm,
    power,
    trigonometric,
)
from zenith.backends.vecmath.ops import Value


@dataclass(frozen=True)
class ElementaryFunction:
    """One elementary function: ``body(k, *arguments)`` computes it with any :class:`~.ops.Ops` k."""

    body: Callable[..., Value]
    arity: int
    ulp: dict[str, float]
    """Largest error, by dtype, in units in the last place of the exact result."""
    branches: bool = False
    """Whether it uses :meth:`~.ops.Ops.rarely`."""

    @property
    def name(self) -> str:
        return self.body.__name__


def _function(
    body: Callable[..., Value], float32: float, float64: float, arity: int = 1, branches: bool = False
) -> ElementaryFunction:
    return ElementaryFunction(body, arity, {"float32": float32, "float64": float64}, branches)


_ALL = (
    _function(exponential.exp, 1.75, 1.75),
    _function(exponential.exp2, 1.25, 1.25),
    _function(exponential.expm1, 1.75, 2),
    _function(exponential.sinh, 0.75, 2.5),
    _function(exponential.cosh, 0.75, 2),
    _function(exponential.tanh, 2, 2),
    _function(exponential.sigmoid, 2, 2),
    _function(logarithm.log, 1.75, 1.75),
    _function(logarithm.log2, 1.25, 1.25),
    _function(logarithm.log10, 1.25, 1.25),
    _function(logarithm.log1p, 1.75, 1.75),
    _function(logarithm.arcsinh, 0.75, 2.5),
    # log1p's error and that of its argument.
    _function(logarithm.arccosh, 0.75, 3),
    _function(logarithm.arctanh, 0.75, 2.25),
    _function(error_function.erf, 1.75, 1.5),
    _function(error_function.erfc, 0.75, 2),
    # Below 0, twice an exponential less another value of the function: the errors of both.
    _function(error_function.erfcx, 0.75, 2.5),
    # The roundings of the logarithm and of the polynomial add up next to 0.99; 2.44 ulp is the worst of all floats.
    _function(inverse_error_function.erfinv, 2.5, 2),
    # And of y (2 - y), where y is small.
    _function(inverse_error_function.erfcinv, 2.5, 2.75),
    # The C library's lgamma errs by 4 ulp; the float64 digamma is a difference of a logarithm and a quotient.
    _function(gamma.lgamma, 1.5, 4),
    _function(gamma.digamma, 1.5, 4.5),
    # Beyond the border, products of an exponential, a square root and a quotient, each with its rounding.
    _function(bessel.bessel_i0, 0.75, 5.5),
    _function(bessel.bessel_i1, 0.75, 5.5),
    _function(bessel.bessel_i0e, 0.75, 5),
    _function(bessel.bessel_i1e, 0.75, 5),
    # A tangent is the quotient of two rounded numbers.
    _function(trigonometric.sin, 0.75, 1, branches=True),
    _function(trigonometric.cos, 0.75, 1, branches=True),
    _function(trigonometric.tan, 0.75, 2.25, branches=True),
    _function(inverse_trigonometric.arcsin, 0.75, 0.75),
    _function(inverse_trigonometric.arccos, 0.75, 0.75),
    _function(inverse_trigonometric.arctan, 0.75, 1.25),
    _function(inverse_trigonometric.arctan2, 0.75, 1.5, arity=2),
    _function(power.pow, 0.75, 1, arity=2),
    _function(power.cbrt, 0.75, 0.75),
)

FUNCTIONS: dict[str, ElementaryFunction] = {function.name: function for function in _ALL}
"""Every elementary function by its NumPy name, SciPy's, or the field's: ``sigmoid``, ``bessel_i0``."""

ULP: dict[str, dict[str, float]] = {name: function.ulp for name, function in FUNCTIONS.items()}
"""Largest error of each function, name -> dtype -> units in the last place."""
