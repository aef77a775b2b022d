"""Programs that reduce and normalise rows."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.layers import layer_norm, softmax, torch_layer_norm
from benchmarks.workloads.workload import Array, Arrays, Program, Workload, first_inputs, inputs, weights


def _torch_softmax() -> Any:
    import torch

    return torch.nn.Softmax(dim=-1)


def _numpy_softmax(_: Arrays, np: Any) -> Program:
    def program(x: Array) -> Array:
        return softmax(x, np)

    return program


def _numpy_layernorm(arrays: Arrays, np: Any) -> Program:
    scale, shift = arrays

    def program(x: Array) -> Array:
        return layer_norm(x, scale, shift, np)

    return program


def _numpy_layernorm_softmax(arrays: Arrays, np: Any) -> Program:
    scale, shift = arrays

    def program(x: Array) -> Array:
        return softmax(layer_norm(x, scale, shift, np), np)

    return program


def _torch_layernorm_softmax(arrays: Arrays) -> Any:
    import torch

    return torch.nn.Sequential(torch_layer_norm(*arrays), _torch_softmax())


SOFTMAX = Workload(
    name="softmax",
    description="softmax over the rows of 1024x1024",
    batches=inputs(((1024, 1024),)),
    first=first_inputs(((1024, 1024),)),
    torch=lambda _: _torch_softmax(),
    numpy=_numpy_softmax,
)
LAYERNORM = Workload(
    name="layernorm",
    description="layernorm over the rows of 512x768",
    batches=inputs(((512, 768),)),
    first=first_inputs(((512, 768),)),
    weights=weights(((768,), (768,))),
    torch=lambda arrays: torch_layer_norm(*arrays),
    numpy=_numpy_layernorm,
)
LAYERNORM_SOFTMAX = Workload(
    name="layernorm_softmax",
    description="softmax(layernorm(x)) over the rows of 4096x1024",
    batches=inputs(((4096, 1024),)),
    first=first_inputs(((5, 1024),)),
    weights=weights(((1024,), (1024,))),
    torch=_torch_layernorm_softmax,
    numpy=_numpy_layernorm_softmax,
)
