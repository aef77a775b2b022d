"""Powers of Python's integers: floats where the exponent is negative, of which NumPy's integers have none."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.ir.dims import Dim, prove_at_least
from zenith.ir.types import float64
from zenith.numpy.operands import weak_kind
from zenith.numpy.typing import Array
from zenith.trace.bind import b
from zenith.trace.numbers import formula_of
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer

_NEGATIVE = "a negative power of a Python integer is a float: write float(x) ** k"


def of_python(x: Any, exponent: Any) -> bool:
    """Whether both operands are Python's integers, one of them traced."""
    return weak_kind(x) is int and weak_kind(exponent) is int


def operands(x: Any, exponent: Any) -> tuple[Any, Any]:
    """What NumPy's power takes for Python's.

    A float where the exponent is never positive. Where its sign is open it is checked when the program runs.
    """
    if not isinstance(exponent, (Tracer, TracedSize)):
        return (_as_float(x) if exponent < 0 else x), exponent
    least, most = _extremes(exponent)
    if most is not None and prove_at_least(0, most):
        return _as_float(x), exponent
    if isinstance(exponent, Tracer) and (least is None or not prove_at_least(least, 0)):
        checked: Tracer = b.error_if(exponent, np.less(exponent, 0), why=_NEGATIVE)
        checked.weak = True
        return x, checked
    return x, exponent


def _extremes(exponent: Tracer | TracedSize) -> tuple[Dim | None, Dim | None]:
    """What an integer is at least and at most; None where that is not known."""
    recorder = current_recorder()
    size = exponent.dim if isinstance(exponent, TracedSize) else formula_of(exponent)
    return (None, None) if size is None or recorder is None else recorder.extremes(recorder.canonical(size))


def _as_float(x: Any) -> Array | float:
    if isinstance(x, TracedSize):
        x = x.as_array()
    if not isinstance(x, Tracer):
        return float(x)
    found: Tracer = b.cast(x, dtype=float64)
    found.weak = True
    return found
