"""The step of an online softmax: the softmax of all steps together, compiled like its twin, on every width."""

import ctypes
from functools import cache

import numpy as np
import pytest
from numba import cfunc, types

import zenith.backends.cpu.online_softmax_code  # noqa: F401  (teaches Numba the step)
from tests.backends.cpu.test_tile import ISAS
from zenith.backends.cpu.online_softmax import SUMS, softmax_tile
from zenith.backends.cpu.vectors import TABLE
from zenith.ir.types import float32, float64

KEYS = (0, 1, SUMS - 1, SUMS, 2 * SUMS + 3)
STRIDE = 40

every_width = pytest.mark.parametrize(
    ("dtype", "lanes"), [(t, TABLE[isa].lanes(t.itemsize)) for t in (float32, float64) for isa in ISAS], ids=str
)


@cache
def compiled(dtype, lanes):
    scalar, i = getattr(types, dtype.numpy_name), types.intp
    p = types.CPointer(scalar)
    scope = {"softmax_tile": softmax_tile}
    call = f"softmax_tile({lanes}, scale[0], scores, at, stride, keys, top, total, shrink, offset)"
    exec(f"def kernel(scale, scores, at, stride, keys, top, total, shrink, offset):\n    {call}", scope)
    kernel = cfunc(types.void(p, p, i, i, i, p, p, p, i), nopython=True)(scope["kernel"])
    kinds = [ctypes.c_void_p if t is p else ctypes.c_int64 for t in kernel._sig.args]
    entry = ctypes.CFUNCTYPE(None, *kinds)(kernel.address)

    def step(scale, *args):
        words = [np.asarray([scale], dtype.numpy), *args]
        entry(*[x.ctypes.data if isinstance(x, np.ndarray) else x for x in words])

    return step


def state(dtype, lanes):
    room = lanes + 7
    return [np.full(room, -np.inf, dtype.numpy), np.zeros(room, dtype.numpy), np.zeros(room, dtype.numpy)]


@every_width
def test_steps_make_a_softmax_and_compiled_code_agrees_with_its_twin(dtype, lanes):
    rng = np.random.default_rng(lanes)
    tops, blocks, results = [state(dtype, lanes), state(dtype, lanes)], [], []
    for keys in KEYS:
        scores = rng.normal(0, 4, (keys + 1) * STRIDE).astype(dtype.numpy)
        blocks.append(scores[: keys * STRIDE].reshape(keys, STRIDE)[:, 3 : 3 + lanes].astype(np.float64))
        both = [scores.copy(), scores.copy()]
        compiled(dtype, lanes)(0.5, both[0], 3, STRIDE, keys, *tops[0], 2)
        softmax_tile(lanes, dtype.numpy.type(0.5), both[1], 3, STRIDE, keys, *tops[1], 2)
        results.append(both[0])
        np.testing.assert_allclose(both[0], both[1], rtol=16 * np.finfo(dtype.numpy).eps)
        np.testing.assert_allclose(tops[0], tops[1], rtol=64 * np.finfo(dtype.numpy).eps)
        untouched = np.delete(np.arange(both[0].size), [3 + k * STRIDE + j for k in range(keys) for j in range(lanes)])
        np.testing.assert_array_equal(both[0][untouched], scores[untouched])
    every = np.concatenate(blocks)
    top, total, _ = tops[0]
    np.testing.assert_allclose(top[2 : 2 + lanes], every.max(axis=0), rtol=1e-6)
    np.testing.assert_allclose(total[2 : 2 + lanes], np.exp((every - every.max(axis=0)) / 2).sum(axis=0), rtol=1e-5)
    assert (total[:2] == 0).all() and (total[2 + lanes :] == 0).all()


@every_width
@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_unseen_keys_weigh_nothing_and_nan_stays(dtype, lanes, special):
    scores = np.full(3 * STRIDE, -np.inf, dtype.numpy)
    scores[STRIDE], scores[1] = 1.0, special
    steps = [compiled(dtype, lanes), lambda scale, *args: softmax_tile(lanes, dtype.numpy.type(scale), *args)]
    for step in steps:
        weighted, found = scores.copy(), state(dtype, lanes)
        step(1.0, weighted, 0, STRIDE, 3, *found, 0)
        top, total, shrink = found
        weights = weighted.reshape(3, STRIDE)
        assert weights[:, 0].tolist() == [0.0, 1.0, 0.0] and total[0] == 1.0
        assert np.isnan(total[1])
        assert (weights[:, 2:lanes] == 0).all() and (total[2:] == 0).all() and (top[2:lanes] == -np.inf).all()
        assert (shrink[2:lanes] == 0).all(), "nothing yet: earlier sums are zero, and stay so"
