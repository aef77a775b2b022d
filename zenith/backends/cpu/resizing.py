"""Sizes that differ from iteration to iteration of a loop: a kernel at its beginning computes them for this one.

The loop's index is such a size. What launches and loops inside need of it, numbers of tasks, strides, offsets, are
expressions, which the kernel writes next to each other; the driver then moves them into the blocks of these rows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from zenith.backends.emit import named
from zenith.backends.expressions import Apply, Expr, Load, Position
from zenith.backends.kernel import Buffer, Kernel, Let, Statement, Store
from zenith.backends.steps import Allocation, LaunchStep, LoopStep, Slice, walk
from zenith.backends.terms import named_terms
from zenith.ir import dims as dims_
from zenith.ir.dims import Dim, dim
from zenith.ir.types import int64

if TYPE_CHECKING:
    from zenith.backends.cpu.program import Step

TURN, SIZES = "turn", "sizes"  # kinds of allocations in the frame, named by a loop's index: its counters, its sizes
_WORD = re.compile(r"[^\W\d]\w*")


def symbols(expression: str) -> set[str]:
    """The names in an expression of sizes."""
    return {*_WORD.findall(expression)} - {"max", "min"}


def stride(loop: LoopStep[Step, str], slice: Slice[str]) -> str:
    """How many bytes a slice of an array advances from iteration to iteration."""
    return f"-({slice.length})" if _goes_back(loop) else slice.length


def offset(loop: LoopStep[Step, str], slice: Slice[str]) -> str:
    """Where in its array the first iteration's slice begins, in bytes."""
    return f"({loop.count} - 1)*({slice.length})" if _goes_back(loop) else "0"


def _goes_back(loop: LoopStep[Step, str]) -> bool:
    return loop.reverse and loop.count is not None


def sizes_in(steps: Sequence[Step]) -> list[str]:
    """The expressions of sizes in steps, each once."""
    return list(dict.fromkeys(size for step in walk(steps) for size in _sizes_of(step)))


def _sizes_of(step: Step) -> Iterator[str]:
    if isinstance(step, LoopStep):
        yield from [] if step.count is None else [step.count]
        yield from (carry.length for carry in step.carries)
        for slice in step.slices:
            yield from (stride(step, slice), offset(step, slice))
    launch: Any = getattr(step, "launch", step)  # of sizes, or itself
    if hasattr(launch, "grain"):
        yield from (launch.tasks, launch.grain, *launch.sizes)


def sizes_of_iteration(loop: LoopStep[Step, str]) -> tuple[str, ...]:
    """The expressions that contain the index of a loop, and that of no loop inside of it."""
    inside = {step.index for step in walk(loop.steps) if isinstance(step, LoopStep)} - {""}
    found = ((size, symbols(size)) for size in sizes_in(loop.steps))
    return tuple(size for size, names in found if loop.index in names and not names & inside)


def launch_of(loop: LoopStep[Step, str], sizes: Sequence[str]) -> LaunchStep:
    """The launch that computes the sizes of an iteration from its number."""
    terms, texts = named_terms(sizes)
    bound = [Let(name, Position(_formula(term))) for name, term in terms.items()]
    stores = (Store(SIZES, dim(k), Position(_formula(text))) for k, text in enumerate(texts))
    known = sorted(set[str]().union(*map(symbols, sizes)) - {loop.index})
    buffers = Buffer(TURN, int64, dim(2), "in"), Buffer(SIZES, int64, dim(len(sizes)), "out")
    body: tuple[Statement, ...] = (Let(loop.index, _number(loop)), *bound, *stores)
    kernel = Kernel("kernel", "sizes_of_turn", buffers, tuple(known), dim(1), dim(1), body, wide=False)
    source = loop.source or Allocation(TURN, loop.index)
    return LaunchStep(named(kernel), (source, Allocation(SIZES, loop.index)), loop.lines)


def _formula(text: str) -> Dim:
    return dims_.parse(ast.parse(text, mode="eval").body)


def _number(loop: LoopStep[Step, str]) -> Expr:
    """The number of an iteration, from the loop's number of iterations and of those left; or what has been computed."""
    first, second = (Load(TURN, dim(k), int64) for k in range(2))
    if loop.source is not None:
        return first
    return Apply("x - y", (second, Position(dim(1))) if _goes_back(loop) else (first, second), int64)
