"""What the stored figures of generation say: a table for README.md."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import report

Record = dict[str, Any]

RESULTS = report.RESULTS / "decoding" / "decoding.json"
PRECISIONS = ("float32", "bf16", "int8", "int4")
NOTHING = "no figures are stored yet, `python -m benchmarks.decoding folder` measures them."


def load(path: Path = RESULTS) -> dict[str, Any] | None:
    """The stored figures, if there are any."""
    return json.loads(path.read_text()) if path.exists() else None


def table(document: dict[str, Any] | None) -> str:
    """Tokens a second of everyone, and how many times as many Zenith's are as the best other one's."""
    if document is None:
        return NOTHING
    contenders = document["contenders"]
    names = list(dict.fromkeys(key.split()[0] for key in contenders))
    names.sort(key=lambda name: name == "zenith")
    heads = ["tokens a second", *names, "over the best", "at equal bandwidth", "prompt of 512, over the best"]
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for precision in PRECISIONS:
        own = {name: contenders[f"{name} {precision}"] for name in names if f"{name} {precision}" in contenders}
        cells = [f"{1 / own[name]['token_s']:.1f}" if name in own else "" for name in names]
        cells += [_ratio(own, figure) for figure in (seconds, transferable, prefill)]
        lines.append(f"| {' | '.join([precision, *cells])} |")
    where = f"{document['machine']['cpu']}, {document['machine']['cores']} cores, {document['date'][:10]}"
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items() if version)
    speeds = [record["bandwidth"] / 1e9 for record in contenders.values()]
    noise = (
        "A token takes as long as reading the weights, and the memory of this shared machine gave "
        f"{min(speeds):.0f} to {max(speeds):.0f} GB/s while they took turns. At equal bandwidth, the time of a token "
        "is multiplied by the bandwidth that was measured between the tokens of the same sequence."
    )
    return "\n".join([*lines, "", textwrap.fill(noise, 120), "", f"{document['description']}. {where}; {versions}."])


def seconds(record: Record) -> float:
    """Those of a token."""
    return float(record["token_s"])


def prefill(record: Record) -> float:
    """Those of a long prompt."""
    return float(record["prefill_s"])


def transferable(record: Record) -> float:
    """The bytes that the memory could have given in the time of a token."""
    return float(record["token_s"] * record["bandwidth"])


def _ratio(own: dict[str, Record], figure: Callable[[Record], float]) -> str:
    """How many times as large the figure of the best of the others is."""
    others = [figure(record) for name, record in own.items() if name != "zenith"]
    return f"{min(others) / figure(own['zenith']):.2f}x" if others and "zenith" in own else ""
