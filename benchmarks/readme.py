"""Renews what documents say of measurements from the stored results: ``python -m benchmarks.readme``.

README.md has a chart and sentences, docs/measurements.md the tables, benchmarks/RESULTS.md every figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import race, report, sheets
from benchmarks.decoding import table as decoding
from benchmarks.functions import table as functions
from benchmarks.plain import table as plain_programs
from benchmarks.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parent.parent
README, TABLES, CHART = ROOT / "README.md", ROOT / "docs" / "measurements.md", ROOT / "docs" / "pictures" / "race.svg"
RESULTS = Path(__file__).resolve().parent / "RESULTS.md"
RACE_BEGIN, RACE_END = "<!-- race: begin -->", "<!-- race: end -->"
BEGIN, END = "<!-- measurements: begin -->", "<!-- measurements: end -->"
PLAIN_BEGIN, PLAIN_END = "<!-- plain: begin -->", "<!-- plain: end -->"
DECODING_BEGIN, DECODING_END = "<!-- decoding: begin -->", "<!-- decoding: end -->"
FUNCTIONS_BEGIN, FUNCTIONS_END = "<!-- functions: begin -->", "<!-- functions: end -->"
NOTHING = "No measurements are stored yet: `make bench` makes them."


def summary(documents: Sequence[dict[str, Any]]) -> str:
    """The tables of docs/measurements.md, as Markdown."""
    if not documents:
        return NOTHING
    plain, quantised = _split(documents)
    tables = [sheets.ratios(plain), sheets.times(plain), sheets.changing_sizes(plain)]
    tables += [sheets.quantised(quantised)]
    return "\n\n".join(
        [*(sheets.markdown(s) for s in tables if s.rows), _descriptions(documents), *sheets.notes(documents)]
    )


def details(documents: Sequence[dict[str, Any]]) -> str:
    """RESULTS.md: every figure that was measured."""
    if not documents:
        return f"# Measurements\n\n{NOTHING}\n"
    plain, quantised = _split(documents)
    tables = [sheets.everything(documents), sheets.starts(plain), sheets.starts(quantised)]
    body = [*map(sheets.markdown, tables), _descriptions(documents), *sheets.notes(documents)]
    body += ["## Plain NumPy programs", *_plain(), plain_programs.table(plain_programs.load())]
    return "\n\n".join(["# Measurements", *body]) + "\n"


def _split(documents: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The measurements in floats, and those in which contenders quantise."""
    quantised = [d for d in documents if WORKLOADS[d["workload"]].calibration]
    return [d for d in documents if d not in quantised], quantised


def _plain() -> list[str]:
    """What is said of plain NumPy programs."""
    found = [
        plain_programs.sentence(plain_programs.load()),
        plain_programs.first_calls_sentence(plain_programs.load(plain_programs.FIRST_CALLS)),
    ]
    return [text for text in found if text]


def _descriptions(documents: Sequence[dict[str, Any]]) -> str:
    return "\n".join(f"- **{document['workload']}**: {document['description']}" for document in documents)


def renewed(documents: Sequence[dict[str, Any]]) -> dict[Path, str]:
    """What each file should say; ValueError where one has no marker."""
    floats, _ = _split(documents)
    plain = "\n\n".join(_plain())
    short = _between(README.read_text(encoding="utf-8"), RACE_BEGIN, RACE_END, race.sentence(floats))
    tables = _between(TABLES.read_text(encoding="utf-8"), BEGIN, END, summary(documents))
    each = f"{functions.sentence(functions.load())}\n\n{functions.table(functions.load())}".strip()
    tables = _between(tables, FUNCTIONS_BEGIN, FUNCTIONS_END, each)
    tables = _between(tables, DECODING_BEGIN, DECODING_END, decoding.table(decoding.load()))
    return {
        README: _between(short, PLAIN_BEGIN, PLAIN_END, plain),
        TABLES: _between(tables, PLAIN_BEGIN, PLAIN_END, plain),
        CHART: race.svg(floats),
        RESULTS: details(documents),
    }


def _between(text: str, first: str, last: str, content: str) -> str:
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"a document needs the markers {first} and {last}")
    return f"{before}{first}\n{content}\n{last}{after}"


def main() -> None:
    """Rewrite the files in place."""
    for path, text in renewed(report.load()).items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
