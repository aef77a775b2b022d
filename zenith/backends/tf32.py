"""TF32: float32 with 10 bits of fraction, which tensor cores multiply.

Rounded as by ``cvt.rna.tf32.f32`` of the PTX ISA: to nearest, ties away from zero.
"""

from __future__ import annotations

import numpy as np

from zenith.ir.types import NDArray

LOST = 13  # bits of a float32's fraction that TF32 does not have
_HALF = 1 << (LOST - 1)
_MASK = ~((1 << LOST) - 1) & 0xFFFFFFFF
_INFINITE, _MAGNITUDE, _NAN = 0x7F800000, 0x7FFFFFFF, 0x7FFFE000


def tf32(words: NDArray) -> NDArray:
    """The bits of float32 numbers rounded to TF32."""
    words = np.asarray(words, np.uint32)
    finite = words & _INFINITE != _INFINITE
    nan = words & _MAGNITUDE > _INFINITE
    with np.errstate(over="ignore"):
        rounded = words + np.uint32(_HALF) & np.uint32(_MASK)
    return np.where(finite, rounded, np.where(nan, np.uint32(_NAN), words)).astype(np.uint32)[()]


def rounded_to_tf32(x: NDArray) -> NDArray:
    """An array of float32 numbers rounded to TF32.

    >>> float(rounded_to_tf32(np.float32(1 + 2**-11))) == 1 + 2**-10
    True
    """
    return tf32(np.asarray(x, np.float32).view(np.uint32)).view(np.float32)
