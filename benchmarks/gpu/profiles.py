"""Profiles of what falls short: each launch of the programs with which somebody else was faster.

Measurements say how long a call takes, not why. Where the fastest peer beats Zenith, a process of its own compiles the
workload as it was measured and profiles it; run as a program this prints one profile.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import contenders, worker, workloads
from benchmarks.gpu.contenders import OWN
from benchmarks.gpu.session import fastest_peer
from benchmarks.process import Record

TIMEOUT = 120.0  # seconds for one profile


def falls_short(document: Record) -> list[str]:
    """Zenith's front ends that the fastest peer has beaten in a stored measurement."""
    best = fastest_peer(document)
    over = {} if best is None else document["zenith_over"].get(best, {})
    return [own for own in OWN if own in over and over[own]["median"] < 1]


def profile(contender_name: str, workload_name: str) -> str:
    """The launches of a call, as a table; compiled and called here."""
    contender, workload = contenders.find(contender_name), workloads.find(workload_name)
    contender.load()
    with contender.scope():
        running, _ = worker.first_call(contender, workload)
        call: Any = running.call
        if not hasattr(call, "profile"):
            return f"{contender_name} has no profile here: its launches are inside PyTorch's program"
        return str(call.profile(*running.batches[0]))


def in_a_process(contender_name: str, workload_name: str) -> str:
    """The same in a process of its own; how it failed, if it did."""
    command = [sys.executable, "-m", "benchmarks.gpu.profiles", contender_name, workload_name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return f"no profile within {TIMEOUT:.0f} s"
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'it said nothing'}"
    return done.stdout


def write(
    documents: Sequence[Record], folder: Path, progress: Callable[[str], None],
    make: Callable[[str, str], str] = in_a_process,
) -> list[Path]:  # fmt: skip
    """Profile what falls short, each to a file in ``folder``; the files."""
    paths = []
    for document in documents:
        for own in falls_short(document):
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{document['workload']}_{own.rpartition(' ')[2]}.txt"
            progress(f"{document['workload']}, {own}: slower than {fastest_peer(document)}")
            path.write_text(make(own, document["workload"]))
            paths.append(path)
    return paths


if __name__ == "__main__":
    print(profile(*sys.argv[1:3]))
