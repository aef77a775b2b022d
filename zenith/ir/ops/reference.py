"""NumPy references for functions that NumPy itself does not have, or defines differently from Zenith."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def sigmoid(x: Any) -> Any:
    """The logistic function without overflow, computed one precision up for float32."""
    wide = x.astype(np.float64) if x.dtype.itemsize < 8 else x
    e = np.exp(-np.abs(wide))
    return np.where(wide >= 0, 1.0 / (1.0 + e), e / (1.0 + e)).astype(x.dtype)


_ERF = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: Any) -> Any:
    """The error function, by the C library in double precision."""
    return _ERF(x).astype(x.dtype) if x.size else x.copy()


def power(x: Any, y: Any) -> Any:
    """Powers; for integers by wrapping multiplication, where a negative exponent gives the truncated reciprocal."""
    if x.dtype.kind not in "iu":
        return np.power(x, y)
    result = np.power(x, np.maximum(y, 0))
    if y.dtype.kind == "u":
        return result
    reciprocal = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2 == 0, 1, -1), 0))
    return np.where(y < 0, reciprocal, result).astype(x.dtype)
