"""Index set splitting: the innermost loop of a group cut where conditions on its variable change.

An element of arrays joined along the innermost axis, or of one with a border there, depends on where it is: a loop over
all of them asks for each, and gathers from clamped positions, since it reads what it does not choose. A loop over one
segment knows the answers, and reads vectors. (M. Wolfe, "High Performance Compilers for Parallel Computing", 1996.)

Where the thresholds are not in order, as those of shifts to and fro in an array of one element, one loop asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from zenith.backends.kernel import Kernel
from zenith.backends.lower.collapse import sizes, spread, step
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.loops import Span, block_of, loop, task_loop
from zenith.backends.lower.nest import KernelInterface, bind, decode_into, scalar_cost, write_case
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, dim, maximum, minimum, product, prove_at_least

STRETCH = 4096  # elements of the innermost axis that are a task, at most
MOST = 4  # thresholds: there is a loop for each and one more
LONGEST = 60  # statements of a loop that is written more than once

Visit = Callable[[ElementBuilder, Index], None]


@dataclass(frozen=True, slots=True)
class Cut:
    """The loops of a group: its axes, collapsed, and what is written for an element."""

    space: Sequence[Dim]
    groups: Sequence[Sequence[int]]
    visit: Visit

    def write(self, e: ElementBuilder, outer: Sequence[Dim], i: Dim) -> None:
        """Write an element, at an index of the loops."""
        self.visit(e, spread(self.groups, len(self.space), [*outer, i]))

    @property
    def extents(self) -> list[Dim]:
        """The sizes of the loops."""
        return sizes(self.space, self.groups)

    @property
    def tasks(self) -> Dim:
        """How many tasks there are: stretches of the innermost axis."""
        *outer, length = self.extents
        return product(outer) * quotient_up(length, STRETCH)


def lower_segments(face: KernelInterface, cut: Cut) -> Kernel | None:
    """The kernel, if there is something to cut, and the loop is short."""
    thresholds = _thresholds(face.builder(), cut)
    if not 0 < len(thresholds) <= MOST:
        return None
    e, length = face.builder(), cut.extents[-1]
    bounds = [dim(0), *thresholds, length]
    with _task(e, cut) as (outer, span):

        def segment(number: int) -> None:
            begun, ends = bounds[: number + 1], bounds[number + 1 :]
            start = bind(e, "first", maximum(span.first, begun[-1]))
            stop = bind(e, "last", minimum(span.first + span.count, ends[0]))
            is_long = (ends[0] - begun[-1]).static is None
            with loop(e, "i", start, stop, lanes=is_long) as i, e.assuming(_between(begun, i, ends)):
                cut.write(e, outer, i)

        def segments() -> None:
            for number in range(len(bounds) - 1):
                segment(number)

        def whole() -> None:
            with loop(e, "i", span.first, span.first + span.count) as i:
                cut.write(e, outer, i)

        write_case(e, _are_ordered(thresholds), (whole, segments))
    return face.kernel(cut.tasks, minimum(length, STRETCH) * scalar_cost(face.body), e)


@contextmanager
def _task(e: ElementBuilder, cut: Cut) -> Iterator[tuple[list[Dim], Span]]:
    """The loop over tasks: gives the index of a row and a stretch of it."""
    *above, length = cut.extents
    with task_loop(e, cut.tasks) as t:
        *outer, stretch = decode_into(e, t, [*above, quotient_up(length, STRETCH)])
        yield outer, block_of(e, ("start", "many"), stretch, STRETCH, length)


def _thresholds(trial: ElementBuilder, cut: Cut) -> list[Dim]:
    """Where conditions on the innermost variable change, in the order that they have in long arrays.

    The trial writes the loops around it as the kernel has them, with the same names. What an element binds may have
    another name in the kernel, whose segments do not compute all of it.
    """
    with _task(trial, cut) as (outer, span):
        around = {*trial.level_of}
        with loop(trial, "i", span.first, span.first + span.count) as i:
            cut.write(trial, outer, i)
            statements = len(trial.levels[-1].statements)
    length, found = cut.extents[-1], dict[Dim, None]()
    for difference in trial.asked if statements <= LONGEST else ():
        slope = step(difference, str(i))
        if slope is None or slope not in (1, -1):
            continue
        rest = difference - slope * i
        threshold = -rest if slope == 1 else rest + 1
        is_inside = any(name in trial.level_of and name not in around for name in threshold.symbols())
        if not (is_inside or prove_at_least(0, threshold) or prove_at_least(threshold, length)):
            found[threshold] = None
    return sorted(found, key=partial(_place, length))


def _between(begun: Sequence[Dim], i: Dim, ends: Sequence[Dim]) -> list[Dim]:
    """What is not negative for an index that is not below some bounds, and below others."""
    return [*(i - bound for bound in begun), *(bound - 1 - i for bound in ends)]


def _place(length: Dim, threshold: Dim) -> tuple[int, int]:
    """Numbers come first, in order, and what is a number below the length last."""
    if threshold.static is not None:
        return 0, threshold.static
    to_end = (length - threshold).static
    return (1, 0) if to_end is None else (2, -to_end)


def _are_ordered(thresholds: Sequence[Dim]) -> Dim:
    """1 where each is at least the one before, else 0."""
    doubtful = [(a, b) for a, b in pairwise(thresholds) if not prove_at_least(b, a)]
    return product(minimum(1, maximum(0, b - a + 1)) for a, b in doubtful)
