"""The parent of a measurement: starts one worker per contender, refuses wrong results, lets the others take turns.

For each workload and contender a fresh process makes its cold start; its results are compared with the float64
reference, and only then rounds are timed in the order A B C A B C ..., each long enough to be read. All of that is
repeated with new processes, since where a process has its memory may decide how fast it is; they find what the first
one compiled, so that their starts are warm. Whoever can store a program as a file also starts from that, with no cache.
"""

from __future__ import annotations

import functools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from benchmarks import contenders, machine, stats
from benchmarks.contenders import BASELINE, OWN
from benchmarks.process import Record, Worker, WorkerError
from benchmarks.settings import Settings
from benchmarks.workloads import WORKLOADS, Array, Workload

Progress = Callable[[str], None]


@dataclass
class Tally:
    """What was measured of one contender so far; ``absence`` says why there is nothing to report."""

    rounds: list[Record] = field(default_factory=list)
    starts: list[Record] = field(default_factory=list)
    loads: list[Record] = field(default_factory=list)
    first_passes: list[list[float]] = field(default_factory=list)
    error: float = 0.0
    passes: int = 0
    facts: Record = field(default_factory=dict)
    absence: Record | None = None

    @property
    def seconds(self) -> list[float]:
        """Seconds of a pass in each round."""
        return [sum(one["seconds"]) for one in self.rounds]

    @property
    def calls(self) -> list[float]:
        """Seconds of each call of each round, or of the mean call where a pass is one."""
        return [seconds for one in self.rounds for seconds in one["seconds"]]

    def record(self) -> Record:
        """The contender's entry in the results."""
        if self.absence is not None:
            return self.absence
        causes = {key: statistics.median(one[key] for one in self.rounds) for key in ("page_faults", "preemptions")}
        rest = {"error": self.error, "passes": self.passes, "cold": self.starts[0], "facts": self.facts}
        for name, starts in (("warm", self.starts[1:]), ("saved", self.loads)):
            if starts:
                rest[name] = {key: statistics.median(start[key] for start in starts) for key in starts[0]}
        if len(self.first_passes[0]) > 1:
            rest["calls"] = {
                "first_s": self.first_passes[0],
                "median_s": [statistics.median(c) for c in zip(*(r["seconds"] for r in self.rounds), strict=True)],
            }
        return stats.summary(self.seconds) | causes | rest


class Session:
    """One workload while it is measured: the contenders' tallies, and the steps that fill them."""

    def __init__(self, workload: Workload, names: Sequence[str], settings: Settings) -> None:
        self.workload = workload
        self.settings = replace(settings, processes=1, rounds=3) if workload.long else settings
        self.tallies = {name: Tally(absence=_decline(name, workload)) for name in names}

    @functools.cached_property
    def _reference(self) -> list[Array]:
        return self.workload.reference()

    def measure(self, progress: Progress) -> None:
        """All processes of all contenders."""
        with tempfile.TemporaryDirectory(prefix="zenith-bench-") as folder:
            for number in range(self.settings.processes):
                with ExitStack() as stack:
                    workers = self._start(number, Path(folder), stack, progress)
                    progress(f"{self.workload.name}: rounds {number + 1} of {self.settings.processes}")
                    for _ in range(self.settings.rounds):
                        for name in self._present(workers):
                            self._attempt(name, self._round, workers[name])
                    for name in self._present(workers):
                        self._attempt(name, self._ask_facts, workers[name])
                    for name in self._present(workers):
                        self._attempt(name, self._start_from_file, workers[name])

    def _start(self, number: int, folder: Path, stack: ExitStack, progress: Progress) -> dict[str, Worker]:
        """The processes of all who take part; each has a folder of its own for what it compiles."""
        workers = dict[str, Worker]()
        for index, name in enumerate(self.tallies):
            if self.tallies[name].absence is None:
                progress(f"{self.workload.name}: process {number + 1} of {name}")
                cache = folder / str(index)
                cache.mkdir(exist_ok=True)
                worker = Worker(name, self.workload.name, self.settings, cache)
                workers[name] = stack.enter_context(worker)
                self._attempt(name, self._qualify, worker)
                self._attempt(name, self._calibrate, worker)
        return workers

    def _present(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.tallies[name].absence is None]

    def _attempt(self, name: str, step: Callable[[Tally, Worker], None], worker: Worker) -> None:
        """One step of one contender; whoever fails it is out, with the reason, and takes no further ones."""
        tally = self.tallies[name]
        if tally.absence is not None:
            return
        try:
            step(tally, worker)
        except WorkerError as error:
            tally.absence = error.record

    def _qualify(self, tally: Tally, worker: Worker) -> None:
        """Start; refuse a wrong result."""
        tally.starts.append(worker.hear()["start"])
        error, seconds = worker.results(self._reference)
        if not error <= self.workload.bound:
            raise WorkerError({"refused": f"error {error:.1e} to float64, bound {self.workload.bound:.0e}"})
        tally.error = max(tally.error, error)
        tally.first_passes.append(seconds)

    def _calibrate(self, tally: Tally, worker: Worker) -> None:
        """Find how many passes make a round."""
        tally.passes = worker.ask("calibrate", seconds=self.settings.round_s)["passes"]

    def _round(self, tally: Tally, worker: Worker) -> None:
        time.sleep(self.settings.settle_s)
        tally.rounds.append(worker.ask("round", passes=tally.passes, warm_up_s=self.settings.warm_up_s))

    def _ask_facts(self, tally: Tally, worker: Worker) -> None:
        tally.facts = worker.ask("facts")

    def _start_from_file(self, tally: Tally, worker: Worker) -> None:
        with tempfile.TemporaryDirectory(prefix="zenith-bench-") as folder:
            file = Path(folder) / "program"
            if worker.ask("save", path=str(file))["saved"]:
                with Worker(worker.contender, self.workload.name, self.settings, Path(folder), file) as loading:
                    tally.loads.append(loading.hear()["start"])

    def sizes(self) -> list[int]:
        """Of each call of a pass, where sizes change and somebody was measured."""
        return self.workload.sizes() if self.workload.varied and self._present(self.tallies) else []

    def speedups(self, baselines: Iterable[str], names: Iterable[str]) -> Record:
        """Baseline -> contender -> how many times faster it is, where both took part."""
        seconds = {name: self.tallies[name].calls for name in self._present(self.tallies)}
        return {
            b: {n: stats.speedup(seconds[b], seconds[n]) for n in names if n in seconds and n != b}
            for b in baselines
            if b in seconds
        }


def _decline(name: str, workload: Workload) -> Record | None:
    reason = contenders.find(name).absent_from(workload)
    return None if reason is None else {"declined": reason}


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
        "sentences": workload.sentences,
        "sizes": session.sizes(),
        "settings": asdict(session.settings),
        **machine.describe(distributions),
        "contenders": {name: tally.record() for name, tally in session.tallies.items()},
        "speedup_over": BASELINE,
        "speedups": session.speedups([BASELINE], names).get(BASELINE, {}),
        "zenith_over": session.speedups([name for name in names if name not in OWN], OWN),
    }


def run(
    workloads: Sequence[str], names: Sequence[str], settings: Settings, folder: Path | None, progress: Progress
) -> list[Record]:
    """Measure workloads by name and store each as ``folder/<name>.json``; without a folder nothing is stored."""
    documents = []
    for workload in workloads:
        document = measure(WORKLOADS[workload], names, settings, progress)
        documents.append(document)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{workload}.json").write_text(json.dumps(document, indent=2) + "\n")
    return documents
