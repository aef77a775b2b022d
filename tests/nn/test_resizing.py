"""Resizing and sampling against PyTorch: every mode, sizes, factors, outside, gradients; symbolic sizes; refusals."""

import itertools

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn as tnn
from torch.nn import functional as F

import zenith
from zenith import nn
from zenith.errors import ArgumentError, DTypeError, ShapeError

SMOOTH = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}
TARGETS = [{"size": (9, 4, 5)}, {"size": (1, 1, 1)}, {"scale_factor": 2.0}, {"scale_factor": 1.7},
           {"scale_factor": 0.6}, {"scale_factor": 1.7, "recompute_scale_factor": True}]  # fmt: skip
BOUND = {"float64": 1e-12, "float32": 5e-6}


def numbers(*shape, dtype="float64", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def cut(target, axes):
    return {name: value[:axes] if name == "size" else value for name, value in target.items()}


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("axes", SMOOTH)
def test_modes(axes, dtype):
    x, bound = numbers(2, 3, *(7, 6, 5)[:axes], dtype=dtype), BOUND[dtype]
    for mode, target in itertools.product(("nearest", "nearest-exact", "area", *SMOOTH[axes]), TARGETS):
        target = cut(target, axes)
        for align in (False, True) if mode in SMOOTH[axes] else (None,):
            expected = F.interpolate(torch.from_numpy(x), mode=mode, align_corners=align, **target).numpy()
            found = nn.interpolate(x, mode=mode, align_corners=bool(align), **target)
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=bound, atol=bound, err_msg=str((mode, target, align)))
            if mode.startswith("nearest"):
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", BOUND)
def test_antialiased_modes(dtype):
    x, bound = numbers(2, 3, 7, 6, dtype=dtype), BOUND[dtype]
    for mode, target, align in itertools.product(("bilinear", "bicubic"), TARGETS, (False, True)):
        options = {"mode": mode, "align_corners": align, "antialias": True, **cut(target, 2)}
        expected = F.interpolate(torch.from_numpy(x), **options).numpy()
        found = nn.interpolate(x, **options)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=bound, atol=bound, err_msg=str(options))


@pytest.mark.parametrize(("dtype", "value"), [(np.float16, 60000), (ml_dtypes.bfloat16, 200)], ids=["f16", "bf16"])
def test_narrow_floats_are_rounded_once(dtype, value):
    x = np.full((1, 1, 8, 8), value, dtype)
    for mode in ("bilinear", "bicubic"):
        for resize in (nn.interpolate, zenith.jit(nn.interpolate, static_argnames=("size", "mode"))):
            found = resize(x, size=(13, 11), mode=mode)
            assert found.dtype == dtype and (found.astype(np.float64) == value).all()


def test_nearest_neighbours_of_any_type():
    x = np.arange(12, dtype=np.uint8).reshape(1, 1, 3, 4)
    np.testing.assert_array_equal(nn.interpolate(x, (5, 2)), F.interpolate(torch.from_numpy(x), (5, 2)).numpy())


MODES = [(2, m) for m in ("bilinear", "nearest", "bicubic")] + [(3, m) for m in ("bilinear", "nearest")]


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize(("axes", "mode"), MODES)
def test_samples(axes, mode, dtype):
    x = numbers(2, 3, *(7, 6, 5)[:axes], dtype=dtype)
    grid = np.random.default_rng(1).uniform(-2.5, 2.5, (2, *(4, 5, 3)[:axes], axes)).astype(dtype)
    bound = 20 * BOUND[dtype]
    for padding, align in itertools.product(("zeros", "border", "reflection"), (False, True)):
        expected = F.grid_sample(torch.from_numpy(x), torch.from_numpy(grid), mode, padding, align).numpy()
        found = nn.grid_sample(x, grid, mode, padding, align_corners=align)
        np.testing.assert_allclose(found, expected, rtol=bound, atol=bound, err_msg=str((padding, align)))


@pytest.mark.parametrize("align", [False, True])
def test_affine_grids(align):
    for axes, size in ((2, (2, 1, 4, 3)), (3, (2, 1, 4, 5, 2))):
        maps = numbers(2, axes, axes + 1)
        expected = F.affine_grid(torch.from_numpy(maps), size, align_corners=align).numpy()
        np.testing.assert_allclose(nn.affine_grid(maps, size, align_corners=align), expected, rtol=1e-12, atol=1e-12)


