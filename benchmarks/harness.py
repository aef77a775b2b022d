"""The parent of a measurement: starts one worker per contender, refuses wrong results, lets the others take turns.

For each workload and contender a fresh process makes its cold start; its result is compared with the float64
reference, and only then rounds are timed in the order A B C A B C ..., each long enough to be read. All of that is
repeated with new processes, since where a process has its memory may decide how fast it is.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import contenders, machine, stats
from benchmarks.contenders import BASELINE
from benchmarks.workloads import WORKLOADS, Workload

ROOT = Path(__file__).resolve().parent.parent
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "ZENITH_NUM_THREADS",
)

# Whether the C library gives large blocks back to the system and faults them in again at each call depends on accidents
# of heap layout, and makes the same program up to five times slower (torch eager above all). So it keeps them, for all.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}

Record = dict[str, Any]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How thoroughly to measure.

    Parameters
    ----------
    processes: of each contender, one after the other.
    rounds: timed rounds of each process.
    round_s: seconds that a round should last.
    warm_up_s: seconds of calls at the start of a turn that are not timed. A pool's threads may wake on one core and
        need tens of milliseconds to part; without this, whoever has such threads is measured too slow.
    settle_s: pause before a contender's turn, in which the thread pool of the one before goes to sleep.
    threads: for every library that can be told.
    keep_memory: let the C library keep freed memory in the process, for every contender.
    timeout_s: for one answer of a worker.
    """

    processes: int = 3
    rounds: int = 9
    round_s: float = 0.1
    warm_up_s: float = 0.1
    settle_s: float = 0.05
    threads: int = machine.usable_cores()
    keep_memory: bool = True
    timeout_s: float = 300.0

    @classmethod
    def quick(cls, threads: int) -> Settings:
        """A first look, not for publication."""
        return cls(processes=1, rounds=5, round_s=0.03, warm_up_s=0.05, settle_s=0.02, threads=threads)


class WorkerError(Exception):
    """A contender cannot take part; ``record`` says why, as it stands in the results."""

    def __init__(self, record: Record) -> None:
        self.record = record
        super().__init__(str(record))


class Worker:
    """A contender's process, seen from the parent; a context manager that ends the process."""

    def __init__(self, contender: str, workload: Workload, settings: Settings) -> None:
        self._timeout = settings.timeout_s
        variables = {name: str(settings.threads) for name in THREAD_VARIABLES}
        if settings.keep_memory:
            variables |= KEEP_MEMORY
        # Compiled kernels kept from an earlier run would make a cold start warm.
        self._cache = tempfile.TemporaryDirectory(prefix="zenith-bench-")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", contender, workload.name],
            cwd=ROOT,
            env=os.environ | variables | {"ZENITH_CACHE_DIR": self._cache.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._cache.cleanup()

    def hear(self) -> Record:
        """The worker's next message; WorkerError when it is missing, has failed, or stays silent for too long."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], self._timeout)
        if not ready:
            raise WorkerError({"failed": f"no answer within {self._timeout:g} s"})
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

    def error(self, reference: np.ndarray[Any, Any]) -> float:
        """Relative error of the worker's result."""
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "result.npy")
            self.ask("result", path=path)
            return stats.relative_error(np.load(path), reference)


@dataclass
class Tally:
    """What was measured of one contender so far; ``absence`` says why there is nothing to tell."""

    rounds: list[Record] = field(default_factory=list)
    cold: list[Record] = field(default_factory=list)
    error: float = 0.0
    calls: int = 0
    facts: Record = field(default_factory=dict)
    absence: Record | None = None

    @property
    def seconds(self) -> list[float]:
        """Seconds of a call in each round."""
        return [one["seconds"] for one in self.rounds]

    def record(self) -> Record:
        """What stands in the results."""
        if self.absence is not None:
            return self.absence
        causes = {key: statistics.median(one[key] for one in self.rounds) for key in ("page_faults", "preemptions")}
        cold = {key: statistics.median(start[key] for start in self.cold) for key in self.cold[0]}
        rest = {"error": self.error, "calls": self.calls, "cold": cold, "facts": self.facts}
        return stats.summary(self.seconds) | causes | rest


