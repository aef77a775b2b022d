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


def on_arrays(name: str) -> Callable[..., Any]:
    """A Python function of this name: elementwise over float32 or float64 arrays, without warnings."""
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


exp = on_arrays("exp")
exp2 = on_arrays("exp2")
expm1 = on_arrays("expm1")
sinh = on_arrays("sinh")
cosh = on_arrays("cosh")
tanh = on_arrays("tanh")
sigmoid = on_arrays("sigmoid")
log = on_arrays("log")
log2 = on_arrays("log2")
log10 = on_arrays("log10")
log1p = on_arrays("log1p")
arcsinh = on_arrays("arcsinh")
arccosh = on_arrays("arccosh")
arctanh = on_arrays("arctanh")
erf = on_arrays("erf")
erfc = on_arrays("erfc")
erfcx = on_arrays("erfcx")
erfinv = on_arrays("erfinv")
erfcinv = on_arrays("erfcinv")
lgamma = on_arrays("lgamma")
digamma = on_arrays("digamma")
bessel_i0 = on_arrays("bessel_i0")
bessel_i0e = on_arrays("bessel_i0e")
bessel_i1 = on_arrays("bessel_i1")
bessel_i1e = on_arrays("bessel_i1e")
sin = on_arrays("sin")
cos = on_arrays("cos")
tan = on_arrays("tan")
arcsin = on_arrays("arcsin")
arccos = on_arrays("arccos")
arctan = on_arrays("arctan")
arctan2 = on_arrays("arctan2")
pow = on_arrays("pow")
cbrt = on_arrays("cbrt")
