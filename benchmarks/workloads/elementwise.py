"""Elementwise programs, from a long chain over millions of elements to one addition of eight."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.layers import gelu, torch_gelu
from benchmarks.workloads.workload import Array, Arrays, Program, Workload, first_inputs, inputs

_GELU = "(0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))))"


def _numpy_chain(_: Arrays, np: Any) -> Program:
    def chain(x: Array) -> Array:
        result: Array = 1 / (1 + np.exp(-np.exp(np.tanh(gelu(x, np)))))
        return result

    return chain


def _torch_chain(_: Arrays) -> Any:
    import torch

    class Chain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(torch.exp(torch.tanh(torch.nn.functional.gelu(x, approximate="tanh"))))

    return Chain()


def _numpy_gelu(_: Arrays, np: Any) -> Program:
    def activation(x: Array) -> Array:
        return gelu(x, np)

    return activation


def _numpy_add(_: Arrays, np: Any) -> Program:
    def add(a: Array, b: Array) -> Array:
        return a + b

    return add


def _torch_add(_: Arrays) -> Any:
    import torch

    class Add(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a + b

    return Add()


CHAIN = Workload(
    name="chain",
    description="sigmoid(exp(tanh(gelu(x)))) over 4 M floats",
    batches=inputs(((4 * 1024 * 1024,),)),
    first=first_inputs(((1000,),)),
    torch=_torch_chain,
    numpy=_numpy_chain,
    expression=f"1 / (1 + exp(-exp(tanh({_GELU}))))",
)
GELU = Workload(
    name="gelu",
    description="gelu(x), tanh form, over 1024x1024",
    batches=inputs(((1024, 1024),)),
    first=first_inputs(((1024, 1024),)),
    torch=lambda _: torch_gelu(),
    numpy=_numpy_gelu,
    expression=_GELU,
)
TINY_CALL = Workload(
    name="tiny_call",
    description="a + b on 8 floats: what a call costs",
    batches=inputs(((8,), (8,))),
    first=first_inputs(((3,), (3,))),
    torch=_torch_add,
    numpy=_numpy_add,
    expression="a + b",
)
