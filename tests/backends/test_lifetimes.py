"""Lifetimes: whatever a step reads from the arena is in one lifetime with the step that wrote it."""

import itertools

import numpy as np
import pytest

import zenith
from tests.backends.running import plan_of
from tests.programs import STREAMS, random_program
from zenith.backends.lifetimes import lifetimes
from zenith.backends.memory_effects import touched
from zenith.backends.steps import CallStep, LaunchStep, LoopStep


def spans(plan):
    """The lifetimes of each slot, in order."""
    found = {slot.name: [] for slot in plan.slots}
    for life in lifetimes(plan):
        found[life.slot].append((life.first, life.last))
    return found


def effects(step):
    """The slots that a launch or a call reads and writes, by buffers that it does not write itself."""
    if isinstance(step, CallStep):
        first = len(step.types) - step.results
        read, written = step.allocations[:first], step.allocations[first:]
    else:
        names = {b.name: a for b, a in zip(step.kernel.buffers, step.allocations, strict=True)}
        read, written = touched(step.kernel.body)
        read, written = ({names[n] for n in own if n in names} for own in (read - written, written))
    return ({a.name for a in own if a.kind == "slot"} for own in (read, written))


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("seed", range(5))
def test_what_is_read_is_alive_since_it_was_written(stream, seed):
    plan = plan_of(random_program(seed, 40, stream=stream)[0])
    found, writer, is_written = spans(plan), {}, False
    for number, step in enumerate(plan.steps):
        if not isinstance(step, LaunchStep | CallStep):  # a loop, whose effects the next tests see
            writer.clear()
            continue
        read, written = effects(step)
        for slot in read & writer.keys():
            assert any(first <= writer[slot] <= number <= last for first, last in found[slot])
        for slot in written:
            assert any(first <= number <= last for first, last in found[slot])
            writer[slot], is_written = number, True
    assert (
        is_written
        or not any(slot.length != 0 for slot in plan.slots)
        or all(isinstance(step, LoopStep) for step in plan.steps)
    )
    for own in found.values():
        assert all(a[1] < b[0] for a, b in itertools.pairwise(own))
        assert all(first <= last < len(plan.steps) for first, last in own)


def test_memory_that_is_written_again_lives_twice():
    def chain(x):
        for _ in range(4):
            x = np.sort(x + 1, axis=0)
            x = np.cumsum(x, axis=0) / 2
        return x

    lowered = zenith.jit(chain).lower(np.ones((6, 5), np.float32))
    found = spans(lowered._plan())
    assert max(map(len, found.values())) >= 2
    alive = sum(1 + last - first for own in found.values() for first, last in own)
    assert alive < 0.7 * len(found) * len(lowered._plan().steps)


def test_a_loop_reads_what_lies_before_it_and_writes_its_results():
    def run(x):
        first = np.sort(x, axis=0)
        last = zenith.fori_loop(0, 9, lambda i, y: np.sort(y @ x, axis=0), first)
        return np.cumsum(last, axis=0) + first

    plan = zenith.jit(run).lower(np.ones((5, 5), np.float32))._plan()
    (loop,) = [i for i, step in enumerate(plan.steps) if isinstance(step, LoopStep)]
    step = plan.steps[loop]
    found = spans(plan)
    for carry in step.carries:
        for allocation, is_alive in ((carry.start, loop - 1), (carry.result, loop + 1)):
            if allocation.kind == "slot":
                assert any(first <= min(is_alive, loop) and max(is_alive, loop) <= last
                           for first, last in found[allocation.name])  # fmt: skip
    assert any(carry.start.kind == "slot" for carry in step.carries)
    assert any(carry.result.kind == "slot" for carry in step.carries)
