"""The command line: ``zenith doctor`` says what Zenith finds on this machine, each line by really trying.

``zenith cache`` lists what is compiled on disk, ``zenith inspect`` the contents of a saved file; ``zenith tune``
measures schedules on the GPU, and stores the fastest for later compilations. ``python -m zenith`` is the same.

>>> check("python", python_version).passed
True
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import zenith
from zenith.backends.cuda import presence
from zenith.config import config
from zenith.errors import LoadError, ZenithError
from zenith.files import check_replaceable

app = typer.Typer(help="Zenith, a compiler for NumPy functions and PyTorch modules.", no_args_is_help=True)


class MissingOptional(Exception):
    """Something optional is not there; the message says why and what to do."""


@dataclass(frozen=True)
class Finding:
    """The outcome of one check: ``passed`` is None where something optional is absent."""

    name: str
    passed: bool | None
    text: str


def check(name: str, probe: Callable[[], str]) -> Finding:
    """Run a probe; whatever it raises becomes the finding's text."""
    try:
        return Finding(name, True, probe())
    except MissingOptional as reason:
        return Finding(name, None, str(reason))
    except Exception as error:
        return Finding(name, False, f"{type(error).__name__}: {error}")


def python_version() -> str:
    """The interpreter."""
    return f"{platform.python_version()} ({sys.executable})"


def _version(module: str, distribution: str = "") -> Callable[[], str]:
    def probe() -> str:
        importlib.import_module(module)
        return importlib.metadata.version(distribution or module)

    return probe


def torch_version() -> str:
    """PyTorch, and a tensor that Zenith reads without a copy."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise MissingOptional("not installed: pip install 'zenith-compiler[torch]'") from None
    from zenith.arrays import torch_adapter

    adapter = torch_adapter()
    tensor = adapter.from_numpy(np.arange(3.0))
    if adapter.address(tensor) != adapter.numpy(tensor).ctypes.data:
        raise RuntimeError(f"torch {version} does not share memory with NumPy")
    return f"{version}, shares memory with NumPy"


def processor() -> str:
    """The processor, and the instruction set that kernels are compiled for."""
    from zenith.backends.cpu import vectors

    chosen = vectors.select()
    found = [row.name for row in vectors.TABLE.values() if row.runs_on(vectors.host_features())]
    why = f"{vectors.VARIABLE} says so" if os.environ.get(vectors.VARIABLE) else "the widest here"
    return f"{platform.machine()}; kernels use {chosen.name} ({why}); available: {', '.join(found)}"


def threads() -> str:
    """The thread team, compiled and asked."""
    from zenith.backends.cpu.threads import team

    return f"{team().size} of {os.cpu_count()} cores (ZENITH_NUM_THREADS changes it)"


def cache_folder() -> str:
    """The folder of compiled kernels, by writing a file to it."""
    from zenith.backends.cache import store

    if config.cache_dir is None:
        raise MissingOptional("no home directory (ZENITH_CACHE_DIR names a folder): each process compiles again")
    folder = store()
    if folder is None:
        raise MissingOptional("turned off (ZENITH_CACHE=0): each process compiles again")
    entries = folder.entries()
    size, limit = sum(e.bytes for e in entries) / 1e6, folder.limit / 1e6
    what = f"{len(entries)} entries, {size:.1f} of {limit:.0f} MB (ZENITH_CACHE_DIR, ZENITH_CACHE_BYTES change it)"
    try:
        folder.check()
    except OSError as problem:
        if not entries:
            raise
        raise MissingOptional(f"{folder.folder}, only read ({problem}), {what}") from None
    return f"{folder.folder}, writable, {what}"


def cuda_packages() -> str:
    """CuPy and the driver, and the versions of CUDA that they are made for."""
    found = presence.find()
    versions = [
        f"{found.package} for CUDA {presence.version_text(found.built_for)}" if found.built_for else "no CuPy",
        f"driver for CUDA {presence.version_text(found.driver)}" if found.driver else "no driver",
    ]
    if found.package is None or found.driver is None:
        raise MissingOptional(", ".join(versions))
    return ", ".join(versions)


def cuda_compiler() -> str:
    """The compiler of CUDA kernels, which needs no GPU, by compiling one."""
    from zenith.backends.cuda.compile import available, compile_kernel
    from zenith.backends.cuda.forms import KernelForm
    from zenith.backends.cuda.target import cuda_target
    from zenith.backends.planner import plan
    from zenith.backends.steps import LaunchStep
    from zenith.passes.pipeline import run

    if not available():
        raise MissingOptional("not installed: pip install 'zenith-compiler[cuda13]'")
    optimized, _ = run(zenith.make_graph(np.tanh)(np.ones(3, np.float32)))
    (kernel,) = [step.kernel for step in plan(optimized, cuda_target()).steps if isinstance(step, LaunchStep)]
    code = compile_kernel(kernel, KernelForm(), "sm_90a")
    source = "the cache" if code.cached else f"{code.milliseconds / 1e3:.2f} s"
    return f"a kernel became {len(code.cubin)} bytes for {code.arch} ({source})"


def gpu() -> str:
    """NVIDIA GPUs: a function computed on the first, or why none can be used."""
    why = presence.problem(presence.find())
    if why is not None:
        raise MissingOptional(f"{why.what}: kernels run on the CPU\n{why.fix}")
    from zenith.arrays import cupy_adapter
    from zenith.backends.cuda.driver import driver

    device, adapter = driver().describe(driver().device()), cupy_adapter(driver().device())
    x = np.linspace(-3, 3, 101, dtype=np.float32)
    result = adapter.numpy(zenith.jit(np.tanh)(adapter.from_numpy(x)))
    zenith.synchronize()
    if not np.allclose(result, np.tanh(x), rtol=1e-5, atol=1e-6):
        raise RuntimeError(f"a function computed on {device.name} is wrong by {np.abs(result - np.tanh(x)).max()}")
    return f"{device.name} ({device.arch}, {device.memory / 1e9:.0f} GB), computes a function as NumPy does"


def compile_something() -> str:
    """Compile a function and compare it with NumPy."""

    def function(x: np.ndarray) -> np.ndarray:
        return np.tanh(x) + 1

    x = np.linspace(-3, 3, 101, dtype=np.float32)
    start = time.perf_counter()
    result = zenith.jit(function)(x)
    seconds = time.perf_counter() - start
    if not np.allclose(result, function(x), rtol=1e-6, atol=1e-6):
        raise RuntimeError(f"a compiled function is wrong by {np.abs(result - function(x)).max()}")
    return f"a function compiled in {seconds:.2f} s and agrees with NumPy"


CHECKS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("python", python_version),
    ("zenith", lambda: zenith.__version__),
    ("numpy", _version("numpy")),
    ("numba", _version("numba")),
    ("llvmlite", _version("llvmlite")),
    ("torch", torch_version),
    ("processor", processor),
    ("threads", threads),
    ("cache folder", cache_folder),
    ("CUDA", cuda_packages),
    ("CUDA compiler", cuda_compiler),
    ("GPU", gpu),
    ("compiler", compile_something),
)


def _print_version(asked: bool) -> None:
    if asked:
        Console().print(zenith.__version__, highlight=False)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Zenith, a compiler for NumPy functions and PyTorch modules."""


