"""Functions of Python's ``math`` for traced numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from zenith.convert.typing import Function
from zenith.numpy.elementwise import SPECIAL
from zenith.trace.operators import python_number
from zenith.trace.tracer import Tracer

Real: TypeAlias = "Tracer | float"


def _of_math(name: str, function: Function) -> Function:
    """A function of Python's ``math`` for traced numbers."""
    plain = getattr(math, name)

    def compute(*args: Any) -> object:
        known = [a._of_sizes() if isinstance(a, Tracer) else a for a in args]
        if all(number is not None for number in known):
            return plain(*known)
        for recorder in {a.recorder for a in args if isinstance(a, Tracer)}:
            recorder.raises.called.add(f"math.{name}")
        if name in ("floor", "ceil", "trunc") and args[0].dtype.kind in "biu":
            return python_number(args[0].astype(np.int64))
        return python_number(function(*(a if not isinstance(a, Tracer) else a.astype(np.float64) for a in args)))

    return compute


def _of_integers(plain: Function, function: np.ufunc, start: int) -> Function:
    """A function of Python's ``math`` for any number of traced integers."""

    def compute(*args: Any) -> object:
        kinds = [a.dtype.kind for a in args if isinstance(a, Tracer)]
        if not kinds or set(kinds) - set("biu"):
            return plain(*args)
        given = [a.astype(np.int64) if isinstance(a, Tracer) else a for a in args]
        return python_number(functools.reduce(function, given, start))

    return compute


def _whole(function: np.ufunc) -> Function:
    """A rounding function, which leaves integers as they are."""
    return lambda x: function(x).astype(np.int64)


def _isclose(a: Real, b: Real, *, rel_tol: Real = 1e-09, abs_tol: Real = 0.0) -> object:
    """``math.isclose`` of traced numbers."""
    if not any(isinstance(number, Tracer) for number in (a, b, rel_tol, abs_tol)):
        return math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)
    limit = np.maximum(rel_tol * np.maximum(np.abs(a), np.abs(b)), abs_tol)
    near = np.logical_and(np.abs(a - b) <= limit, np.logical_and(np.isfinite(a), np.isfinite(b)))
    return python_number(np.logical_or(a == b, near))


def _dist(p: Iterable[Real], q: Iterable[Real]) -> object:
    """``math.dist`` of points with traced coordinates."""
    return MATH[math.hypot](*(a - b for a, b in zip(p, q, strict=True)))


def _modf(x: Real) -> tuple[object, object]:
    """``math.modf`` of a traced number."""
    part, whole = np.modf(x) if isinstance(x, Tracer) else math.modf(x)
    return python_number(part), python_number(whole)


def _frexp(x: Real) -> tuple[object, object]:
    """``math.frexp`` of a traced number."""
    if not isinstance(x, Tracer):
        return math.frexp(x)
    part, exponent = np.frexp(x)
    return python_number(part), python_number(exponent.astype(np.int64))


def _ldexp(x: Real, i: Tracer | int) -> object:
    """``math.ldexp`` of traced numbers."""
    if not isinstance(x, Tracer) and not isinstance(i, Tracer):
        return math.ldexp(x, i)
    return python_number(np.ldexp(np.float64(x) if isinstance(x, (int, float)) else x, i))


_ELEMENTWISE: dict[str, Function] = {
    "sqrt": np.sqrt, "exp": np.exp, "log": lambda x, *base: np.log(x) if not base else np.log(x) / np.log(base[0]),
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "expm1": np.expm1, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "pow": np.power,
    "fabs": np.abs, "hypot": lambda one, *others: functools.reduce(np.hypot, others, np.abs(one)),
    "copysign": np.copysign, "fmod": np.fmod, "degrees": np.degrees,
    "radians": np.radians, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
    "erf": SPECIAL["erf"], "erfc": SPECIAL["erfc"], "gamma": SPECIAL["gamma"], "lgamma": SPECIAL["gammaln"],
    "exp2": np.exp2, "cbrt": np.cbrt, "floor": _whole(np.floor), "ceil": _whole(np.ceil), "trunc": _whole(np.trunc),
}  # fmt: skip

MATH: dict[object, Function] = {
    math.gcd: _of_integers(math.gcd, np.gcd, 0), math.lcm: _of_integers(math.lcm, np.lcm, 1), math.modf: _modf,
    math.frexp: _frexp, math.ldexp: _ldexp, math.isclose: _isclose, math.dist: _dist,
    **{getattr(math, name): _of_math(name, function) for name, function in _ELEMENTWISE.items()},
}  # fmt: skip
