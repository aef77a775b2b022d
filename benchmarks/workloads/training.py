"""Steps of training: value, gradient and update. The targets are random, the loss is the mean squared error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.workloads.descent import Descent
from benchmarks.workloads.encoder import Encoder, scaled
from benchmarks.workloads.layers import torch_linear
from benchmarks.workloads.workload import Array, Arrays, Program, Workload, first_inputs, inputs, weights

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


def numpy_mlp(arrays: Arrays, np: Any) -> Program:
    """A perceptron with relu between its layers, over ``numpy`` or a module like it."""

    def mlp(x: Array) -> Array:
        *hidden, last = range(0, len(arrays), 2)
        for i in hidden:
            x = np.maximum(x @ arrays[i].T + arrays[i + 1], 0)
        return x @ arrays[last].T + arrays[last + 1]

    return mlp


def torch_mlp(arrays: Arrays) -> Any:
    """The same as a PyTorch module."""
    import torch

    layers: list[torch.nn.Module] = []
    for i in range(0, len(arrays), 2):
        layers += [torch_linear(*arrays[i : i + 2]), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def transformer(name: str, encoder: Encoder, batch: int, length: int, rate: float) -> Workload:
    """A step of training, by AdamW, of an encoder with a linear head after it, whose weight and bias come last."""

    def arrays() -> Arrays:
        rng = numpy.random.default_rng(4)
        return (*encoder.weights(), scaled(rng, (encoder.width, encoder.width)), scaled(rng, (encoder.width,)))

    def numpy_model(arrays: Arrays, np: Any) -> Program:
        def model(x: Array) -> Array:
            *layers, w, b = arrays
            result: Array = encoder.numpy(tuple(layers), np)(x) @ w.T + b
            return result

        return model

    def torch_model(arrays: Arrays) -> Any:
        import torch

        return torch.nn.Sequential(encoder.torch(arrays[:-2]), torch_linear(*arrays[-2:]))

    data = ((batch, length, encoder.width),) * 2
    return Workload(
        name=name,
        description=f"a training step of a transformer: {encoder.layers} layers, {encoder.width} wide, "
        f"{encoder.heads} heads, {encoder.middle} in the middle, length {length}, batch {batch}, AdamW",
        batches=inputs(data),
        first=first_inputs(data),
        weights=arrays,
        numpy=_numpy_loss(numpy_model),
        torch=_torch_loss(torch_model),
        descent=Descent("adamw", rate=rate),
    )


TRAIN_MLP = Workload(
    name="train_mlp",
    description="a training step of the MLP 512-256-128-64 with relu, batch 32, SGD with momentum",
    batches=inputs(((32, 512), (32, 64))),
    first=first_inputs(((32, 512), (32, 64))),
    weights=weights(((256, 512), (256,), (128, 256), (128,), (64, 128), (64,))),
    numpy=_numpy_loss(numpy_mlp),
    torch=_torch_loss(torch_mlp),
    descent=Descent("sgd", rate=1e-2, momentum=0.9),
)
TRAIN_TRANSFORMER = transformer("train_transformer", SMALL, batch=8, length=128, rate=1e-4)
