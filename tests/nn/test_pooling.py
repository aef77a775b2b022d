"""Pooling against PyTorch: values, indices, nan, ties, paddings, gradients; one program for every shape; refusals."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn as tnn
from torch.nn import functional as F

import zenith
from zenith import nn
from zenith.errors import ArgumentError, DTypeError, ShapeError

SIZES = {1: (9,), 2: (9, 8), 3: (5, 6, 7)}
POOLS = [
    {"kernel_size": 3}, {"kernel_size": 2, "stride": 1}, {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True},
]  # fmt: skip
LARGER = [{"kernel_size": n, "padding": p, "ceil_mode": True} for n, p in ((12, 0), (17, 2))]  # than the array
ADAPTED = {1: [1, 3, 4, 9, 12], 2: [1, 3, (5, 7), (None, 4), (11, 20)], 3: [1, (2, 3, 4), (5, None, 2)]}


def rounded(axes, seed=0):
    """Numbers, many of which are equal."""
    x = np.round(np.random.default_rng(seed).standard_normal((2, 3, *SIZES[axes])) * 2)
    return np.where(x == 0, 0.0, x)


def with_holes(axes):
    x = rounded(axes)
    x.reshape(-1)[[5, 6, 17, 40]] = np.nan
    x[1, 1] = -np.inf
    return x


def torchs(name, axes):
    return getattr(F, f"{name}{axes}d")


@pytest.mark.parametrize("axes", SIZES)
def test_largest_and_where(axes):
    x = with_holes(axes)
    for options in (*POOLS, *LARGER, {"kernel_size": 2, "dilation": 3, "padding": 1}):
        found = nn.max_pool(x, **options, with_indices=True)
        expected = torchs("max_pool", axes)(torch.from_numpy(x), **options, return_indices=True)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other.numpy(), err_msg=str(options))
        np.testing.assert_array_equal(nn.max_pool(x, **options), found[0])


@pytest.mark.parametrize("axes", SIZES)
def test_means(axes):
    x = rounded(axes)
    larger = LARGER if axes < 3 else []  # PyTorch refuses them for three axes
    for options, counted in itertools.product([*POOLS, *larger], (True, False)):
        found = nn.avg_pool(x, **options, count_include_pad=counted)
        expected = torchs("avg_pool", axes)(torch.from_numpy(x), **options, count_include_pad=counted)
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-13, atol=1e-13, err_msg=str((options, counted)))
    np.testing.assert_allclose(nn.avg_pool(x, 2, divisor_override=3), nn.avg_pool(x, 2) * 2**axes / 3)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_norms(power, ceil_mode):
    x = np.abs(rounded(2))
    expected = F.lp_pool2d(torch.from_numpy(x), power, 3, 2, ceil_mode)
    np.testing.assert_allclose(nn.lp_pool(x, power, 3, 2, ceil_mode=ceil_mode), expected.numpy(), rtol=1e-13)
    if ceil_mode:  # a window larger than the array
        expected = F.lp_pool2d(torch.from_numpy(x), power, 11, ceil_mode=True)
        np.testing.assert_allclose(nn.lp_pool(x, power, 11, ceil_mode=True), expected.numpy(), rtol=1e-13)


@pytest.mark.parametrize("axes", SIZES)
def test_windows_adapt_to_the_result(axes):
    x, holes = rounded(axes), with_holes(axes)
    for size in ADAPTED[axes]:
        mean = torchs("adaptive_avg_pool", axes)(torch.from_numpy(x), size)
        np.testing.assert_allclose(nn.adaptive_avg_pool(x, size), mean.numpy(), rtol=1e-13, atol=1e-13)
        expected = torchs("adaptive_max_pool", axes)(torch.from_numpy(holes), size, return_indices=True)
        for one, other in zip(nn.adaptive_max_pool(holes, size, with_indices=True), expected, strict=True):
            np.testing.assert_array_equal(one, other.numpy())


GRADIENTS = {
    "max": (lambda x: nn.max_pool(x, 3, 2, 1), lambda x: F.max_pool2d(x, 3, 2, 1)),
    "dilated max": (lambda x: nn.max_pool(x, (2, 3), 1, (0, 1), (3, 1), ceil_mode=True),
                    lambda x: F.max_pool2d(x, (2, 3), 1, (0, 1), (3, 1), ceil_mode=True)),
    "mean": (lambda x: nn.avg_pool(x, 3, 2, 1, ceil_mode=True), lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
    "mean of overlapping": (lambda x: nn.avg_pool(x, (2, 3), 1), lambda x: F.avg_pool2d(x, (2, 3), 1)),
    "norm": (lambda x: nn.lp_pool(x * x + 1, 3, 2), lambda x: F.lp_pool2d(x * x + 1, 3, 2)),
    "adaptive max": (lambda x: nn.adaptive_max_pool(x, (5, 3)), lambda x: F.adaptive_max_pool2d(x, (5, 3))),
    "adaptive mean": (lambda x: nn.adaptive_avg_pool(x, (5, 3)), lambda x: F.adaptive_avg_pool2d(x, (5, 3))),
    "columns": (lambda x: nn.unfold(x, (3, 2), (1, 2), 1, 2), lambda x: F.unfold(x, (3, 2), (1, 2), 1, 2)),
    "columns added": (lambda x: nn.fold(nn.unfold(x, 3, 1, 1, 2), (9, 8), 3, 1, 1, 2),
                      lambda x: F.fold(F.unfold(x, 3, 1, 1, 2), (9, 8), 3, 1, 1, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    own, other = GRADIENTS[name]
    x, weights = rounded(2), np.random.default_rng(1).standard_normal(own(rounded(2)).shape)
    leaf = torch.from_numpy(x).requires_grad_()
    (other(leaf) * torch.from_numpy(weights)).sum().backward()
    np.testing.assert_allclose(
        zenith.grad(lambda x: (own(x) * weights).sum())(x), leaf.grad.numpy(), rtol=1e-12, atol=1e-12
    )


def test_one_compilation_serves_every_shape():
    def pooled(x):
        largest, indices = nn.max_pool(x, 3, 2, 1, ceil_mode=True, with_indices=True)
        return largest, indices, nn.avg_pool(x, 3, 2, 1)

    def gradient(x):
        return zenith.grad(lambda x: (nn.max_pool(x, 3, 2, 1) ** 2).sum() + (nn.avg_pool(x, 3, 2) ** 2).sum())(x)

    fast, slope = zenith.jit(pooled), zenith.jit(gradient)
    for shape in ((2, 3, 9, 8), (1, 2, 12, 33), (3, 1, 5, 3)):
        x = np.round(np.random.default_rng(2).standard_normal(shape) * 2)
        leaf = torch.from_numpy(x).requires_grad_()
        expected = *F.max_pool2d(leaf, 3, 2, 1, ceil_mode=True, return_indices=True), F.avg_pool2d(leaf, 3, 2, 1)
        for one, other in zip(fast(x), expected, strict=True):
            np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-13, atol=1e-13)
        ((F.max_pool2d(leaf, 3, 2, 1) ** 2).sum() + (F.avg_pool2d(leaf, 3, 2) ** 2).sum()).backward()
        np.testing.assert_allclose(slope(x), leaf.grad.numpy(), rtol=1e-12, atol=1e-12)
    assert fast.cache_info().misses == slope.cache_info().misses == 1


def test_a_module_of_pooling_for_every_shape():
    module = tnn.Sequential(tnn.MaxPool2d(3, 2, 1), tnn.ReLU(), tnn.AvgPool2d(2, 1), tnn.AdaptiveAvgPool2d((3, 2)),
                            tnn.Flatten()).eval()  # fmt: skip
    fast = zenith.from_torch(module, (torch.randn(2, 3, 17, 18),))
    with torch.no_grad():
        for shape in ((2, 3, 17, 18), (4, 3, 33, 24)):
            x = torch.randn(shape)
            torch.testing.assert_close(fast(x), module(x))
    assert fast.cache_info().misses == 1


def test_fold_is_the_transpose_of_unfold():
    x, generator = rounded(3), np.random.default_rng(3)
    columns = nn.unfold(x, (2, 3, 2), (2, 1, 1), 1, (1, 2, 3))
    weights = generator.standard_normal(columns.shape)
    back = nn.fold(weights, SIZES[3], (2, 3, 2), (2, 1, 1), 1, (1, 2, 3))
    np.testing.assert_allclose((columns * weights).sum(), (x * back).sum())
    assert nn.unfold(rounded(1).astype(np.int32), 2).dtype == np.int32


def test_derivatives_of_every_order_and_batches():
    x = rounded(2)[0]

    def f(x):
        return nn.max_pool(x, (3, 3), 2, 1)

    moved = zenith.jvp(f, (x,), (np.ones_like(x),))[1]
    np.testing.assert_array_equal(moved, np.ones_like(moved))
    np.testing.assert_array_equal(zenith.vmap(f)(rounded(2)), nn.max_pool(rounded(2), 3, 2, 1))
    batched = zenith.vmap(zenith.grad(lambda x: (f(x) ** 3).sum()))(rounded(2))
    np.testing.assert_array_equal(batched[0], zenith.grad(lambda x: (f(x) ** 3).sum())(x))

    def apart(x):
        return nn.max_pool(x, (3, 3))

    second = zenith.grad(lambda x: (zenith.grad(lambda x: (apart(x) ** 3).sum())(x) ** 2).sum() / 2)(x)
    np.testing.assert_allclose(second, 18.0 * zenith.grad(lambda x: (apart(x) ** 4).sum() / 4)(x))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: nn.max_pool(x, 10), ShapeError, "a window of 10 elements does not fit in an axis of size 9"),
        (lambda x: nn.max_pool(x, 3, padding=2), ArgumentError, "a padding of 2 is more than half of a window of 3"),
        (lambda x: nn.max_pool(x, 0), ArgumentError, "kernel_size must be 1 or more, not 0"),
        (lambda x: nn.max_pool(x, (2, 2), (1, 1, 1)), ArgumentError, "stride has 3 numbers for 2 axes"),
        (lambda x: nn.max_pool(x, 2, dilation=0), ArgumentError, "dilation must be 1 or more"),
        (lambda x: nn.max_pool(x > 0, 2), DTypeError, "max_pool takes real numbers, not bool"),
        (lambda x: nn.max_pool(x, (1,) * 5), ShapeError, "5 sizes for an array of 4 axes"),
        (lambda x: nn.avg_pool(x.astype(np.int32), 2), DTypeError, "avg_pool takes floating-point numbers, not int32"),
        (lambda x: nn.avg_pool(x, 2, divisor_override=0), ArgumentError, "divisor_override is 0"),
        (lambda x: nn.lp_pool(x, 0, 2), ArgumentError, "norm_type is 0"),
        (lambda x: nn.adaptive_avg_pool(x, (1,) * 5), ShapeError, "5 sizes for an array of 4 axes"),
        (lambda x: nn.adaptive_max_pool(x[:, :, :0], 2), ShapeError, "a spatial axis has no elements"),
        (lambda x: nn.fold(x[0], (4, 4), 2), ShapeError, "9 rows are no whole number of windows of 4 elements"),
        (lambda x: nn.fold(x[0, :, :8], (4, 4), 2), ShapeError, "8 columns, but there are 9 windows"),
        (lambda x: nn.pixel_shuffle(x, 2), ShapeError, "4 does not divide the number of channels"),
        (lambda x: nn.pixel_shuffle(x, 0), ArgumentError, "the factor must be 1 or more"),
        (lambda x: nn.pixel_unshuffle(x, 2), ShapeError, "2 does not divide the size 9"),
        (lambda x: nn.channel_shuffle(x, 2), ShapeError, "2 groups do not divide the number of channels"),
    ],
)  # fmt: skip
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call(rounded(2))
    with pytest.raises(error):  # sizes are symbols here, and called so
        zenith.jit(call)(rounded(2))


@pytest.mark.parametrize("r", [1, 2, 3])
def test_pixels_and_channels_are_exchanged(r):
    x = np.arange(2 * 18 * 6 * 6.0).reshape(2, 18, 6, 6)[:, : 2 * r * r]
    t = torch.from_numpy(x)
    np.testing.assert_array_equal(nn.pixel_shuffle(x, r), F.pixel_shuffle(t, r).numpy())
    np.testing.assert_array_equal(nn.pixel_unshuffle(x, r), F.pixel_unshuffle(t, r).numpy())
    np.testing.assert_array_equal(nn.channel_shuffle(x, r), F.channel_shuffle(t, r).numpy())
