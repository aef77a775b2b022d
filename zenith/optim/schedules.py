"""Schedules: learning rates as functions of the number of steps made so far, a number or a traced one.

>>> [round(float(linear(1.0, 0.0, 4)(n)), 2) for n in (0, 1, 4, 9)]
[1.0, 0.75, 0.0, 0.0]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from zenith.numpy.typing import Array

Rate = Callable[[Any], Any]  # of a number or a traced one


def constant(value: float) -> Rate:
    """The same rate always."""
    return lambda count: value + 0.0 * count


def linear(start: float, end: float, steps: int) -> Rate:
    """From ``start`` to ``end`` in a straight line, then ``end``."""
    return lambda count: start + (end - start) * _progress(count, steps)


def cosine_decay(start: float, steps: int, end: float = 0.0) -> Rate:
    """From ``start`` to ``end`` along half a cosine, then ``end`` (I. Loshchilov and F. Hutter, SGDR, 2017)."""
    return lambda count: end + (start - end) * 0.5 * (1.0 + np.cos(np.pi * _progress(count, steps)))


def exponential_decay(start: float, steps: int, factor: float) -> Rate:
    """``start`` times ``factor`` for every ``steps`` steps, continuously."""
    return lambda count: start * factor ** (count / steps)


def warmup_cosine(peak: float, warmup: int, steps: int, start: float = 0.0, end: float = 0.0) -> Rate:
    """Linear from ``start`` to ``peak`` in ``warmup`` steps, then a cosine to ``end`` at ``steps``."""
    rise, fall = linear(start, peak, warmup), cosine_decay(peak, steps - warmup, end)
    return lambda count: np.where(count < warmup, rise(count), fall(count - warmup))


def piecewise(start: float, factors: Mapping[int, float]) -> Rate:
    """``start``, multiplied by each factor from its step on."""

    def rate(count: Array) -> Array:
        value = start + 0.0 * count
        for step, factor in sorted(factors.items()):
            value = value * np.where(count >= step, factor, 1.0)
        return value

    return rate


def _progress(count: Array, steps: int) -> Array:
    """The completed fraction of ``steps``, from 0 to 1."""
    return np.clip(count / max(steps, 1), 0.0, 1.0)
