"""What the stored figures of plain NumPy programs say: a sentence for README.md, a table for RESULTS.md."""

from __future__ import annotations

import json
import math
import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import report

RESULTS = report.RESULTS / "plain" / "plain.json"
FIRST_CALLS = report.RESULTS / "plain" / "first_calls.json"
LATE = 0.3  # seconds from the disk cache
NOTHING = "no figures are stored yet, `python -m benchmarks.plain` measures them."
PEERS = {"numpy": "NumPy", "numba": "Numba", "jax": "JAX"}


def load(path: Path = RESULTS) -> dict[str, Any] | None:
    """The stored figures, if there are any."""
    return json.loads(path.read_text()) if path.exists() else None


def with_best_numba(record: dict[str, Any]) -> dict[str, Any]:
    """The record with Numba's better version under its name."""
    seconds = dict(record["seconds"])
    both = [seconds.pop(name) for name in ("numba", "numba parallel") if name in seconds]
    return {**record, "seconds": seconds | ({"numba": min(both)} if both else {})}


def mean_ratio(records: Sequence[dict[str, Any]], over: str) -> tuple[float, int]:
    """How many times faster Zenith is than another one, as a geometric mean, and over how many programs."""
    ratios = [r["seconds"][over] / r["seconds"]["zenith"] for r in records if over in r["seconds"]]
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else math.nan, len(ratios)


def sentence(document: dict[str, Any] | None) -> str:
    """What the figures say on the whole."""
    if document is None:
        return NOTHING
    records = list(map(with_best_numba, document["programs"].values()))
    slower = sum(r["seconds"]["numpy"] < r["seconds"]["zenith"] for r in records)
    where = f"{document['machine']['cpu']}, {document['machine']['cores']} cores, {document['date'][:10]}"
    parts = (
        _ratio([r for r in records if r["loops"]], "numpy", "programs with Python loops", "NumPy"),
        _ratio(records, "numba", "that Numba compiles", "the better of `njit` and `njit(parallel=True)`"),
        _ratio(records, "jax", "that were rewritten for JAX by hand", "those"),
    )
    text = (
        f"Zenith is {'; '.join(parts)} (geometric means; {where}). NumPy is faster than Zenith in {slower} of "
        f"the {len(records)} programs that were measured."
    )
    return _filled(text)


def first_calls_sentence(document: dict[str, Any] | None) -> str:
    """What the figures of first calls say on the whole; "" where there are none."""
    if document is None:
        return ""
    cold, cached = ([r[kind] for r in document["programs"].values()] for kind in ("cold", "cached"))
    slow = sum(s >= LATE for s in cached)
    text = (
        f"A first call takes {statistics.median(cold):.1f} s ({max(cold):.1f} s at most) where nothing is cached, and "
        f"{statistics.median(cached):.2f} s ({max(cached):.2f} s at most) with the disk cache, over {len(cold)} "
        f"programs; {slow} of them take {LATE} s or longer then."
    )
    if turns := document.get("turns"):
        few, many = turns.items()
        text += f" A loop of {many[0]} turns compiles in {many[1] / few[1]:.2f} times the seconds of one of {few[0]}."
    return _filled(text)


def _filled(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _ratio(records: Sequence[dict[str, Any]], over: str, which: str, whom: str) -> str:
    ratio, count = mean_ratio(records, over)
    if not count:
        return f"not measured against {PEERS[over]}"
    return f"{ratio:.{0 if ratio >= 10 else 2}f} times as fast as {whom} over the {count} {which}"


def table(document: dict[str, Any] | None) -> str:
    """The stored figures as Markdown."""
    if document is None:
        return ""
    heads = ["program", "size", *PEERS.values(), "Zenith", *(f"over {name}" for name in PEERS.values())]
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for name, record in sorted(document["programs"].items()):
        seconds = with_best_numba(record)["seconds"]
        cells = [time_text(seconds.get(n)) for n in (*PEERS, "zenith")]
        ratios = [f"{seconds[n] / seconds['zenith']:.2f}x" if n in seconds else "" for n in PEERS]
        lines.append(f"| {' | '.join([name, str(record['size']), *cells, *ratios])} |")
    return "\n".join(lines)


def time_text(seconds: float | None) -> str:
    """Seconds in a unit that suits them; nothing for None."""
    return "" if seconds is None else f"{seconds * 1e6:.0f} us" if seconds < 1e-2 else f"{seconds * 1e3:.0f} ms"
