"""Gather and scatter of a million elements at indices in random order: set, add, and maximum."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.workload import Array, Arrays, Program, Workload

SIZE = 1_000_000


def _arrays(size: int, count: int) -> Arrays:
    """So many arrays of floats, and indices into them, some of which repeat."""
    rng = np.random.default_rng(size)
    floats = [rng.standard_normal(size).astype(np.float32) for _ in range(count)]
    return (*floats, rng.integers(0, size, size))


def _numpy_gather(_: Arrays, np: Any) -> Program:
    def gather(x: Array, indices: Array) -> Array:
        result: Array = x[indices]
        return result

    return gather


def _numpy_scatter(function: str) -> Any:
    """A write at indices, by another method in ``jax.numpy``, whose arrays cannot be written."""

    def make(_: Arrays, np: Any) -> Program:
        def scatter(x: Array, values: Array, indices: Array) -> Array:
            if np.__name__.startswith("jax"):
                changed: Array = getattr(x.at[indices], function)(values)  # type: ignore[attr-defined]
                return changed
            result = x.copy()
            if function == "set":
                result[indices] = values
            else:
                {"add": np.add, "max": np.maximum}[function].at(result, indices, values)
            return result

        return scatter

    return make


def _torch_gather(_: Arrays) -> Any:
    import torch

    class Gather(torch.nn.Module):
        def forward(self, x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
            return x[indices]

    return Gather()


def _torch_add(_: Arrays) -> Any:
    import torch

    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor, values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
            return torch.index_add(x, 0, indices, values)

    return Add()


def _torch_max(_: Arrays) -> Any:
    import torch

    class Max(torch.nn.Module):
        def forward(self, x: torch.Tensor, values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
            return torch.scatter_reduce(x, 0, indices, values, "amax")

    return Max()


def _torch_set(_: Arrays) -> Any:
    import torch

    class Set(torch.nn.Module):
        def forward(self, x: torch.Tensor, values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
            return torch.index_put(x, (indices,), values)

    return Set()


def _without_repetition(size: int) -> Arrays:
    """Indices that do not repeat: which value stays is NumPy's and Zenith's promise, not that of others."""
    *floats, _ = _arrays(size, 2)
    return (*floats, np.random.default_rng(size).permutation(size))


GATHER = Workload(
    name="gather",
    description="1e6 floats read at places in random order",
    batches=lambda: [_arrays(SIZE, 1)],
    first=lambda: _arrays(1000, 1),
    torch=_torch_gather,
    numpy=_numpy_gather,
    bound=0.0,
)
SCATTER_SET = Workload(
    name="scatter_set",
    description="1e6 floats written over at places in random order",
    batches=lambda: [_without_repetition(SIZE)],
    first=lambda: _without_repetition(1000),
    torch=_torch_set,
    numpy=_numpy_scatter("set"),
    bound=0.0,
)
SCATTER_ADD = Workload(
    name="scatter_add",
    description="1e6 floats added at places in random order",
    batches=lambda: [_arrays(SIZE, 2)],
    first=lambda: _arrays(1000, 2),
    torch=_torch_add,
    numpy=_numpy_scatter("add"),
)
SCATTER_MAX = Workload(
    name="scatter_max",
    description="1e6 floats, the larger of two at places in random order",
    batches=lambda: [_arrays(SIZE, 2)],
    first=lambda: _arrays(1000, 2),
    torch=_torch_max,
    numpy=_numpy_scatter("max"),
    bound=0.0,
)
