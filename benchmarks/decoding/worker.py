"""One contender in a process of its own: ``python -m benchmarks.decoding.worker zenith int4 folder``."""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.decoding.sessions import SESSIONS, THREADS, Session

PROMPT, NEW, LONG, FORCED = 28, 100, 512, 8
STREAMED = 1 << 28  # bytes of the array that measures the memory's bandwidth
SAMPLES = 5  # of the bandwidth while tokens are made


class Memory:
    """An array that is read to find the memory's bandwidth."""

    def __init__(self) -> None:
        import torch

        torch.set_num_threads(THREADS)
        self._array = torch.ones(STREAMED // 4)

    def bandwidth(self) -> float:
        """Bytes a second that the machine reads now."""
        times = []
        for _ in range(3):
            start = time.perf_counter()
            self._array.sum()
            times.append(time.perf_counter() - start)
        return STREAMED / min(times)


def tokens(count: int, vocabulary: int, seed: int) -> Any:
    """Random ids."""
    return np.random.default_rng(seed).integers(0, vocabulary, count)


def generate(session: Session, prompt: Any, memory: Memory) -> tuple[list[float], list[float], list[int]]:
    """The seconds of each new token, the bandwidth before some of them, and the tokens: greedy."""
    session.reset(len(prompt) + NEW)
    logits, times, speeds, found = session.feed(prompt), [], [], []
    for number in range(NEW):
        if number % (NEW // SAMPLES) == 0:
            speeds.append(memory.bandwidth())
        start = time.perf_counter()
        found.append(int(logits.argmax()))
        logits = session.feed(np.array(found[-1:]))
        times.append(time.perf_counter() - start)
    return times, speeds, found


def share_of(size: int, times: list[float], speeds: list[float]) -> float:
    """What a pass over so many bytes takes of a token's time, at the bandwidth of the same moments."""
    chunk = len(times) // len(speeds)
    tokens = [statistics.median(times[i * chunk : (i + 1) * chunk]) for i in range(len(speeds))]
    return statistics.median(size / speed / token for speed, token in zip(speeds, tokens, strict=True))


def logits_of(session: Session, ids: Any) -> Any:
    """The logits after a prompt, and after each of the last few ids, fed one by one."""
    session.reset(len(ids))
    first = len(ids) - FORCED
    return np.stack([session.feed(ids[:first]), *(session.feed(ids[i : i + 1]) for i in range(first, len(ids)))])


def relative(found: Any, exact: Any) -> float:
    """The root of the mean squared error, by the root mean square."""
    return float(np.linalg.norm(found.astype(np.float64) - exact) / np.linalg.norm(exact))


def prefill(session: Session, ids: Any) -> float:
    """The seconds of a long prompt."""
    times = []
    for _ in range(3):
        session.reset(len(ids))
        start = time.perf_counter()
        session.feed(ids)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def measure(name: str, precision: str, folder: Path) -> dict[str, Any]:
    """All figures of one contender."""
    config = json.loads((folder / "config.json").read_text())
    vocabulary, reference = config["vocab_size"], folder / "reference.npy"
    start = time.perf_counter()
    session = SESSIONS[name, precision](folder)
    loaded = time.perf_counter() - start
    ids = tokens(PROMPT + FORCED, vocabulary, 1)
    start = time.perf_counter()
    found = logits_of(session, ids)
    first = time.perf_counter() - start
    if (name, precision) == ("torch", "float32"):
        np.save(reference, found)
    if hasattr(session, "settle"):
        session.settle()
    times, speeds, sequence = generate(session, tokens(PROMPT, vocabulary, 2), Memory())
    assert len(sequence) == NEW
    figures = {
        "loaded_s": loaded, "first_s": first, "token_s": statistics.median(times),
        "bandwidth": statistics.median(speeds), "bytes": session.bytes,
        "prefill_s": prefill(session, tokens(LONG, vocabulary, 3)),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "resident": _resident(),
        "error": relative(found, np.load(reference)) if reference.exists() else None,
    }  # fmt: skip
    if session.bytes:
        figures["share"] = share_of(session.bytes, times, speeds)
    return figures


def _resident() -> int:
    """Bytes of memory that this process has now, without those of files that it reads as memory."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous"))


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
