"""The command line: ``python -m benchmarks run [names]``, ``table``, ``plot``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import harness, report
from benchmarks.contenders import CONTENDERS
from benchmarks.settings import Settings
from benchmarks.workloads import WORKLOADS

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
console = Console(width=None if sys.stdout.isatty() else 140)


@app.command()
def run(
    names: Annotated[
        list[str] | None, typer.Argument(help=f"Workloads: {', '.join(WORKLOADS)}; all by default.")
    ] = None,
    contender: Annotated[
        list[str] | None, typer.Option(help="Only these, stored only where --output says; may be repeated.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Timed rounds of each process.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="For every library.")] = Settings.threads,
    keep_memory: Annotated[bool, typer.Option(help="Let the C library keep freed memory, for every contender.")] = True,
    quick: Annotated[bool, typer.Option(help="A first look; stored only where --output says.")] = False,
    output: Annotated[Path | None, typer.Option(help="Folder for the JSON files.")] = None,
) -> None:
    """Measure workloads and store the results; fails when a contender failed or was refused."""
    _check("workloads", names, WORKLOADS)
    _check("contenders", contender, CONTENDERS)
    settings = Settings.quick(threads) if quick else Settings(threads=threads)
    settings = replace(settings, keep_memory=keep_memory, rounds=rounds or settings.rounds)
    folder = output or (None if quick or contender else report.RESULTS)
    with console.status("") as status:
        documents = harness.run(
            names or list(WORKLOADS), contender or list(CONTENDERS), settings, folder, status.update
        )
    console.print(*report.terminal(documents), sep="\n")
    records = [record for document in documents for record in document["contenders"].values()]
    if any("failed" in record or "refused" in record for record in records):
        raise typer.Exit(1)


def _check(what: str, names: list[str] | None, known: Mapping[str, object]) -> None:
    if unknown := sorted(set(names or ()) - set(known)):
        raise typer.BadParameter(f"unknown {what} {', '.join(unknown)}; there are {', '.join(known)}")


@app.command()
def table(folder: Annotated[Path, typer.Option(help="Where the JSON files are.")] = report.RESULTS) -> None:
    """Print the stored results."""
    console.print(*report.terminal(report.load(folder)), sep="\n")


@app.command()
def plot(
    folder: Annotated[Path, typer.Option(help="Where the JSON files are.")] = report.RESULTS,
    output: Annotated[Path, typer.Option(help="The picture; its ending names the format.")] = Path("benchmarks.svg"),
) -> None:
    """Draw the stored speed-ups."""
    report.plot(report.load(folder), output)
    console.print(f"wrote {output}")


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
