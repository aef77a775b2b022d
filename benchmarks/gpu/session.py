"""One workload on a GPU while it is measured, and a run of several within a given time.

As on the CPU (:mod:`benchmarks.harness`), with three differences: all processes of a workload start at once, so that
what they compile does not take the time of all others; the float64 reference is computed on the GPU; ceilings are not
checked.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks import contenders, machine
from benchmarks.gpu import check
from benchmarks.gpu.contenders import CEILINGS, COPY, EAGER, OWN, PRODUCT, SQUARE, VARIANTS, use_environment
from benchmarks.gpu.workloads import GPU_WORKLOADS
from benchmarks.harness import Progress, Session, Tally
from benchmarks.process import Record, Worker
from benchmarks.settings import Settings
from benchmarks.workloads import Array, Arrays, Workload
from benchmarks.workloads.workload import is_float

SETTINGS = Settings(processes=1, rounds=7, round_s=0.06, warm_up_s=0.04, settle_s=0.01, timeout_s=200.0)
QUICK = replace(SETTINGS, rounds=3, round_s=0.02)
LEAST = 45.0  # seconds that must be left to begin a workload


class GpuSession(Session):
    """A workload with the contenders' tallies; no answer is waited for beyond ``deadline``, of the monotonic clock."""

    def __init__(
        self, workload: Workload, names: Sequence[str], settings: Settings, deadline: float,
        reference: Callable[[Workload], list[Array]],
    ) -> None:  # fmt: skip
        super().__init__(workload, names, settings)
        self._deadline, self._compute = deadline, reference

    @functools.cached_property
    def _reference(self) -> list[Array]:
        return self._compute(self.workload)

    def _start(self, number: int, folder: Path, stack: ExitStack, progress: Progress) -> dict[str, Worker]:
        """All processes at once; a round's length is found when none compiles any more."""
        progress(f"{self.workload.name}: {len(self._present(self.tallies))} processes start")
        workers = {}
        for index, name in enumerate(self._present(self.tallies)):
            cache = folder / str(index)
            cache.mkdir(exist_ok=True)
            workers[name] = stack.enter_context(Worker(name, self.workload.name, self.settings, cache))
        for step in (self._qualify, self._calibrate):
            for name, worker in workers.items():
                self._attempt(name, step, worker)
        return workers

    def _attempt(self, name: str, step: Callable[[Tally, Worker], None], worker: Worker) -> None:
        worker.timeout = min(self.settings.timeout_s, max(1.0, self._deadline - time.monotonic()))
        super()._attempt(name, step, worker)

    def _qualify(self, tally: Tally, worker: Worker) -> None:
        if not contenders.find(worker.contender).ceiling:
            super()._qualify(tally, worker)
            return
        tally.starts.append(worker.hear()["start"])
        tally.first_passes.append([0.0])


def device_reference(workload: Workload) -> list[Array]:
    """The results of the checked batches in float64: on the GPU where the program is written over NumPy."""
    if workload.numpy is None or workload.descent is not None:
        return workload.reference()
    import cupy

    def wide(arrays: Arrays) -> Any:
        return tuple(cupy.asarray(x.astype("float64") if is_float(x) else x) for x in arrays)

    program, batches = workload.numpy(wide(workload.weights()), cupy), workload.batches()
    found = [cupy.asnumpy(program(*wide(batches[number]))) for number in workload.checked()]
    cupy.get_default_memory_pool().free_all_blocks()
    return found


def measure(
    workload: Workload, names: Sequence[str], settings: Settings, deadline: float, progress: Progress,
    reference: Callable[[Workload], list[Array]] = device_reference,
) -> Record:  # fmt: skip
    """Measure one workload with all contenders in turn; the document that is stored as JSON."""
    session = GpuSession(workload, names, settings, deadline, reference)
    session.measure(progress)
    distributions = [version for name in names for version in contenders.find(name).versions]
    records = {name: tally.record() for name, tally in session.tallies.items()}
    calls = max(1, len(session.sizes()))
    return {
        "workload": workload.name,
        "description": workload.description,
        "bound": workload.bound,
        "bytes": workload.bytes,
        "flops": workload.flops,
        "sizes": session.sizes(),
        "settings": asdict(session.settings),
        **machine.describe(distributions),
        "gpu": check.describe(),
        "ceilings": dict(_ceilings(workload, records, calls)),
        "contenders": records,
        "speedups": session.speedups([EAGER.name], names).get(EAGER.name, {}),
        "zenith_over": session.speedups([name for name in names if name not in OWN], OWN),
    }


def _ceilings(workload: Workload, records: dict[str, Record], calls: int) -> Iterator[tuple[str, float]]:
    """Bytes and operations a second of the two ceilings, where they were measured."""
    for name, rate, amount in (
        (COPY.name, "bytes_per_s", workload.bytes * calls),
        (PRODUCT.name, "flops_per_s", 2 * SQUARE**3 * calls),
    ):
        if "median_s" in records.get(name, {}):
            yield rate, amount / records[name]["median_s"]


def run(
    workloads: Sequence[str], names: Sequence[str], settings: Settings, folder: Path | None, seconds: float,
    progress: Progress, stored: Callable[[Record], None],
) -> list[str]:  # fmt: skip
    """Measure workloads by name, each stored as ``folder/<name>.json`` before the next begins.

    ``stored`` takes each document. Returns the names of those for which no time was left.
    """
    use_environment()
    deadline = time.monotonic() + seconds
    for index, name in enumerate(workloads):
        if deadline - time.monotonic() < LEAST:
            return list(workloads[index:])
        document = measure(GPU_WORKLOADS[name], names, settings, deadline, progress)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")
        stored(document)
    return []


def load(folder: Path) -> list[Record]:
    """The stored documents, in the order of the workloads."""
    paths = [folder / f"{name}.json" for name in GPU_WORKLOADS]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def failures(document: Record) -> list[str]:
    """Zenith's own failures and refusals in a document, a line each."""
    return [
        f"{document['workload']}, {name}: {kind}: {document['contenders'][name][kind]}"
        for name in OWN
        for kind in ("failed", "refused")
        if kind in document["contenders"].get(name, {})
    ]


PEERS_EXCLUDED = (*OWN, *VARIANTS, *CEILINGS)


def peers(document: Record) -> dict[str, Record]:
    """The records of everybody else who was timed; what is Zenith in another setting is no peer."""
    records: dict[str, Record] = document["contenders"]
    return {n: r for n, r in records.items() if n not in PEERS_EXCLUDED and "median_s" in r}


def fastest_peer(document: Record) -> str | None:
    """The name of the fastest of them."""
    others = peers(document)
    return min(others, key=lambda name: float(others[name]["median_s"]), default=None)
