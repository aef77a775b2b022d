"""Normalisation against PyTorch's: values, gradients, running statistics; large means; compiled for all sizes."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import zenith
from tests.nn.compare_torch import agree
from zenith import nn
from zenith.errors import ShapeError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 6, 4, 3)) + 2
ROWS = RNG.standard_normal((7, 6))
W, B = RNG.standard_normal(6), RNG.standard_normal(6)
MEAN, VAR = RNG.standard_normal(6), RNG.random(6) + 0.5


@pytest.mark.parametrize("x", [X, ROWS], ids=["images", "rows"])
def test_batch_norm(x):
    mean, var = torch.tensor(MEAN), torch.tensor(VAR)
    agree(lambda x, w, b: nn.batch_norm(x, MEAN, VAR, w, b), lambda x, w, b: F.batch_norm(x, mean, var, w, b), x, W, B)
    agree(lambda x, w, b: nn.batch_norm_training(x, None, None, w, b)[0],
          lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, W, B)  # fmt: skip
    agree(lambda x: nn.batch_norm_training(x, eps=0.1)[0],
          lambda x: F.batch_norm(x, None, None, training=True, eps=0.1), x)  # fmt: skip


@pytest.mark.parametrize("x", [X, ROWS], ids=["images", "rows"])
def test_running_statistics(x):
    mean, var = torch.tensor(MEAN), torch.tensor(VAR)
    F.batch_norm(torch.tensor(x), mean, var, training=True, momentum=0.3)
    _, new_mean, new_var = nn.batch_norm_training(x, MEAN, VAR, momentum=0.3)
    np.testing.assert_allclose(new_mean, mean.numpy(), rtol=1e-12)
    np.testing.assert_allclose(new_var, var.numpy(), rtol=1e-12)
    _, own_mean, own_var = nn.batch_norm_training(x)
    axes = tuple(a for a in range(x.ndim) if a != 1)
    np.testing.assert_allclose(own_mean, x.mean(axes), rtol=1e-12)
    np.testing.assert_allclose(own_var, x.var(axes, ddof=1), rtol=1e-12)


def test_gradients_of_statistics():
    """They are results like any other; nothing is taken as constant."""

    def plain(x):
        return [np.mean(x, (0, 2, 3)) * 0.1, np.var(x, (0, 2, 3), ddof=1) * 0.1]

    def weighted(results):
        return sum(np.sum(r * np.arange(1.0, 7.0)) for r in results)

    zeros = np.zeros(6)
    found = zenith.grad(lambda x: weighted(nn.batch_norm_training(x, zeros, zeros)[1:]))(X)
    np.testing.assert_allclose(found, zenith.grad(lambda x: weighted(plain(x)))(X), rtol=1e-10, atol=1e-14)


def test_other_norms():
    agree(lambda x, w, b: nn.group_norm(x, 3, w, b), lambda x, w, b: F.group_norm(x, 3, w, b), X, W, B)
    agree(lambda x: nn.group_norm(x, 2), lambda x: F.group_norm(x, 2), ROWS)
    agree(nn.instance_norm, lambda x, w, b: F.instance_norm(x, weight=w, bias=b), X, W, B)
    agree(nn.layer_norm, lambda x, w, b: F.layer_norm(x, (6,), w, b), ROWS, W, B)
    agree(lambda x: nn.layer_norm(x, eps=0.1, axis=(1, 2, 3)), lambda x: F.layer_norm(x, (6, 4, 3), eps=0.1), X)
    agree(nn.rms_norm, lambda x, w: F.rms_norm(x, (6,), w), ROWS, W)
    agree(lambda x: nn.rms_norm(x, eps=0.1, axis=(-2, -1)), lambda x: F.rms_norm(x, (4, 3), eps=0.1), X)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_local_response_norm(size):
    agree(lambda x: nn.local_response_norm(x, size, 0.3, 0.6, 1.5),
          lambda x: F.local_response_norm(x, size, 0.3, 0.6, 1.5), X)  # fmt: skip


def test_channels_may_be_last():
    last = np.moveaxis(X, 1, -1)
    pairs = [
        (nn.batch_norm_training(last, MEAN, VAR, W, B, axis=-1)[0], nn.batch_norm_training(X, MEAN, VAR, W, B)[0]),
        (nn.batch_norm(last, MEAN, VAR, W, B, axis=-1), nn.batch_norm(X, MEAN, VAR, W, B)),
        (nn.group_norm(last, 3, W, B, axis=-1), nn.group_norm(X, 3, W, B)),
        (nn.instance_norm(last, W, B, axis=-1), nn.instance_norm(X, W, B)),
        (nn.local_response_norm(last, 3, axis=-1), nn.local_response_norm(X, 3)),
    ]
    for found, expected in pairs:
        np.testing.assert_allclose(found, np.moveaxis(expected, 1, -1), rtol=1e-12, atol=1e-12)


def rmse(found, exact):
    return np.sqrt(np.mean((np.asarray(found, np.float64) - exact) ** 2))


@pytest.mark.parametrize(
    "shape", [(8, 6, 16, 16), pytest.param((100, 6), marks=pytest.mark.thorough)], ids=["images", "rows"]
)
def test_compiled_training_of_large_means(shape):
    """Value, statistics and gradient in float32 stray from float64 at most half as far again as PyTorch's."""

    def step(x, w, b):
        def loss(x, w, b):
            y, mean, var = nn.batch_norm_training(x, np.zeros_like(w), np.ones_like(w), w, b)
            return np.mean(np.sin(y)), (y, mean, var)

        (_, results), gradients = zenith.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(x, w, b)
        return [*results, *gradients]

    def eager(x, w, b, dtype):
        x, w, b = (torch.tensor(a, dtype=dtype, requires_grad=True) for a in (x, w, b))
        mean, var = torch.zeros(6, dtype=dtype), torch.ones(6, dtype=dtype)
        y = F.batch_norm(x, mean, var, w, b, training=True)
        return [y.detach(), mean, var, *torch.autograd.grad(torch.sin(y).mean(), (x, w, b))]

    compiled, w, b = zenith.jit(step), W.astype(np.float32), B.astype(np.float32)
    for sizes in (shape, (shape[0] - 1, *shape[1:])):
        x = (RNG.standard_normal(sizes) * 3 + 100).astype(np.float32)
        exact = [t.numpy() for t in eager(x, w, b, torch.float64)]
        theirs = [t.numpy() for t in eager(x, w, b, torch.float32)]
        for f, t, e in zip(compiled(x, w, b), theirs, exact, strict=True):
            assert rmse(f, e) <= 1.5 * rmse(t, e) + 2**-24 * np.abs(e).max()
    assert compiled.cache_info().misses == 1


def test_refusals():
    with pytest.raises(ShapeError, match="more than one value for each channel"):
        nn.batch_norm_training(np.ones((1, 3)))
    with pytest.raises(ShapeError, match="4 groups cannot be of equal size with 6 channels"):
        nn.group_norm(X, 4)
    with pytest.raises(ShapeError, match="axes besides those of examples and channels"):
        nn.instance_norm(ROWS)


def test_weights_lie_along_the_axes_that_are_normalised():
    x, w = RNG.standard_normal((3, 3, 4)), RNG.standard_normal((3, 4))
    moved, turned = np.moveaxis(x, 1, 0), np.arange(9.0).reshape(3, 3)
    np.testing.assert_allclose(
        nn.layer_norm(moved, w, w, axis=(0, 2)), np.moveaxis(nn.layer_norm(x, w, w, axis=(1, 2)), 1, 0)
    )
    for norm in (nn.layer_norm, nn.rms_norm):
        np.testing.assert_allclose(norm(turned, w[0, :3], axis=0), norm(turned.T, w[0, :3]).T)
