"""Fake quantisation: numbers as levels of few bits would have them, and a derivative to train with."""

from __future__ import annotations

import numpy as np

import zenith.numpy as znp
from zenith.errors import ArgumentError, user_line
from zenith.nn.normalization import of_channels
from zenith.nn.rounding import rounded_once
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b

__all__ = ["fake_quantize"]


@rounded_once
def fake_quantize(
    x: ArrayLike, scale: ArrayLike, zero_point: ArrayLike = 0, lowest: int = -128, largest: int = 127,
    axis: int | None = None,
) -> Array:  # fmt: skip
    """What is left of numbers that are stored as levels (``torch.fake_quantize_per_tensor_affine``).

    Parameters
    ----------
    x: floats of any shape.
    scale, zero_point: how far levels are apart, and the level of zero; with ``axis``, one for each index along it.
    lowest, largest: the levels; others are clipped to them.

    Returns ``(clip(round(x / scale) + zero_point, lowest, largest) - zero_point) * scale``. Its derivative by ``x`` is
    1 where nothing was clipped, and 0 elsewhere (straight-through estimator: Y. Bengio, N. Leonard and A. Courville,
    arXiv:1308.3432); by the scale and the level of zero it is 0. So a network learns weights that bytes hold well.
    What is nan stays nan. Raises ArgumentError where ``lowest`` is not below ``largest``.

    >>> fake_quantize([-1.0, 0.3, 0.6, 9.0], 0.5, lowest=-2, largest=4)
    array([-1. ,  0.5,  0.5,  2. ])
    """
    if not lowest < largest:
        raise ArgumentError(f"fake_quantize: levels from {lowest} to {largest}", where=user_line(),
                            fix="give the lowest level first: lowest=-128, largest=127")  # fmt: skip
    x = znp.asarray(x)
    x = x if x.dtype.kind == "f" else znp.astype(x, np.float64)
    numbers = (znp.astype(znp.asarray(v), x.dtype) for v in (scale, zero_point))
    steps, zero = (v if axis is None else of_channels(v, x, axis % x.ndim) for v in numbers)
    level = znp.round(x * (1 / steps)) + zero
    found = (znp.clip(level, lowest, largest) - zero) * steps
    passed = znp.where((level >= lowest) & (level <= largest), x, 0)
    return b.stop_gradient(found) + (passed - b.stop_gradient(passed))
