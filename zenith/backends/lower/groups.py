"""The one table from a group's kind to the function that makes its kernels."""

from __future__ import annotations

from collections.abc import Callable, Collection
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

# A body, the target, and the inputs that are the same in every call.
LOWER: dict[str, Callable[[Graph, Target, Collection[str]], list[Kernel]]] = {
    "loops": lambda body, target, fixed: lower_loops(body),
    "rows": lambda body, target, fixed: lower_rows(body),
    "columns": lambda body, target, fixed: lower_columns(body),
    "scatter": lambda body, target, fixed: lower_scatter(body),
    "product": lower_product,
}


@dataclass(frozen=True, slots=True)
class Lowered:
    """A group's kernels in order of execution, and the buffers that live only between them."""

    kernels: tuple[Kernel, ...]
    temporaries: tuple[Buffer, ...]


def lower_group(body: Graph, kind: str, target: Target, fixed: Collection[str] = ()) -> Lowered:
    """The kernels of a fused body; their buffers are the body's inputs by name, ``out0`` ... and temporaries.

    ``fixed`` names the inputs that are the same in every call.
    """
    kernels = tuple(map(named, LOWER[kind](body, target, fixed)))
    written = {b.name: b for kernel in kernels for b in kernel.buffers if b.role == "temporary"}
    return Lowered(kernels, tuple(written.values()))
