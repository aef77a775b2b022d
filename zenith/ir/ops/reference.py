"""NumPy references for functions that NumPy itself does not have, or defines differently from Zenith."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from zenith.ir.types import NDArray


def sigmoid(x: NDArray) -> NDArray:
    """The logistic function without overflow, computed one precision up for float32."""
    wide = x.astype(np.float64) if x.dtype.itemsize < 8 else x
    e = np.exp(-np.abs(wide))
    return np.where(wide >= 0, 1.0 / (1.0 + e), e / (1.0 + e)).astype(x.dtype)


_ERF = np.vectorize(math.erf, otypes=[np.float64])


def erf(x: NDArray) -> NDArray:
    """The error function, by the C library in double precision."""
    return _ERF(x).astype(x.dtype) if x.size else x.copy()


# Numerators and denominators of AS241's PPND16, from the constant term on: in the middle, and in both tails.
_MIDDLE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
_TAIL = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
_FAR_TAIL = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip


def erfinv(x: NDArray) -> Any:
    """The inverse error function in double precision, by the normal distribution's percentage points.

    M. J. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37, 1988.
    """
    wide = x.astype(np.float64)
    q = 0.5 * wide
    with np.errstate(all="ignore"):
        r = np.sqrt(-np.log(0.5 * (1.0 - np.abs(wide))))
        tail = np.where(r <= 5.0, _quotient(_TAIL, r - 1.6), _quotient(_FAR_TAIL, r - 5.0))
        tail = np.where(np.abs(wide) == 1.0, np.inf, tail)
        point = np.where(np.abs(q) <= 0.425, q * _quotient(_MIDDLE, 0.180625 - q * q), np.copysign(tail, q))
        return (point / np.sqrt(2.0)).astype(x.dtype)


def _quotient(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: NDArray) -> NDArray:
    above, below = (np.polynomial.polynomial.polyval(x, c) for c in coefficients)
    return above / below


def power(x: NDArray, y: NDArray) -> NDArray:
    """Powers; for integers by wrapping multiplication, where a negative exponent gives the truncated reciprocal."""
    if x.dtype.kind not in "iu":
        return np.power(x, y)
    result = np.power(x, np.maximum(y, 0))
    if y.dtype.kind == "u":
        return result
    reciprocal = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2 == 0, 1, -1), 0))
    return np.where(y < 0, reciprocal, result).astype(x.dtype)


def expm1(x: NDArray) -> NDArray:
    """exp(x) - 1; NumPy's own gives nan for complex infinity and nan on the real axis."""
    if x.dtype.kind != "c":
        return np.expm1(x)
    with np.errstate(all="ignore"):
        result = np.asarray(np.expm1(x))
        result.imag[x.imag == 0] = x.imag[x.imag == 0]
        result.real[x.imag == 0] = np.expm1(x.real[x.imag == 0])
    return result


def log1p(x: NDArray) -> NDArray:
    """log(1 + x); NumPy's own forms that sum of complex numbers, and so has no digit right near 0."""
    if x.dtype.kind != "c":
        return np.log1p(x)
    re, im = x.real, x.imag
    near = (np.abs(re) < 0.5) & (np.abs(im) < 0.5)
    real = np.where(near, np.log1p(np.where(near, re * (re + 2) + im * im, 0)) / 2, np.log(np.hypot(1 + re, im)))
    result = np.empty_like(x)
    result.real, result.imag = real, np.arctan2(im, 1 + re)
    return result


THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # of rounds 1 to 4, 5 to 8, and so on alternately
THREEFRY_PARITY = 0x1BD11BDA  # xor of this and of the key's halves is the third word of the key schedule


def threefry2x32(key: NDArray, word: NDArray) -> NDArray:
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


def _halves(word: NDArray) -> tuple[NDArray, NDArray]:
    return (word >> 32).astype(np.uint32), word.astype(np.uint32)
