"""What must give the same bits: any number of threads, and a program from the cache.

Random programs run on arrays that are large enough to be shared among threads, in smaller chunks than usual.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.backends.running import call, compiled
from tests.fuzz import programs
from tests.programs import LARGE, random_program
from zenith.backends.cpu import program, threads
from zenith.backends.cpu.program import Launch
from zenith.config import config
from zenith.ir.graph import Graph
from zenith.ir.interpret import bind_sizes

ROOT = Path(__file__).parents[1]
PROGRAMS = programs(2, one_in=20)
BLOCK = 5
OPERATIONS = 15  # in a program: enough for several kernels, and few for the compiler
blocks = pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
CHUNK_COST = 4000  # operations in a chunk: a hundredth of what is usual


def _block(first: int) -> range:
    return range(first, min(first + BLOCK, PROGRAMS))


def _bits(results: Sequence[Any]) -> str:
    return hashlib.sha256(b"".join(np.asarray(r).tobytes() for r in results)).hexdigest()


@contextmanager
def _restored_threads() -> Iterator[None]:
    """Whatever number of threads is set inside, afterwards there are as many as before."""
    count = threads.team().size
    try:
        yield
    finally:
        threads.set_num_threads(count)


# --- threads ----------------------------------------------------------------------------------------------------------

LONG: dict[str, Callable[[Any], Any]] = {
    "elements": lambda x: np.tanh(x) * np.sqrt(np.abs(x)) + 1,
    "rows": lambda x: np.exp(x - x.max(axis=1, keepdims=True)) / np.exp(x).sum(axis=1, keepdims=True),
    "columns": lambda x: (x * x).sum(axis=0),
    "everything": lambda x: x.mean() + x.std(),
    "running sums": lambda x: np.cumsum(x.reshape(-1)),
    "product": lambda x: x @ x.T,
    "order": lambda x: (np.sort(x.reshape(-1)), np.argsort(x, axis=1)),
    "counts": lambda x: znp.bincount((x.reshape(-1) * 9).astype(np.int64) + 50, x.reshape(-1), length=100),
    "spectrum": lambda x: np.abs(np.fft.rfft(x)),
}


@pytest.mark.parametrize("name", LONG)
def test_one_thread_and_two_give_the_same_bits(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((300, 700)).astype(np.float32)
    function, found = zenith.jit(LONG[name]), []
    with _restored_threads():
        for size in (1, 2, 1):
            threads.set_num_threads(size)
            results = function(x)
            found.append(_bits(results if isinstance(results, tuple) else (results,)))
    assert found[0] == found[1] == found[2]


def _shared(executable: Any, graph: Graph, args: Sequence[Any]) -> list[bool]:
    """Whether each launch of a program is cut into several chunks."""
    sizes = {"max": max, "min": min, **bind_sizes(graph, args, {})}
    launches = [step for step in executable.program.steps if isinstance(step, Launch)]
    return [eval(f"({launch.tasks}) > ({launch.grain})", sizes) for launch in launches]


@pytest.mark.fuzz
@blocks
def test_any_number_of_threads_gives_the_same_bits(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "CHUNK_COST", CHUNK_COST)
    monkeypatch.setattr(config, "cache", False)  # programs in such chunks are not for other processes
    shared: list[bool] = []
    for seed in _block(first):
        graph, args = random_program(seed, OPERATIONS, extent=LARGE)
        executable, found = compiled(graph, "cpu"), []
        with _restored_threads():
            for size in (1, 2, 3):
                threads.set_num_threads(size)
                found.append(_bits(call(executable, graph, args)))
        assert found[0] == found[1] == found[2], f"program {seed}"
        shared += _shared(executable, graph, args)
    assert any(shared) or len(shared) < 20


# --- the cache --------------------------------------------------------------------------------------------------------


def outcomes(first: int) -> list[tuple[bool, str]]:
    """For each program of a block, every second one with calls: whether it came from the cache, and its results."""
    found = []
    for seed in _block(first):
        options: dict[str, Any] = {"stream": "calls"} if seed % 2 else {"extent": LARGE}
        graph, args = random_program(seed, OPERATIONS, **options)
        executable = compiled(graph, "cpu")
        found.append((executable.report.cached, _bits(call(executable, graph, args))))
    return found


_OUTCOMES = "from tests.test_same_bits import outcomes; print(*(bits for cached, bits in outcomes({first}) if cached))"


@pytest.mark.fuzz
@blocks
def test_another_process_gives_the_same_bits_from_the_cache(first: int) -> None:
    fresh = outcomes(first)
    code = _OUTCOMES.format(first=first)
    child = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [(False, bits) for bits in child.stdout.split()] == fresh


_DIGESTS = """
from tests.backends.running import call, compiled
from tests.programs import random_program
from tests.test_same_bits import _bits

for seed in range(2):
    graph, args = random_program(seed)
    results = call(compiled(graph, "cpu"), graph, args)
    print(_bits(results))
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
