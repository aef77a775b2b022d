"""The CPU as a target: what lowering may know of it."""

from __future__ import annotations

from zenith.backends.cpu.product_schedule import choose
from zenith.backends.cpu.vectors import select
from zenith.backends.target import Target
from zenith.ir.numerics import PRECISIONS


def cpu_target(isa: str | None = None, error_budget: float = 0.0, precision: str = "exact") -> Target:
    """This processor, or the instruction set ``isa`` of it (``avx512``, ``avx2``, ``portable``).

    Convolutions may have a relative error of ``error_budget``; ``precision`` is that of products of float32.
    """
    chosen = select(isa)
    return Target(
        f"cpu-{chosen.name}", lambda dtype, columns, stored=None: choose(dtype, chosen, columns, stored),
        error_budget=error_budget, sequential=True, sized_loops=True, reduces_vectors=True, multiplies_bytes=True,
        rounds_to=PRECISIONS[precision], inner_loops=True,
    )  # fmt: skip
