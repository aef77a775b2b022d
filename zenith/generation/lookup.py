"""Tokens that may come next, looked up in what is there already: what followed its last few tokens before.

They are proposed to a model as those of a draft model are (:mod:`zenith.generation.draft`).
"""

from __future__ import annotations

import numpy as np

from zenith.ir.types import NDArray

_LENGTHS = (3, 2)  # of the last tokens that are looked up; what followed one token says little


def looked_up(ids: NDArray, most: int) -> NDArray:
    """What followed the last tokens of ``ids`` [count] at an earlier place: up to ``most``, none where there is none.

    >>> looked_up(np.array([7, 1, 2, 3, 4, 9, 1, 2]), 2)
    array([3, 4])
    """
    for length in _LENGTHS:
        if len(ids) > length:
            windows = np.lib.stride_tricks.sliding_window_view(ids[:-1], length)
            ends = np.flatnonzero((windows == ids[-length:]).all(1)) + length
            whole = ends[ends + most <= len(ids)]  # the latest place that has enough, else the one that has most
            if len(ends):
                start = whole[-1] if len(whole) else ends[0]
                return ids[start : start + most]
    return ids[:0]
