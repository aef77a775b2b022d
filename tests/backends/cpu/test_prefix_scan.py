"""Prefixes of a strip: compiled code has the bits of its twins, whatever the lanes, offsets and lengths."""

import ctypes

import numpy as np
import pytest
from numba import cfunc, types

import zenith.backends.cpu.prefix_scan_code  # noqa: F401  (teaches Numba the functions)
from tests.backends.cpu.test_tile import ISAS
from zenith.backends.cpu.prefix_scan import RUNNING_FUNCTIONS
from zenith.backends.cpu.vectors import TABLE
from zenith.ir.types import float32, float64, int64

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0]
SIZE = 75


def compiled(name, dtype, lanes):
    """A function of ``(to, to_at, source, at, count, before)``."""
    scalar, i = getattr(types, dtype.numpy_name), types.intp
    p = types.CPointer(scalar)
    exec(
        f"def kernel(to, to_at, source, at, count, before):\n"
        f"    before[0] = function({lanes}, to, to_at, source, at, count, before[0])",
        scope := {"function": RUNNING_FUNCTIONS[name]},
    )
    kernel = cfunc(types.void(p, i, p, i, i, p), nopython=True)(scope["kernel"])
    kinds = [ctypes.c_void_p if t is p else ctypes.c_int64 for t in kernel._sig.args]
    entry = ctypes.CFUNCTYPE(None, *kinds)(kernel.address)

    def running(to, to_at, source, at, count, before):
        last = np.array([before], dtype.numpy)
        entry(to.ctypes.data, to_at, source.ctypes.data, at, count, last.ctypes.data)
        return last[0]

    return running


def numbers(dtype):
    """Values around one, in floats what is special."""
    rng = np.random.default_rng(1)
    if dtype == int64:
        return rng.integers(-9, 9, SIZE)
    found = rng.normal(0, 1, SIZE).astype(dtype.numpy)
    found[-len(SPECIAL) :] = SPECIAL
    return found


@pytest.mark.parametrize("dtype", [float32, float64, int64], ids=str)
@pytest.mark.parametrize("name", RUNNING_FUNCTIONS)
def test_compiled_code_has_the_bits_of_its_twin(name, dtype):
    if name == "running_logaddexp" and dtype == int64:
        pytest.skip("integers have no exponentials")
    source = numbers(dtype)
    exact = name != "running_logaddexp"  # NumPy's exponential is another one
    for isa in ISAS:
        lanes = TABLE[isa].lanes(dtype.itemsize)
        function = compiled(name, dtype, lanes)
        for at, count in ((0, 0), (1, 3), (2, lanes), (0, 2 * lanes), (3, 2 * lanes + 5), (0, SIZE)):
            pair = [np.full(SIZE + 4, 7, dtype.numpy) for _ in range(2)]
            last = function(pair[0], 4, source, at, count, source[0])
            expected = RUNNING_FUNCTIONS[name](lanes, pair[1], 4, source, at, count, source[0])
            for a, b in ((last, expected), (pair[0], pair[1])):
                np.testing.assert_allclose(a, b, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-6)


def test_a_strip_may_become_its_own_prefix():
    source, lanes = numbers(int64), TABLE[ISAS[0]].lanes(8)
    expected = np.cumsum(source)
    compiled("running_sum", int64, lanes)(source, 0, source, 0, SIZE, 0)
    np.testing.assert_array_equal(source, expected)
