"""Products on tensor cores: every schedule, element type and layout, aligned and not, known sizes and unknown ones."""

import ml_dtypes
import numpy as np
import pytest

import zenith
from tests.gpu.device import download, upload
from zenith import kernels
from zenith.backends.cuda import schedules
from zenith.backends.tf32 import rounded_to_tf32

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}
SIZES = [(1, 1, 1), (8, 16, 24), (65, 33, 67), (200, 512, 136), (128, 4096, 256), (0, 4, 3), (3, 0, 4)]


def assert_close(found, x, w):
    """Within the bound of sums in float32, terms added in any order."""
    x, w = (rounded_to_tf32(a) if a.dtype == np.float32 else a for a in (x, w))
    left, right = x.astype(np.float64), w.astype(np.float64)
    room = (x.shape[-1] / 4 + 4) * np.finfo(np.float32).eps * (np.abs(left) @ np.abs(right)) + 1e-30
    assert found.dtype == np.float32 and (np.abs(found - left @ right) <= room).all()


def arguments(rng, dtype, m, k, n):
    return (rng.standard_normal(shape, dtype=np.float32).astype(dtype) for shape in ((m, k), (k, n)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("row", schedules.TILES, ids=lambda row: f"{row[0]}x{row[1]}")
def test_every_schedule(row, dtype, rng, monkeypatch):
    """No size is known: one program for all of them, whose copies are of 16 bytes where the sizes allow it."""
    monkeypatch.setattr(schedules, "TILES", (row, schedules.TILES[-1]))  # the last fits every GPU
    product = zenith.jit(lambda x, w: x.astype(np.float32) @ w.astype(np.float32), tf32=True)
    for m, k, n in SIZES:
        x, w = arguments(rng, TYPES[dtype], m, k, n)
        assert_close(download(product(upload(x), upload(w))), x, w)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", ["plain", "transposed", "both transposed", "every other"])
def test_every_layout(layout, dtype, rng):
    def product(x, w):
        x, w = x.astype(np.float32), w.astype(np.float32)
        if layout == "every other":
            return x[::2, ::2] @ w[::2, ::2]
        x = np.transpose(x) if layout == "both transposed" else x
        return x @ (np.transpose(w) if "transposed" in layout else w)

    for m, k, n in [(72, 48, 136), (65, 33, 67)]:
        x, w = arguments(rng, TYPES[dtype], m, k, n)
        given = (x.T.copy() if layout == "both transposed" else x), (w.T.copy() if "transposed" in layout else w)
        found = download(zenith.jit(product, tf32=True)(*map(upload, given)))
        seen = (x[::2, ::2], w[::2, ::2]) if layout == "every other" else (x, w)
        assert_close(found, *seen)


@pytest.mark.parametrize("start", range(4))
def test_addresses_that_are_not_aligned(start, rng):
    x, w = rng.standard_normal(64 * 64 + 4).astype(np.float16), rng.standard_normal((64, 64)).astype(np.float16)
    product = zenith.jit(lambda x, w: np.matmul(x.reshape(64, 64), w, dtype=np.float32))
    found = download(product(upload(x)[start : start + 64 * 64], upload(w)))
    assert_close(found, x[start : start + 64 * 64].reshape(64, 64), w)


def test_the_named_kernel(rng):
    """float16 (128, 64) @ (64, 256) to float32."""
    x, w = arguments(rng, np.float16, 128, 64, 256)
    found = kernels.matmul(upload(x), upload(w), preferred_element_type=np.float32)
    assert_close(download(found), x, w)


def test_a_layer_of_a_known_size_repeats_bit_by_bit(rng):
    """Bias and activation as the epilogue; partial sums of a split are added in order."""
    x, w = arguments(rng, np.float16, 128, 768, 768)
    layer = zenith.jit(lambda x: np.tanh(x @ w * np.float16(0.05) + np.float16(0.5)))
    first, second = download(layer(upload(x))), download(layer(upload(x)))
    np.testing.assert_array_equal(first, second)
    exact = np.tanh(x.astype(np.float64) @ w.astype(np.float64) * 0.05 + 0.5)
    np.testing.assert_allclose(first, exact, atol=4e-3)
