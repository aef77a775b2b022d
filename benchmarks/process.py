"""A contender's process, seen from the parent: requests and answers, and the environment that is equal for all."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import stats
from benchmarks.contenders.contender import CACHE_VARIABLE
from benchmarks.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NPROC",  # XLA's thread pool
    "ZENITH_NUM_THREADS",
)

# Where each library keeps compiled code. An empty folder makes a cold start, the same folder later a warm one.
CACHE_VARIABLES = (CACHE_VARIABLE, "ZENITH_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")
KEEP_ALL_COMPILED = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}

# Whether the C library gives large blocks back to the system and faults them in again at each call depends on accidents
# of heap layout, and makes the same program up to five times slower (torch eager above all). So all of them keep it.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}

Record = dict[str, Any]


class WorkerError(Exception):
    """A contender cannot take part; ``record`` says why, as the results show it."""

    def __init__(self, record: Record) -> None:
        self.record = record
        super().__init__(str(record))


class Worker:
    """A contender's process; a context manager that ends it.

    ``cache`` is its folder of compiled code, ``saved`` a program that was stored as a file, to start from that.
    """

    def __init__(
        self, contender: str, workload: str, settings: Settings, cache: Path, saved: Path | None = None
    ) -> None:
        self.contender = contender
        self.timeout = settings.timeout_s
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", contender, workload, *([] if saved is None else [str(saved)])],
            cwd=ROOT,
            env=os.environ | _environment(settings, cache),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def hear(self) -> Record:
        """The worker's next message; WorkerError when it is missing, has failed, or stays silent for too long."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], self.timeout)
        if not ready:
            raise WorkerError({"failed": f"no answer within {self.timeout:g} s"})
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError({"failed": f"the process ended with status {self._process.wait()}"})
        message: Record = json.loads(line)
        if "missing" in message or "failed" in message:
            raise WorkerError(message)
        return message

    def ask(self, op: str, **details: Any) -> Record:
        """Send a request, wait for its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"op": op} | details) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError({"failed": f"the process ended with status {self._process.wait()}"}) from None
        return self.hear()

    def results(self, reference: list[np.ndarray[Any, Any]]) -> tuple[float, list[float]]:
        """The largest relative error of the checked results, and the seconds that each batch took the first time."""
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "results.npz")
            seconds = self.ask("results", path=path)["seconds"]
            with np.load(path) as found:
                errors = [stats.relative_error(found[f"arr_{i}"], right) for i, right in enumerate(reference)]
        return max(errors), seconds


def _environment(settings: Settings, cache: Path) -> dict[str, str]:
    variables = {name: str(settings.threads) for name in THREAD_VARIABLES}
    variables |= {name: str(cache) for name in CACHE_VARIABLES} | KEEP_ALL_COMPILED
    return variables | KEEP_MEMORY if settings.keep_memory else variables
