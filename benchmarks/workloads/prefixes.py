"""Running sums: one long row, and the rows and columns of a matrix."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.workload import Array, Arrays, Program, Workload, first_inputs, inputs

COUNT, SIDE = 1_000_000, 1000


def _numpy(axis: int) -> Any:
    def program(_: Arrays, np: Any) -> Program:
        def running_sums(x: Array) -> Array:
            result: Array = np.cumsum(x, axis=axis)
            return result

        return running_sums

    return program


def _torch(axis: int) -> Any:
    def module(_: Arrays) -> Any:
        import torch

        class RunningSums(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return torch.cumsum(x, axis)

        return RunningSums()

    return module


CUMSUM = Workload(
    name="cumsum",
    description="the running sums of 1e6 floats",
    batches=inputs(((COUNT,),)),
    first=first_inputs(((1000,),)),
    torch=_torch(0),
    numpy=_numpy(0),
    bound=1e-4,  # NumPy adds one after the other: of a million, its last sums are off by 1.6e-5
    bytes=2 * 4 * COUNT,
)
CUMSUM_ROWS = Workload(
    name="cumsum_rows",
    description="the running sums of each row, 1000x1000 floats",
    batches=inputs(((SIDE, SIDE),)),
    first=first_inputs(((100, 300),)),
    torch=_torch(1),
    numpy=_numpy(1),
    bytes=2 * 4 * SIDE * SIDE,
)
