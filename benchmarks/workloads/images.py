"""Steps of training of a convolutional network on small images: two stages with norms of the batch, and a classifier.

Norms take the statistics of the batch; running ones, which training only hands on, are left out for everybody.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy

from benchmarks.workloads.descent import Descent
from benchmarks.workloads.workload import Array, Arrays, Program, Workload

EPS, CLASSES = 1e-5, 10


@dataclass(frozen=True)
class Images:
    """The network: so many channels after each of its convolutions of 3 x 3, for square images of 3 channels."""

    widths: tuple[int, ...] = (64, 128)
    size: int = 32

    def weights(self) -> Arrays:
        """For each stage the kernel, its bias, the norm's scale and shift; then the classifier's matrix and bias."""
        rng, found, before = numpy.random.default_rng(4), list[Array](), 3
        for width in self.widths:
            kernel = rng.standard_normal((width, before, 3, 3), dtype=numpy.float32)
            kernel /= numpy.float32((9 * before) ** 0.5)
            small = [0.1 * rng.standard_normal(width, dtype=numpy.float32) for _ in range(3)]
            found += [kernel, small[0], 1 + small[1], small[2]]
            before = width
        head = rng.standard_normal((CLASSES, before), dtype=numpy.float32) / numpy.float32(before**0.5)
        return (*found, head, numpy.zeros(CLASSES, numpy.float32))

    def batch(self, count: int, seed: int) -> Arrays:
        """Random images, and the numbers of their classes."""
        rng = numpy.random.default_rng(seed)
        images = rng.standard_normal((count, 3, self.size, self.size), dtype=numpy.float32)
        return images, rng.integers(0, CLASSES, count)

    def scores(self, arrays: Arrays, x: Array, np: Any) -> Array:
        """The scores (n, classes) of images, over ``numpy`` or a module like it."""
        *stages, head, bias = arrays
        for i in range(0, len(stages), 4):
            kernel, shift, scale, move = stages[i : i + 4]
            y = convolved(x, kernel, np) + shift[:, None, None]
            x = np.maximum(_normalised(y, scale, move, np), 0)
        found: Array = np.mean(x, axis=(2, 3)) @ head.T + bias
        return found

    def numpy(self, arrays: Arrays, np: Any) -> Program:
        """The cross entropy of the scores."""

        def loss(x: Array, classes: Array) -> Array:
            scores = self.scores(arrays, x, np)
            if np.__name__ == "zenith.numpy":
                from zenith import nn

                entropy: Array = nn.cross_entropy(scores, classes)
                return entropy
            scores = scores - np.max(scores, axis=1, keepdims=True)
            wanted = np.take_along_axis(scores, classes[:, None], 1)[:, 0]
            mean: Array = np.mean(np.log(np.sum(np.exp(scores), axis=1)) - wanted)
            return mean

        return loss

    def torch(self, arrays: Arrays) -> Any:
        """The same as a PyTorch module."""
        import torch
        from torch import nn

        layers, before = list[nn.Module](), 3
        for width in self.widths:
            norm = nn.BatchNorm2d(width, eps=EPS, track_running_stats=False)
            layers += [nn.Conv2d(before, width, 3, padding=1), norm, nn.ReLU()]
            before = width

        class Loss(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES))

            def forward(self, x: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
                return nn.functional.cross_entropy(self.model(x), classes)

        module = Loss()
        for parameter, array in zip(module.parameters(), arrays, strict=True):
            parameter.data = torch.from_numpy(array)
        return module


def convolved(x: Array, w: Array, np: Any) -> Array:
    """A convolution with windows of 3 x 3 and a border of zeros, by what an array module has for it."""
    if np.__name__ == "zenith.numpy":
        from zenith import nn

        return cast(Array, nn.conv(x, w, padding=1))
    if np.__name__ == "jax.numpy":
        import jax

        convolve: Any = jax.lax.conv_general_dilated
        return convolve(x, w, (1, 1), ((1, 1), (1, 1)))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.moveaxis(np.tensordot(windows, w, ((1, 4, 5), (1, 2, 3))), 3, 1)


def _normalised(x: Array, scale: Array, shift: Array, np: Any) -> Array:
    """Each channel to mean 0 and variance 1 over the batch, then scaled and shifted."""
    if np.__name__ == "zenith.numpy":
        from zenith import nn

        return nn.batch_norm_training(x, None, None, scale, shift, eps=EPS)[0]
    mean = np.mean(x, axis=(0, 2, 3), keepdims=True)
    centred = x - mean
    root = np.sqrt(np.mean(centred * centred, axis=(0, 2, 3), keepdims=True) + EPS)
    return centred / root * scale[:, None, None] + shift[:, None, None]


def train_images(name: str, images: Images, batch: int, descent: Descent, how: str) -> Workload:
    """A step of training of such a network."""

    def batches() -> Sequence[Arrays]:
        return [images.batch(batch, seed=1)]

    widths = "-".join(map(str, (3, *images.widths)))
    terms = sum(a * b for a, b in itertools.pairwise((3, *images.widths)))
    return Workload(
        name=name,
        description=f"a training step of a network of convolutions {widths} of 3x3 with batch norm and relu, "
        f"a mean and a classifier, on {batch} images of {images.size}x{images.size}, {how}",
        batches=batches,
        first=lambda: images.batch(batch, seed=2),
        weights=images.weights,
        numpy=images.numpy,
        torch=images.torch,
        descent=descent,
        flops=3 * 2 * 9 * batch * images.size**2 * terms,  # forward, backward by arrays, backward by weights
    )


SMALL = Images()
TRAIN_CNN = train_images("train_cnn", SMALL, 16, Descent("sgd", rate=1e-2, momentum=0.9), "SGD with momentum")
TRAIN_CNN_ADAM = train_images("train_cnn_adam", SMALL, 16, Descent("adam", rate=1e-3), "Adam")
