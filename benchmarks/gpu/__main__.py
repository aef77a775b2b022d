"""The command line: ``python -m benchmarks.gpu run [names]``, ``profile`` and ``table``. ``make gpu`` calls it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.gpu import pool, profiles, report, session
from benchmarks.gpu.check import RESULTS
from benchmarks.gpu.contenders import AUTOTUNE, COPY, EAGER, FROM_TORCH, GPU_CONTENDERS, JIT, PRODUCT
from benchmarks.gpu.workloads import GPU_WORKLOADS
from benchmarks.report import table as rich_table
from benchmarks.sheets import changing_sizes
from zenith.backends.cuda.presence import find, problem

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
console = Console(width=None if sys.stdout.isatty() else 160)

SLOW = (JIT, FROM_TORCH, EAGER, AUTOTUNE, COPY, PRODUCT)  # tuning takes minutes: a run of its own


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(GPU_WORKLOADS)}; all by default.")] = None,
    autotune: Annotated[bool, typer.Option(help="max-autotune alongside Zenith and eager; else all others.")] = False,
    seconds: Annotated[float, typer.Option(help="No workload begins when less than a minute is left.")] = 540,
    quick: Annotated[bool, typer.Option(help="A first look.")] = False,
    output: Annotated[Path, typer.Option(help="Folder for the JSON files.")] = RESULTS,
) -> None:
    """Measure workloads, store each as it is done; fails when Zenith failed or was refused."""
    if unknown := set(names or ()) - set(GPU_WORKLOADS):
        raise typer.BadParameter(
            f"unknown workloads {', '.join(sorted(unknown))}; there are {', '.join(GPU_WORKLOADS)}"
        )
    if why := problem(find()):
        console.print(f"nothing can be measured: {why}")
        raise typer.Exit(1)
    taking_part = [c.name for c in SLOW] if autotune else [name for name in GPU_CONTENDERS if name != AUTOTUNE.name]
    if not autotune and not names:
        _measure_pool(output)
    wrong: list[str] = []

    def stored(document: dict[str, Any]) -> None:
        console.print(rich_table(report.times([document])))
        wrong.extend(session.failures(document))

    settings = session.QUICK if quick else session.SETTINGS
    left = session.run(names or [*GPU_WORKLOADS], taking_part, settings, output, seconds, console.print, stored)
    if left:
        console.print(f"no time was left for {', '.join(left)}: name them to measure them")
    if wrong:
        console.print(*wrong, sep="\n")
        raise typer.Exit(1)


def _measure_pool(folder: Path) -> None:
    counters = pool.in_a_process()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pool.json").write_text(json.dumps(counters, indent=2) + "\n")
    console.print(report.pool(counters))


@app.command()
def profile(folder: Annotated[Path, typer.Option(help="Where the JSON files are.")] = RESULTS) -> None:
    """Profile each stored workload in which a peer was faster than Zenith, into the folder's ``profiles``."""
    made = profiles.write(session.load(folder), folder / "profiles", console.print)
    console.print(f"{len(made)} profiles" if made else "nothing falls short, or nothing was measured")


@app.command()
def table(folder: Annotated[Path, typer.Option(help="Where the JSON files are.")] = RESULTS) -> None:
    """Print the stored results; write them to RESULTS.md and speedups.svg in the folder."""
    path = folder / "pool.json"
    counters = json.loads(path.read_text()) if path.exists() else None
    for results in (folder, folder / "autotune"):
        documents = session.load(results)
        if not documents:
            console.print(f"{results}: {report.NOTHING}")
            continue
        for sheet in (report.best_peers, report.beside_libraries, changing_sizes, report.times):
            console.print(rich_table(sheet(documents)))
        (results / "RESULTS.md").write_text(report.document(documents, counters if results == folder else None))
        report.plot(documents, results / "speedups.svg")


if __name__ == "__main__":
    app(prog_name="python -m benchmarks.gpu")
