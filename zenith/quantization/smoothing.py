"""Migration of outliers from activations to matrices, channel by channel.

A channel of an activation is divided by its smoothing, and the row of the matrix that it meets is multiplied: products
stay the same, and a few channels of large numbers no longer take the levels of all. With ``a`` for a channel's largest
number and ``w`` for its row's, the smoothing is ``a ** strength / w ** (1 - strength)`` (SmoothQuant: G. Xiao et al.,
arXiv:2211.10438). Which strength serves best differs from product to product; it is found by trying them on rows of the
calibration.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zenith.ir.types import NDArray
from zenith.quantization.integers import STEPS
from zenith.quantization.recipe import Recipe

STRENGTHS = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
GAIN = 0.8  # of the error, for which outliers are moved at all: samples are small
SAMPLED = 256  # rows that are kept to try strengths on


class Channels:
    """What is known of an activation's channels, and the matrices that it is multiplied by."""

    def __init__(self, count: int) -> None:
        self._least, self._largest = np.zeros((2, count), np.float32)
        self._rows, self._order = np.zeros((0, count), np.float32), np.zeros(0)
        self._generator = np.random.default_rng(0)
        self._matrices: list[NDArray] = []

    def meet(self, matrix: NDArray) -> None:
        """Take note of a matrix [channels, columns]."""
        self._matrices.append(matrix)

    def measure(self, values: NDArray) -> None:
        """Take note of an activation [..., channels]: ranges, and a sample of all rows so far."""
        rows = values.reshape(-1, len(self._least))
        if not len(rows):
            return
        self._least, self._largest = np.minimum(self._least, rows.min(0)), np.maximum(self._largest, rows.max(0))
        order = np.concatenate([self._order, self._generator.random(len(rows))])
        kept = np.argsort(order)[:SAMPLED]
        old, new = kept[kept < len(self._rows)], kept[kept >= len(self._rows)]
        self._rows = np.concatenate([self._rows[old], rows[new - len(self._rows)]])
        self._order = order[np.concatenate([old, new])]

    def smoothing(self, recipe: Recipe) -> NDArray:
        """By what channels are divided, float32; where the recipe's strength is "auto", the best of some."""
        strength = recipe.smooth
        if strength == "auto":
            errors = [self._error(s, recipe) for s in STRENGTHS]
            best = int(np.argmin(errors))
            strength = STRENGTHS[best] if errors[best] < GAIN * errors[0] else STRENGTHS[0]
        return self._smoothing(strength, np.maximum(-self._least, self._largest))

    def lost(self, matrix: NDArray, smoothing: NDArray, recipe: Recipe) -> float:
        """What the product by a matrix loses in bytes, on sampled rows: squared, and relative to each row's."""
        rows = self._rows.astype(np.float64) / smoothing
        return _lost(rows, rows, [matrix * smoothing[:, None].astype(np.float64)], recipe)

    def _smoothing(self, strength: float, largest: NDArray) -> NDArray:
        """That of a strength, for channels' largest numbers; the largest one where such a number or a row is zero."""
        if not strength:
            return np.ones_like(self._least)
        of_rows = np.max([np.abs(matrix).max(1) for matrix in self._matrices], 0)
        with np.errstate(all="ignore"):
            found = largest**strength / of_rows ** (1 - strength)
        known = (largest > 0) & (of_rows > 0) & np.isfinite(found) & (found > 0)
        if not known.any():
            return np.ones_like(self._least)
        return np.where(known, found, found[known].max()).astype(np.float32)  # nothing is known of the others' size

    def _error(self, strength: float, recipe: Recipe) -> float:
        """The mean squared error of sampled rows' products, relative to each row's.

        Smoothing and fixed ranges are those of half of the rows, and the others clipped to them: calls will have new
        rows, too.
        """
        seen, rows = self._rows[::2].astype(np.float64), self._rows[1::2].astype(np.float64)
        if not len(rows):
            return 0.0
        smoothing = self._smoothing(strength, np.abs(seen).max(0).astype(np.float32)).astype(np.float64)
        matrices = [matrix * smoothing[:, None] for matrix in self._matrices]
        return _lost(seen / smoothing, rows / smoothing, matrices, recipe)


def _lost(seen: NDArray, rows: NDArray, matrices: Sequence[NDArray], recipe: Recipe) -> float:
    """The mean squared error of rows' products, relative to each row's; fixed ranges are those of ``seen``."""
    if not len(rows):
        return 0.0
    rounded, columns = _activations(seen, rows, recipe), 0 if recipe.by_column else None
    total = 0.0
    for matrix in matrices:
        exact = rows @ matrix
        lost = rounded @ _rounded(matrix, (matrix.max(columns) - matrix.min(columns)) / STEPS) - exact
        power = np.square(exact).sum(1)
        total += float(np.mean(np.square(lost).sum(1) / np.where(power > 0, power, 1)))
    return total


def _activations(seen: NDArray, rows: NDArray, recipe: Recipe) -> NDArray:
    """Rows as a product in bytes reads them."""
    if recipe.keeps_floats:
        return rows
    ranging, axis = (rows, 1) if recipe.scheme == "dynamic" else (seen, None)
    least = np.minimum(ranging.min(axis, keepdims=True), 0)
    largest = np.maximum(ranging.max(axis, keepdims=True), 0)
    return _rounded(np.clip(rows, least, largest), (largest - least) / STEPS)


def _rounded(values: NDArray, step: NDArray) -> NDArray:
    """Multiples of a step."""
    step = np.where(step > 0, step, 1)
    found: NDArray = np.rint(values / step) * step
    return found
