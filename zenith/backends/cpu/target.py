"""The CPU as a target: what lowering may know of it."""

from __future__ import annotations

from zenith.backends.cpu.schedule import choose
from zenith.backends.cpu.vectors import select
from zenith.ir.target import Target


def cpu_target(isa: str | None = None) -> Target:
    """This processor, or the instruction set ``isa`` of it (``avx512``, ``avx2``, ``portable``)."""
    chosen = select(isa)
    return Target(f"cpu-{chosen.name}", lambda dtype, columns: choose(dtype, chosen, columns))
