"""Medians and spread of rounds, and the ratio of two contenders from calls that were measured in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

RESAMPLES = 2000


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Median, quartiles and least of the rounds, in seconds.

    >>> summary([1.0, 2.0, 3.0, 4.0, 5.0])
    {'median_s': 3.0, 'q1_s': 2.0, 'q3_s': 4.0, 'min_s': 1.0}
    """
    low, middle, high = np.percentile(seconds, (25, 50, 75))
    return {"median_s": float(middle), "q1_s": float(low), "q3_s": float(high), "min_s": float(min(seconds))}


def speedup(baseline: Sequence[float], contender: Sequence[float]) -> dict[str, Any]:
    """How many times faster than the baseline: median over paired calls, with bootstrap 95 % bounds.

    A call in round i of one is paired with the same call in round i of the other, so that drift of the machine cancels.
    The bounds are percentiles of the median over resampled pairs (B. Efron, Bootstrap Methods, 1979), seeded.

    >>> speedup([4.0, 4.2, 4.4], [2.0, 2.1, 2.2])
    {'median': 2.0, 'low': 2.0, 'high': 2.0}
    """
    ratios = np.asarray(baseline) / np.asarray(contender)
    picks = np.random.default_rng(0).integers(0, len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[picks], axis=1), (2.5, 97.5))
    return {"median": float(np.median(ratios)), "low": float(low), "high": float(high)}


def linearity(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """R2 of the straight line through latency against size: 1 when size explains it all.

    >>> linearity([1, 2, 3], [0.3, 0.5, 0.7])
    1.0
    """
    slope, start = np.polyfit(sizes, seconds, 1)
    rest = np.asarray(seconds) - (slope * np.asarray(sizes) + start)
    return round(1 - float(np.var(rest) / np.var(seconds)), 6)


def relative_error(result: np.ndarray[Any, Any], reference: np.ndarray[Any, Any]) -> float:
    """max|result - reference| / max|reference|; infinite for another shape and for values that are not numbers.

    >>> relative_error(np.array([1.0, 2.5]), np.array([1.0, 2.0]))
    0.25
    """
    if result.shape != reference.shape or not np.all(np.isfinite(result)):
        return float("inf")
    scale = float(np.max(np.abs(reference), initial=0)) or 1.0
    return float(np.max(np.abs(result - reference), initial=0)) / scale
