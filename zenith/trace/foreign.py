"""Errors that NumPy itself raises about traced values, reported as Zenith's own are.

A function of NumPy's that knows nothing of tracing may check its arguments (``numpy.fft.fftfreq`` wants an ``int``), or
hide a traced array's error. Where the traced function ends by such an error, and the call was given something traced,
it is raised as Zenith's, with the line and a fix. Errors that the program raises itself pass unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType

import numpy as np

from zenith.errors import (
    ArgumentError,
    CallError,
    OutOfBoundsError,
    SourceLine,
    TraceError,
    ValueTypeError,
    ZenithError,
    is_library,
    user_line,
)
from zenith.trace import dispatch
from zenith.trace.calls import CallSite, arguments, in_library, misfit, used
from zenith.trace.sizes import TracedSize

_KINDS: dict[type[BaseException], type[ZenithError]] = {
    TypeError: ValueTypeError, ValueError: ArgumentError, IndexError: OutOfBoundsError,
}  # fmt: skip
RAISED = tuple(_KINDS)


def explained(error: BaseException) -> ZenithError | None:
    """The error as Zenith's, where NumPy raised it of something traced; None for any other."""
    if type(error) not in _KINDS:
        return None
    steps = list(steps_of(error.__traceback__))
    caller = next((step for step in reversed(steps) if not in_library(step.tb_frame)), None)
    use = None if caller is None else used(caller.tb_frame, caller.tb_lasti)
    if use is None or not use.library:
        return None
    arrays = [v for v in use.given if isinstance(v, (dispatch.Traced, dispatch.Unsized))]
    sizes = [v for v in use.given if isinstance(v, TracedSize)]
    if not (arrays or sizes):
        return None
    line = next((_line(s) for s in reversed(steps) if not is_library(s.tb_frame.f_code.co_filename)), user_line())
    found = dispatch.refused(use.thing)
    if found is not None:
        return TraceError(f"{use.name}: {found[0]}", where=line, fix=found[1])
    if isinstance(error, TypeError) and (wrong := _wrong_call(use, error)):
        return CallError(f"{use.name}: {wrong}", where=line, fix=f"its arguments are {arguments(use.thing)}")
    return _of_traced(use, error, arrays, sizes, line)


def _wrong_call(use: CallSite, error: TypeError) -> str:
    """How a call is wrong; functions with support for tracing raise no other TypeError. Empty where it may be right."""
    knows = isinstance(use.thing, np.ufunc) or hasattr(use.thing, "_implementation")
    return misfit(use) or (str(error) if knows else "")


def _of_traced(
    use: CallSite, error: BaseException, arrays: Sequence[object], sizes: list[TracedSize], line: SourceLine | None
) -> ZenithError:
    kind = _KINDS[type(error)]
    if arrays:
        types = tuple(dict.fromkeys(a.type for a in arrays if hasattr(a, "type")))
        return kind(f"{use.name} was given a traced array: {error}", where=line, types=types, fix=dispatch.NUMBERS)
    ours = dispatch.ours(use.name)
    fix = "int(n) compiles for this size only"
    what = f"{use.name} was given the traced size {sizes[0]}: {error}"
    return kind(what, where=line, fix=f"call {ours}, which takes traced sizes; or {fix}" if ours else fix)


def steps_of(trace: TracebackType | None) -> Iterator[TracebackType]:
    """The steps of a traceback, the innermost last."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _line(step: TracebackType) -> SourceLine:
    code = step.tb_frame.f_code
    return SourceLine(code.co_filename, step.tb_lineno, code.co_name)
