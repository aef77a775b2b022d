"""Calls in a plan of what no kernel of ours computes: inner loops of NumPy's, native functions, Python.

The first two are calls that kernels make, so that they may stand in loops; Python is called between kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.backends.lower.engine_table import temporaries
from zenith.backends.lower.inner_loop import lower_inner_loop
from zenith.backends.lower.native import lower_native
from zenith.backends.plan_builder import PlanBuilder
from zenith.backends.steps import Allocation, CallStep
from zenith.backends.work import Work, bytes_of
from zenith.errors import UnsupportedError
from zenith.ir.dims import dim
from zenith.ir.graph import Node
from zenith.ir.lowering import HostCall, InnerLoop, NativeCall
from zenith.ir.types import ArrayType, Type


def plan_call(builder: PlanBuilder, number: int, node: Node) -> None:
    """The steps of a node that calls Python, a library or a native function."""
    loops = _inner_loops(builder, number, node)
    if isinstance(node.primitive.lowering, NativeCall):
        _call_native(builder, number, node)
    elif loops:
        _call_inner_loops(builder, number, node, loops)
    else:
        _call_python(builder, number, node)


def _arrays(types: Iterable[Type]) -> list[ArrayType]:
    return [t for t in types if isinstance(t, ArrayType)]


def _inner_loops(builder: PlanBuilder, number: int, node: Node) -> Sequence[InnerLoop]:
    """The loops that compute a node without Python; none where it has none, or the target calls none."""
    lowering = node.primitive.lowering
    if not isinstance(lowering, HostCall) or not callable(lowering.inner_loops) or not builder.target.inner_loops:
        return ()
    return lowering.inner_loops(_arrays(a.type for a in builder.graph.args(number)), _arrays(node.types), node.params)


def _bound(builder: PlanBuilder, number: int) -> dict[str, Allocation]:
    """The memory of operands and results, by the names that kernels have for them."""
    bound = {f"p{i}": builder.buffers.of(a) for i, a in enumerate(builder.graph.args(number))}
    return bound | {f"out{i}": result for i, result in enumerate(builder.buffers.put_results(number))}


def _call_inner_loops(builder: PlanBuilder, number: int, node: Node, loops: Sequence[InnerLoop]) -> None:
    """Kernels for each loop, one after the other on the result."""
    given, made = _arrays(a.type for a in builder.graph.args(number)), _arrays(node.types)
    bound = _bound(builder, number)
    for turn, loop in enumerate(loops):
        operands, used = made[:1] if turn else given, dict(bound)
        kernels = lower_inner_loop(node.primitive.name, loop, operands, made, in_place=turn > 0)
        for kernel in kernels:
            read = bytes_of(b.type for b in kernel.buffers if b.role == "in" or (turn and b.role == "out"))
            written = bytes_of(b.type for b in kernel.buffers if b.role == "out")
            builder.add_kernel(kernel, used, node.lines, Work(kernel.operations or dim(0), read, written))
        builder.give_back(temporaries(kernels), used)


def _call_native(builder: PlanBuilder, number: int, node: Node) -> None:
    """A kernel of its own, which reads the function's address from the program's constants."""
    function, args = node.params["function"], builder.graph.args(number)
    address = builder.add_constant(f"address of {function.name}", np.array([function.address]))
    kernel = lower_native(function.label, [a.type for a in args], node.types, node.params["mapped"])
    read, written = (bytes_of(b.type for b in kernel.buffers if b.role == role) for role in ("in", "out"))
    bound = {**_bound(builder, number), kernel.buffers[-1].name: address}
    builder.add_kernel(kernel, bound, node.lines, Work(dim(0), read, written))


def _call_python(builder: PlanBuilder, number: int, node: Node) -> None:
    if builder.is_inside:
        what = f"{node.primitive.name} inside a loop or branch: the program runs these without Python"
        raise UnsupportedError(what, where=node.line, fix="return the values, and use them after the loop")
    arrays = [a for a in builder.graph.args(number) if isinstance(a.type, ArrayType)]
    results = builder.buffers.put_results(number)
    allocations = (*map(builder.buffers.of, arrays), *results)
    types = _arrays((*(a.type for a in arrays), *node.types))
    builder.steps.append(CallStep.of(node, allocations, types, builder.target.libraries))
