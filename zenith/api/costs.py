"""Costs: what a plan computes, moves and stores, as formulas of the sizes, and as numbers once sizes are known."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zenith.api.tables import Shown, table
from zenith.backends.plan import Plan
from zenith.backends.steps import BranchStep, CallStep, Either, LaunchStep, LoopStep, Step
from zenith.backends.work import NO_WORK, Work, bytes_of
from zenith.errors import SourceLine
from zenith.ir.dims import Dim, dim, maximum
from zenith.ir.types import ArrayType

if TYPE_CHECKING:
    from rich.console import RenderableType

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class KernelCost:
    """One launch: the kernel's name, the user's lines, and its work. Sizes are Dims, which equal ints when known."""

    kernel: str
    lines: tuple[SourceLine, ...]
    operations: Dim
    bytes_read: Dim
    bytes_written: Dim

    @property
    def where(self) -> str:
        """The user's lines as ``file:line``."""
        return ", ".join(dict.fromkeys(map(str, self.lines)))


@dataclass(frozen=True, repr=False)
class CostAnalysis(Shown):
    """Operations and bytes of one call, per kernel and in total. ``str`` and rich show it as a table.

    Operations are the program's own: one for an addition or a reduced element, about 14 for an exponential (each
    primitive's record says it), ``2*m*n*k`` for a product. Bytes are those of the buffers that a kernel reads and
    writes, each counted once. Work on weights alone is done once, at linking, and not counted. A loop counts all its
    steps, or one where a condition ends it; branches count as the most that one of them does. Where sizes decide
    between a library and kernels, the library counts.

    Attributes
    ----------
    kernels: the launches of a call, in order.
    operations, bytes_read, bytes_written: totals, formulas of the sizes; ints are equal to Dims of their value.
    """

    kernels: tuple[KernelCost, ...]

    @property
    def operations(self) -> Dim:
        """The sum over the kernels."""
        return sum((k.operations for k in self.kernels), dim(0))

    @property
    def bytes_read(self) -> Dim:
        """The sum over the kernels."""
        return sum((k.bytes_read for k in self.kernels), dim(0))

    @property
    def bytes_written(self) -> Dim:
        """The sum over the kernels."""
        return sum((k.bytes_written for k in self.kernels), dim(0))

    def at(self, sizes: Sizes) -> CostAnalysis:
        """The same with numbers for the sizes."""
        return CostAnalysis(tuple(
            KernelCost(k.kernel, k.lines, *(s.substitute(sizes) for s in (k.operations, k.bytes_read, k.bytes_written)))
            for k in self.kernels
        ))  # fmt: skip

    def __rich__(self) -> RenderableType:
        rows = [(k.kernel, k.operations, k.bytes_read, k.bytes_written, k.where) for k in self.kernels]
        rows.append(("total", self.operations, self.bytes_read, self.bytes_written, ""))
        return table("cost of a call", ("kernel", "operations", "bytes read", "bytes written", "lines"), rows)


@dataclass(frozen=True, repr=False)
class MemoryAnalysis(Shown):
    """Bytes that a program needs: formulas of the sizes. ``str`` and rich show it as a table.

    Attributes
    ----------
    arguments, results: the caller's arrays.
    constants: captured arrays and weights.
    packed: copies of them in the layouts that kernels read, made at linking, such as panels of a product's weights.
    arena: memory that a call leases for what passes between kernels; concurrent calls lease one each.
    """

    arguments: Dim
    results: Dim
    constants: Dim
    packed: Dim
    arena: Dim

    def at(self, sizes: Sizes) -> MemoryAnalysis:
        """The same with numbers for the sizes."""
        return MemoryAnalysis(*(size.substitute(sizes) for _, size in self._rows()))

    def _rows(self) -> list[tuple[str, Dim]]:
        return [(name, getattr(self, name)) for name in ("arguments", "results", "constants", "packed", "arena")]

    def __rich__(self) -> RenderableType:
        return table("memory", ("what", "bytes"), self._rows())


def cost_analysis(plan: Plan) -> CostAnalysis:
    """The cost of every step of a plan."""
    return CostAnalysis(tuple(_step_cost(step) for step in plan.steps))


def _step_cost(step: Step) -> KernelCost:
    work = _work(step)
    if isinstance(step, LaunchStep):
        name, lines = step.kernel.name, step.lines
    elif isinstance(step, LoopStep | BranchStep):
        name, lines = "loop" if isinstance(step, LoopStep) else "branch", step.lines
    elif isinstance(step, Either):
        name, lines = ", ".join(_step_cost(call).kernel for call in step.steps), step.lines
    else:
        name, lines = str(step.routine), step.lines
    return KernelCost(name, lines, work.operations, work.read, work.written)


def _work(step: Step) -> Work:
    """The work of a step and of all steps inside it."""
    match step:
        case LaunchStep(work=work) | CallStep(work=work):
            return work
        case Either(steps=steps):
            return sum(map(_work, steps), NO_WORK)
        case LoopStep(count=count, condition=condition, steps=steps, index=index):
            times = dim(1) if count is None else count
            once = sum(map(_work, (*condition, *steps)), NO_WORK)
            middle = {index: (times - 1) // 2}
            once = Work(*(part.substitute(middle) for part in (once.operations, once.read, once.written)))
            return Work(once.operations * times, once.read * times, once.written * times)
        case BranchStep(branches=branches):
            each = [sum(map(_work, steps), NO_WORK) for steps in branches]
            return functools.reduce(_most, each)
    raise AssertionError(step)


def _most(a: Work, b: Work) -> Work:
    pairs = (a.operations, b.operations), (a.read, b.read), (a.written, b.written)
    return Work(*(maximum(x, y) for x, y in pairs))


def memory_analysis(plan: Plan, arguments: tuple[ArrayType, ...]) -> MemoryAnalysis:
    """The memory of a plan for arguments of these types."""
    stored = [dim(a.nbytes) for a in plan.constants.values()] + [bytes_of([w.type]) for w in plan.weights.values()]
    packed = [dim(count * dtype.itemsize) for p in plan.prepared for _, dtype, count in p.results]
    results = bytes_of([type for _, type in plan.outputs])
    return MemoryAnalysis(bytes_of(arguments), results, sum(stored, dim(0)), sum(packed, dim(0)), plan.arena)
