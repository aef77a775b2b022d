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


def another(name: str) -> Callable[..., Any]:
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


exp = another("exp")
exp2 = another("exp2")
expm1 = another("expm1")
sinh = another("sinh")
cosh = another("cosh")
tanh = another("tanh")
sigmoid = another("sigmoid")
log = another("log")
log2 = another("log2")
log10 = another("log10")
log1p = another("log1p")
arcsinh = another("arcsinh")
arccosh = another("arccosh")
arctanh = another("arctanh")
erf = another("erf")
erfc = another("erfc")
erfcx = another("erfcx")
erfinv = another("erfinv")
erfcinv = another("erfcinv")
lgamma = another("lgamma")
digamma = another("digamma")
bessel_i0 = another("bessel_i0")
bessel_i0e = another("bessel_i0e")
bessel_i1 = another("bessel_i1")
bessel_i1e = another("bessel_i1e")
sin = another("sin")
cos = another("cos")
tan = another("tan")
arcsin = another("arcsin")
arccos = another("arccos")
arctan = another("arctan")
arctan2 = another("arctan2")
pow = another("pow")
cbrt = another("cbrt")
