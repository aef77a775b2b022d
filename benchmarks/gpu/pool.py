"""W2: sixty products of 1024x1024 matrices through the memory pool; run as a program it prints counters."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

PRODUCTS, SIZE = 60, 1024


def count() -> dict[str, Any]:
    """The pool's counters from the first call of a process to the last."""
    import cupy
    import numpy as np

    import zenith

    rng = np.random.default_rng(0)
    x, w = (cupy.asarray(rng.standard_normal((SIZE, SIZE), dtype=np.float32) / 32) for _ in range(2))
    product = zenith.jit(lambda x, w: x @ w)
    for _ in range(PRODUCTS):
        product(x, w)
    zenith.synchronize()
    stats = zenith.memory.stats()
    names = (
        "device",
        "pool",
        "allocations",
        "hits",
        "misses",
        "returns",
        "bytes_in_use",
        "peak_bytes",
        "reserved_bytes",
    )
    return {name: getattr(stats, name) for name in names} | {"hit_rate": stats.hit_rate, "products": PRODUCTS}


def in_a_process() -> dict[str, Any]:
    """The same in a process of its own; how it failed, if it did."""
    command = [sys.executable, "-m", "benchmarks.gpu.pool"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it said nothing"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    print(json.dumps(count()))
