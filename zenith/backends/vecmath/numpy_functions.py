"""The elementary functions on NumPy arrays and scalars, under the names of the table.

>>> float(exp(0.0)), sigmoid(np.zeros(2, np.float32))
(1.0, array([0.5, 0.5], dtype=float32))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zenith.backends.vecmath.functions import FUNCTIONS
from zenith.backends.vecmath.numpy_ops import NumpyOps


def _on_arrays(name: str) -> Callable[..., Any]:
    """The plain Python function of this name: elementwise over float32 or float64 arrays, without warnings."""
    body = FUNCTIONS[name].body

    def function(*arguments: Any) -> Any:
        arrays = np.broadcast_arrays(*arguments) if len(arguments) > 1 else [np.asarray(arguments[0])]
        dtype = np.result_type(*arrays)
        k = NumpyOps(dtype.name)
        with np.errstate(all="ignore"):
            return body(k, *(array.astype(dtype)[()] for array in arrays))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = body.__doc__
    return function


exp = _on_arrays("exp")
exp2 = _on_arrays("exp2")
expm1 = _on_arrays("expm1")
sinh = _on_arrays("sinh")
cosh = _on_arrays("cosh")
tanh = _on_arrays("tanh")
sigmoid = _on_arrays("sigmoid")
log = _on_arrays("log")
log2 = _on_arrays("log2")
log10 = _on_arrays("log10")
log1p = _on_arrays("log1p")
arcsinh = _on_arrays("arcsinh")
arccosh = _on_arrays("arccosh")
arctanh = _on_arrays("arctanh")
erf = _on_arrays("erf")
erfc = _on_arrays("erfc")
erfcx = _on_arrays("erfcx")
erfinv = _on_arrays("erfinv")
erfcinv = _on_arrays("erfcinv")
lgamma = _on_arrays("lgamma")
digamma = _on_arrays("digamma")
bessel_i0 = _on_arrays("bessel_i0")
bessel_i0e = _on_arrays("bessel_i0e")
bessel_i1 = _on_arrays("bessel_i1")
bessel_i1e = _on_arrays("bessel_i1e")
sin = _on_arrays("sin")
cos = _on_arrays("cos")
tan = _on_arrays("tan")
arcsin = _on_arrays("arcsin")
arccos = _on_arrays("arccos")
arctan = _on_arrays("arctan")
arctan2 = _on_arrays("arctan2")
pow = _on_arrays("pow")
cbrt = _on_arrays("cbrt")