@app.command()
def doctor() -> None:
    """Check this machine, line by line. Exits with 0 when all that Zenith needs is there, else with 1."""
    findings = [check(name, probe) for name, probe in CHECKS]
    table = Table(title="zenith doctor", title_justify="left")
    for column in ("", "check", "finding"):
        table.add_column(column, overflow="fold")
    marks = {True: Text("ok", "green"), None: Text("-", "yellow"), False: Text("failed", "red")}
    for finding in findings:
        table.add_row(marks[finding.passed], finding.name, Text(finding.text))
    Console().print(table)
    if any(finding.passed is False for finding in findings):
        raise typer.Exit(1)


@app.command()
def cache(clear: Annotated[bool, typer.Option("--clear", help="Remove every entry.")] = False) -> None:
    """List what is compiled on disk, the latest used first: kernels' machine code, and whole programs."""
    from zenith.backends.cache import store

    folder = store()
    if folder is None:
        Console().print("The cache is turned off (ZENITH_CACHE=0), or has no folder (ZENITH_CACHE_DIR names one).")
        return
    if clear:
        try:
            Console().print(f"{folder.clear()} entries removed from {folder.folder}", soft_wrap=True, markup=False)
        except OSError as problem:
            Console().print(str(problem), soft_wrap=True, markup=False)
            raise typer.Exit(1) from None
        return
    entries = folder.entries()
    # A line of its own: a table's title is folded to the table's width, wherever the folder's name happens to end.
    Console().print(f"{folder.folder}: {len(entries)} entries", soft_wrap=True, markup=False, highlight=False)
    table = Table()
    for column in ("name", "kind", "last used", "bytes", "source"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        row = (entry.name, entry.kind, _ago(entry.age), str(entry.bytes), "yes" if entry.has_source else "no")
        table.add_row(*row)
    Console().print(table)


@app.command()
def inspect(file: Annotated[Path, typer.Argument(help="What save() wrote.")]) -> None:
    """List what a saved file or folder holds, and whether it runs here; nothing is run. Exits with 1 when damaged."""
    from zenith.api.precisions import weight_bytes
    from zenith.api.saving import read
    from zenith.backends.cpu.closed import check
    from zenith.backends.cuda.stored import CudaProgram

    try:
        archive = read(file)
    except (LoadError, OSError) as problem:
        Console().print(str(problem), markup=False)
        raise typer.Exit(1) from None
    try:
        check(archive.made_for, "it")
        runs = "runs here"
    except LoadError as problem:
        runs = f"does not run here: {problem.what}"
    made_for = archive.made_for
    saved = archive.content
    source = {"jit": "zenith.jit", "torch": "zenith.from_torch"}[saved.front]
    about = f"{saved.name} from {source}, {archive.bytes / 1e6:.1f} MB"
    if "cpu" in made_for:
        kind = f"{made_for['cpu']} with {made_for['instructions']}"
    else:
        kind = "GPUs of " + ", ".join(
            sorted({p.executable.arch for p in saved.programs if isinstance(p.executable, CudaProgram)})
        )
        runs = runs.replace("runs here", "runs on these")
    Console().print(f"{about}, for {kind}; {runs}", markup=False)
    table = Table(title_justify="left")
    for column in ("takes", "conditions", "kernels", "bytes of arrays", "of weights, by precision"):
        table.add_column(column, overflow="fold")
    for program in saved.programs:
        conditions = [condition.source for condition in program.binding.conditions]
        made = program.executable
        size = sum(array.nbytes for array in made.arrays)
        text = program.graph if isinstance(made, CudaProgram) else made.stages["optimized"]  # a GPU's is planned anew
        weights = ", ".join(f"{name} {count}" for name, count in weight_bytes(text).items())
        row = (", ".join(program.accepts), "; ".join(conditions), str(len(made.codes)), str(size), weights)
        table.add_row(*map(Text, row))
    Console().print(table)


@app.command()
def tune(
    products: Annotated[
        list[str] | None, typer.Argument(help="Rows x columns x terms, or batch x those: 1024x4096x1024.")
    ] = None,
    element: Annotated[str, typer.Option(help="f16, bf16, or f32 (by TF32).")] = "bf16",
    export: Annotated[Path | None, typer.Option(help="Write the table to this file, to be shipped.")] = None,
    take: Annotated[Path | None, typer.Option("--import", help="Add what a table in this file has.")] = None,
) -> None:
    """Measure the schedules of products on this GPU; what is compiled from now on takes the fastest."""
    from zenith.backends.cuda import tuning

    path = tuning.own_file()
    if path is None:
        Console().print("There is no home directory in which a table persists: give a folder with ZENITH_CACHE_DIR.")
        raise typer.Exit(1)
    targets = (path, *([] if export is None else [export]))
    table = tuning.read(path)
    try:
        for target in targets:
            check_replaceable(target, tuning.is_table)  # before anything is measured
        if take is not None:
            table = tuning.TuningTable.parsed(take.read_text()).over(table)
        if products:
            from zenith.tune import sizes_of
            from zenith.tune import tune as measure

            for name, measured in measure([sizes_of(text) for text in products], element).items():
                table = table.adding(name, measured)
    except (ZenithError, OSError, ValueError) as problem:
        Console().print(str(problem), markup=False)
        raise typer.Exit(1) from None
    try:
        for target in targets:
            tuning.write(target, table)
    except (ZenithError, OSError) as problem:
        Console().print(str(problem), markup=False)
        raise typer.Exit(1) from None
    Console().print(f"{path}: {len(table.entries)} entries", soft_wrap=True, markup=False, highlight=False)
    shown = Table("kernel", "schedule", "microseconds of each")
    for name, measured in sorted(table.entries.items()):
        times = ", ".join(f"{schedule} {time:.1f}" for schedule, time in measured.microseconds.items())
        shown.add_row(name, measured.schedule, times)
    Console().print(shown)


def _ago(seconds: float) -> str:
    """A span of time in the unit that suits it."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(0.0, seconds):.0f} s ago"
