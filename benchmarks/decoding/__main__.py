"""``python -m benchmarks.decoding folder``: every contender in turn, each in a process of its own, in several rounds.

The folder has a model of Hugging Face's; ``--make`` writes TinyLlama's architecture with seeded weights there. Files
for llama.cpp and OpenVINO are made by :mod:`benchmarks.decoding.gguf_file` and :mod:`benchmarks.decoding.export`, where
``gguf`` and ``optimum-intel`` are installed; a contender without its file, or its library, is left out.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import machine
from benchmarks.decoding.sessions import SESSIONS
from benchmarks.decoding.table import PRECISIONS, RESULTS, table
from benchmarks.decoding.worker import LONG, NEW, PROMPT
from benchmarks.workloads.llama import TINY_LLAMA

SEED = 42
LIBRARIES = ("llama-cpp-python", "openvino", "torch", "transformers", "zenith-compiler")


def make(folder: Path) -> None:
    """Write the model."""
    model = TINY_LLAMA.torch(SEED).eval()
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)


def measured(name: str, precision: str, folder: Path) -> dict[str, Any] | None:
    """The figures of one contender; None where it cannot run."""
    command = [sys.executable, "-m", "benchmarks.decoding.worker", name, precision, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if done.returncode:
        typer.echo(f"{name} {precision}: {done.stderr.strip().splitlines()[-1]}")
        return None
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    typer.echo(f"{name} {precision}: {figures['token_s'] * 1e3:.1f} ms a token")
    return figures


def joined(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians of several rounds."""
    numbers = {key: [r[key] for r in rounds if r.get(key) is not None] for key in rounds[0]}
    return {key: statistics.median(found) if found else None for key, found in numbers.items()}


def main(
    folder: Path,
    rounds: Annotated[int, typer.Option(help="how often everyone runs")] = 2,
    only: Annotated[list[str] | None, typer.Option(help="names of contenders")] = None,
    make_model: Annotated[bool, typer.Option("--make", help="write the model first")] = False,
) -> None:
    """Measure, and store the figures."""
    if make_model:
        make(folder)
    # The first one's logits are the reference; who is compared is measured in neighbouring minutes.
    order = sorted(SESSIONS, key=lambda pair: (pair != ("torch", "float32"), PRECISIONS.index(pair[1])))
    chosen = [pair for pair in order if not only or pair[0] in only]
    found: dict[tuple[str, str], list[dict[str, Any]]] = {pair: [] for pair in chosen}
    for _ in range(rounds):
        for pair in chosen:
            figures = measured(*pair, folder)
            found[pair] += [figures] if figures else []
    document = {
        "description": f"{NEW} tokens after {PROMPT}, greedy, batch 1, a prompt of {LONG}: a Llama of {TINY_LLAMA}",
        "rounds": rounds,
        **machine.describe(LIBRARIES),
        "contenders": {" ".join(pair): joined(figures) for pair, figures in found.items() if figures},
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    typer.echo(table(document))


if __name__ == "__main__":
    typer.run(main)
