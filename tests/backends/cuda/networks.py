"""Convolutional networks whose GPU kernels are tested: a step of training a small one, layers of ResNet-50."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import zenith
import zenith.numpy as znp
from zenith import nn

RATE = 0.01
CHANNELS = (3, 64, 128)  # of the images, and after each convolution

# examples, channels, size, outputs, window, stride, border: one of each kind in ResNet-50
LAYERS = {
    "stem": (1, 3, 224, 64, 7, 2, 3),
    "points": (1, 256, 56, 64, 1, 1, 0),
    "window": (1, 64, 56, 64, 3, 1, 1),
    "strided window": (1, 128, 56, 128, 3, 2, 1),
    "strided points": (1, 256, 56, 512, 1, 2, 0),
    "last window": (1, 512, 7, 512, 3, 1, 1),
    "many images": (64, 256, 14, 256, 3, 1, 1),
}
# sizes that are not known: a split of the terms may be more than an accumulator takes
OPEN_LAYERS = {"any images": ("n", 512, "size", 512, 3, 2, 1)}


def parameters(channels: tuple[int, int, int] = CHANNELS, classes: int = 10, seed: int = 0) -> dict[str, Any]:
    """Weights of the small network, drawn by the numbers of terms; its norms begin with ones and zeros."""
    rng, made = np.random.default_rng(seed), dict[str, Any]()
    for number, (before, after) in enumerate(pairwise(channels)):
        made[f"w{number}"] = _drawn(rng, (after, before, 3, 3), 9 * before)
        made[f"b{number}"] = _drawn(rng, (after,), 9 * before)
        made[f"scale{number}"], made[f"shift{number}"] = np.ones(after, np.float32), np.zeros(after, np.float32)
    made["w"], made["b"] = (_drawn(rng, shape, channels[2]) for shape in ((classes, channels[2]), (classes,)))
    return made


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], terms: int) -> Any:
    return (rng.standard_normal(shape) / np.sqrt(terms)).astype(np.float32)


def loss(p: dict[str, Any], images: Any, labels: Any) -> Any:
    """Two convolutions with norms and relu, the mean over positions, a linear layer: the mean cross-entropy."""
    y = images
    for number in range(2):
        y = nn.conv(y, p[f"w{number}"], p[f"b{number}"], padding=1)
        y = nn.relu(nn.batch_norm_training(y, weight=p[f"scale{number}"], bias=p[f"shift{number}"])[0])
    return nn.cross_entropy(znp.mean(y, axis=(2, 3)) @ znp.transpose(p["w"]) + p["b"], labels)


def step(p: dict[str, Any], images: Any, labels: Any) -> tuple[Any, dict[str, Any]]:
    """The loss, and the weights after a step of gradient descent."""
    value, gradient = zenith.value_and_grad(loss)(p, images, labels)
    return value, {name: p[name] - RATE * gradient[name] for name in p}


def layer(stride: int, border: int) -> Any:
    """A convolution as ResNet-50 has it in inference, where norms are a factor and a bias, with relu."""
    return lambda x, w, b: nn.relu(nn.conv(x, w, b, stride=stride, padding=border))


def layer_types(name: str, dtype: str) -> list[Any]:
    """The types of a layer's array, weights and bias."""
    n, c, size, o, window, _, _ = {**LAYERS, **OPEN_LAYERS}[name]
    return [zenith.ShapeDtypeStruct(s, dtype) for s in ((n, c, size, size), (o, c, window, window), (o,))]
