"""What the stored measurements say: rows for every form of report, a table, a plot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.workloads import WORKLOADS

RESULTS = Path(__file__).resolve().parent / "results"
COLUMNS = ("workload", "contender", "median", "IQR", "speed-up (95 %)", "error", "import", "first call")
ABSENCES = ("missing", "refused", "failed")

Record = dict[str, Any]


def load(folder: Path = RESULTS) -> list[Record]:
    """The stored measurements, in the order in which the workloads are defined."""
    paths = [folder / f"{name}.json" for name in WORKLOADS]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def duration(seconds: float) -> str:
    """Three significant digits and a fitting unit.

    >>> duration(0.00001234), duration(0.1), duration(2.5)
    ('12.3 us', '100 ms', '2.5 s')
    """
    for unit, scale in (("us", 1e6), ("ms", 1e3)):
        if seconds * scale < 999.5:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def rows(documents: Iterable[Record]) -> Iterator[tuple[str, ...]]:
    """One row per workload and contender, under COLUMNS; who did not take part is named too."""
    for document in documents:
        for name, record in document["contenders"].items():
            yield (document["workload"], name, *_cells(name, record, document))


def _cells(name: str, record: Record, document: Record) -> tuple[str, ...]:
    for absence in ABSENCES:
        if absence in record:
            return (absence, *[""] * (len(COLUMNS) - 3))
    ratio = document["speedups"].get(name)
    return (
        duration(record["median_s"]),
        f"{(record['q3_s'] - record['q1_s']) / record['median_s']:.0%}",
        f"{ratio['median']:.2f}x ({ratio['low']:.2f}-{ratio['high']:.2f})" if ratio else "1x",
        f"{record['error']:.1e}",
        duration(record["cold"]["import_s"]),
        duration(record["cold"]["first_call_s"]),
    )


def absences(documents: Iterable[Record]) -> list[str]:
    """Why a contender has no numbers: one line for each that is missing, was refused or failed."""
    return [
        f"{document['workload']}, {name}: {absence}: {record[absence].splitlines()[0]}"
        for document in documents
        for name, record in document["contenders"].items()
        for absence in ABSENCES
        if absence in record
    ]


def heading(document: Record) -> str:
    """The circumstances of a measurement, on one line."""
    box, versions = document["machine"], document["versions"]
    software = ", ".join(f"{name} {version or '(not installed)'}" for name, version in versions.items())
    hardware = f"{box['cpu']}, {box['memory_gib']} GiB, {box['system']}, {document['settings']['threads']} threads"
    return f"{hardware}; {software}; revision {document['revision']}, {document['date'][:10]}"


def table(documents: Sequence[Record]) -> Table:
    """The rows as a table for a terminal."""
    caption = "\n".join([*absences(documents), *dict.fromkeys(heading(document) for document in documents)])
    made = Table(title="Speed-up is over torch eager, by paired rounds", caption=caption, box=SIMPLE_HEAD)
    for column in COLUMNS:
        made.add_column(column, justify="left" if column in COLUMNS[:2] else "right", no_wrap=True)
    previous = ""
    for row in rows(documents):
        if previous and row[0] != previous:
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
