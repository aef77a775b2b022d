"""Native calls: a kernel that calls a foreign function, once for each example, which is a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zenith.backends.emit import named
from zenith.backends.kernel import Buffer, CallNative, Kernel, TaskLoop
from zenith.ir.dims import dim, product, symbol
from zenith.ir.types import ArrayType, int64

COST = 1 << 20  # unknown; large, so that each task may run on a thread of its own


def lower_native(label: str, operands: Sequence[Any], results: Sequence[Any], mapped: int) -> Kernel:
    """A kernel that calls the function for each example, with addresses and sizes of operands and results.

    The last buffer has the function's address.
    """
    types: list[ArrayType] = [*operands, *results]
    symbols = tuple(sorted({s for t in types for size in t.shape for s in size.symbols()}))
    function, task = (_fresh(name, symbols) for name in ("function", "example"))
    names = [f"p{i}" for i in range(len(operands))] + [f"out{i}" for i in range(len(results))]
    roles = ["in"] * len(operands) + ["out"] * len(results)
    buffers = [Buffer(n, t.dtype, t.size, role) for n, t, role in zip(names, types, roles, strict=True)]
    buffers.append(Buffer(function, int64, dim(1), "in"))
    elements = tuple((n, symbol(task) * product(t.shape[mapped:])) for n, t in zip(names, types, strict=True))
    sizes = tuple(size for t in types for size in t.shape[mapped:])
    tasks = product(types[-1].shape[:mapped])
    body = TaskLoop(task, tasks, None, (), (CallNative(function, elements, sizes),), False)
    return named(Kernel("kernel", label, tuple(buffers), symbols, tasks, dim(COST), (body,)))


def _fresh(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name
