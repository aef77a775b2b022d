"""A network that is worth quantising: its time goes into reading and multiplying six matrices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy

from benchmarks.workloads.layers import torch_linear
from benchmarks.workloads.workload import Array, Arrays, Program, Workload, first_inputs, inputs, normal

WIDTHS = (768, 3072, 768, 3072, 768, 3072, 768)
BATCH, BATCHES = 32, 50
SPREAD = 0.02  # of the weights; biases are zero


def _weights() -> Arrays:
    shapes = tuple((after, before) for before, after in pairwise(WIDTHS))
    return tuple(w * numpy.float32(SPREAD) for w in normal(shapes, seed=3))


def _calibration() -> Sequence[Arrays]:
    return [normal(((BATCH, WIDTHS[0]),), seed=100 + number) for number in range(BATCHES)]


def _numpy(arrays: Arrays, np: Any) -> Program:
    def mlp(x: Array) -> Array:
        for number, w in enumerate(arrays):
            x = x @ w.T
            if number < len(arrays) - 1:
                x = np.maximum(x, 0)
        return x

    return mlp


def _torch(arrays: Arrays) -> Any:
    import torch

    layers: list[Any] = []
    for w in arrays:
        layers += [torch_linear(w, numpy.zeros(w.shape[0], w.dtype)), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


MLP_INT8 = Workload(
    name="mlp_int8",
    description="six linear layers 768 <-> 3072 with relu between, batch 32, in 8-bit integers where a contender has "
    "them: percentiles or each library's own ranges, over 50 batches",
    batches=inputs(((BATCH, WIDTHS[0]),)),
    first=first_inputs(((BATCH, WIDTHS[0]),)),
    torch=_torch,
    numpy=_numpy,
    weights=_weights,
    calibration=_calibration,
    bound=0.05,
)
