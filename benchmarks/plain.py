"""Whole programs in plain NumPy, unchanged: NumPy, Numba and Zenith run the same source.

``python -m benchmarks.plain`` measures the programs of ``tests/plain``. Of each call the contenders take turns, on
fresh copies of the arguments; results and written arguments are compared with NumPy's first. Numba is the better one of
``njit`` and ``njit(parallel=True)``; a program that it does not compile has no figure.
"""

from __future__ import annotations

import ast
import copy
import inspect
import json
import math
import statistics
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks import machine, report
from tests.plain.program import Program
from tests.plain.test_programs import PROGRAMS

FIRST, LAST = 64, 2048  # sizes of arguments: doubled from the first one on until NumPy takes ``LEAST`` seconds
LEAST = 0.03
SECONDS, MOST = 0.4, 21  # of the calls of one contender, and how many they are at most
RESULTS = report.RESULTS / "plain" / "plain.json"
Timed = Callable[..., Any]


def has_loops(program: Program) -> bool:
    """Whether the source of a program has a loop of Python's."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(program.function)))
    return any(isinstance(node, (ast.For, ast.While)) for node in ast.walk(tree))


def contenders(program: Program) -> Iterator[tuple[str, Timed]]:
    """Who runs a program, by name."""
    import numba

    import zenith

    yield "numpy", program.function
    yield "zenith", zenith.jit(program.function)
    yield "numba", numba.njit(program.function)
    yield "numba parallel", numba.njit(program.function, parallel=True)


def same(found: Any, expected: Any, rtol: float) -> bool:
    """Whether results agree, in their structure and values."""
    if isinstance(expected, (tuple, list)):
        return len(found) == len(expected) and all(same(a, b, rtol) for a, b in zip(found, expected, strict=True))
    return expected is None or np.allclose(found, expected, rtol, rtol)


def qualified(program: Program, size: int) -> tuple[dict[str, Timed], dict[str, float]]:
    """The contenders whose results are right, and the seconds of their first calls."""
    found, first = {}, {}
    arguments = program.arguments(size, np.random.default_rng(size))
    plain = copy.deepcopy(arguments)
    expected = program.function(*plain)
    for name, function in contenders(program):
        own = copy.deepcopy(arguments)
        begun = time.perf_counter()
        try:
            result = function(*own)
        except Exception as error:
            if name == "zenith":
                raise
            typer.echo(f"{program.name}: {name}: {type(error).__name__}")
            continue
        first[name] = time.perf_counter() - begun
        if same(result, expected, 1e-6) and same(own, plain, 1e-6):
            found[name] = function
        else:
            typer.echo(f"{program.name}: {name} gives something else")
    return found, first


def medians(program: Program, size: int, found: dict[str, Timed]) -> dict[str, float]:
    """The median seconds of each contender's calls, which alternate."""
    arguments = program.arguments(size, np.random.default_rng(size))
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(MOST):
        for name, function in found.items():
            if len(seconds[name]) > 2 and sum(seconds[name]) > SECONDS:
                continue
            own = copy.deepcopy(arguments)
            begun = time.perf_counter()
            function(*own)
            seconds[name].append(time.perf_counter() - begun)
    return {name: statistics.median(values) for name, values in seconds.items()}


def size_for(program: Program) -> int:
    """The size of the arguments of a program's calls: the largest test's where the first one is too large."""
    size = FIRST
    while True:
        arguments = program.arguments(size, np.random.default_rng(size))
        begun = time.perf_counter()
        try:
            program.function(*arguments)
        except IndexError:
            return max(program.sizes) if size == FIRST else size // 2
        if time.perf_counter() - begun >= LEAST or size >= LAST:
            return size
        size *= 2


def measure(program: Program) -> dict[str, Any]:
    """What is stored of one program."""
    size = size_for(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, first = qualified(program, size)
        seconds = medians(program, size, found)
    return {"size": size, "loops": has_loops(program), "seconds": seconds, "first": first}


def mean_ratio(records: Sequence[dict[str, Any]], over: str) -> tuple[float, int]:
    """How many times faster Zenith is than another one, as a geometric mean, and over how many programs."""
    ratios = [r["seconds"][over] / r["seconds"]["zenith"] for r in records if over in r["seconds"]]
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else math.nan, len(ratios)


def with_best_numba(record: dict[str, Any]) -> dict[str, Any]:
    """The record with Numba's better version under its name."""
    seconds = dict(record["seconds"])
    both = [seconds.pop(name) for name in ("numba", "numba parallel") if name in seconds]
    return {**record, "seconds": seconds | ({"numba": min(both)} if both else {})}


def load() -> dict[str, Any] | None:
    """The stored figures, if there are any."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else None


def sentence(document: dict[str, Any] | None) -> str:
    """What the figures say on the whole."""
    if document is None:
        return "no figures are stored yet, `python -m benchmarks.plain` measures them."
    records = list(map(with_best_numba, document["programs"].values()))
    looped = [r for r in records if r["loops"]]
    (numpy, count), (numba, compiled) = mean_ratio(looped, "numpy"), mean_ratio(records, "numba")
    slower = sum(r["seconds"]["numpy"] < r["seconds"]["zenith"] for r in records)
    where = f"{document['machine']['cpu']}, {document['machine']['cores']} cores, {document['date'][:10]}"
    text = (
        f"over {count} programs with Python loops Zenith is {numpy:.0f} times as fast as NumPy, over the {compiled} "
        f"that Numba compiles {numba:.2f} times as fast as Numba, the better of `njit` and `njit(parallel=True)` "
        f"(geometric means; {where}); NumPy is faster than Zenith in {slower} of {len(records)} programs."
    )
    return textwrap.fill(text, 120)


def table(document: dict[str, Any] | None) -> str:
    """The stored figures as Markdown."""
    if document is None:
        return ""
    lines = ["| program | size | NumPy | Numba | Zenith | over NumPy | over Numba |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, record in sorted(document["programs"].items()):
        seconds = with_best_numba(record)["seconds"]
        cells = [_time(seconds.get(n)) for n in ("numpy", "numba", "zenith")]
        ratios = [f"{seconds[n] / seconds['zenith']:.2f}x" if n in seconds else "" for n in ("numpy", "numba")]
        lines.append(f"| {name} | {record['size']} | {' | '.join([*cells, *ratios])} |")
    return "\n".join(lines)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:.0f} us" if seconds < 1e-2 else f"{seconds * 1e3:.0f} ms"


def main(
    names: Annotated[list[str] | None, typer.Argument()] = None, every: int = 1, output: Path = RESULTS
) -> None:  # fmt: skip
    """Measure programs (all by default, or one in ``every`` so many), store the results and print the table."""
    programs = {}
    for program in PROGRAMS[::every]:
        if names and program.name not in names:
            continue
        programs[program.name] = measure(program)
        seconds = programs[program.name]["seconds"]
        typer.echo(f"{program.name}: " + ", ".join(f"{n} {_time(s)}" for n, s in seconds.items()))
    document = {"programs": programs, **machine.describe(("numpy", "numba", "zenith-compiler"))}
    if not names:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(document, indent=2) + "\n")
    typer.echo(f"{sentence(document)}\n\n{table(document)}")


if __name__ == "__main__":
    typer.run(main)
