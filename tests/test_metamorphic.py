"""Changes of a program that must not change its results: other orders of passes, dead code, detours, batches.

Random programs are compared with their own reference and its error bounds.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import zenith
from tests.backends.running import call, compiled
from tests.fuzz import programs
from tests.programs import random_program, reference_bounds, violations
from zenith.ir.builder import Builder
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.verify import verify
from zenith.passes.pipeline import PIPELINE, run
from zenith.trace.nested import replay

PROGRAMS = programs(10, one_in=10)
BLOCK = 5
blocks = pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))


def _programs(first: int, **options: Any) -> list[tuple[int, Graph, list[Any]]]:
    return [(seed, *random_program(seed, **options)) for seed in range(first, min(first + BLOCK, PROGRAMS))]


@pytest.mark.fuzz
@blocks
def test_passes_may_come_in_any_order(first: int) -> None:
    """All but the last one, which makes kernels: each of them is right at any position."""
    for seed, graph, args in _programs(first):
        passes = list(PIPELINE[:-1])
        random.Random(seed).shuffle(passes)
        shuffled = verify(run(graph, passes)[0])
        wrong = violations(interpret(shuffled, *args), reference_bounds(graph, args))
        assert not wrong, f"program {seed} after {[p.__name__ for p in passes]}: {wrong}"


@pytest.mark.fuzz
@blocks
def test_dead_code_leaves_no_trace(first: int) -> None:
    for seed, graph, args in _programs(first):
        before = run(graph)[0]
        b: Any = Builder(graph)
        for value in graph.outputs:
            b.concat(*[b.reshape(value, shape=(value.type.size,))] * 2, axis=0)
        assert str(run(graph)[0]) == str(before), f"program {seed}"
        assert violations(interpret(graph, *args), reference_bounds(graph, args)) == []


def _joined_and_cut(graph: Graph) -> Graph:
    """The same results, by way of an array that has each twice."""
    b: Any = Builder(graph)
    outputs = []
    for value in graph.outputs:
        row = b.reshape(value, shape=(value.type.size,))
        both = b.concat(row, row, axis=0)
        second = b.slice(both, start=(value.type.size,), stop=(2 * value.type.size,), step=(1,))
        outputs.append(b.reshape(second, shape=value.shape))
    graph.set_outputs(outputs)
    return verify(graph)


@pytest.mark.fuzz
@blocks
def test_what_is_joined_and_cut_is_the_same(first: int) -> None:
    for seed, graph, args in _programs(first):
        bounds = reference_bounds(graph, args)
        changed = _joined_and_cut(graph)
        wrong = violations(call(compiled(changed, "lanes"), changed, args), bounds)
        assert not wrong, f"program {seed}: {wrong}"


@pytest.mark.fuzz
@blocks
def test_examples_of_a_batch_do_not_see_each_other(first: int) -> None:
    for seed, graph, args in _programs(first, symbolic=False):
        batch = [np.stack([a, np.roll(a, 1), a]) for a in map(np.asarray, args)]
        order = np.array([2, 0, 1])
        function = zenith.jit(zenith.vmap(lambda *xs, graph=graph: replay(graph, list(xs))))
        with np.errstate(all="ignore"):
            straight, permuted = function(*batch), function(*(a[order] for a in batch))
        for one, other in zip(straight, permuted, strict=True):
            assert one[order].tobytes() == np.ascontiguousarray(other).tobytes(), f"program {seed}"
        bounds = reference_bounds(graph, args)
        assert not violations([r[0] for r in straight], bounds), f"program {seed}"
