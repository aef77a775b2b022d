"""Convolutions on the GPU: every kind, element types, gradients, layers of ResNet-50, steps of training."""

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn import functional as F

import zenith
from tests.backends.cuda import networks
from tests.gpu.device import download, upload
from tests.nn.test_convolution import CASES
from zenith import nn
from zenith.backends.tf32 import rounded_to_tf32

TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}
EPS = {np.dtype(np.float16): 2.0**-11, np.dtype(ml_dtypes.bfloat16): 2.0**-8}


def doubles(*arrays):
    return [torch.from_numpy(np.asarray(a, np.float64)) for a in arrays]


def assert_close(found, expected, terms, scale):
    """Within the bound of sums of so many terms, added in any order, and of rounding the result."""
    eps = np.finfo(found.dtype).eps if found.dtype in (np.float32, np.float64) else np.finfo(np.float32).eps
    room = (terms / 4 + 4) * eps * scale + EPS.get(found.dtype, 0) * np.abs(expected)
    assert (np.abs(found.astype(np.float64) - expected) <= room).all()


def check(x, w, options, tf32=False):
    """A convolution is the one of PyTorch in float64."""
    found = download(zenith.jit(lambda x, w: nn.conv(x, w, **options), tf32=tf32)(upload(x), upload(w)))
    seen = [rounded_to_tf32(a) if tf32 else a for a in (x, w)]
    theirs = getattr(F, f"conv{x.ndim - 2}d")
    expected = theirs(*doubles(*seen), **options).numpy()
    scale = theirs(*doubles(*map(np.abs, seen)), **options).numpy()
    assert_close(found, expected, int(np.prod(w.shape[1:])), scale)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", [n for n in CASES if CASES[n][2].get("padding") != "same"])
def test_every_kind(name, dtype, rng):
    x, w, options = CASES[name]
    check(*(rng.standard_normal(s).astype(TYPES[dtype]) for s in (x, w)), options)


@pytest.mark.parametrize("dtype", ["f32", "tf32", "f16", "bf16"])
@pytest.mark.parametrize("name", networks.LAYERS)
def test_layers_of_resnet(name, dtype, rng):
    n, c, size, o, window, stride, border = networks.LAYERS[name]
    shapes = (min(n, 4), c, size, size), (o, c, window, window)
    x, w = (rng.standard_normal(s).astype(TYPES.get(dtype, np.float32)) for s in shapes)
    check(x, w, {"stride": stride, "padding": border}, tf32=dtype == "tf32")


@pytest.mark.parametrize("name", ["line", "plane", "groups", "points"])
def test_gradients(name, rng):
    shape, weights, options = CASES[name]
    x, w = (rng.standard_normal(s).astype(np.float32) for s in (shape, weights))
    gradient = zenith.jit(zenith.grad(lambda x, w: np.sum(nn.conv(x, w, **options) ** 2), argnums=(0, 1)))
    found = [download(g) for g in gradient(upload(x), upload(w))]
    given = [t.requires_grad_() for t in doubles(x, w)]
    expected = torch.autograd.grad((getattr(F, f"conv{x.ndim - 2}d")(*given, **options) ** 2).sum(), given)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-4, atol=1e-4 * float(theirs.abs().max()))


def test_a_step_of_training_repeats_and_is_that_of_float64(rng):
    weights = networks.parameters((3, 16, 24))
    images, labels = rng.standard_normal((8, 3, 12, 12)).astype(np.float32), rng.integers(0, 10, 8)
    step = zenith.jit(networks.step)
    on_gpu = {name: upload(w) for name, w in weights.items()}
    results = [step(on_gpu, upload(images), upload(labels)) for _ in range(2)]
    (value, moved), (second, second_moved) = results
    assert download(value) == download(second)
    exact = networks.step({n: w.astype(np.float64) for n, w in weights.items()}, images.astype(np.float64), labels)
    np.testing.assert_allclose(download(value), exact[0], rtol=1e-5)
    for name, expected in exact[1].items():
        np.testing.assert_array_equal(download(moved[name]), download(second_moved[name]))
        np.testing.assert_allclose(download(moved[name]), expected, rtol=1e-4, atol=1e-5)