class Session:
    """One workload while it is measured: the contenders' tallies, and the steps that fill them."""

    def __init__(self, workload: Workload, names: Sequence[str], settings: Settings) -> None:
        self.workload, self.settings = workload, settings
        self.tallies = {name: Tally() for name in names}
        self._reference = workload.reference()

    def measure(self, progress: Progress) -> None:
        """All processes of all contenders."""
        for number in range(self.settings.processes):
            with ExitStack() as stack:
                workers = dict[str, Worker]()
                for name in self._present(self.tallies):
                    progress(f"{self.workload.name}: process {number + 1} of {name}")
                    workers[name] = stack.enter_context(Worker(name, self.workload, self.settings))
                    self._attempt(name, self._qualify, workers[name])
                progress(f"{self.workload.name}: rounds {number + 1} of {self.settings.processes}")
                for _ in range(self.settings.rounds):
                    for name in self._present(workers):
                        self._attempt(name, self._round, workers[name])
                for name in self._present(workers):
                    self._attempt(name, self._ask_facts, workers[name])

    def _present(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.tallies[name].absence is None]

    def _attempt(self, name: str, step: Callable[[Tally, Worker], None], worker: Worker) -> None:
        """One step of one contender; whoever fails it is out, with the reason."""
        tally = self.tallies[name]
        try:
            step(tally, worker)
        except WorkerError as error:
            tally.absence = error.record

    def _qualify(self, tally: Tally, worker: Worker) -> None:
        """Cold start; refuse a wrong result; find how many calls make a round."""
        tally.cold.append(worker.hear()["cold"])
        error = worker.error(self._reference)
        if not error <= self.workload.bound:
            raise WorkerError({"refused": f"error {error:.1e} to float64, bound {self.workload.bound:.0e}"})
        tally.error = max(tally.error, error)
        tally.calls = worker.ask("calibrate", seconds=self.settings.round_s)["calls"]

    def _round(self, tally: Tally, worker: Worker) -> None:
        time.sleep(self.settings.settle_s)
        tally.rounds.append(worker.ask("round", calls=tally.calls, warm_up_s=self.settings.warm_up_s))

    def _ask_facts(self, tally: Tally, worker: Worker) -> None:
        tally.facts = worker.ask("facts")

    def speedups(self) -> Record:
        """Contender -> how many times faster than the baseline, where both took part."""
        present = self._present(self.tallies)
        if BASELINE not in present:
            return {}
        baseline = self.tallies[BASELINE].seconds
        return {n: stats.speedup(baseline, self.tallies[n].seconds) for n in present if n != BASELINE}


def measure(
    workload: Workload, names: Sequence[str], settings: Settings, progress: Progress = lambda _: None
) -> Record:
    """Measure one workload with all contenders in turn; the document that is stored as JSON."""
    session = Session(workload, names, settings)
    session.measure(progress)
    distributions = [version for name in names for version in contenders.find(name).versions]
    return {
        "workload": workload.name,
        "description": workload.description,
        "bound": workload.bound,
        "settings": asdict(settings),
        **machine.describe(distributions),
        "contenders": {name: tally.record() for name, tally in session.tallies.items()},
        "speedup_over": BASELINE,
        "speedups": session.speedups(),
    }


def run(names: Sequence[str], settings: Settings, folder: Path | None, progress: Progress) -> list[Record]:
    """Measure workloads by name and store each as ``folder/<name>.json``; without a folder nothing is stored."""
    documents = []
    for name in names:
        document = measure(WORKLOADS[name], list(contenders.CONTENDERS), settings, progress)
        documents.append(document)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
    return documents
