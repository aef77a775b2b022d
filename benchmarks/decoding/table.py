"""What the stored figures of generation say: a table for README.md."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from benchmarks import report

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
    heads = ["tokens a second", *names, "over the best", "prompt of 512, over the best"]
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for precision in PRECISIONS:
        own = {name: contenders[f"{name} {precision}"] for name in names if f"{name} {precision}" in contenders}
        cells = [f"{1 / own[name]['token_s']:.1f}" if name in own else "" for name in names]
        cells += [_ratio(own, "token_s"), _ratio(own, "prefill_s")]
        lines.append(f"| {' | '.join([precision, *cells])} |")
    where = f"{document['machine']['cpu']}, {document['machine']['cores']} cores, {document['date'][:10]}"
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items() if version)
    speeds = [record["bandwidth"] / 1e9 for record in contenders.values()]
    noise = (
        "A token takes as long as reading the weights, and the memory of this shared machine gave "
        f"{min(speeds):.0f} to {max(speeds):.0f} GB/s while they took turns: ratios near 1 say little."
    )
    return "\n".join([*lines, "", textwrap.fill(noise, 120), "", f"{document['description']}. {where}; {versions}."])


def _ratio(own: dict[str, Any], figure: str) -> str:
    """How many times as fast Zenith is as the best of the others."""
    others = [record[figure] for name, record in own.items() if name != "zenith"]
    return f"{min(others) / own['zenith'][figure]:.2f}x" if others and "zenith" in own else ""
