"""Lifetimes: from which step to which step of a plan a slot of the arena has contents that are read.

A value lives from the step that writes it to the last one that reads it. What steps inside of a loop or a branch do
with memory is done by that step: it reads what they read before they write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from zenith.backends.memory_effects import touched
from zenith.backends.plan import Plan
from zenith.backends.steps import Allocation, BranchStep, CallStep, Either, LaunchStep, LoopStep, Step
from zenith.ir.dims import Dim


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value in a slot: ``length`` bytes at ``offset`` of the arena, from step ``first`` to step ``last``."""

    slot: str
    offset: Dim
    length: Dim
    first: int
    last: int


class _Access(NamedTuple):
    """The allocations whose earlier contents steps read, those that they write, and of these what they read then."""

    reads: frozenset[Allocation]
    writes: frozenset[Allocation]
    used: frozenset[Allocation]


def lifetimes(plan: Plan) -> tuple[Lifetime, ...]:
    """The values in the arena, slot by slot and in order: two in the same slot never live at the same step."""
    accesses = [_access(step) for step in plan.steps]
    found = []
    for slot in plan.slots:
        own = Allocation("slot", slot.name)
        spans: list[list[int]] = []
        is_read = True
        for number, access in enumerate(accesses):
            if own in access.reads or (own in access.writes and not is_read):  # the rest of a value that is in parts
                spans = spans or [[number, number]]
                spans[-1][1] = number
                is_read = is_read or own in access.reads
            elif own in access.writes:
                spans.append([number, number])
                is_read = own in access.used
        found += [Lifetime(slot.name, slot.offset, slot.length, first, last) for first, last in spans]
    return tuple(found)


def _access(step: Step) -> _Access:
    match step:
        case LaunchStep():
            return _of_launch(step)
        case CallStep(allocations=allocations, types=types, results=results):
            first, workspace = len(types) - results, allocations[len(types) :]
            return _of(allocations[:first], allocations[first:], workspace)
        case Either(steps=steps, otherwise=otherwise):
            return _any((_in_order(steps), _in_order(otherwise)))
        case BranchStep(index=index, branches=branches):
            return _any((_of([index], ()), *map(_in_order, branches)))
        case LoopStep():
            return _of_loop(step)
    raise AssertionError(step)


def _of_launch(launch: LaunchStep) -> _Access:
    """A temporary is written by one kernel of a group and read by a later one, or by the same."""
    reads, writes, used = list[Allocation](), list[Allocation](), list[Allocation]()
    read, written = touched(launch.kernel.body)
    for buffer, allocation in zip(launch.kernel.buffers, launch.allocations, strict=True):
        only_read = buffer.name in read and buffer.name not in written
        if buffer.role == "in" or (buffer.role == "temporary" and only_read):
            reads.append(allocation)
        else:
            writes.append(allocation)
            used += [allocation] if buffer.role == "temporary" and buffer.name in read else []
    return _of(reads, writes, used)


def _of_loop(loop: LoopStep[Step, Dim]) -> _Access:
    """What an iteration does with moving allocations, the loop does with those that they move in."""
    inside = _in_order((*loop.condition, *loop.steps))
    whole: dict[Allocation, tuple[Allocation, ...]] = {s.element: (s.whole,) for s in loop.slices}
    for carry in loop.carries:
        whole |= {carry.current: (), carry.following: (carry.result, carry.other)}
    own = _of([c.start for c in loop.carries] + ([] if loop.source is None else [loop.source]), ())
    reads, writes, used = (_moved(allocations, whole) for allocations in inside)
    results = frozenset(p for c in loop.carries for p in (c.result, c.other))
    return _Access(own.reads | (reads - results), writes | results, used - results)


def _moved(
    allocations: Iterable[Allocation], whole: Mapping[Allocation, tuple[Allocation, ...]]
) -> frozenset[Allocation]:
    return frozenset(p for a in allocations for p in whole.get(a, (a,)))


def _of(reads: Iterable[Allocation], writes: Iterable[Allocation], used: Iterable[Allocation] = ()) -> _Access:
    return _Access(frozenset(reads), frozenset(writes), frozenset(used))


def _any(accesses: Iterable[_Access]) -> _Access:
    """One of several, whichever."""
    return _Access(*(frozenset().union(*own) for own in zip(*accesses, strict=True)))


def _in_order(steps: Iterable[Step]) -> _Access:
    """One after the other: what one has written is not read from before."""
    reads, writes, used = frozenset[Allocation](), frozenset[Allocation](), frozenset[Allocation]()
    for access in map(_access, steps):
        reads |= access.reads - writes
        used |= (access.reads & writes) | access.used
        writes |= access.writes
    return _Access(reads, writes, used)
