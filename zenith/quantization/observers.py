"""Ranges of activations from calibration batches, of which only a histogram is kept.

A histogram has bins of equal width from ``-edge`` to ``edge``. When a batch has larger numbers, ``edge`` is doubled and
neighbouring bins are joined, which loses nothing that the wider bins could tell: any number of batches takes the
memory of one histogram. From it follows the range that the 256 levels of a byte will cover, by one of four methods:

``minmax``      all that was seen: nothing is clipped
``percentile``  without the largest and smallest share of the numbers
``mse``         the share of the whole range with the least mean squared error of rounding and clipping
``entropy``     the share with the least Kullback-Leibler divergence of the rounded distribution from the observed one
                (S. Migacz, "8-bit inference with TensorRT", GTC 2017)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from zenith.errors import ArgumentError
from zenith.ir.types import NDArray
from zenith.quantization.integers import STEPS
from zenith.quantization.recipe import Method
from zenith.quantization.smoothing import SAMPLED, Channels

BINS, LEVELS = 4096, STEPS + 1  # 2048 bins for each sign
SHARES = np.linspace(0.2, 1.0, 81)  # of the whole range, that a search tries


def some_windows(values: NDArray, windows: tuple[int, ...]) -> NDArray:
    """Windows of an array (n, c, sizes...) as rows of terms, at most so many as samples are kept, evenly spaced."""
    axes = tuple(range(2, values.ndim))
    if any(size < n for size, n in zip(values.shape[2:], windows, strict=True)):
        return np.zeros((0, values.shape[1] * math.prod(windows)), values.dtype)
    every = np.lib.stride_tricks.sliding_window_view(values, windows, axes)  # (n, c, positions..., window...)
    found = np.moveaxis(every, 1, len(axes) + 1)
    places = found.shape[: len(axes) + 1]
    count = math.prod(places)
    chosen = np.unravel_index(np.linspace(0, count - 1, min(SAMPLED, count)).astype(np.intp), places)
    return found[chosen].reshape(len(chosen[0]), -1)


class Observer:
    """The numbers that the left operand of products had so far: their distribution after ``smoothing``.

    ``least`` and ``largest`` are of the numbers after the division.
    """

    def __init__(self, name: str, terms: int, windows: tuple[int, ...] = ()) -> None:
        self.name, self.windows, self.count = name, windows, 0
        self.channels = Channels(terms)
        self.smoothing = np.ones(1 if windows else terms, np.float32)
        self.least, self.largest = 0.0, 0.0  # zero is always in the range: it must be exact
        self._edge, self._counts = 0.0, np.zeros(BINS, np.int64)

    def measure(self, values: NDArray, batch: int) -> None:
        """Note the ranges of a batch's channels; ArgumentError for nan and infinities."""
        self._check(values, batch)
        self.channels.measure(some_windows(values, self.windows) if self.windows else values)

    def observe(self, values: NDArray, batch: int) -> None:
        """Add the numbers of a batch; ArgumentError for nan and infinities."""
        self._check(values, batch)
        if not values.size:
            return
        values = (values / self.smoothing).reshape(-1).astype(np.float64)
        self.least, self.largest = min(self.least, float(values.min())), max(self.largest, float(values.max()))
        self.count += values.size
        self._widen(max(-self.least, self.largest))
        bins_a_unit = BINS / 2 / self._edge if self._edge else 0  # where there are zeros alone
        at = (values * bins_a_unit + BINS / 2).astype(np.int64)
        self._counts += np.bincount(np.minimum(at, BINS - 1), minlength=BINS)

    def _check(self, values: NDArray, batch: int) -> None:
        if not np.isfinite(values).all():
            raise ArgumentError(
                f"calibration batch {batch} gives {'nan' if np.isnan(values).any() else 'an infinity'} at {self.name}",
                fix="leave the batch out, or mend what computes it: no range of bytes covers such numbers",
            )

    def range(self, method: Method, percentile: float) -> tuple[float, float]:
        """The range that is worth 256 levels."""
        if not self._edge:
            return self.least, self.largest
        ranges: dict[str, Callable[[], tuple[float, float]]] = {
            "minmax": lambda: (self.least, self.largest),
            "percentile": lambda: self._percentiles(percentile / 100),
            "mse": lambda: self._best(self._squared_error),
            "entropy": lambda: self._best(self._divergence),
        }
        least, largest = ranges[method]()
        return max(least, self.least), min(largest, self.largest)

    def _widen(self, needed: float) -> None:
        """Have the bins reach ``needed``, a power of two."""
        if needed > 0 and not self._edge:
            self._edge = float(2.0 ** np.ceil(np.log2(needed)))
        while needed > self._edge:
            self._edge *= 2
            joined = self._counts.reshape(-1, 2).sum(1)
            self._counts = np.zeros(BINS, np.int64)
            self._counts[BINS // 4 : BINS // 4 + BINS // 2] = joined

    @property
    def _centres(self) -> NDArray:
        return (np.arange(BINS) + 0.5) * (2 * self._edge / BINS) - self._edge

    def _percentiles(self, share: float) -> tuple[float, float]:
        """The least range from the outside of which a share of ``1 - share`` is missing at each end."""
        below = np.cumsum(self._counts)
        missing = (1 - share) * self.count
        width = 2 * self._edge / BINS
        first = int(np.searchsorted(below, missing, side="right"))
        last = int(np.searchsorted(below, self.count - missing, side="left"))
        return min(first * width - self._edge, 0.0), max((last + 1) * width - self._edge, 0.0)

    def _best(self, loss: Callable[[float, float], float]) -> tuple[float, float]:
        """The range, as a share of the whole one, with the least loss; the widest of equal ones."""
        candidates = [(share * self.least, share * self.largest) for share in SHARES[::-1]]
        return min(candidates, key=lambda candidate: loss(*candidate))

    def _squared_error(self, least: float, largest: float) -> float:
        """The sum of squared errors of rounding inside of a range and clipping outside."""
        step, centres = (largest - least) / STEPS, self._centres
        clipped = centres - np.clip(centres, least, largest)
        return float(np.sum(self._counts * np.where(clipped == 0, step * step / 12, clipped * clipped)))

    def _divergence(self, least: float, largest: float) -> float:
        """The divergence of the distribution that levels can tell from the clipped one that was observed.

        Zeros are left out: they are exact, and after a relu so many that nothing else would count.
        """
        centres, counts = self._centres, self._counts.astype(np.float64)
        counts[BINS // 2] = counts[BINS // 2 + 1]
        inside = np.flatnonzero((centres >= least) & (centres <= largest))
        clipped = counts[inside]
        clipped[0] += counts[: inside[0]].sum()
        clipped[-1] += counts[inside[-1] + 1 :].sum()
        level = np.arange(len(inside)) * LEVELS // len(inside)
        seen = counts[inside] > 0
        totals = np.bincount(level, counts[inside], LEVELS)
        shared = np.bincount(level, seen, LEVELS)
        rounded = np.where(seen, totals[level] / np.maximum(shared[level], 1), 0)
        p, q = clipped / clipped.sum(), rounded / max(rounded.sum(), 1)
        both = (p > 0) & (q > 0)
        lost = p[(p > 0) & (q == 0)].sum()  # what only the clipped tail has
        return float(np.sum(p[both] * np.log(p[both] / q[both])) + lost * np.log(BINS))
