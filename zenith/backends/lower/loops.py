"""Writing loops: what is written inside of a ``with`` statement is the loop's body; spans of what loops walk along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from zenith.backends.expressions import Expr, Name
from zenith.backends.kernel import Accumulator, Fold, Loop, Scratch, TaskLoop
from zenith.backends.lower.elements import ElementBuilder
from zenith.backends.lower.nest import bind
from zenith.ir.dims import Dim, DimLike, dim, minimum, symbol
from zenith.ir.types import DType


@contextmanager
def loop(
    e: ElementBuilder, stem: str, start: DimLike, stop: DimLike, lanes: bool = False, warps: bool = False
) -> Iterator[Dim]:
    """A loop; gives its index."""
    index = e.fresh(stem)
    e.open(index)
    yield symbol(index)
    e.append(Loop(index, dim(start), dim(stop), lanes, e.close(), warps))


@contextmanager
def task_loop(e: ElementBuilder, tasks: Dim, stem: str = "t") -> Iterator[Dim]:
    """The loop over a kernel's tasks, which have loops of their own; gives the number of the task."""
    task = e.fresh(stem)
    e.open(task)
    yield symbol(task)
    e.append(TaskLoop(task, tasks, None, (), e.close(), False))


def fold(
    e: ElementBuilder, stems: tuple[str, str], stop: DimLike, initial: float, combine: str, term: Callable[[Dim], Expr]
) -> Name:
    """A fold of a term for each number below ``stop``; ``stems`` are of the number's name, and of the total's."""
    index, total = (e.fresh(stem) for stem in stems)
    e.open(index)
    value = term(symbol(index))
    joined = Accumulator(total, value.dtype, initial, combine, value)
    e.append(Fold(index, dim(0), dim(stop), e.close(), (joined,)))
    e.level_of[total] = len(e.levels) - 1
    return Name(total, value.dtype)


def scratch(e: ElementBuilder, stem: str, dtype: DType, length: int) -> str:
    """The name of one more scratch buffer."""
    name = e.fresh(stem)
    e.levels[0].statements.append(Scratch(name, dtype, length))
    return name


@dataclass(frozen=True, slots=True)
class Span:
    """Some of a matrix's rows, columns or terms: ``count`` of them, from ``first`` on."""

    first: Dim
    count: Dim


def block_of(e: ElementBuilder, stems: tuple[str, str], number: Dim, size: DimLike, total: Dim) -> Span:
    """Block ``number`` of ``total``, which is cut into blocks of a size; the last one has the rest."""
    first = bind(e, stems[0], number * dim(size))
    return Span(first, bind(e, stems[1], minimum(total - first, size)))


def block_length(e: ElementBuilder, stem: str, first: Dim, size: int, total: Dim) -> Dim:
    """How many a block of ``total`` has from ``first`` on: a number where all blocks have as many."""
    if total.static is not None and (total.static <= size or total.static % size == 0):
        return dim(min(total.static, size))
    return bind(e, stem, minimum(total - first, size))


def share_of(e: ElementBuilder, stems: tuple[str, str], number: Dim, shares: DimLike, total: Dim) -> Span:
    """Share ``number`` of ``total``, which is cut into so many nearly equal ones."""
    first = bind(e, stems[0], number * total // dim(shares))
    return Span(first, bind(e, stems[1], (number + 1) * total // dim(shares) - first))
