"""Sequential loops in a plan: a loop over scalars as launches of the kernels that contain it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zenith.backends.engines import Choice
from zenith.backends.lower.sequential.arrays import Unsuitable
from zenith.backends.lower.sequential.counters import integer_of
from zenith.backends.lower.sequential.program import lower_sequential
from zenith.backends.plan_builder import PlanBuilder
from zenith.backends.steps import Allocation, LaunchStep
from zenith.backends.work import Work, bytes_of
from zenith.ir.dims import dim
from zenith.ir.graph import Node
from zenith.ir.types import ArrayType

LOOPS = ("scan", "while_loop")


def plan_sequential(
    builder: PlanBuilder, number: int, node: Node, args: Sequence[Allocation], results: Sequence[Allocation]
) -> bool:
    """A loop over scalars as kernels; False where it is none."""
    if not builder.target.sequential or node.primitive.name not in LOOPS:
        return False
    values = builder.graph.args(number)
    known = ((i, integer_of(builder.graph, a)) for i, a in enumerate(values))
    integers = {i: value for i, value in known if value is not None}
    shared = [(i, k) for i, a in enumerate(args) for k, result in enumerate(results) if a == result]
    types = [v.type for v in values if isinstance(v.type, ArrayType)]
    try:
        loop = lower_sequential(node, types, integers, builder.depth, builder.facts, shared)
    except Unsuitable as why:
        _note(builder, "driver", ("sequential", str(why)), (), node)
        return False
    for argument, k in loop.copied:
        if args[argument] != results[k]:
            builder.copy(values[argument], args[argument], results[k], node.line)
    bound = {f"p{i}": a for i, a in enumerate(args)} | {f"out{k}": r for k, r in enumerate(results)}
    for kernel in loop.kernels:
        moved = (bytes_of(b.type for b in kernel.buffers if (b.role == "in") == read) for read in (True, False))
        found = tuple(bound[b.name] for b in kernel.buffers)
        builder.steps.append(LaunchStep(kernel, found, node.lines, Work(dim(0), *moved)))
    refused = ("parallel", loop.dependence) if loop.dependence else None
    _note(builder, "sequential" if refused else "parallel", refused, [k.name for k in loop.kernels], node)
    return True


def _note(
    builder: PlanBuilder, engine: str, refused: tuple[str, str] | None, kernels: Iterable[str], node: Node
) -> None:
    """Note which engine a loop has, and why not the one before."""
    builder.note_group(Choice("loop", engine, (refused,) if refused else ()), kernels, node.lines)
