"""One step of an online softmax, here as an ordinary function on NumPy arrays.

Scores of many keys and a vector of queries become weights relative to the largest score so far, and each query's
largest score and sum of weights follow (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). In
compiled code it is LLVM vectors (:mod:`zenith.backends.cpu.online_softmax_code`) that stay in registers along the keys;
the function here is its twin, with which kernels run undecorated.
"""

from __future__ import annotations

import numpy as np

from zenith.backends.vecmath.numpy_functions import exp
from zenith.ir.types import NDArray

SUMS = 4  # sums in flight: key k belongs to sum k % 4, so that an addition need not wait for the one before


def softmax_tile(
    LANES: int, scale: float, scores: NDArray, at: int, stride: int, keys: int, top: NDArray, total: NDArray,
    shrink: NDArray, first: int,
) -> None:  # fmt: skip
    """Replace ``s = scores[at + key*stride + lane]`` by ``exp((s - t) * scale)`` for all keys and LANES lanes.

    ``t`` is the largest such s of a lane and of ``top[first + lane]``, where it is written. The weights are added to
    ``total[first + lane]``, after that was multiplied by ``exp((top before - t) * scale)``, which goes to ``shrink``.
    Lanes that have met nothing but -inf get weights of zero. The scale is positive. Buffers are float32 or float64 and
    do not overlap; LANES is a literal in compiled code.

    >>> scores, top, total, shrink = np.log(np.arange(1.0, 9.0)), np.zeros(4), np.ones(4), np.zeros(4)
    >>> softmax_tile(4, 1.0, scores, 0, 4, 2, top, total, shrink, 0)
    >>> np.exp(top).round(6), (total * np.exp(top)).round(6)
    (array([5., 6., 7., 8.]), array([ 7.,  9., 11., 13.]))
    """
    lanes = first + np.arange(LANES)
    every = at + np.arange(keys)[:, None] * stride + np.arange(LANES)
    with np.errstate(all="ignore"):
        before = top[lanes]
        top[lanes] = np.fmax(before, np.fmax.reduce(scores[every], axis=0, initial=-np.inf))
        base = np.where(top[lanes] == -np.inf, before.dtype.type(0), top[lanes])
        shrink[lanes], scores[every] = exp((before - base) * scale), exp((scores[every] - base) * scale)
        total[lanes] = total[lanes] * shrink[lanes] + scores[every].sum(axis=0)
