"""The one table from a group's kind to the function that makes its kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zenith.backends.emit import named
from zenith.backends.kernel import Buffer, Kernel
from zenith.backends.lower.columns import lower_columns
from zenith.backends.lower.loops import lower_loops
from zenith.backends.lower.product import lower_product
from zenith.backends.lower.rows import lower_rows
from zenith.backends.lower.scatter import lower_scatter
from zenith.ir.graph import Graph
from zenith.ir.target import Target

LOWER: dict[str, Callable[[Graph, Target], list[Kernel]]] = {
    "loops": lambda body, target: lower_loops(body),
    "rows": lambda body, target: lower_rows(body),
    "columns": lambda body, target: lower_columns(body),
    "scatter": lambda body, target: lower_scatter(body),
    "product": lower_product,
}


@dataclass(frozen=True, slots=True)
class Lowered:
    """A group's kernels in order of execution, and the buffers that live only between them."""

    kernels: tuple[Kernel, ...]
    temporaries: tuple[Buffer, ...]


def lower_group(body: Graph, kind: str, target: Target) -> Lowered:
    """The kernels of a fused body; their buffers are the body's inputs by name, ``out0`` ... and temporaries."""
    kernels = tuple(map(named, LOWER[kind](body, target)))
    written = {b.name: b for kernel in kernels for b in kernel.buffers if b.role == "temporary"}
    return Lowered(kernels, tuple(written.values()))
