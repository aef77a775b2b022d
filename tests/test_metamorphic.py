"""Changes of a program that must not change its results: other orders of passes, dead code, detours, batches, threads.

Random programs are compared with their own reference and its error bounds; what computes the same on more threads, or
comes out of a cache, is compared bit by bit.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.backends.running import call, compiled
from tests.fuzz import programs
from tests.programs import random_program, reference_bounds, violations
from zenith.backends.cpu import threads
from zenith.ir.builder import Builder
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.verify import verify
from zenith.passes.pipeline import PIPELINE, run
from zenith.trace.nested import replay

ROOT = Path(__file__).parents[1]
PROGRAMS = programs(10, one_in=10)
BLOCK = 5
blocks = pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))


def _programs(first: int, **options: Any) -> list[tuple[int, Graph, list[Any]]]:
    return [(seed, *random_program(seed, **options)) for seed in range(first, min(first + BLOCK, PROGRAMS))]


@pytest.mark.fuzz
@blocks
def test_passes_may_come_in_any_order(first: int) -> None:
    """All but the last one, which makes kernels: each of them is right wherever it stands."""
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
    """The same results, by way of an array in which each stands twice."""
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
        again = _joined_and_cut(graph)
        wrong = violations(call(compiled(again, "lanes"), again, args), bounds)
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


# --- bit by bit -------------------------------------------------------------------------------------------------------

LONG: dict[str, Callable[[Any], Any]] = {
    "elements": lambda x: np.tanh(x) * np.sqrt(np.abs(x)) + 1,
    "rows": lambda x: np.exp(x - x.max(axis=1, keepdims=True)) / np.exp(x).sum(axis=1, keepdims=True),
    "columns": lambda x: (x * x).sum(axis=0),
    "everything": lambda x: x.mean() + x.std(),
    "running sums": lambda x: np.cumsum(x.reshape(-1)),
    "product": lambda x: x @ x.T,
    "order": lambda x: (np.sort(x.reshape(-1)), np.argsort(x, axis=1)),
    "places": lambda x: znp.bincount((x.reshape(-1) * 9).astype(np.int64) + 50, x.reshape(-1), length=100),
    "spectrum": lambda x: np.abs(np.fft.rfft(x)),
}


@pytest.mark.parametrize("name", LONG)
def test_one_thread_and_two_give_the_same_bits(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((300, 700)).astype(np.float32)
    function, count = zenith.jit(LONG[name]), threads.team().size
    found = []
    try:
        for size in (1, 2, 1):
            threads.set_num_threads(size)
            results = function(x)
            found.append([np.asarray(r).tobytes() for r in (results if isinstance(results, tuple) else (results,))])
    finally:
        threads.set_num_threads(count)
    assert found[0] == found[1] == found[2]


_DIGESTS = """
import hashlib
import numpy as np
from tests.backends.running import call, compiled
from tests.programs import random_program

for seed in range(2):
    graph, args = random_program(seed)
    results = call(compiled(graph, "cpu"), graph, args)
    print(hashlib.sha256(b"".join(np.asarray(r).tobytes() for r in results)).hexdigest())
"""


@pytest.mark.thorough
def test_the_cache_gives_the_same_bits(tmp_path: Path) -> None:
    """In processes of their own: one without a cache, one that fills it, one that reads it."""
    found = []
    for cache in ("0", "1", "1"):
        variables = {**os.environ, "ZENITH_CACHE": cache, "ZENITH_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            [sys.executable, "-c", _DIGESTS], env=variables, capture_output=True, text=True, check=True
        )
        found.append(run.stdout.split())
        assert bool(list(tmp_path.rglob("*"))) == (cache == "1")
    assert len(found[0]) == 2 and found[0] == found[1] == found[2]
