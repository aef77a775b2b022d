"""One contender in a process of its own, obeying a parent: a line of JSON in, a line of JSON out.

It speaks first, once: what the import and the first call took, or that its library is missing, or how it failed.
Then it answers ``result`` (writes the output to a file), ``calibrate`` (how many calls fill a span of time), ``round``
(times calls) and ``facts``, until its input ends. It imports nothing heavy before the clock of the import runs.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from benchmarks import contenders

if TYPE_CHECKING:
    from benchmarks.contenders import Contender


class MissingLibraryError(Exception):
    """A library that the contender needs is not installed."""


@dataclass(frozen=True)
class Running:
    """A compiled workload that has been called once."""

    contender: Contender
    call: Callable[..., Any]
    arguments: tuple[Any, ...]

    def seconds_per_call(self, calls: int) -> float:
        """Mean over ``calls`` calls in a row."""
        call, arguments = self.call, self.arguments
        begin = time.perf_counter()
        for _ in range(calls):
            call(*arguments)
        return (time.perf_counter() - begin) / calls

    def round(self, calls: int) -> dict[str, float]:
        """Seconds of a call, and two things that explain a strange number: page faults and preemptions of a call."""
        before = resource.getrusage(resource.RUSAGE_SELF)
        seconds = self.seconds_per_call(calls)
        after = resource.getrusage(resource.RUSAGE_SELF)
        faults, preemptions = after.ru_minflt - before.ru_minflt, after.ru_nivcsw - before.ru_nivcsw
        return {"seconds": seconds, "page_faults": faults / calls, "preemptions": preemptions / calls}

    def warm_up(self, seconds: float) -> None:
        """Call until the span is over: threads wake up, move to cores of their own, caches fill."""
        end = time.perf_counter() + seconds
        while True:
            self.call(*self.arguments)
            if time.perf_counter() >= end:
                return

    def calls_within(self, seconds: float) -> int:
        """How many calls fill the span, after warming up for as long; at least one."""
        self.warm_up(seconds)
        calls, total = 1, self.seconds_per_call(1)
        while total < seconds / 4:
            calls *= 2
            total = calls * self.seconds_per_call(calls)
        return max(1, round(seconds * calls / total))

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request of the parent."""
        match request["op"]:
            case "result":
                import numpy as np

                np.save(request["path"], contenders.to_numpy(self.call(*self.arguments)))
                return {}
            case "calibrate":
                return {"calls": self.calls_within(request["seconds"])}
            case "round":
                self.warm_up(request["warm_up_s"])
                return self.round(request["calls"])
            case "facts":
                return self.contender.facts(self.call)
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


def first_call(contender: Contender, workload_name: str) -> tuple[Running, float]:
    """Compile and call once; the seconds that took. Inputs, weights and the user's program are ready before."""
    from benchmarks.workloads import WORKLOADS  # brings NumPy along, whose import counts as the library's

    workload = WORKLOADS[workload_name]
    program = contender.program(workload)
    first, arguments = contender.convert(workload.first_inputs()), contender.convert(workload.inputs())
    begin = time.perf_counter()
    call = contender.compile(program, first)
    call(*first)
    return Running(contender, call, arguments), time.perf_counter() - begin


def serve(requests: TextIO, answers: TextIO, contender_name: str, workload_name: str) -> None:
    """Speak first, then answer until the input ends; a failure is an answer, and the last one."""

    def say(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        contender = contenders.find(contender_name)
        import_seconds = load(contender)
        with contender.scope():
            running, first_seconds = first_call(contender, workload_name)
            say({"cold": {"import_s": import_seconds, "first_call_s": first_seconds}})
            for line in requests:
                say(running.answer(json.loads(line)))
    except MissingLibraryError as error:
        say({"missing": str(error)})
    except Exception as error:
        traceback.print_exc()
        say({"failed": f"{type(error).__name__}: {error}"})


def main() -> None:
    """Serve the contender and workload named on the command line over stdin and stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not mix with the answers
    serve(sys.stdin, answers, *sys.argv[1:3])


if __name__ == "__main__":
    main()
