"""Sorting a million numbers, stably: the elements, and their indices."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.workload import Array, Arrays, Program, Workload, first_inputs, inputs

SIZE = 1_000_000


def _numpy_sort(_: Arrays, np: Any) -> Program:
    def sort(x: Array) -> Array:
        result: Array = np.sort(x, stable=True)
        return result

    return sort


def _numpy_argsort(_: Arrays, np: Any) -> Program:
    def argsort(x: Array) -> Array:
        result: Array = np.argsort(x, stable=True)
        return result

    return argsort


def _torch_sort(result: int) -> Any:
    def make(_: Arrays) -> Any:
        import torch

        class Sort(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.sort(x, stable=True)[result]

        return Sort()

    return make


SORT = Workload(
    name="sort",
    description="a stable sort of 1e6 floats",
    batches=inputs(((SIZE,),)),
    first=first_inputs(((1000,),)),
    torch=_torch_sort(0),
    numpy=_numpy_sort,
    bound=0.0,
)
ARGSORT = Workload(
    name="argsort",
    description="the places of 1e6 floats in order, stably",
    batches=inputs(((SIZE,),)),
    first=first_inputs(((1000,),)),
    torch=_torch_sort(1),
    numpy=_numpy_argsort,
    bound=0.0,
)
