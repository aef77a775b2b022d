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
            self.weight = torch.nn.Parameter(torch.from_numpy(arrays[0]))

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

    parts: list[torch.nn.Module] = []
    for i in range(0, len(arrays), 4):
        w, b, scale, shift = arrays[i : i + 4]
        parts += [torch_linear(w, b), torch_layer_norm(scale, shift), torch_gelu()]
    return torch.nn.Sequential(*parts)


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


def _sequences() -> Sequence[Arrays]:
    """Dense arrays of all lengths over one memory: fifty of their own would take a gigabyte."""
    (longest,) = normal(((8 * max(LENGTHS) * 1024,),), seed=1)
    return [(longest[: 8 * length * 1024].reshape(8, length, 1024),) for length in LENGTHS]


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
DYNAMIC_LENGTHS = Workload(
    name="dynamic_lengths",
    description="linear, gelu, linear, 1024 wide, batch 8, a pass over 50 random lengths from 100 to 1000",
    batches=_sequences,
    first=first_inputs(((8, FIRST_LENGTH, 1024),)),
    weights=weights(((1024, 1024), (1024,), (1024, 1024), (1024,))),
    numpy=_numpy_two_layers,
    torch=_torch_two_layers,
    long=True,
    varied=True,
)
