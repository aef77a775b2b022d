"""``range`` in kernels, which is Zenith's own: every form gives the numbers of Python's."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from zenith.backends.cpu.link import link_kernel

SOURCE = """def kernel(begin, end, args):
    out0 = i64_buffer(args, 1, 1)
    at = 0
    for i in range(begin, end):
        out0[at] = i
        at += 1
    for i in range(begin, end, 3):
        for j in range(i, 2):
            out0[at] = i*100 + j
            at += 1
    for i in range(end, begin, args[2]):
        out0[at] = i
        at += 1
    for i in range(args[3]):
        out0[at] = i
        at += 1
"""


@pytest.mark.parametrize(
    ("begin", "end", "step", "count"), [(0, 5, -2, 3), (-4, 7, -1, 0), (3, 3, 1, 1), (2, -9, 4, 2)]
)
def test_loops_have_the_iterations_that_they_have_in_python(begin: int, end: int, step: int, count: int) -> None:
    expected: list[int] = [*range(begin, end)]
    expected += [i * 100 + j for i in range(begin, end, 3) for j in range(i, 2)]
    expected += [*range(end, begin, step), *range(count)]
    out, status = np.full(100, -1), np.zeros(1, np.int64)
    args = np.array([status.ctypes.data, out.ctypes.data, step, count])
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(link_kernel("loops", SOURCE).address)
    run(begin, end, args.ctypes.data)
    assert out[: len(expected)].tolist() == expected and np.all(out[len(expected) :] == -1)
