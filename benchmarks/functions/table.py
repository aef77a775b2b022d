"""What the stored ratios of NumPy's functions say: a sentence, and a table of those in which NumPy is ahead."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import report

RESULTS = report.RESULTS / "functions" / "functions.json"
NOTHING = "no figures are stored yet, `make bench-numpy` measures them."
LARGE = 10_000  # elements from which on a call's own cost hardly counts
EVEN = 0.95  # what this machine's noise cannot tell from 1


def load(path: Path = RESULTS) -> dict[str, Any] | None:
    """The stored figures, if there are any."""
    return json.loads(path.read_text()) if path.exists() else None


def _ratios(document: dict[str, Any]) -> Iterator[tuple[str, str, int, float]]:
    """Function, element type, size and ratio of each race."""
    for name, types in document["functions"].items():
        for dtype, sizes in types.items():
            yield from ((name, dtype, int(size), record["median"]) for size, record in sizes.items())


def sentence(document: dict[str, Any] | None) -> str:
    """What the figures say on the whole."""
    if document is None:
        return NOTHING
    found, where = list(_ratios(document)), f"{document['machine']['cpu']}, {document['machine']['cores']} cores"
    large = [ratio for _, _, size, ratio in found if size >= LARGE]
    mean = math.exp(statistics.fmean(map(math.log, large)))
    behind = sum(ratio < EVEN for ratio in large)
    small = [ratio for _, _, size, ratio in found if size < LARGE]
    few = math.exp(statistics.fmean(map(math.log, small)))
    return (
        f"{len(document['functions'])} of NumPy's functions, each alone, on 10 000 and 1 000 000 elements: Zenith is "
        f"{mean:.2f} times as fast (geometric mean), and NumPy is ahead in {behind} of {len(large)} races. Of 100 "
        f"elements, where a call is mostly its own cost, it is {few:.2f} times ({where}, {document['date'][:10]})."
    )


def table(document: dict[str, Any] | None) -> str:
    """The functions in which NumPy is ahead, in Markdown; the smallest ratio first."""
    if document is None:
        return ""
    behind = sorted((r, n, d, s) for n, d, s, r in _ratios(document) if s >= LARGE and r < EVEN)
    lines = ["| function | elements | type | Zenith over NumPy |", "| --- | ---: | --- | ---: |"]
    return "\n".join([*lines, *(f"| {n} | {s} | {d} | {r:.2f}x |" for r, n, d, s in behind)])
