"""``raise`` and ``assert`` in loops and branches of the program, which then raises the exception."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from zenith.convert.values import Unset
from zenith.errors import user_line
from zenith.ir.types import int64
from zenith.trace.bind import b, graph_value
from zenith.trace.memory import write
from zenith.trace.raises import Raised, Shown
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.sizes import TracedSize
from zenith.trace.stands import WritingBody
from zenith.trace.tracer import Tracer


def raises(make: Callable[[], object], cause: Callable[[], object] | None = None) -> bool:
    """Have the program raise the exception that ``make`` gives; False where tracing itself has come to it.

    TraceError where a ``try`` with handlers is around it.
    """
    recorder = current_recorder()
    if not isinstance(recorder, WritingBody):
        if recorder is not None:
            recorder.raises.ends = True
        return False
    if recorder.raises.catching:
        raise recorder.raises.refuse(
            "a raise inside of try depends on values that exist only when the program runs",
            "choose by if what the handler does, or let the exception leave the function",
        )
    with recorder.raises.shown() as shown:
        raised = _raised(make(), None if cause is None else cause(), shown)
    _record(recorder, raised, shown)
    leaving()
    return True


def leaving() -> None:
    """Note that what is being traced leaves the function: what it does not set, nothing reads."""
    recorder = current_recorder()
    if isinstance(recorder, WritingBody):
        recorder.diverged = True


def returned(result: object) -> object:
    """What a function returns, whose caller goes on; None where the function always raises an exception."""
    if isinstance(result, Unset) and result.is_guarded:
        return None
    recorder = current_recorder()
    if isinstance(recorder, WritingBody):
        recorder.diverged = False
    return result


def _record(recorder: WritingBody, raised: Raised, shown: list[Tracer]) -> None:
    """Write the number of an exception and the values in its message."""
    known = recorder.raises
    number = known.number(raised, _owner(recorder))
    assert known.code is not None
    write(known.code, graph_value(recorder, b.full(number, int64, ())))
    for array, value in zip(known.values[number - 1], shown, strict=True):
        write(array, graph_value(recorder, value))


def _raised(found: object, cause: object, shown: list[Tracer]) -> Raised:
    """What is raised, an exception or its class, with marks in the place of values."""
    made = found() if isinstance(found, type) else found
    cause = cause() if isinstance(cause, type) else cause
    if not isinstance(made, BaseException) or not isinstance(cause, BaseException | None):
        raise TypeError("exceptions must derive from BaseException")  # as Python's
    args, attributes = _marked(made.args, shown), tuple((k, _marked(v, shown)) for k, v in vars(made).items())
    types, weak = tuple(t.type.dtype for t in shown), tuple(t.weak for t in shown)
    return Raised(type(made), args, attributes, cause, user_line(), types, weak)


def _marked(found: Any, shown: list[Tracer]) -> Any:
    """Arguments and attributes of an exception; traced values are collected, of arrays the type is what remains."""
    if isinstance(found, TracedSize):
        found = found.as_array()
    if isinstance(found, Tracer):
        if found.ndim:
            return f"<{found.type}>"
        shown.append(found)
        return Shown(len(shown) - 1)
    if type(found) in (tuple, list):
        return type(found)(_marked(item, shown) for item in found)
    return found


def _owner(recorder: Recorder) -> Recorder:
    """The trace around loops and branches."""
    while isinstance(recorder, WritingBody) and recorder.parent is not None:
        recorder = recorder.parent
    return recorder


def catching() -> AbstractContextManager[None]:
    """What a ``try`` with handlers is in."""
    recorder = current_recorder()
    return nullcontext() if recorder is None else recorder.raises.caught()


def assertion_error(*message: object) -> AssertionError:
    """What ``assert`` raises."""
    return AssertionError(*message)


def raising() -> Any:
    """Whether a function that has been called has raised an exception of the program."""
    recorder = current_recorder()
    if recorder is None or recorder.raises.code is None:
        return False
    code = recorder.resolve(recorder.raises.code)
    if code.recorder.graph.node(code.memory.value.node).primitive.name in ("literal", "input"):
        return False  # since the trace of this body began there was none
    return b.ne(code, b.full(0, int64, ()))
