"""Kernels that ``zenith.kernels`` names and no other workload times: relu, attention, products of float16."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy

from benchmarks.workloads.workload import (
    Array,
    Arrays,
    Program,
    Shapes,
    Workload,
    first_inputs,
    inputs,
    normal,
)

HEADS, KEYS, HEAD = 8, 512, 64  # of attention
BFLOAT16 = ml_dtypes.bfloat16


def halves(shapes: Shapes, seed: int, scale: float = 1.0, dtype: Any = "float16") -> Arrays:
    """16-bit arrays from a normal distribution of deviation ``scale``."""
    return tuple((x * numpy.float32(scale)).astype(dtype) for x in normal(shapes, seed))


def of_halves(shapes: Shapes, dtype: Any = "float16") -> dict[str, Any]:
    """A workload's arguments, of the same sizes in all calls, in a 16-bit type."""
    return {"batches": lambda: [halves(shapes, 1, dtype=dtype)], "first": lambda: halves(shapes, 2, dtype=dtype)}


def _numpy_relu(_: Arrays, np: Any) -> Program:
    def relu(x: Array) -> Array:
        result: Array = np.maximum(x, 0)
        return result

    return relu


def _torch_relu(_: Arrays) -> Any:
    import torch

    return torch.nn.ReLU()


def _numpy_attention(_: Arrays, np: Any) -> Program:
    def attention(q: Array, k: Array, v: Array) -> Array:
        scores = q @ np.swapaxes(k, -1, -2) * HEAD**-0.5
        powers = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        found: Array = (powers / np.sum(powers, axis=-1, keepdims=True)) @ v
        return found

    return attention


def _torch_attention(_: Arrays) -> Any:
    import torch

    class Attention(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return Attention()


def _numpy_product(_: Arrays, np: Any) -> Program:
    def product(x: Array, y: Array) -> Array:
        result: Array = x.astype(np.float32) @ y.astype(np.float32)
        return result

    return product


def _torch_product(_: Arrays) -> Any:
    import torch

    class Product(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.mm(x.float(), y.float())

    return Product()


RELU = Workload(
    name="relu",
    description="W7: relu over 1024x1024",
    batches=inputs(((1024, 1024),)),
    first=first_inputs(((1024, 1024),)),
    numpy=_numpy_relu,
    torch=_torch_relu,
)
ATTENTION = Workload(
    name="attention",
    description="W7: attention, 8 heads of 64, 512 queries and keys",
    batches=inputs(((HEADS, KEYS, HEAD),) * 3),
    first=first_inputs(((HEADS, KEYS, HEAD),) * 3),
    numpy=_numpy_attention,
    torch=_torch_attention,
)
MATMUL_HALVES = Workload(
    name="matmul_halves",
    description="W7: 128x64 @ 64x256, float16 to float32",
    **of_halves(((128, 64), (64, 256))),
    numpy=_numpy_product,
    torch=_torch_product,
)
