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


THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # of rounds 1 to 4, 5 to 8, and so on in turn
THREEFRY_PARITY = 0x1BD11BDA  # xor of this and of the key's halves is the third word of the key schedule


def threefry2x32(key: Any, word: Any) -> Any:
    """Threefry-2x32 with 20 rounds, on int64 arrays: the high half of an element is the first word of a pair.

    J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, 2011.
    """
    k0, k1 = _halves(key)
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(THREEFRY_PARITY))
    x0, x1 = _halves(word)
    with np.errstate(over="ignore"):
        x0, x1 = x0 + keys[0], x1 + keys[1]
        for step in range(5):
            for bits in THREEFRY_ROTATIONS[step % 2]:
                x0 = x0 + x1
                x1 = (x1 << np.uint32(bits) | x1 >> np.uint32(32 - bits)) ^ x0
            x0, x1 = x0 + keys[(step + 1) % 3], x1 + keys[(step + 2) % 3] + np.uint32(step + 1)
    return x0.astype(np.int64) << 32 | x1.astype(np.int64)


def _halves(word: Any) -> tuple[Any, Any]:
    return (word >> 32).astype(np.uint32), word.astype(np.uint32)
