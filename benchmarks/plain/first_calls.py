"""First calls of plain NumPy programs: ``python -m benchmarks.plain.first_calls`` measures and stores them.

Each call has a process of its own, forked from one that has imported Zenith, and has compiled nothing. The first finds
an empty cache on disk, and imports Numba; the second finds what the first has stored. Zenith's own files are compiled
to bytecode before, as installing does.
"""

from __future__ import annotations

import compileall
import copy
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import zenith
from benchmarks import machine
from benchmarks.plain.table import FIRST_CALLS, first_calls_sentence
from tests.plain.program import Program
from tests.plain.stencils import heat_1d
from tests.plain.test_programs import PROGRAMS

TURNS, ROUNDS = (10, 10_000), 7
PROCESSES = multiprocessing.get_context("fork")


def seconds(function: Callable[..., object], arguments: tuple[Any, ...], folder: str) -> tuple[float, float]:
    """The seconds of a first call in a new process, with a cache in ``folder``, and of a second one."""
    here, there = PROCESSES.Pipe()
    process = PROCESSES.Process(target=_call, args=(function, arguments, folder, there))
    process.start()
    there.close()
    first, second = here.recv()
    process.join()
    return first, second


def _call(function: Callable[..., object], arguments: tuple[Any, ...], folder: str, results: Connection) -> None:
    zenith.config.cache_dir = Path(folder)
    compiled, moments = zenith.jit(function), [0.0]
    for own in (copy.deepcopy(arguments), copy.deepcopy(arguments)):
        begun = time.perf_counter()
        compiled(*own)
        moments.append(time.perf_counter() - begun)
    results.send(tuple(moments[1:]))


def both(program: Program) -> dict[str, float]:
    """The seconds without and with a cache."""
    arguments = program.arguments(max(program.sizes), np.random.default_rng(0))
    with tempfile.TemporaryDirectory() as folder:
        return {kind: seconds(program.function, arguments, folder)[0] for kind in ("cold", "cached")}


def compiling(turns: int) -> float:
    """The seconds of compiling a loop, with no cache, where its first call has so many turns."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = seconds(heat_1d, (np.linspace(0, 1, 100), 0.2, turns), folder)
    return first - second


def main(names: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Measure the programs (all by default), print their seconds, and store those of all."""
    compileall.compile_dir(Path(zenith.__file__).parent, quiet=1)
    found: dict[str, Any] = {}
    document = {"programs": found, **machine.describe(("numpy", "numba", "zenith-compiler"))}
    for program in PROGRAMS:
        if not names or program.name in names:
            found[program.name] = both(program)
            typer.echo(f"{program.name}: " + ", ".join(f"{kind} {s:.2f} s" for kind, s in found[program.name].items()))
            if not names:  # a run that is interrupted keeps what it has measured
                FIRST_CALLS.write_text(json.dumps(document, indent=2) + "\n")
    if not names:
        rounds = [{turns: compiling(turns) for turns in TURNS} for _ in range(ROUNDS)]
        document["turns"] = {turns: statistics.median(r[turns] for r in rounds) for turns in TURNS}
        FIRST_CALLS.write_text(json.dumps(document, indent=2) + "\n")
    typer.echo(first_calls_sentence(document))


if __name__ == "__main__":
    typer.run(main)