GRADIENTS = {
    "nearest": (lambda x: nn.interpolate(x, (9, 4)), lambda x: F.interpolate(x, (9, 4))),
    "bilinear": (lambda x: nn.interpolate(x, scale_factor=1.7, mode="bilinear"),
                 lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear")),
    "bicubic": (lambda x: nn.interpolate(x, (9, 4), mode="bicubic", align_corners=True),
                lambda x: F.interpolate(x, (9, 4), mode="bicubic", align_corners=True)),
    "antialiased": (lambda x: nn.interpolate(x, (3, 4), mode="bicubic", antialias=True),
                    lambda x: F.interpolate(x, (3, 4), mode="bicubic", antialias=True)),
    "area": (lambda x: nn.interpolate(x, (3, 4), mode="area"), lambda x: F.interpolate(x, (3, 4), mode="area")),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    own, other = GRADIENTS[name]
    x = numbers(2, 3, 7, 6)
    weights = numbers(*own(x).shape, seed=1)
    leaf = torch.from_numpy(x).requires_grad_()
    (other(leaf) * torch.from_numpy(weights)).sum().backward()
    found = zenith.grad(lambda x: (own(x) * weights).sum())(x)
    np.testing.assert_allclose(found, leaf.grad.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_gradients_of_samples(padding):
    x, grid = numbers(2, 3, 7, 6), np.random.default_rng(1).uniform(-1.7, 1.7, (2, 4, 5, 2))
    leaves = [torch.from_numpy(a).requires_grad_() for a in (x, grid)]
    (F.grid_sample(*leaves, padding_mode=padding, align_corners=False) ** 2).sum().backward()
    found = zenith.grad(lambda x, g: (nn.grid_sample(x, g, padding_mode=padding) ** 2).sum(), (0, 1))(x, grid)
    for one, other in zip(found, leaves, strict=True):
        np.testing.assert_allclose(one, other.grad.numpy(), rtol=1e-11, atol=1e-11)


def test_one_compilation_serves_every_shape():
    def resized(x, grid):
        return (nn.interpolate(x, scale_factor=2.0, mode="bilinear"), nn.interpolate(x, (5, 7), mode="bicubic"),
                nn.interpolate(x, scale_factor=1.5), nn.grid_sample(x, grid),
                nn.interpolate(x, (2, 3), mode="bicubic", antialias=True))  # fmt: skip

    fast = zenith.jit(resized)
    for shape in ((2, 3, 7, 6), (1, 2, 4, 9), (1, 1, 1, 1)):
        x, grid = numbers(*shape, dtype="float32"), numbers(shape[0], 3, shape[2], 2, dtype="float32", seed=1)
        t, g = torch.from_numpy(x), torch.from_numpy(grid)
        expected = (F.interpolate(t, scale_factor=2.0, mode="bilinear"), F.interpolate(t, (5, 7), mode="bicubic"),
                    F.interpolate(t, scale_factor=1.5), F.grid_sample(t, g, align_corners=False),
                    F.interpolate(t, (2, 3), mode="bicubic", antialias=True))  # fmt: skip
        for one, other in zip(fast(x, grid), expected, strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-5)
    assert fast.cache_info().misses == 1


def test_a_module_that_resizes_for_every_shape():
    module = tnn.Sequential(tnn.ReflectionPad2d(1), tnn.Upsample(scale_factor=2, mode="bilinear"),
                            tnn.PixelUnshuffle(2), tnn.ReplicationPad2d((0, 1, 1, 0)),
                            tnn.Upsample(scale_factor=2)).eval()  # fmt: skip
    fast = zenith.from_torch(module, (torch.randn(2, 3, 8, 10),))
    with torch.no_grad():
        for shape in ((2, 3, 8, 10), (4, 3, 5, 12)):
            x = torch.randn(shape)
            torch.testing.assert_close(fast(x), module(x))
    assert fast.cache_info().misses == 1


X = numbers(1, 2, 4, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.interpolate(X), ArgumentError, "a size or a scale_factor, and not both"),
        (lambda: nn.interpolate(X, 2, 2.0), ArgumentError, "a size or a scale_factor, and not both"),
        (lambda: nn.interpolate(X, 2, mode="linear"), ArgumentError, "'linear' is no mode for 2 spatial axes"),
        (lambda: nn.interpolate(X, 2, mode="best"), ArgumentError, "'best' is no mode"),
        (lambda: nn.interpolate(X, 2, align_corners=True), ArgumentError, "mode 'nearest' has no align_corners"),
        (lambda: nn.interpolate(X, 2, antialias=True), ArgumentError, "mode 'nearest' has no antialias"),
        (lambda: nn.interpolate(X, scale_factor=-1.0), ArgumentError, "a scale_factor of -1.0 is no size"),
        (lambda: nn.interpolate(X > 0, 2, mode="bilinear"), DTypeError, "takes floating-point numbers, not bool"),
        (lambda: nn.interpolate(X[:, :, :0], 2), ShapeError, "a spatial axis has no elements"),
        (lambda: nn.grid_sample(X, X, "linear"), ArgumentError, "no mode 'linear'"),
        (lambda: nn.grid_sample(X, X), ShapeError, "a coordinate for each spatial axis"),
        (lambda: nn.grid_sample(X, X[0]), ShapeError, "are no images and sampling grids"),
        (lambda: nn.grid_sample(X, X[..., :2].astype(np.float32)), DTypeError, "of one type, not float64 and float32"),
        (lambda: nn.affine_grid(X[0], (1, 1, 2, 2)), ShapeError, "are none for a result of 4 axes"),
        (lambda: nn.affine_grid(np.ones((1, 2, 3), int), (1, 1, 2, 2)), DTypeError, "takes floating-point numbers"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()
