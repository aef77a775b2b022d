"""What users allow kernels, and what tracing and transforms assume of memory."""

from __future__ import annotations

from dataclasses import dataclass

from zenith.errors import ArgumentError
from zenith.ir.types import DType, bfloat16, float16

# The types to which operands of float32 products are rounded.
PRECISIONS: dict[str, DType | None] = {"exact": None, "bf16": bfloat16, "fp16": float16}
HOST_TRAFFIC, GPU_TRAFFIC = 2, 16  # operations that take as long as moving a byte to memory and back, about


@dataclass(frozen=True, slots=True)
class Numerics:
    """The numerical freedom that a user gives kernels for speed.

    On a GPU ``repeatable`` results have equal bits in equal calls, whatever runs concurrently, as long as arguments are
    aligned alike; with ``tf32`` products of float32 may round their operands to TF32. On a CPU convolutions may have a
    relative error of ``error_budget``, which :mod:`zenith.backends.lower.convolution.winograd_transforms` defines.
    With the ``precision`` "bf16" or "fp16" products of float32 round their operands to bfloat16 or float16.
    """

    repeatable: bool = True
    tf32: bool = False
    error_budget: float = 0.0
    precision: str = "exact"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ArgumentError(f"precision={self.precision!r} is none that is known",
                                fix=f"choose one of {', '.join(map(repr, PRECISIONS))}")  # fmt: skip
        if not 0 <= self.error_budget < 1:
            raise ArgumentError(f"error_budget={self.error_budget!r} is no relative error",
                                fix="give a number such as 1e-5; 0 allows none")  # fmt: skip


EXACT = Numerics()
