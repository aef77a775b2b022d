"""What is called in place of users' functions: in traces of converted functions, transforms convert theirs too.

:mod:`zenith.convert`, which is above this package, says how when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zenith.trace.recorder import current_recorder

_converter: list[Callable[[Any], Any]] = []


def register(callee: Callable[[Any], Any]) -> None:
    """Have ``callee(function)`` called in place of functions."""
    _converter[:] = [callee]


def callee(function: Callable[..., Any]) -> Callable[..., Any]:
    """What the trace in progress calls in place of a user's function."""
    recorder = current_recorder()
    if recorder is None or not recorder.converts or not _converter:
        return function
    found: Callable[..., Any] = _converter[0](function)
    return found
