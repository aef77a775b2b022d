"""Zenith beside the fastest other contender of each workload: a chart and a sentence for README.md."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.contenders import OWN

_ROW, _LEFT, _WIDTH, _RIGHT, _TOP = 17, 128, 420, 150, 26  # pixels: a bar's height, the names, the bars, the peers
_MARKS = (0.5, 1, 2, 4, 8)
_AHEAD, _BEHIND, _TEXT, _RULE = "#0d9488", "#ea580c", "#6b7280", "#9ca3af"  # readable on white and on black


@dataclass(frozen=True, slots=True)
class Row:
    """A workload: how many times as fast the better of Zenith's front ends is as the fastest peer."""

    workload: str
    peer: str
    ratio: float


def rows(documents: Sequence[dict[str, Any]]) -> list[Row]:
    """Those of the workloads that a peer ran, the largest ratio first."""
    found = [row for row in map(_row, documents) if row is not None]
    return sorted(found, key=lambda row: -row.ratio)


def _row(document: dict[str, Any]) -> Row | None:
    over = document["zenith_over"]
    worst = [
        min((faster[own]["median"], peer) for peer, faster in over.items() if own in faster)
        for own in OWN
        if any(own in faster for faster in over.values())
    ]
    if not worst:
        return None
    ratio, peer = max(worst)
    return Row(document["workload"], peer, ratio)


def sentence(documents: Sequence[dict[str, Any]]) -> str:
    """What the chart says on the whole, and where it was measured."""
    found = rows(documents)
    if not found:
        return "No measurements are stored yet: `make bench` makes them."
    mean = math.exp(statistics.fmean(math.log(row.ratio) for row in found))
    behind = [f"{row.workload} ({row.ratio:.2f})" for row in found if row.ratio < 1]
    machines = ", ".join(dict.fromkeys(document["machine"]["cpu"] for document in documents))
    threads = ", ".join(dict.fromkeys(str(document["settings"]["threads"]) for document in documents))
    dates = sorted(document["date"][:10] for document in documents)
    text = (
        f"{len(found)} workloads, each beside the fastest of PyTorch, its inductor, ONNX Runtime, OpenVINO, JAX, NumPy "
        f"and numexpr that can run it: {mean:.2f} times as fast in the geometric mean, ahead in "
        f"{len(found) - len(behind)}, behind in {', '.join(reversed(behind))} ({machines}; {threads} threads; "
        f"{dates[0]} to {dates[-1]})."
    )
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def svg(documents: Sequence[dict[str, Any]]) -> str:
    """The chart: a bar for each workload, on a logarithmic scale, from 1 to the ratio."""
    return "\n".join(_lines(rows(documents))) + "\n"


def _lines(found: Sequence[Row]) -> Iterator[str]:
    least, most = (math.log2(bound) for bound in (_MARKS[0], max([_MARKS[-1], *(row.ratio for row in found)])))

    def at(ratio: float) -> float:
        return round(_LEFT + _WIDTH * (math.log2(max(ratio, _MARKS[0])) - least) / (most - least), 1)

    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + _ROW * len(found) + 6
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11" fill="{_TEXT}">'
    )
    for mark in _MARKS:
        x = at(mark)
        yield f'<line x1="{x}" y1="{_TOP - 6}" x2="{x}" y2="{height}" stroke="{_RULE}" stroke-width="0.5"/>'
        yield f'<text x="{x}" y="{_TOP - 11}" text-anchor="middle">{mark:g}x</text>'
    for number, row in enumerate(found):
        top, start, end = _TOP + _ROW * number, *sorted((at(1), at(row.ratio)))
        yield f'<text x="{_LEFT - 8}" y="{top + 11}" text-anchor="end">{row.workload}</text>'
        colour = _AHEAD if row.ratio >= 1 else _BEHIND
        yield f'<rect x="{start}" y="{top + 2}" width="{round(end - start, 1)}" height="{_ROW - 5}" fill="{colour}"/>'
        yield f'<text x="{max(end, at(1)) + 6}" y="{top + 11}">{row.ratio:.2f}x {row.peer}</text>'
    yield "</svg>"
