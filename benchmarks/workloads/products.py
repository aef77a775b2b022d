"""Programs whose time goes into matrix products with captured weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from benchmarks.workloads.layers import gelu, layer_norm, torch_gelu, torch_layer_norm, torch_linear
from benchmarks.workloads.workload import (
    Array,
    Arrays,
    Program,
    Shapes,
    Workload,
    first_inputs,
    inputs,
    normal,
    tensor,
    weights,
)

LENGTHS = tuple(int(n) for n in numpy.random.default_rng(4).integers(100, 1001, size=50))
FIRST_LENGTH = 64


def _numpy_matmul(arrays: Arrays, np: Any) -> Program:
    (w,) = arrays

    def matmul(x: Array) -> Array:
        result: Array = x @ w
        return result

    return matmul


def _torch_matmul(arrays: Arrays) -> Any:
    import torch

    class Product(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(tensor(arrays[0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.mm(x, self.weight)

    return Product()


def _numpy_mlp(arrays: Arrays, np: Any) -> Program:
    layers = [arrays[i : i + 4] for i in range(0, len(arrays), 4)]

    def mlp(x: Array) -> Array:
        for w, b, scale, shift in layers:
            x = gelu(layer_norm(x @ w.T + b, scale, shift, np), np)
        return x

    return mlp


def _torch_mlp(arrays: Arrays) -> Any:
    import torch

    layers: list[torch.nn.Module] = []
    for i in range(0, len(arrays), 4):
        w, b, scale, shift = arrays[i : i + 4]
        layers += [torch_linear(w, b), torch_layer_norm(scale, shift), torch_gelu()]
    return torch.nn.Sequential(*layers)


def _mlp(batch: int) -> Workload:
    layer: Shapes = ((256, 256), (256,), (256,), (256,))
    return Workload(
        name=f"mlp_b{batch}",
        description=f"4 layers of linear, layernorm, gelu, 256 wide, batch {batch}",
        batches=inputs(((batch, 256),)),
        first=first_inputs(((7, 256),)),
        weights=weights(layer * 4),
        numpy=_numpy_mlp,
        torch=_torch_mlp,
    )


def _numpy_two_layers(arrays: Arrays, np: Any) -> Program:
    w1, b1, w2, b2 = arrays

    def two_layers(x: Array) -> Array:
        result: Array = gelu(x @ w1.T + b1, np) @ w2.T + b2
        return result

    return two_layers


def _torch_two_layers(arrays: Arrays) -> Any:
    import torch

    w1, b1, w2, b2 = arrays
    return torch.nn.Sequential(torch_linear(w1, b1), torch_gelu(), torch_linear(w2, b2))


def _sequences(batch: int, width: int) -> Sequence[Arrays]:
    """Dense arrays of all lengths over one memory: fifty of their own would take a gigabyte."""
    (longest,) = normal(((batch * max(LENGTHS) * width,),), seed=1)
    return [(longest[: batch * length * width].reshape(batch, length, width),) for length in LENGTHS]


def dynamic_lengths(name: str, batch: int, width: int, **more: Any) -> Workload:
    """Two linear layers with gelu between, over sequences of another length in each call."""
    return Workload(
        name=name,
        description=f"linear, gelu, linear, {width} wide, batch {batch}, "
        f"a pass over {len(LENGTHS)} random lengths from 100 to 1000",
        batches=lambda: _sequences(batch, width),
        first=first_inputs(((batch, FIRST_LENGTH, width),)),
        weights=weights(((width, width), (width,), (width, width), (width,))),
        numpy=_numpy_two_layers,
        torch=_torch_two_layers,
        long=True,
        varied=True,
        **more,
    )


MATMUL = Workload(
    name="matmul",
    description="126x768 @ 768x3072, the right operand captured",
    batches=inputs(((126, 768),)),
    first=first_inputs(((126, 768),)),
    weights=weights(((768, 3072),)),
    numpy=_numpy_matmul,
    torch=_torch_matmul,
)
MLP_B1, MLP_B32 = _mlp(1), _mlp(32)
DYNAMIC_LENGTHS = dynamic_lengths("dynamic_lengths", batch=8, width=1024)
