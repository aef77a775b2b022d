"""Renews the table of measurements in README.md from the stored results: ``python -m benchmarks.readme``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import report

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- measurements: begin -->", "<!-- measurements: end -->"
NOTHING = "No measurements are stored yet: `make bench` makes them."


def markdown(documents: Sequence[dict[str, Any]]) -> str:
    """The measurements as a Markdown table, with their circumstances below."""
    if not documents:
        return NOTHING
    lines = [report.COLUMNS, tuple("---" for _ in report.COLUMNS), *report.rows(documents)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    workloads = "\n".join(f"- **{d['workload']}**: {d['description']}" for d in documents)
    notes = [*report.absences(documents), *dict.fromkeys(report.heading(document) for document in documents)]
    return f"{table}\n\n{workloads}\n\n" + "\n\n".join(notes)


def renew(text: str, documents: Sequence[dict[str, Any]]) -> str:
    """The text with everything between the two markers replaced; ValueError when a marker is missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README needs the markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{markdown(documents)}\n{END}{after}"


def main() -> None:
    """Rewrite README.md in place."""
    README.write_text(renew(README.read_text(), report.load()))


if __name__ == "__main__":
    main()
