"""W13: a step of training a small convolutional network, whose gradients' stability is watched elsewhere.

Two convolutions, each with a norm by the batch's own statistics and relu; the mean over positions; a linear layer; the
mean cross-entropy. An array module has no convolution, so each library brings its own.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy

from benchmarks.workloads.descent import Descent
from benchmarks.workloads.layers import EPSILON
from benchmarks.workloads.workload import Array, Arrays, Program, Workload

CHANNELS, CLASSES, SIZE = (3, 64, 128), 10, 32
BATCH = 128


def _weights() -> Arrays:
    rng, found = numpy.random.default_rng(7), list[Array]()
    for before, after in pairwise(CHANNELS):
        found += [_drawn(rng, (after, before, 3, 3), 9 * before), _drawn(rng, (after,), 9 * before)]
        found += [numpy.ones(after, numpy.float32), numpy.zeros(after, numpy.float32)]
    return (*found, _drawn(rng, (CLASSES, CHANNELS[-1]), CHANNELS[-1]), _drawn(rng, (CLASSES,), CHANNELS[-1]))


def _drawn(rng: numpy.random.Generator, shape: tuple[int, ...], terms: int) -> Array:
    return (rng.standard_normal(shape) / numpy.sqrt(terms)).astype(numpy.float32)


def _batch(seed: int) -> Arrays:
    rng = numpy.random.default_rng(seed)
    images = rng.standard_normal((BATCH, CHANNELS[0], SIZE, SIZE)).astype(numpy.float32)
    return images, rng.integers(0, CLASSES, BATCH)


def _convolution(np: Any) -> Any:
    """A library's convolution of windows of 3x3 inside a border of zeros."""
    if np.__name__ == "zenith.numpy":
        from zenith import nn

        return lambda x, w: nn.conv(x, w, padding=1)
    if np.__name__ == "jax.numpy":
        from jax import lax

        return lambda x, w: lax.conv(x, w, (1, 1), "SAME")
    return lambda x, w: _by_windows(x, w, np)


def _by_windows(x: Array, w: Array, np: Any) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    found: Array = np.einsum("nchwij,ocij->nohw", windows, w, optimize=True)
    return found


def _numpy_loss(arrays: Arrays, np: Any) -> Program:
    convolve = _convolution(np)

    def loss(images: Array, labels: Array) -> Array:
        y = images
        for w, b, scale, shift in (arrays[:4], arrays[4:8]):
            y = convolve(y, w) + b[:, None, None]
            centred = y - np.mean(y, axis=(0, 2, 3), keepdims=True)
            variance = np.mean(centred * centred, axis=(0, 2, 3), keepdims=True)
            y = centred / np.sqrt(variance + EPSILON) * scale[:, None, None] + shift[:, None, None]
            y = np.maximum(y, 0)
        scores = np.mean(y, axis=(2, 3)) @ arrays[8].T + arrays[9]
        shifted = scores - np.max(scores, axis=1, keepdims=True)
        sums = np.log(np.sum(np.exp(shifted), axis=1))
        result: Array = np.mean(sums - np.take_along_axis(shifted, labels[:, None], 1)[:, 0])
        return result

    return loss


def _torch_loss(arrays: Arrays) -> Any:
    import torch
    from torch import nn

    class Loss(nn.Module):
        """The network and its cross-entropy."""

        def __init__(self) -> None:
            super().__init__()
            layers: list[nn.Module] = []
            for before, after in pairwise(CHANNELS):
                layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
            self.network = nn.Sequential(
                *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(CHANNELS[-1], CLASSES)
            )

        def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(self.network(images), labels)

    module = Loss().to(torch.from_numpy(arrays[0]).dtype)
    with torch.no_grad():
        for parameter, array in zip(module.parameters(), arrays, strict=True):
            parameter.copy_(torch.from_numpy(array))
    return module


_POSITIONS = BATCH * SIZE * SIZE
TRAIN_CNN = Workload(
    name="train_cnn",
    description="W13: a training step of Conv3-64 / BN / ReLU / Conv64-128 / BN / ReLU / AvgPool / Linear128-10, "
    "128 images of 32x32, SGD with momentum",
    batches=lambda: [_batch(1)],
    first=lambda: _batch(2),
    weights=_weights,
    numpy=_numpy_loss,
    torch=_torch_loss,
    descent=Descent("sgd", rate=1e-2, momentum=0.9),
    long=True,
    flops=2 * 9 * _POSITIONS * (2 * CHANNELS[0] * CHANNELS[1] + 3 * CHANNELS[1] * CHANNELS[2]),
)
