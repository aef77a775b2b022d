"""W14: per row max|y - float64| / max|float64| stays below 1e-5, for normal inputs and inputs of magnitude 1e4."""

import numpy as np
import pytest

import zenith
from tests.gpu.device import download, upload


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layernorm(x):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(1e-5))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


@pytest.mark.parametrize("magnitude", [1.0, 1e4])
@pytest.mark.parametrize(("program", "shape"), [(softmax, (1024, 1024)), (layernorm, (512, 768)), (gelu, (1024, 1024))])
def test_rows_against_float64(program, shape, magnitude, rng):
    x = rng.standard_normal(shape, dtype=np.float32) * np.float32(magnitude)
    exact = program(x.astype(np.float64))
    found = download(zenith.jit(program)(upload(x)))
    error = np.abs(found - exact).max(axis=-1) / np.abs(exact).max(axis=-1)
    assert error.max() < 1e-5
