"""What is measured. A workload is one record: its inputs, its weights, and the same program in NumPy and in PyTorch.

The NumPy program serves three times: as the NumPy contender, under ``zenith.jit``, and, fed with float64, as the
reference that every result is checked against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = tuple[Array, ...]
Shapes = tuple[tuple[int, ...], ...]
Program = Callable[..., Any]

GELU_SCALE = 0.7978845608028654  # sqrt(2 / pi)
EPSILON = 1e-5


@dataclass(frozen=True)
class Workload:
    """A program to time.

    Parameters
    ----------
    name, description: how tables call it, and what it computes.
    shapes: of the arguments, float32 from a standard normal distribution.
    first_shapes: of the arguments of the first call. They differ from ``shapes`` wherever a size may be symbolic, so
        that nobody is timed on a program that was specialised to the timed sizes.
    weights: shapes of the captured arrays, drawn from a normal distribution over the root of the last axis.
    numpy: weights -> NumPy program.
    torch: weights -> ``torch.nn.Module``; imports torch by itself.
    bound: largest accepted max|result - reference| / max|reference|.
    """

    name: str
    description: str
    shapes: Shapes
    first_shapes: Shapes
    weights: Shapes
    numpy: Callable[[Arrays], Program]
    torch: Callable[[Arrays], Any]
    bound: float = 1e-5

    def inputs(self) -> Arrays:
        """The arguments, the same in every process."""
        return _normal(self.shapes, seed=1)

    def first_inputs(self) -> Arrays:
        """Arguments of the first call, of other sizes."""
        return _normal(self.first_shapes, seed=2)

    def make_weights(self) -> Arrays:
        """The captured arrays, the same in every process."""
        return tuple(w / np.float32(w.shape[-1] ** 0.5) for w in _normal(self.weights, seed=3))

    def reference(self) -> Array:
        """The result in float64, from the float32 inputs and weights."""
        program = self.numpy(tuple(w.astype(np.float64) for w in self.make_weights()))
        return np.asarray(program(*(x.astype(np.float64) for x in self.inputs())))


def _normal(shapes: Shapes, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes)


def gelu(x: Array) -> Array:
    """The tanh form of the Gaussian error linear unit."""
    return 0.5 * x * (1 + np.tanh(GELU_SCALE * (x + 0.044715 * x * x * x)))


def layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    """Normalise the last axis, then scale and shift it."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + EPSILON) * scale + shift


def softmax(x: Array) -> Array:
    """Softmax over the last axis."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def _numpy_chain(_: Arrays) -> Program:
    def chain(x: Array) -> Array:
        return 1 / (1 + np.exp(-np.exp(np.tanh(gelu(x)))))

    return chain


def _torch_chain(_: Arrays) -> Any:
    import torch

    class Chain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(torch.exp(torch.tanh(torch.nn.functional.gelu(x, approximate="tanh"))))

    return Chain()


def _numpy_layernorm_softmax(weights: Arrays) -> Program:
    scale, shift = weights

    def layernorm_softmax(x: Array) -> Array:
        return softmax(layer_norm(x, scale, shift))

    return layernorm_softmax


def _torch_layernorm_softmax(weights: Arrays) -> Any:
    import torch

    return torch.nn.Sequential(_torch_layer_norm(*weights), torch.nn.Softmax(dim=-1))


def _numpy_mlp(weights: Arrays) -> Program:
    layers = [weights[i : i + 4] for i in range(0, len(weights), 4)]

    def mlp(x: Array) -> Array:
        for w, b, scale, shift in layers:
            x = gelu(layer_norm(x @ w.T + b, scale, shift))
        return x

    return mlp


def _torch_mlp(weights: Arrays) -> Any:
    import torch

    parts: list[torch.nn.Module] = []
    for i in range(0, len(weights), 4):
        w, b, scale, shift = weights[i : i + 4]
        linear = torch.nn.Linear(w.shape[1], w.shape[0])
        linear.weight.data, linear.bias.data = torch.from_numpy(w), torch.from_numpy(b)
        parts += [linear, _torch_layer_norm(scale, shift), torch.nn.GELU(approximate="tanh")]
    return torch.nn.Sequential(*parts)


def _torch_layer_norm(scale: Array, shift: Array) -> Any:
    import torch

    norm = torch.nn.LayerNorm(scale.shape[0], eps=EPSILON)
    norm.weight.data, norm.bias.data = torch.from_numpy(scale), torch.from_numpy(shift)
    return norm


def _numpy_add(_: Arrays) -> Program:
    def add(a: Array, b: Array) -> Array:
        return a + b

    return add


def _torch_add(_: Arrays) -> Any:
    import torch

    class Add(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a + b

    return Add()


def _mlp(batch: int) -> Workload:
    layer: Shapes = ((256, 256), (256,), (256,), (256,))
    return Workload(
        name=f"mlp_b{batch}",
        description=f"4 layers of linear, layernorm, gelu, 256 wide, batch {batch}",
        shapes=((batch, 256),),
        first_shapes=((7, 256),),
        weights=layer * 4,
        numpy=_numpy_mlp,
        torch=_torch_mlp,
    )


_ALL = (
    Workload(
        name="chain",
        description="sigmoid(exp(tanh(gelu(x)))) over 4 M floats",
        shapes=((4 * 1024 * 1024,),),
        first_shapes=((1000,),),
        weights=(),
        numpy=_numpy_chain,
        torch=_torch_chain,
    ),
    Workload(
        name="layernorm_softmax",
        description="softmax(layernorm(x)) over the rows of 4096x1024",
        shapes=((4096, 1024),),
        first_shapes=((5, 1024),),
        weights=((1024,), (1024,)),
        numpy=_numpy_layernorm_softmax,
        torch=_torch_layernorm_softmax,
    ),
    _mlp(1),
    _mlp(32),
    Workload(
        name="tiny_call",
        description="a + b on 8 floats: what a call costs",
        shapes=((8,), (8,)),
        first_shapes=((3,), (3,)),
        weights=(),
        numpy=_numpy_add,
        torch=_torch_add,
    ),
)
WORKLOADS = {workload.name: workload for workload in _ALL}
