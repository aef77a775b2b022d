"""Attempts to record a loop of the user's in the program, which take back what they have done where they fail."""

from __future__ import annotations

from dataclasses import replace

from zenith.convert.chosen import Choices
from zenith.convert.list_names import stacking, with_lists
from zenith.convert.loop_carried import TypeChange
from zenith.convert.loop_recording import convert_loop
from zenith.convert.loop_tracing import Loop
from zenith.errors import ZenithError, user_line
from zenith.trace.recorder import LoopReport, current_recorder

UNROLLED = 8  # turns that are always unrolled
MOST_UNROLLED = 5_000  # turns that are unrolled in one trace where loops cannot be the program's


def attempt(loop: Loop) -> Exception | None:
    """Record a loop; None where that worked, else the error, with all as before."""
    chosen = Choices()
    error = _recorded(loop, chosen)
    if error is None:
        chosen.note()
    return error


def _recorded(loop: Loop, chosen: Choices) -> Exception | None:
    """The same; ``chosen`` takes the lists and dicts that it gives names."""
    recorder = current_recorder()
    assert recorder is not None
    start, forget, reports = loop.names.values(), recorder.assumptions(), len(recorder.loops)
    checks = len(recorder.at_end)
    kind = ""

    def record() -> None:
        nonlocal kind
        kind = convert_loop(replace(loop, names=with_lists(loop.names, loop.rebound)), chosen)

    def start_again() -> None:
        loop.names.set(start)
        forget()
        del recorder.loops[reports:]
        del recorder.at_end[checks:]

    try:
        stacking(record, lambda: start_again)
    except Exception as error:
        start_again()
        return error
    report(kind, _WHY[kind])
    return None


def attempt_counting(loop: Loop, error: Exception | None) -> Exception | None:
    """The same where sizes change, which the loop then counts; ``error`` is that of the attempt without."""
    return attempt(replace(loop, counts_sizes=True)) if isinstance(error, TypeChange) else error


_WHY = {"scan": "the number of its turns is known when it begins", "while_loop": "values decide when it ends"}


def report(kind: str, why: str | Exception) -> None:
    """Note for ``explain()`` what a loop has become, and why."""
    recorder = current_recorder()
    if recorder is None:
        return
    if isinstance(why, Exception):
        why = why.what if isinstance(why, ZenithError) else f"{type(why).__name__}: {why}"
    recorder.loops.append(LoopReport(kind, why, user_line()))
