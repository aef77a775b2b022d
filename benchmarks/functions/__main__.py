"""Each of NumPy's functions against its compiled self: ``python -m benchmarks.functions``.

Both have the threads that they take by themselves. They call by turns, each in a loop of its own once the threads of
the other sleep, and what is stored is the median ratio of paired turns, for each size and element type, once results
agree.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import zenith
from benchmarks import machine
from benchmarks.functions.cases import Case, cases
from benchmarks.functions.table import RESULTS, sentence, table
from benchmarks.stats import speedup

SIZES = (100, 10_000, 1_000_000)
ROUNDS = 9
LEAST = 2e-4  # seconds that the calls of a round take together
WARM_UP = 2e-3  # seconds of calls before those that are timed
SPAN, PATIENCE = (
    5e-3,
    0.3,
)  # seconds in which no thread computes, more than a tick of the system; how long to wait for them
TOLERANCE = {"float32": 2e-4, "float64": 1e-9, "complex128": 1e-9}  # of the largest element; sums differ in order


def same(found: Any, expected: Any, tolerance: float) -> bool:
    """Whether results agree, as far as their own size allows."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(expected), initial=1.0, where=np.isfinite(expected))
        return bool(np.allclose(found, expected, tolerance, tolerance * float(scale), equal_nan=True))


def seconds_of(call: Callable[[], Any], count: int) -> float:
    """Seconds of a call, in so many."""
    begun = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begun) / count


def settle() -> None:
    """Wait until the threads of whoever called last sleep: OpenBLAS's spin for 0.1 s, each on a core."""
    for _ in range(round(PATIENCE / SPAN)):
        begun = time.process_time()
        time.sleep(SPAN)
        if time.process_time() - begun < SPAN / 4:
            return


def warm_up(call: Callable[[], Any]) -> None:
    """Call until threads are awake and caches are filled."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < WARM_UP:
        call()


def turn(call: Callable[[], Any], count: int) -> float:
    """Seconds of a call in a loop of its own, in so many after others."""
    settle()
    warm_up(call)
    return seconds_of(call, count)


def ratio(case: Case, compiled: Callable[..., Any], size: int, dtype: str) -> dict[str, float]:
    """What is stored of a case for a size and an element type; ValueError where results differ."""
    args = case.make(np.random.default_rng(size), size, dtype)
    if not same(compiled(*args), case.function(*args), TOLERANCE[dtype]):
        raise ValueError(f"{case.name} of {size} {dtype} is not NumPy's")
    calls = [lambda: case.function(*args), lambda: compiled(*args)]
    for call in calls:
        warm_up(call)
    count = max(1, round(LEAST / max(seconds_of(call, 1) for call in calls)))
    rounds = [[turn(call, count) for call in calls] for _ in range(ROUNDS)]
    plain, own = zip(*rounds, strict=True)
    return {"numpy_s": float(np.median(plain)), "zenith_s": float(np.median(own)), **speedup(plain, own)}


def measured(case: Case) -> dict[str, dict[str, Any]]:
    """All sizes and element types of a case."""
    compiled, found = zenith.jit(case.function), dict[str, dict[str, Any]]()
    for dtype in case.dtypes:
        sizes = [size for size in SIZES if size <= case.largest]
        found[dtype] = {str(size): ratio(case, compiled, size, dtype) for size in sizes}
    return found


def main(names: Annotated[list[str] | None, typer.Argument()] = None, output: Path = RESULTS) -> None:
    """Race functions, all by default, store the results and print those in which NumPy is ahead."""
    found: dict[str, Any] = {}
    document = {"functions": found, **machine.describe(("numpy", "zenith-compiler"))}
    output.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in cases():
            if names and case.name not in names:
                continue
            found[case.name] = record = measured(case)
            ratios = (f"{d} " + " ".join(f"{r['median']:.2f}" for r in sizes.values()) for d, sizes in record.items())
            typer.echo(f"{case.name}: " + ", ".join(ratios))
            if not names:  # a run that is interrupted keeps what it has measured
                output.write_text(json.dumps(document, indent=1) + "\n")
    typer.echo(f"{sentence(document)}\n\n{table(document)}")


if __name__ == "__main__":
    typer.run(main)
