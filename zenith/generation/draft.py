"""Tokens that may come next, by a smaller model: those that it would choose itself, the likeliest ones.

A step of the model proper then reads them all at once, and those that it would have chosen are chosen (speculative
decoding, Leviathan et al., arXiv:2211.17192; draws, too, take a proposed token only where they draw that one).
"""

from __future__ import annotations

import numpy as np

from zenith.generation.decoding import Logits
from zenith.ir.types import NDArray


class Draft:
    """Continues one sequence; the cache behind ``logits`` has the tokens that it read, of which some may be refused."""

    def __init__(self, logits: Logits) -> None:
        self._logits, self._read = logits, np.zeros(0, np.int64)

    def __call__(self, ids: NDArray, most: int) -> NDArray:
        """So many tokens that follow ``ids`` [count]."""
        for _ in range(most):
            known = _shared(self._read, ids)
            logits = self._logits(ids[None, known:], np.ones((1, len(ids)), np.int64), False)
            self._read, ids = ids, np.append(ids, logits.argmax())
        return ids[-most:]


def _shared(a: NDArray, b: NDArray) -> int:
    """How many tokens two sequences begin with alike."""
    count = min(len(a), len(b))
    return int(np.argmin(np.append(a[:count] == b[:count], False)))
