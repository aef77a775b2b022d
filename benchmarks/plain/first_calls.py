"""First calls of plain NumPy programs: ``python -m benchmarks.plain.first_calls`` measures and stores them.

Each call has a process of its own, forked from one that has imported Zenith, and has compiled nothing. The first finds
an empty cache on disk, and imports Numba; the second finds what the first has stored.
"""

from __future__ import annotations

import copy
import json
import multiprocessing
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import zenith
from benchmarks import machine
from benchmarks.plain.table import FIRST_CALLS, first_calls_sentence
from tests.plain.program import Program
from tests.plain.test_programs import PROGRAMS

PROCESSES = multiprocessing.get_context("fork")


def seconds(program: Program, folder: str) -> float:
    """The seconds of a first call in a new process, with a cache in ``folder``."""
    here, there = PROCESSES.Pipe()
    process = PROCESSES.Process(target=_call, args=(program, folder, there))
    process.start()
    there.close()
    took: float = here.recv()
    process.join()
    return took


def _call(program: Program, folder: str, results: Connection) -> None:
    zenith.config.cache_dir = Path(folder)
    arguments = program.arguments(max(program.sizes), np.random.default_rng(0))
    own = copy.deepcopy(arguments)
    begun = time.perf_counter()
    zenith.jit(program.function)(*own)
    results.send(time.perf_counter() - begun)


def both(program: Program) -> dict[str, float]:
    """The seconds without and with a cache."""
    with tempfile.TemporaryDirectory() as folder:
        return {kind: seconds(program, folder) for kind in ("cold", "cached")}


def main(names: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Measure the programs (all by default), print their seconds, and store those of all."""
    found: dict[str, Any] = {}
    document = {"programs": found, **machine.describe(("numpy", "numba", "zenith-compiler"))}
    for program in PROGRAMS:
        if not names or program.name in names:
            found[program.name] = both(program)
            typer.echo(f"{program.name}: " + ", ".join(f"{kind} {s:.2f} s" for kind, s in found[program.name].items()))
            if not names:  # a run that is interrupted keeps what it has measured
                FIRST_CALLS.write_text(json.dumps(document, indent=2) + "\n")
    typer.echo(first_calls_sentence(document))


if __name__ == "__main__":
    typer.run(main)
