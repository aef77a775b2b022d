"""Steps of training: value, gradient and update. The targets are random, the loss is the mean squared error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.workloads.descent import Descent
from benchmarks.workloads.encoder import Encoder, scaled
from benchmarks.workloads.layers import torch_linear
from benchmarks.workloads.workload import Array, Arrays, Program, Workload, first_inputs, inputs, weights

LENGTH, BATCH = 128, 8
SMALL = Encoder(layers=4, width=256, heads=8, middle=1024)


def _numpy_loss(model: Callable[[Arrays, Any], Program]) -> Callable[[Arrays, Any], Program]:
    def build(arrays: Arrays, np: Any) -> Program:
        def loss(x: Array, wanted: Array) -> Array:
            result: Array = np.mean((model(arrays, np)(x) - wanted) ** 2)
            return result

        return loss

    return build


def _torch_loss(model: Callable[[Arrays], Any]) -> Callable[[Arrays], Any]:
    def build(arrays: Arrays) -> Any:
        import torch

        class Loss(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model(arrays)

            def forward(self, x: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
                return torch.nn.functional.mse_loss(self.model(x), wanted)

        return Loss()

    return build


def _numpy_mlp(arrays: Arrays, np: Any) -> Program:
    def mlp(x: Array) -> Array:
        *hidden, last = range(0, len(arrays), 2)
        for i in hidden:
            x = np.maximum(x @ arrays[i].T + arrays[i + 1], 0)
        return x @ arrays[last].T + arrays[last + 1]

    return mlp


def _torch_mlp(arrays: Arrays) -> Any:
    import torch

    parts: list[torch.nn.Module] = []
    for i in range(0, len(arrays), 2):
        parts += [torch_linear(*arrays[i : i + 2]), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def _transformer_weights() -> Arrays:
    """Those of the encoder, then weight and bias of the head."""
    rng = numpy.random.default_rng(4)
    return (*SMALL.weights(), scaled(rng, (SMALL.width, SMALL.width)), scaled(rng, (SMALL.width,)))


def _numpy_transformer(arrays: Arrays, np: Any) -> Program:
    def transformer(x: Array) -> Array:
        *layers, w, b = arrays
        result: Array = SMALL.numpy(tuple(layers), np)(x) @ w.T + b
        return result

    return transformer


def _torch_transformer(arrays: Arrays) -> Any:
    import torch

    return torch.nn.Sequential(SMALL.torch(arrays[:-2]), torch_linear(*arrays[-2:]))


_DATA = ((BATCH, LENGTH, SMALL.width), (BATCH, LENGTH, SMALL.width))
TRAIN_MLP = Workload(
    name="train_mlp",
    description="a training step of the MLP 512-256-128-64 with relu, batch 32, SGD with momentum",
    batches=inputs(((32, 512), (32, 64))),
    first=first_inputs(((32, 512), (32, 64))),
    weights=weights(((256, 512), (256,), (128, 256), (128,), (64, 128), (64,))),
    numpy=_numpy_loss(_numpy_mlp),
    torch=_torch_loss(_torch_mlp),
    descent=Descent("sgd", rate=1e-2, momentum=0.9),
)
TRAIN_TRANSFORMER = Workload(
    name="train_transformer",
    description="a training step of a transformer: 4 layers, 256 wide, 8 heads, 1024 in the middle, "
    f"length {LENGTH}, batch {BATCH}, AdamW",
    batches=inputs(_DATA),
    first=first_inputs(_DATA),
    weights=_transformer_weights,
    numpy=_numpy_loss(_numpy_transformer),
    torch=_torch_loss(_torch_transformer),
    descent=Descent("adamw", rate=1e-4),
)
