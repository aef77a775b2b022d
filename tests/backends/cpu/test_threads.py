"""The thread team: same chunks whoever runs them, many callers, forks, sleep, and a clean end."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cfunc

from zenith.backends.cpu import threads

KERNEL = "void(int64, int64, CPointer(int64))"


@cfunc(KERNEL)
def record_chunk(begin, end, args):
    """args[2 + i]: where the chunk of item i begins, plus its end shifted up."""
    for i in range(begin, end):
        args[2 + i] += begin + (end << 32)


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("total", "grain"), [(1, 1), (7, 3), (64, 8), (1000, 7), (5, 100), (6, 0), (6, -2)])
def test_chunks_depend_on_total_and_grain_only(size, total, grain):
    threads.set_num_threads(size)
    args = np.zeros(total + 2, np.int64)
    threads.team().launch(record_chunk.address, total, grain, args.ctypes.data)
    step = max(grain, 1)
    begin = np.arange(total) // step * step
    np.testing.assert_array_equal(args[2:], begin + (np.minimum(begin + step, total) << 32))
