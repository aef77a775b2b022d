"""The one table from a group's kind to the function that makes its kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zenith.backends.kernel import Buffer, Kernel
from zenith.backends.lower.columns import lower_columns
from zenith.backends.lower.loops import lower_loops
from zenith.backends.lower.rows import lower_rows
from zenith.backends.lower.scatter import lower_scatter
from zenith.ir.graph import Graph

LOWER: dict[str, Callable[[Graph, str], list[Kernel]]] = {
    "loops": lower_loops,
    "rows": lower_rows,
    "columns": lower_columns,
    "scatter": lower_scatter,
}


@dataclass(frozen=True, slots=True)
class Lowered:
    """A group's kernels in order of execution, and the buffers that live only between them."""

    kernels: tuple[Kernel, ...]
    temporaries: tuple[Buffer, ...]


def lower_group(body: Graph, kind: str) -> Lowered:
    """The kernels of a fused body; their buffers are the body's inputs by name, ``out0`` ... and temporaries."""
    kernels = tuple(LOWER[kind](body, "kernel"))
    written: dict[str, Buffer] = {}
    for kernel in kernels:
        written.update({b.name: b for b in kernel.buffers if b.role == "temporary"})
    return Lowered(kernels, tuple(written.values()))
