"""Whole programs in plain NumPy, unchanged: NumPy, Numba and Zenith run the same source, JAX one rewritten for it.

``python -m benchmarks.plain`` measures the programs of ``tests/plain``. Of each call the contenders take turns, on
fresh copies of the arguments; results and written arguments are compared with NumPy's first. Numba is the better one of
``njit`` and ``njit(parallel=True)``; a program that it does not compile has no figure. JAX has its arguments on the
device already.
"""

from __future__ import annotations

import ast
import copy
import inspect
import json
import random
import statistics
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import numba
import numpy as np
import typer

import zenith
from benchmarks import machine
from benchmarks.plain.table import RESULTS, sentence, table, time_text
from tests.plain.program import Program
from tests.plain.rewritten import algebra, grids, recurrences, spectra
from tests.plain.test_programs import PROGRAMS

FIRST = 64  # sizes of arguments are doubled from this one on until NumPy takes ``LEAST`` seconds
LEAST = 0.03
LARGE = 1 << 28  # bytes of arguments that are not doubled either
SECONDS = 0.4  # of the calls of one contender, after which it makes no more
ROUNDS, IN_A_ROW = 7, 3  # of calls: the first in a row finds cold caches
SETTLED = 0.12  # seconds for which the threads of a BLAS look for work, and take it from the next contender's
TOLERANCE = 1e-6
REWRITTEN = {
    function.__name__: function
    for module in (grids, algebra, recurrences, spectra)
    for function in module.REWRITTEN
}  # fmt: skip
Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Contender:
    """Who runs a program: ``prepare`` makes the arguments of one call, which ``run`` may write if it ``writes``."""

    run: Callable[..., Any]
    prepare: Callable[[Arguments], Arguments] = copy.deepcopy
    writes: bool = True


def contenders(program: Program) -> Iterator[tuple[str, Contender]]:
    """Who runs a program, by name."""
    yield "numpy", Contender(program.function)
    yield "zenith", Contender(zenith.jit(program.function))
    yield "numba", Contender(numba.njit(program.function))
    yield "numba parallel", Contender(numba.njit(program.function, parallel=True))
    if function := REWRITTEN.get(program.name):
        yield "jax", Contender(lambda *args: jax.block_until_ready(function(*args)), on_device, writes=False)


def on_device(arguments: Arguments) -> Arguments:
    """The arguments with JAX's arrays for NumPy's."""
    return tuple(jax.device_put(a) if isinstance(a, np.ndarray) else a for a in arguments)


def has_loops(program: Program) -> bool:
    """Whether the source of a program has a loop of Python's."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(program.function)))
    return any(isinstance(node, (ast.For, ast.While)) for node in ast.walk(tree))


def calls_blas(program: Program) -> bool:
    """Whether the source of a program multiplies matrices, or calls what may."""
    nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(program.function)))))
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return any(isinstance(node, ast.MatMult) for node in nodes) or not named.isdisjoint({"dot", "linalg"})


def same(found: Any, expected: Any) -> bool:
    """Whether results agree, in their structure and values."""
    if isinstance(expected, (tuple, list)):
        return len(found) == len(expected) and all(same(a, b) for a, b in zip(found, expected, strict=True))
    if expected is not None and np.shape(found) != np.shape(expected):
        return False
    return expected is None or np.allclose(found, expected, TOLERANCE, TOLERANCE)


def agrees(result: Any, own: Arguments | None, expected: Any, plain: Arguments, given: Arguments) -> bool:
    """Whether a call gives and writes what NumPy does; one without effects (``own`` is None) gives what is written.

    ``plain`` are NumPy's arguments after the call, ``given`` before it.
    """
    if own is not None:
        return same(result, expected) and same(own, plain)
    written = [after for after, before in zip(plain, given, strict=True) if not np.array_equal(after, before)]
    return same(result, written if expected is None else expected)


def qualified(program: Program, size: int) -> dict[str, Contender]:
    """The contenders whose results are right."""
    found = {}
    arguments = program.arguments(size, np.random.default_rng(size))
    plain = copy.deepcopy(arguments)
    expected = program.function(*plain)
    for name, contender in contenders(program):
        if name in program.hangs:
            typer.echo(f"{program.name}: {name} does not end")
            continue
        own = contender.prepare(arguments)
        try:
            result = contender.run(*own)
        except Exception as error:
            if name in ("zenith", "jax"):
                raise
            typer.echo(f"{program.name}: {name}: {type(error).__name__}")
            continue
        if agrees(result, own if contender.writes else None, expected, plain, arguments):
            found[name] = contender
        else:
            typer.echo(f"{program.name}: {name} gives something else")
    return found


def medians(program: Program, size: int, found: dict[str, Contender]) -> dict[str, float]:
    """The median seconds of each contender's calls, some in a row by turns; who comes first changes."""
    arguments = program.arguments(size, np.random.default_rng(size))
    seconds: dict[str, list[float]] = {name: [] for name in found}
    order, multiplies = random.Random(0), calls_blas(program)
    for _ in range(ROUNDS):
        for name, contender in order.sample(list(found.items()), len(found)):
            for _ in range(IN_A_ROW):
                if len(seconds[name]) > 2 and sum(seconds[name]) > SECONDS:
                    break
                own = contender.prepare(arguments)
                begun = time.perf_counter()
                contender.run(*own)
                seconds[name].append(time.perf_counter() - begun)
            time.sleep(SETTLED if multiplies else 0.0)
    return {name: statistics.median(values) for name, values in seconds.items()}


def size_for(program: Program) -> int:
    """The size of the arguments of a program's calls: the largest test's where the first one is too large."""
    size = min(FIRST, program.largest)
    while True:
        arguments = program.arguments(size, np.random.default_rng(size))
        begun = time.perf_counter()
        try:
            program.function(*arguments)
        except IndexError:
            return max(program.sizes) if size == FIRST else size // 2
        is_large = sum(a.nbytes for a in arguments if isinstance(a, np.ndarray)) >= LARGE
        if time.perf_counter() - begun >= LEAST or size >= program.largest or is_large:
            return size
        size *= 2


def measure(program: Program) -> dict[str, Any]:
    """What is stored of one program."""
    size = size_for(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = medians(program, size, qualified(program, size))
    return {"size": size, "loops": has_loops(program), "seconds": seconds}


def main(
    names: Annotated[list[str] | None, typer.Argument()] = None, every: int = 1, output: Path = RESULTS
) -> None:  # fmt: skip
    """Measure programs (all by default, or one in ``every`` so many), store the results and print the table."""
    jax.config.update("jax_enable_x64", True)
    programs: dict[str, Any] = {}
    wrong: list[str] = []
    document = {"programs": programs, **machine.describe(("numpy", "numba", "jax", "zenith-compiler"))}
    output.parent.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS[::every]:
        if names and program.name not in names:
            continue
        record = measure(program)
        if "zenith" not in (seconds := record["seconds"]):
            wrong.append(program.name)
            continue
        programs[program.name] = record
        typer.echo(f"{program.name}: " + ", ".join(f"{n} {time_text(s)}" for n, s in seconds.items()))
        if not names:  # a run that is interrupted keeps what it has measured
            output.write_text(json.dumps(document, indent=2) + "\n")
    typer.echo(f"{sentence(document)}\n\n{table(document)}")
    if wrong:
        typer.echo(f"Zenith gives something else than NumPy: {', '.join(wrong)}")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
