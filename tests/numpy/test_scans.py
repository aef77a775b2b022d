"""Running sums against NumPy: every element type, axes, sizes around those of a block."""

import numpy as np
import pytest

from tests.numpy.comparison import DTYPES, check, run_traced, values
from zenith.errors import DTypeError
from zenith.numpy.scans import BLOCK


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind != "u"], ids=str)
def test_running_sums(dtype):
    x = values(dtype, (2, 3, 4), 5)
    for axis in (None, 0, 1, -1):
        check(lambda xp, a, axis=axis: xp.cumsum(a, axis=axis), x, ulps=32)


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
def test_blocks(size):
    check(lambda xp, a: xp.cumsum(a, axis=0), np.arange(2 * size).reshape(size, 2) % 7)


def test_infinities_stay_where_they_are():
    check(lambda xp, a: xp.cumsum(a), np.array([1, np.inf, 2, -np.inf, 3]))


def test_element_types():
    check(lambda xp, a: xp.cumsum(a, dtype=np.float32), np.arange(5))
    with pytest.raises(DTypeError, match=r"dtype=numpy\.int64"):
        run_traced(lambda a: a.cumsum(), np.arange(3, dtype=np.uint32))
