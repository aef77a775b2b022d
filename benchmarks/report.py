"""Reports of the stored measurements: sheets on a terminal, and a plot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from benchmarks import sheets
from benchmarks.sheets import Sheet
from benchmarks.workloads import WORKLOADS

RESULTS = Path(__file__).resolve().parent / "results"

Record = dict[str, Any]


def load(folder: Path = RESULTS) -> list[Record]:
    """The stored measurements, in the order in which the workloads are defined."""
    paths = [folder / f"{name}.json" for name in WORKLOADS]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def terminal(documents: Sequence[Record]) -> Iterator[Table | Text]:
    """Everything that the measurements say, for a terminal."""
    shown = [sheets.everything(documents), sheets.ratios(documents), sheets.changing_sizes(documents)]
    yield from (table(sheet) for sheet in shown if sheet.rows)
    yield Text("\n".join(sheets.notes(documents)))


def table(sheet: Sheet) -> Table:
    """A sheet as rich's table, with a section for each text of the first column."""
    made = Table(title=sheet.title, title_justify="left", box=SIMPLE_HEAD)
    for number, column in enumerate(sheet.columns):
        made.add_column(column, justify="left" if number < sheet.labels else "right", no_wrap=number < sheet.labels)
    previous = ""
    for row in sheet.rows:
        if sheet.labels > 1 and previous and row[0] != previous:
            made.add_section()
        made.add_row("" if row[0] == previous else row[0], *row[1:])
        previous = row[0]
    return made


def plot(documents: Sequence[Record], path: Path) -> None:
    """Bars of the speed-ups with their 95 % bounds, written to ``path`` in the format that its ending names."""
    from matplotlib.figure import Figure

    bars = [(d["workload"], name, ratio) for d in documents for name, ratio in d["speedups"].items()]
    labels = [f"{workload}  {name}" for workload, name, _ in bars]
    middles = [ratio["median"] for *_, ratio in bars]
    spread = [
        [max(0.0, ratio["median"] - ratio["low"]) for *_, ratio in bars],
        [max(0.0, ratio["high"] - ratio["median"]) for *_, ratio in bars],
    ]
    colours = ["tab:orange" if name.startswith("zenith") else "tab:gray" for _, name, _ in bars]
    figure = Figure(figsize=(8, 0.5 + 0.35 * len(bars)), layout="constrained")
    axes = figure.subplots()
    axes.barh(range(len(bars)), middles, xerr=spread, color=colours)
    axes.set_yticks(range(len(bars)), labels)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xlabel("times as fast as torch eager")
    figure.savefig(path)
