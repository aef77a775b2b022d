"""Random networks of products and convolutions, with batches for them: what a tolerance has to hold for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith import nn
from zenith import numpy as znp

Layer = Callable[[Any], Any]
ACTIVATIONS: tuple[Layer, ...] = (
    lambda x: znp.maximum(x, 0), znp.tanh, nn.gelu, nn.silu, lambda x: x, lambda x: nn.softmax(x, -1) * x.shape[-1],
)  # fmt: skip


@dataclass(frozen=True)
class Network:
    """A function of one array, its draws of arguments, and what is asked of its quantisation."""

    function: Layer
    draw: Callable[[int], list[np.ndarray]]
    options: dict[str, Any]
    tolerance: float


def drawn_network(seed: int) -> Network:
    """A network of two to five layers, images first or not, with outliers in channels and weights or not."""
    rng = np.random.default_rng(seed)
    images, width = bool(rng.integers(2)), int(rng.integers(3, 40))
    shape: tuple[int, ...] = (int(rng.integers(1, 5)), width, 9, 8) if images else (int(rng.integers(16, 40)), width)
    layers: list[Layer] = []
    for _ in range(rng.integers(2, 6)):
        layer, width = (_convolution if images else _linear)(rng, width)
        layers += [layer, ACTIVATIONS[rng.integers(len(ACTIVATIONS))]]
        if images and rng.random() < 0.4:
            layers.append(lambda x: znp.mean(x, axis=(2, 3)))
            images = False

    def network(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    outliers = np.exp(rng.normal(0, rng.choice([0, 1]), (shape[1], *[1] * (len(shape) - 2))))

    def draw(number: int) -> list[np.ndarray]:
        own = np.random.default_rng((seed, number))
        return [(own.standard_normal(shape) * outliers).astype(np.float32) for _ in range(24)]

    schemes = ["static"] if len(shape) > 2 else ["static", "dynamic"]
    options = {"scheme": rng.choice(schemes), "smooth": rng.choice(["auto", 0]),
               "method": rng.choice(["minmax", "mse", "percentile"]), "granularity": rng.choice(["channel", "tensor"]),
               "symmetric": bool(rng.integers(2))}  # fmt: skip
    options = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
    options["smooth"] = "auto" if options["smooth"] == "auto" else 0
    return Network(network, draw, options, float(np.exp(rng.uniform(np.log(5e-4), np.log(0.2)))))


def _weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    spread = np.exp(rng.normal(0, rng.choice([0, 0.7]), (shape[0], *[1] * (len(shape) - 1))))
    return (rng.standard_normal(shape) * spread / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def _linear(rng: np.random.Generator, width: int) -> tuple[Layer, int]:
    """A product, added to what it reads where that fits and chance has it."""
    after = width if rng.random() < 0.3 else int(rng.integers(3, 70))
    w, bias = _weights(rng, after, width), _weights(rng, after, 1)[:, 0]
    residual = after == width
    return lambda x: x @ w.T + bias + (x if residual else 0), after


def _convolution(rng: np.random.Generator, width: int) -> tuple[Layer, int]:
    after, window, stride = int(rng.integers(3, 50)), int(rng.choice([1, 3])), int(rng.choice([1, 1, 2]))
    w, bias = _weights(rng, after, width, window, window), _weights(rng, after, 1)[:, 0]
    return lambda x: nn.conv(x, w, bias, stride=stride, padding=window // 2), after
