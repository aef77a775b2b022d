"""Kernels that ``zenith.kernels`` names and no other workload times: relu, attention, products of float16."""

from __future__ import annotations

from typing import Any

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


def halves(shapes: Shapes, seed: int, scale: float = 1.0) -> Arrays:
    """Float16 arrays from a normal distribution of deviation ``scale``."""
    return tuple((x * scale).astype("float16") for x in normal(shapes, seed))


def of_halves(shapes: Shapes) -> dict[str, Any]:
    """A workload's arguments, of the same sizes in all calls, in float16."""
    return {"batches": lambda: [halves(shapes, seed=1)], "first": lambda: halves(shapes, seed=2)}


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
