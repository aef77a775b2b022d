"""One contender in a process of its own, obeying a parent: a line of JSON in, a line of JSON out.

It speaks first, once: what the import and the first call took, or that its library is missing, or how it failed.
Then it answers ``results`` (calls every batch for the first time and writes what came out to a file), ``calibrate``
(how many passes fill a span of time), ``round`` (times passes), ``facts`` and ``save`` (stores the compiled program as
a file, from which another worker starts), until its input ends. It imports nothing heavy before the clock of the import
runs.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import cycle, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from benchmarks import contenders
from benchmarks.contenders.contender import Job, missing_library, outcome
from benchmarks.contenders.steps import Step

if TYPE_CHECKING:
    from benchmarks.contenders import Contender
    from benchmarks.workloads import Workload


class MissingLibraryError(Exception):
    """A library that the contender needs is not installed."""


@dataclass(frozen=True)
class Running:
    """A compiled workload that has been called once."""

    contender: Contender
    call: Callable[..., Any]
    batches: Sequence[tuple[Any, ...]]
    checked: Sequence[int]

    def results(self, path: str) -> list[float]:
        """Call every batch, store the results of the checked ones in a file; the seconds that each call took."""
        import numpy as np

        seconds, outcomes = [], []
        for number, arguments in enumerate(self.batches):
            begin = time.perf_counter()
            result = self.call(*arguments)
            self.contender.finish(result)
            seconds.append(time.perf_counter() - begin)
            if number in self.checked:
                outcomes.append(outcome(self.call, result, self.contender.fetch))
        np.savez(path, *outcomes)
        return seconds

    def passes(self, count: int) -> list[float]:
        """Seconds of each call of one pass; the mean of ``count`` passes where a pass is a single call."""
        if len(self.batches) > 1:
            return [self._seconds([arguments]) for arguments in self.batches]
        return [self._seconds(repeat(self.batches[0], count)) / count]

    def _seconds(self, stream: Iterable[tuple[Any, ...]]) -> float:
        call, result = self.call, None
        begin = time.perf_counter()
        for arguments in stream:
            result = call(*arguments)
        self.contender.finish(result)
        return time.perf_counter() - begin

    def round(self, count: int) -> dict[str, Any]:
        """Seconds of each call, and two things that explain a strange number: page faults and preemptions of a pass."""
        before = resource.getrusage(resource.RUSAGE_SELF)
        seconds = self.passes(count)
        after = resource.getrusage(resource.RUSAGE_SELF)
        faults, preemptions = after.ru_minflt - before.ru_minflt, after.ru_nivcsw - before.ru_nivcsw
        return {"seconds": seconds, "page_faults": faults / count, "preemptions": preemptions / count}

    def warm_up(self, seconds: float) -> None:
        """Call until the span is over: threads wake up, move to cores of their own, caches fill."""
        end = time.perf_counter() + seconds
        for arguments in cycle(self.batches):
            self.contender.finish(self.call(*arguments))
            if time.perf_counter() >= end:
                return

    def passes_within(self, seconds: float) -> int:
        """How many passes fill the span, after warming up for as long; one where a pass has many calls."""
        if len(self.batches) > 1:
            return 1
        self.warm_up(seconds)
        count, (mean,) = 1, self.passes(1)
        while count * mean < seconds / 4:
            count *= 2
            (mean,) = self.passes(count)
        return max(1, round(seconds / mean))

    def save(self, path: Path) -> bool:
        """Store the compiled program as a file, if the contender can; a step of training is more than a program."""
        if self.contender.saving is None or isinstance(self.call, Step):
            return False
        self.contender.saving.save(self.call, path)
        return True

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request of the parent."""
        match request["op"]:
            case "results":
                return {"seconds": self.results(request["path"])}
            case "calibrate":
                return {"passes": self.passes_within(request["seconds"])}
            case "round":
                self.warm_up(request["warm_up_s"])
                return self.round(request["passes"])
            case "facts":
                return self.contender.facts(self.call)
            case "save":
                return {"saved": self.save(Path(request["path"]))}
            case other:
                raise ValueError(f"unknown request {other!r}")


def load(contender: Contender) -> float:
    """Import the contender's libraries; the seconds that took."""
    begin = time.perf_counter()
    try:
        contender.load()
    except ModuleNotFoundError as error:
        if error.name in contender.libraries:
            raise MissingLibraryError(f"{error.name} is not installed") from error
        raise
    return time.perf_counter() - begin


def first_call(contender: Contender, workload: Workload, saved: Path | None = None) -> tuple[Running, float]:
    """Compile, or load what was ``saved``, and call once; the seconds that took.

    Inputs, weights and the user's program are ready before. They are made outside of the contender's scope, as models
    are: PyTorch does not count writes to tensors that are made in its inference mode.
    """
    first, compile = contender.convert(workload.first()), contender.compile
    batches = [contender.convert(batch) for batch in workload.batches()]
    if workload.descent is None:
        program = contender.program(workload)
    else:
        assert contender.step is not None
        program, compile = contender.step(workload), lambda job: job.program  # a step compiles in its first call
    calibration = workload.calibration() if workload.calibration else ()
    job = Job(program, first, workload.changing_axes(), workload.expression, workload.part, calibration)
    with scope_of(contender, workload):
        begin = time.perf_counter()
        if saved is None:
            call = compile(job)
        else:
            assert contender.saving is not None, "who saved can load"
            call = contender.saving.load(saved)
        contender.finish(call(*first))
        seconds = time.perf_counter() - begin
    return Running(contender, call, batches, workload.checked()), seconds


def scope_of(contender: Contender, workload: Workload) -> AbstractContextManager[Any]:
    """What calls run in; those that need gradients in nothing."""
    return nullcontext() if workload.descent else contender.scope()


def serve(requests: TextIO, answers: TextIO, contender_name: str, workload_name: str, saved: str = "") -> None:
    """Speak first, then answer until the input ends; a failure is an answer, and the last one.

    ``saved`` is the file to start from; without one the program is compiled.
    """

    def say(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        contender = contenders.find(contender_name)
        import_seconds = load(contender)
        from benchmarks import workloads  # brings NumPy along, whose import counts as the library's

        workload = workloads.find(workload_name)
        if missing := missing_library(workload):
            raise MissingLibraryError(f"{missing} is not installed")
        running, first_seconds = first_call(contender, workload, Path(saved) if saved else None)
        say({"start": {"import_s": import_seconds, "first_call_s": first_seconds}})
        with scope_of(contender, workload):
            for line in requests:
                say(running.answer(json.loads(line)))
    except MissingLibraryError as error:
        say({"missing": str(error)})
    except Exception as error:
        traceback.print_exc()
        say({"failed": plain(f"{type(error).__name__}: {error}")})


def plain(text: str) -> str:
    """The text without escape sequences for a terminal's colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def main() -> None:
    """Serve the contender and workload named on the command line over stdin and stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    serve(sys.stdin, answers, *sys.argv[1:4])


if __name__ == "__main__":
    main()
