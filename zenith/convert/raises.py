"""``raise`` and ``assert`` in loops and branches of the program, which then raises the exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from zenith.convert.values import Unset, is_plain_sequence
from zenith.errors import user_line
from zenith.ir.types import int64
from zenith.trace.bind import b, graph_value
from zenith.trace.memory import write
from zenith.trace.raises import Raised, Shown
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.sizes import TracedSize
from zenith.trace.stands import WritingBody
from zenith.trace.tracer import Tracer


def raises(make: Callable[[], object], cause: Callable[[], object] | None = None) -> object:
    """Have the program raise the exception that ``make`` gives; the exception where tracing can raise it, else None.

    That is so where tracing itself has come to it, no value is in its message, and no array of the caller's has to
    change before. TraceError where a ``try`` with handlers is around it.
    """
    recorder = current_recorder()
    if recorder is None:
        return _caused(make(), *_evaluated(cause))
    inside = isinstance(recorder, WritingBody)
    recorder.raises.ends = not inside
    if inside and recorder.raises.catching:
        raise recorder.raises.refuse(
            "a raise inside of try depends on values that exist only when the program runs",
            "choose by if what the handler does, or let the exception leave the function",
        )
    with recorder.raises.shown() as shown:
        made, causes = make(), _evaluated(cause)
        raised = _raised(made, causes[0] if causes else None, shown)
    if not inside and (recorder.raises.catching or not (shown or recorder.changes_arguments)):
        return _caused(make(), *_evaluated(cause)) if shown else _caused(made, *causes)
    _record(recorder, raised, shown)
    leaving()
    return None


def _evaluated(cause: Callable[[], object] | None) -> tuple[object, ...]:
    """What an exception is raised from, if that is said: it may be None."""
    return () if cause is None else (cause(),)


def _caused(found: object, *causes: object) -> object:
    """An exception with what it is raised from."""
    made = found() if isinstance(found, type) else found
    for cause in causes:
        if isinstance(made, BaseException):
            made.__cause__ = cast("BaseException | None", cause() if isinstance(cause, type) else cause)
    return made


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


def _record(recorder: Recorder, raised: Raised, shown: list[Tracer]) -> None:
    """Write the number of an exception and the values in its message, unless there has been one before."""
    known = recorder.raises
    number = known.number(raised, _owner(recorder))
    assert known.code is not None
    recorder.raises.ends = False
    before = recorder.resolve(known.code)
    is_first = _literal(before) == 0
    earlier = None if is_first else b.ne(before, b.full(0, int64, ()))
    for array, value in [(known.code, b.full(number, int64, ())), *zip(known.values[number - 1], shown, strict=True)]:
        kept = value if earlier is None else b.where(earlier, recorder.resolve(array), value)
        write(array, graph_value(recorder, kept))
    known.certain.add(_key(recorder.resolve(known.code)))


def _literal(code: Tracer) -> int | None:
    """The number of an exception, if that is known."""
    node = code.recorder.graph.node(code.memory.value.node)
    return int(node.params["value"]) if node.primitive.name == "literal" else None


def _key(code: Tracer) -> tuple[int, int]:
    return id(code.recorder), code.memory.value.node


def _raised(found: object, cause: object, shown: list[Tracer]) -> Raised:
    """What is raised, an exception or its class, with marks in the place of values."""
    made = found() if isinstance(found, type) else found
    cause = cause() if isinstance(cause, type) else cause
    if not isinstance(made, BaseException) or not isinstance(cause, BaseException | None):
        raise TypeError("exceptions must derive from BaseException")  # as Python's
    args = tuple(_marked(value, shown) for value in made.args)
    attributes = tuple((k, _marked(v, shown)) for k, v in vars(made).items())
    types, weak = tuple(t.type.dtype for t in shown), tuple(t.weak for t in shown)
    return Raised(type(made), args, attributes, cause, user_line(), types, weak)


def _marked(found: object, shown: list[Tracer]) -> object:
    """Arguments and attributes of an exception; traced values are collected, of arrays the type is what remains."""
    if isinstance(found, TracedSize):
        ends = found.recorder.raises.ends
        found = found.recorder.hint(found.dim) if ends else found.as_array()
    if isinstance(found, Tracer):
        if found.ndim:
            return f"<{found.type}>"
        shown.append(found)
        return Shown(len(shown) - 1)
    if is_plain_sequence(found):
        return type(found)(_marked(item, shown) for item in found)
    return found


def _owner(recorder: Recorder) -> Recorder:
    """The trace around loops and branches."""
    while isinstance(recorder, WritingBody) and recorder.parent is not None:
        recorder = recorder.parent
    return recorder


def assertion_error(*message: object) -> AssertionError:
    """What ``assert`` raises."""
    return AssertionError(*message)


def raising() -> bool | Tracer:
    """Whether a function that has been called has raised an exception of the program."""
    recorder = current_recorder()
    if recorder is None or recorder.raises.code is None:
        return False
    code = recorder.resolve(recorder.raises.code)
    if (known := _literal(code)) is not None or _key(code) in recorder.raises.certain:
        return known != 0
    if code.recorder.graph.node(code.memory.value.node).primitive.name == "input":
        return False  # since the trace of this body began there was none
    return b.ne(code, b.full(0, int64, ()))
